// Compiled by package.test.mjs with --strict, against the package as it is published. It is not run.
import { createReadStream } from 'node:fs';
import { ApiError, AuthenticationError, DataFlow, RateLimitError, responseOf, type Batch, type Page, type Webhook } from '@dataflow/sdk';
import { verifyWebhook, type WebhookEvent } from '@dataflow/sdk/webhooks';
import { FakeServer, signWebhook } from '@dataflow/sdk/testing';

const client = new DataFlow({ baseUrl: 'https://flow.example', clientId: 'a', clientSecret: 'b', retries: 2 });

export async function main(): Promise<void> {
  const { batchId, status } = await client.imports.upload(createReadStream('x'), { originDefault: 'Site', mapping: { a: 'PhoneNumber' } }, {
    fileName: 'x.csv', signal: AbortSignal.timeout(1), onProgress: ({ sent, total }) => { const n: number = sent; void [n, total?.toFixed()]; },
  });
  const accepted: 'Pending' | 'Scheduled' = status;
  const batch: Batch = await client.imports.wait(batchId, { timeout: 1000, onProgress: (b) => void b.totalRecords?.toFixed() });
  const page: Page<Batch> = await client.imports.list({ status: 'Failed' });
  for await (const item of client.imports.items(batchId, { status: 'Error' })) void item.errorMessage?.length;
  for await (const { event, data } of client.imports.watch(batchId)) void [event, data.status];
  for await (const hooks of client.webhooks.list().pages()) { const all: Webhook[] = hooks.items; void all; }
  const made = await client.webhooks.create({ url: 'https://x.example/', events: ['BatchCompleted'] }, { clientId: 'other' });
  const secret: string = made.secret;
  await client.webhooks.rotateSecret(made.id, { overlapHours: 1 });
  await (await client.imports.errorsXlsx(batchId)).save('errors.xlsx');
  const one = await client.counterparties.get({ businessEntity: 'PRC', businessDocId: 'a' });
  await client.counterparties.settle({ businessDocId: 'a' }, { status: 'Processed' }, { ifMatch: responseOf(one)?.headers.etag });
  const answer = await client.integrations.call('payment', 'charges', { method: 'POST', body: { amount: 1 }, idempotencyKey: 'k' });
  const nothing: void = await client.imports.cancel(batchId);
  const text: string = await client.server.metrics();
  const event: WebhookEvent = verifyWebhook(Buffer.from('{}'), new Headers(), ['a', 'b'], { toleranceSeconds: 5 });
  const fake = await FakeServer.start();
  fake.reply('POST /imports', { status: 503 }, 1).reply('GET /whoami', (request) => ({ body: request.params }));
  void [accepted, batch, page, secret, answer.status, nothing, text, event, signWebhook({ a: 1 }, 'x').body];
  try {
    await client.admin.clients.create({ name: 'x', scopes: ['imports'] });
  } catch (error) {
    if (error instanceof RateLimitError) void error.retryAfter?.toFixed();
    if (error instanceof ApiError) void [error.code, error.errors.map((e) => e.field), error instanceof AuthenticationError];
  }
  // @ts-expect-error: no such state
  await client.imports.list({ status: 'Perhaps' });
  // @ts-expect-error: a ticket has more members
  await client.tickets.submit({ businessDocId: 'a' });
  // @ts-expect-error: no such scope
  await client.admin.clients.create({ name: 'x', scopes: ['everything'] });
  // @ts-expect-error: an id is needed
  await client.imports.get();
}
