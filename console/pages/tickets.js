// Tickets of all clients: a list by filters, failures by cause, one ticket with its life; reprocessing one or many.
import '../texts/work.js';
import { curlButton, get, path, post } from '../kit/api.js';
import { card, clip, h, note, patch, raw } from '../kit/dom.js';
import { ask, oneByOne, work } from '../kit/dialog.js';
import { address } from '../kit/router.js';
import { may } from '../kit/session.js';
import { list } from '../kit/table.js';
import { named, t } from '../kit/text.js';
import { act, notice } from '../kit/toast.js';
import { attempts, payload, timeline, waits } from './document.js';
import { about, columns, step, steps } from './mytickets.js';

const MOST = 10000; // tickets that one call takes, and counts
const REPROCESSED = ['clientId', 'businessEntity', 'status', 'phaseCode', 'error', 'from', 'to']; // what a reprocess of many can be filtered by
const one = (...parts) => path('admin', 'tickets', ...parts);
const options = (names) => [['', t('any')], ...names.map((name) => [name, named('state', name)])];
const SENT = ['Pending', 'Sending', 'Sent', 'Error'];

// By filter, with a part of the error to narrow it; or one by one those that were selected.
export async function many({ ids = [], filter, all }) {
  const next = oneByOne(ids, (id) => post(one(id, 'reprocess')));
  const other = Object.keys(filter).filter((name) => !REPROCESSED.includes(name));
  const body = (values, more) => ({ ...Object.fromEntries(Object.entries(filter).filter(([name]) => REPROCESSED.includes(name))), ...(values.error && { error: values.error }), ...more });
  const whole = (values, more) => { const b = body(values, more); return Object.keys(b).some((name) => name !== 'dryRun') ? b : { ...b, all: true }; };
  const done = await work({
    id: 'reprocess', title: t('tickets.reprocessMany'), text: [t('tickets.reprocessText'), other.length && all ? t('tickets.otherFilters') : ''].join(' '), submit: t('tickets.reprocess'),
    fields: all ? [{ name: 'error', label: t('tickets.error'), maxLength: 200, value: filter.error }] : [],
    preview: async (values) => (all ? (await post(one('reprocess'), whole(values, { dryRun: true }))).matched : ids.length),
    step: async (values) => {
      if (!all) return next();
      const made = await post(one('reprocess'), whole(values), { timeout: 120000 });
      return { done: made.reprocessed, left: 0 };
    },
    words: { count: (n) => t(n > MOST ? 'tickets.matchMore' : 'tickets.match', { n: Math.min(n, MOST) }), done: (n, failed) => t('outbox.partly', { n, failed }) },
  });
  if (done !== undefined) notice(t('tickets.start', { n: done }));
  return done;
}

function reprocessOne(ticket, again) {
  return act(t('tickets.reprocessMore'), () => ask({
    id: 'reprocess', title: t('tickets.reprocessTitle'), submit: t('tickets.reprocess'), text: [t('tickets.reprocessText'), h('p', { id: 'reprocess-text' }, raw(`${ticket.businessEntity} ${ticket.businessDocId}`), ', ', t('tk.phase', { phase: String(ticket.phaseCode) }))],
    action: async () => { await post(one(ticket.id, 'reprocess')); await again(); notice(t('tk.starts')); },
  }), { id: 'tickets-reprocess' });
}

function renderList(ctx) {
  ctx.heading({ title: t('nav.tickets'), text: t('tickets.text') });
  return list(ctx, {
    id: 'tickets', label: t('nav.tickets'), path: 'admin/tickets', csv: 'admin/tickets.csv', causes: 'admin/tickets/causes', key: (k) => k.id, name: (k) => k.businessDocId, order: t('tk.received'), rowProps: (k) => ({ data: { ticket: k.id } }),
    filters: [
      { name: 'clientId', label: t('w.client') }, { name: 'businessEntity', label: t('tk.entity') }, { name: 'businessDocId', label: t('tk.doc') }, { name: 'error', label: t('outbox.error'), maxLength: 200 },
      { name: 'status', type: 'select', label: t('tk.processing'), options: options(['Awaiting', 'Processing', 'Processed', 'Error']) }, { name: 'returnStatus', type: 'select', label: t('tk.return'), options: options(SENT) },
      { name: 'gatewayStatus', type: 'select', label: t('tk.gateway'), options: options(SENT) }, { name: 'from', type: 'datetime-local', label: t('tickets.from') }, { name: 'to', type: 'datetime-local', label: t('tickets.to') },
    ],
    columns: columns((k) => address(['tickets', k.id]), { label: t('w.client'), cell: (k) => clip(k.clientId) }),
    actions: may('operate') ? [{ words: t('tickets.reprocessMore'), run: many }] : [],
  }).ready;
}

async function renderTicket(ctx, id) {
  const body = h('div', { className: 'page' });
  const life = timeline(ctx, 'ticket', id);
  const again = async () => { await ctx.again(); await life.look(); };
  ctx.heading({ title: raw(id), crumbs: [[t('nav.tickets'), '#tickets']] });
  ctx.root.append(body);
  await ctx.watch(2000, () => get(one(id), {}, { signal: ctx.signal }), (k) => {
    ctx.heading({
      title: h('span', {}, raw(`${k.businessEntity} ${k.businessDocId}`), ', ', t('tk.phase', { phase: String(k.phaseCode) })), crumbs: [[t('nav.tickets'), '#tickets']],
      text: k.clientId ? [t('w.client'), ' ', h('a', { href: address('tickets', { clientId: k.clientId }) }, raw(k.clientId))] : null,
      actions: [may('operate') ? reprocessOne(k, again) : null, curlButton('GET', one(id))],
    });
    patch(body, waits(k.waitingFor), h('section', { className: 'card ticket' }, h('h2', {}, t('tickets.way')), h('ol', { className: 'timeline steps' }, steps(k).map((s) => {
      const node = step(s);
      const link = s.name === 'gateway' && s.attempts ? address(['outbox', 'ticket-gateway', id]) : s.name === 'return' && k.returns[0] ? address(['outbox', 'ticket-return', k.returns[0].id]) : null;
      if (link) node.querySelector('.step').append(h('a', { href: link }, t('tickets.attempts')));
      return node;
    }))), life.node,
    card(t('tickets.facts'), about(k)),
    payload(k.payload ?? k.rawPayloadJson, k.payloadMasked ?? false, async () => { const real = await get(one(id), { reveal: true }); return real.payload ?? real.rawPayloadJson; }),
    card(t('wh.tries'), k.attempts.length ? attempts(k.attempts) : note(t('doc.noAttempts'))));
  });
  await life.ready;
}

export default {
  render(ctx) {
    const id = ctx.parts[0] || ctx.query.get('id');
    return id ? renderTicket(ctx, id) : renderList(ctx);
  },
};
