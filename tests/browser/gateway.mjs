// What the tests do beside the page with the server that sends to a sandbox: documents, faults, and a clean beginning.
import { randomUUID } from 'node:crypto';
import { ask, eventually, gateway } from './harness.mjs';

export const fresh = (prefix = 'TCK') => `${prefix}_${randomUUID().slice(0, 8)}`;
export const admin = (path, options = {}) => ask(`${gateway.url}admin/${path}`, { method: 'GET', headers: { 'X-Admin-Key': gateway.key }, ...options });
export const fault = (body) => ask(`${gateway.sandbox}/_faults`, { body });
export const heal = () => ask(`${gateway.sandbox}/_faults`, { method: 'DELETE' });
export const channelOf = async (name) => (await admin('outbox')).channels.find((c) => c.channel === name);
export const ticketOf = (id) => admin(`tickets/${id}`);

export const post = (doc, fields) => ask(`${gateway.url}api/tickets`, {
  headers: gateway.headers,
  body: {
    businessEntity: 'TCK', businessDocId: doc, companyCode: '0050', branchCode: '1', destinationCode: 'D7', phaseCode: 15, shipmentEvent: 'RCD',
    functionalAckIsRequired: true, targetApplicationCode: 'ASB', ...fields,
  },
});

export async function processed(doc, fields) {
  const { id } = await post(doc, fields);
  await eventually(`${doc} to be processed`, async () => (await ticketOf(id)).status === 'Processed');
  return id;
}

export const settled = async (channel) => {
  const { counts } = await channelOf(channel);
  return counts.Error + counts.Sending + counts.Pending === 0;
};

// Nothing is left in Error that another test would see.
export async function clean() {
  await heal();
  await eventually('all that failed to go out', async () => {
    await admin('outbox/retry', { method: 'POST', body: { all: true } });
    const { channels } = await admin('outbox');
    return channels.filter((c) => c.channel.startsWith('ticket-') || c.channel === 'functional-ack').every((c) => c.waiting + c.givenUp === 0);
  });
}
