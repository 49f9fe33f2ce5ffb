// First steps: what this is, a sample ticket, a sample file, and a sandbox that is broken with a switch and recovers.
import '../texts/home.js';
import { call, curl, get, path, post, Problem } from '../kit/api.js';
import { button, card, copy, h, linkButton, note, patch, raw, badge } from '../kit/dom.js';
import { address } from '../kit/router.js';
import { isAdmin, may, session, signedIn } from '../kit/session.js';
import { signInCard } from '../kit/signin.js';
import { t } from '../kit/text.js';
import { act, notice } from '../kit/toast.js';
import { step, steps } from './mytickets.js';

const FAULTS = 'integrations/sandbox/_faults';
const FAULT = { path: '/gateway', status: 503 };
const ROWS = 'Telefone;Nome;Cidade\n11 98765-4321;Ana;Santos\n21 3456-7890;Rui;Niterói\n123;Eva;Recife\n';
const sample = () => ({
  businessEntity: 'TCK', businessDocId: `SAMPLE-${Date.now().toString(36).toUpperCase()}`, phaseCode: 15, companyCode: '0050', branchCode: '01', destinationCode: 'SSZ', shipmentEvent: 'RCD', targetApplicationCode: 'ASB', functionalAckIsRequired: true,
});

// Samples are sent as a client, also while an administrator looks on.
const asClient = () => ({ who: { as: 'client', client: session.client } });

async function makeClient() {
  const made = await post('admin/clients', { name: t('nav.start'), scopes: ['interface', 'imports', 'integrations'] });
  signedIn({ as: 'admin', client: { id: made.clientId, secret: made.clientSecret } }, session.me);
}

// --- a ticket ---

let sent = null; // stays while other pages are looked at

function ticketCard(ctx) {
  const body = h('div', { id: 'sample-ticket' });
  const look = async () => {
    if (!sent || !session.client) return;
    const { items } = await get('api/tickets', { businessEntity: sent.businessEntity, businessDocId: sent.businessDocId }, { ...asClient(), signal: ctx.signal });
    if (!items[0]) return;
    patch(body, h('p', {}, h('a', { href: isAdmin() ? address(['tickets', items[0].id]) : address('tickets', { businessEntity: sent.businessEntity, businessDocId: sent.businessDocId }) }, raw(sent.businessDocId))), h('ol', { className: 'timeline' }, steps(items[0]).map(step)));
  };
  const send = async () => {
    const body_ = sample();
    await post('api/tickets', body_, asClient());
    sent = body_;
    await look();
  };
  ctx.every(1000, look);
  return { look, node: h('section', { className: 'card' }, h('h2', {}, t('start.ticket')), h('p', {}, t('start.ticketText')), h('div', { className: 'row-actions start' }, act(t('start.sendTicket'), send, { className: 'primary', id: 'send-ticket' }),
    button(t('doc.curl'), (event) => copy(curl('POST', 'api/tickets', sample()), event.currentTarget))), body) };
}

// --- a file ---

function fileCard(ctx) {
  const body = h('div', { id: 'sample-file' });
  let id = null;
  const look = async () => {
    if (!id) return;
    const batch = await get(path('imports', id), {}, { ...asClient(), signal: ctx.signal });
    patch(body, h('p', {}, badge(batch.status), ' ', h('a', { href: address(['imports', id]) }, raw(batch.fileName)), ' ', h('span', { className: 'note' }, t('start.imported', { n: batch.importedCount, failed: batch.errorCount }))));
  };
  const send = async () => {
    const form = new FormData();
    form.append('file', new Blob([ROWS], { type: 'text/csv' }), 'sample.csv');
    id = (await call('POST', 'imports', { ...asClient(), body: form })).batchId;
    await look();
  };
  ctx.every(1000, look);
  return h('section', { className: 'card' }, h('h2', {}, t('start.file')), h('p', {}, t('start.fileText')), raw(ROWS.trim(), 'pre', { tabIndex: 0 }), h('div', { className: 'row-actions start' }, act(t('start.sendFile'), send, { className: 'primary', id: 'send-file' })), body);
}

// --- the sandbox ---

// The demo lends the sandbox's own switchboard as an integration; a server without one has no switch.
async function sandboxCard(again) {
  let faults;
  try {
    faults = await get(FAULTS, {}, asClient());
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    return card(t('start.sandbox'), note(t('start.noSandbox')), raw('dataflow serve --demo', 'pre', { tabIndex: 0 }));
  }
  let broken = JSON.stringify(faults).includes(FAULT.path);
  const words = h('p', { role: 'status', id: 'sandbox-state' });
  const toggle = act(t('start.switch'), async () => {
    await call(broken ? 'DELETE' : 'POST', FAULTS, { ...asClient(), ...(!broken && { body: FAULT }) });
    broken = !broken;
    draw();
    await again();
  }, { role: 'switch', className: 'switch', id: 'sandbox-switch' });
  const draw = () => {
    toggle.setAttribute('aria-checked', String(broken));
    words.textContent = t(broken ? 'start.broken' : 'start.whole');
  };
  draw();
  return h('section', { className: 'card' }, h('h2', {}, t('start.sandbox')), h('p', {}, t('start.sandboxText')), toggle, words);
}

export default {
  async render(ctx) {
    ctx.heading({ title: t('nav.start') });
    const documents = h('section', { className: 'card' }, h('h2', {}, t('start.docs')), h('p', {}, t('start.docsText')), h('div', { className: 'row-actions start' }, linkButton('openapi.json', 'openapi.json', { target: '_blank', rel: 'noopener', translate: false }), session.as ? linkButton(t('nav.overview'), '#overview') : null));
    ctx.root.append(h('section', { className: 'card' }, h('p', {}, t('start.what')), h('p', {}, t('start.how'))));
    if (!session.as) {
      ctx.root.append(signInCard(t('start.signIn')), documents);
    } else if (!session.client) {
      ctx.root.append(h('section', { className: 'card' }, h('h2', {}, t('start.client')), h('p', {}, t('start.clientText')), may('admin') ? act(t('start.makeClient'), async () => { await makeClient(); notice(t('start.clientMade')); }, { className: 'primary', id: 'make-client' }) : note(t('gate.denied'))), documents);
    } else {
      const ticket = ticketCard(ctx);
      const sandbox = h('div', {});
      ctx.root.append(h('div', { className: 'two' }, h('div', { className: 'page' }, ticket.node, sandbox), h('div', { className: 'page' }, fileCard(ctx), documents)));
      await ticket.look();
      sandbox.replaceWith(await sandboxCard(ticket.look));
    }
  },
};
