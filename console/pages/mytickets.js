// A client's own tickets: one document with the way of each phase, or all in a status.
import '../texts/tenant.js';
import { get, path, post } from '../kit/api.js';
import { badge, DASH, facts, h, note, patch, raw, reason, trial } from '../kit/dom.js';
import { ask } from '../kit/dialog.js';
import { filled, form } from '../kit/form.js';
import { address, go } from '../kit/router.js';
import { list } from '../kit/table.js';
import { named, t } from '../kit/text.js';
import { instant, time } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';
import { addCsv } from './whole.js';

const STATUSES = ['Awaiting', 'Processing', 'Processed', 'Error'];
const documentOf = (k) => address('tickets', { businessEntity: k.businessEntity, businessDocId: k.businessDocId });
const fields = (ctx) => [
  { name: 'businessEntity', label: t('tk.entity'), value: ctx.query.get('businessEntity') }, { name: 'businessDocId', label: t('tk.doc'), value: ctx.query.get('businessDocId') },
  { name: 'status', type: 'select', label: t('w.status'), value: ctx.query.get('status') ?? '', options: [['', t('any')], ...STATUSES.map((name) => [name, named('state', name)])] },
];

// --- the way of one ticket ---

const answerOf = (k) => [k.callbackCode, k.callbackMessage].filter(Boolean).join(': ');

function gatewayNote(k) {
  if (k.gatewaySendStatus === 'Pending' && k.status !== 'Processed') return t('tk.waits');
  return k.gatewaySendStatus === 'Error' && !k.gatewaySendNextAttemptAt ? t('tk.notAgain') : null;
}

function callbackNote(k) {
  if (k.callbackStatus === 'Pending') return t(k.gatewaySendStatus === 'Sent' ? 'tk.waitsAnswer' : 'tk.waitsGateway');
  return k.callbackStatus === 'Error' ? null : raw(answerOf(k));
}

const steps = (k) => [
  { name: 'received', state: 'Received', at: k.createdAt, note: k.payloadVersion > 1 ? t('tk.version', { n: k.payloadVersion }) : null },
  // The time of processing is the row's last change, which a callback is as well.
  { name: 'processing', state: k.status, at: k.status === 'Awaiting' || k.updatedAt === k.callbackReceivedAt ? null : k.updatedAt, attempts: k.attemptCount, error: k.lastError, next: k.nextAttemptAt, note: k.status === 'Error' && !k.nextAttemptAt ? t('tk.corrected') : null },
  { name: 'return', state: k.returnStatus, at: k.returnSentAt ?? k.returnLastAttemptAt, attempts: k.returnAttemptCount, error: k.returnLastError, next: k.returnNextAttemptAt, note: k.returnStatus === 'Pending' && k.status !== 'Processed' ? t('tk.waits') : null },
  { name: 'gateway', state: k.gatewaySendStatus, at: k.gatewaySendSentAt ?? k.gatewaySendLastAttemptAt, attempts: k.gatewaySendAttemptCount, error: k.gatewaySendLastError, next: k.gatewaySendNextAttemptAt, note: gatewayNote(k) },
  { name: 'callback', state: k.callbackStatus, at: k.callbackReceivedAt, error: k.callbackStatus === 'Error' ? answerOf(k) || DASH : null, note: callbackNote(k) },
];

function step(s) {
  const next = s.state === 'Error' ? s.next : null;
  const state = trial(s.state, next);
  if (s.name === 'received') state.dataset.state = 'ok';
  return h('li', { data: { step: s.name, state: state.dataset.state } }, h('div', { className: 'step' }, h('h3', {}, t(`tk.${s.name}`)), state, s.at ? h('span', { className: 'note' }, instant(s.at)) : null,
    s.attempts ? h('span', { className: 'note' }, t('wh.attempts', { n: s.attempts })) : null, next ? h('span', { className: 'note' }, t('tk.again'), ' ', time(next)) : null), reason(s.error), s.note ? note(s.note) : null);
}

// What is in it may change while it stands open.
const unfolding = (words, content, key) => h('details', { data: { key } }, h('summary', {}, words), raw(content ?? '', 'pre', { tabIndex: 0 }));

function ticketCard(k, again) {
  const reprocess = () => ask({
    id: 'reprocess', title: t('tk.reprocess'), text: t('tk.reprocessText'), submit: t('tk.reprocess'), action: async () => {
      await post(path('api', 'tickets', k.id, 'reprocess'));
      notice(t('tk.starts'));
      await again();
    },
  });
  return h('article', { className: 'card ticket', data: { key: k.id, phase: k.phaseCode } },
    h('div', { className: 'heading' }, h('h2', {}, raw(`${k.businessEntity} ${k.businessDocId}`), ', ', t('tk.phase', { phase: String(k.phaseCode) })), ['Processed', 'Error'].includes(k.status) ? act(t('tk.reprocess'), reprocess) : null),
    about(k),
    h('ol', { className: 'timeline' }, steps(k).map(step)), unfolding(t('wh.payload'), k.rawPayloadJson, 'payload'), k.callbackPayloadJson ? unfolding(t('tk.callback'), k.callbackPayloadJson, 'callback') : null);
}

const about = (k) => facts([[t('w.event'), raw(k.shipmentEvent)], [t('tk.company'), raw(k.companyCode)], [t('tk.branch'), raw(k.branchCode)], [t('w.destination'), raw(k.destinationCode)], [t('tk.target'), raw(k.targetApplicationCode)], [t('tk.ack'), t(k.functionalAckIsRequired ? 'yes' : 'no')]]);
const errorOf = (k) => k.lastError || k.returnLastError || k.gatewaySendLastError || (k.callbackStatus === 'Error' ? k.callbackMessage : null);

// Of a list; `href(k)` is where one of them is.
const columns = (href, ...more) => [
  { label: t('tk.doc'), main: true, wide: true, cell: (k) => [h('a', { className: 'name', href: href(k) }, raw(k.businessDocId)), h('span', { className: 'note' }, raw(k.businessEntity), ', ', t('tk.phase', { phase: String(k.phaseCode) })), reason(errorOf(k))] },
  ...more, { label: t('tk.processing'), cell: (k) => trial(k.status, k.nextAttemptAt) }, { label: t('tk.return'), cell: (k) => trial(k.returnStatus, k.returnNextAttemptAt) },
  { label: t('tk.gateway'), cell: (k) => trial(k.gatewaySendStatus, k.gatewaySendNextAttemptAt) }, { label: t('tk.callback'), cell: (k) => badge(k.callbackStatus) }, { label: t('tk.received'), cell: (k) => time(k.createdAt) },
];

export default {
  async render(ctx) {
    ctx.heading({ title: t('nav.tickets'), text: t('tk.text') });
    const [entity, doc, status] = ['businessEntity', 'businessDocId', 'status'].map((name) => ctx.query.get(name) || '');
    if (status) {
      const shown = list(ctx, {
        id: 'tickets', label: t('nav.tickets'), path: 'api/tickets', filters: fields(ctx), key: (k) => k.id, order: t('tk.received'), rowProps: (k) => ({ data: { doc: k.businessDocId } }),
        columns: columns(documentOf),
      });
      addCsv(ctx, 'tickets', 'api/tickets', shown);
      return shown.ready;
    }
    const search = form({ id: 'tickets', label: t('nav.tickets'), role: 'search', className: 'card filters', fields: fields(ctx), words: t('ev.search'), submit: async (values) => go(ctx.address(filled(values)), { keepFocus: true }) });
    const body = h('div', { className: 'stacked' });
    ctx.root.append(search, body);
    if (!entity && !doc) return null;
    return ctx.watch(2000, async () => {
      try {
        return await get('api/tickets', filled({ businessEntity: entity, businessDocId: doc }), { signal: ctx.signal });
      } catch (problem) {
        if (problem.errors?.length) search.fail(problem);
        else throw problem;
        return null;
      }
    }, (found) => patch(body, found === null ? [] : found.items.length ? found.items.map((k) => ticketCard(k, () => ctx.again())) : h('p', { className: 'note found', role: 'status', id: 'tickets-found' }, t('tk.nothing'))));
  },
};

export { about, columns, step, steps };
