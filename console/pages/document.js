// What the pages of single documents share: why it waits, its life as a time line, attempts, payload, the call as curl.
import { get, path, Problem } from '../kit/api.js';
import { badge, button, card, copy, DASH, h, note, patch, plain, raw, reason } from '../kit/dom.js';
import { address } from '../kit/router.js';
import { may } from '../kit/session.js';
import { table } from '../kit/table.js';
import { has, named, t } from '../kit/text.js';
import { duration, moment, stamp, time, took } from '../kit/time.js';
import { act } from '../kit/toast.js';

// Where the console shows a document of a kind, or a row of a channel.
const KINDS = { ack: 'functional-ack', return: 'ticket-return', event: 'events', webhookDelivery: 'webhooks', integrationCall: 'integrations' };

export function placeOf(kind, id) {
  if (kind === 'ticket') return address(['tickets', id]);
  if (kind === 'import' || kind === 'batch') return address(['imports', id]);
  if (kind === 'client') return address(['clients', id]);
  return KINDS[kind] ? address(['outbox', KINDS[kind], id]) : null;
}

const CHANNELS = ['functional-ack', 'ticket-return', 'ticket-gateway', 'events', 'webhooks', 'integrations', 'alerts'];
const subject = (name, id) => (CHANNELS.includes(name) ? h('a', { href: address(['outbox', name, id]) }, raw(`${name} ${id}`)) : raw(`${name} ${id}`));

// Why it waits, in words; with the server's own where they say more: what is not set, or why it waits at all.
export function waits(wait) {
  if (!wait) return null;
  const known = has(`wait.${wait.code}`);
  return h('p', { className: 'banner', id: 'waiting' }, h('strong', {}, known ? t(`wait.${wait.code}`) : wait.code), known && wait.code !== 'NotConfigured' ? null : [' ', raw(plain(wait.detail))], wait.since ? [' · ', t('wait.since'), ' ', moment(wait.since)] : null, wait.next ? [' · ', t('wait.next'), ' ', time(wait.next)] : null);
}

const toneOf = (e) => (e.outcome ? badge(e.outcome).dataset.state : /Failed|GivenUp|Away/.test(e.event) ? 'bad' : /Processed|LastAck|Delivered/.test(e.event) ? 'ok' : 'unknown');

function entry(e, i, all) {
  const before = i ? (Date.parse(e.time) - Date.parse(all[i - 1].time)) / 1000 : 0;
  return h('li', { data: { key: `${e.time} ${e.event} ${e.subject} ${e.id} ${e.attempt}`, event: e.event, state: toneOf(e) } },
    h('div', { className: 'step' }, h('h3', {}, named('event', e.event), e.attempt ? ` ${e.attempt}` : ''), e.outcome ? badge(e.outcome) : null, e.httpStatus ? raw(`HTTP ${e.httpStatus}`) : null,
      h('span', {}, subject(e.subject, e.id)), h('span', { className: 'note' }, stamp(e.time), before >= 1 ? ` (+${duration(before)})` : ''), e.durationMs === null ? null : h('span', { className: 'note' }, t('w.took', { time: took(e.durationMs / 1000) })),
      e.count === null ? null : h('span', { className: 'note' }, t('doc.records', { n: e.count })), e.by ? h('span', { className: 'note' }, t('doc.by'), ' ', raw(e.by)) : null),
    reason(e.error));
}

const waitLine = (w) => h('p', { className: 'banner' }, raw(`${w.subject} ${w.id}`), ': ', t(`waits.${w.reason}`), w.target ? [' (', raw(w.target), ')'] : null, w.nextAttemptAt ? [', ', time(w.nextAttemptAt)] : null);

// The whole life of it, looked at now and then.
export function timeline(ctx, kind, id) {
  const body = h('div', {}, note(t('doc.loading')));
  const look = async () => {
    const data = await get(path('admin', 'timeline', kind, id), {}, { signal: ctx.signal });
    patch(body, data.waits.map(waitLine), h('ol', { className: 'timeline' }, data.entries.map(entry)), data.truncated ? note(t('doc.more')) : null);
  };
  ctx.every(4000, look);
  const node = card(t('doc.timeline'), body);
  node.id = 'timeline';
  // What is not there is told by the page itself.
  return { node, look, ready: look().catch((problem) => { if (!(problem instanceof Problem)) throw problem; patch(body, reason(problem.message)); }) };
}

export const attempts = (items, id = 'attempts') => (items.length ? table({
  label: t('wh.tries'), id, rows: items, key: (a) => `${a.channel ?? ''} ${a.id ?? ''} ${a.attempt} ${a.attemptedAt}`,
  columns: [
    items[0].channel ? { label: t('outbox.channel'), cell: (a) => raw(a.channel) } : null, { label: t('w.attempt'), num: true, cell: (a) => String(a.attempt) }, { label: t('doc.outcome'), cell: (a) => badge(a.outcome) }, { label: t('doc.at'), cell: (a) => stamp(a.attemptedAt) },
    { label: 'HTTP', num: true, cell: (a) => String(a.httpStatus ?? DASH) }, { label: t('doc.duration'), num: true, cell: (a) => took(a.durationMs / 1000) },
    { label: t('w.http'), wide: true, cell: (a) => [reason(a.error), a.answer ? raw(a.answer, 'code') : null, !a.error && !a.answer ? DASH : null] },
  ],
}) : note(t('doc.noAttempts')));

const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

// Masked until somebody who may asks for it; the audit log has that they did.
export function payload(text, masked, reveal) {
  const pre = raw(pretty(text ?? ''), 'pre', { tabIndex: 0, id: 'payload' });
  const words = h('span', { className: 'note' }, masked ? t('doc.masked') : '');
  const show = masked && may('operate') ? act(t('doc.reveal'), async (node) => {
    pre.textContent = pretty(await reveal());
    words.textContent = t('doc.revealed');
    node.remove();
  }, { id: 'reveal' }) : null;
  return h('details', { className: 'card', data: { key: 'payload' } }, h('summary', {}, t('wh.payload')), text === null || text === undefined ? note(t('doc.noPayload')) : [h('div', { className: 'list-head' }, words, show, button(t('copy'), (event) => copy(pre, event.currentTarget))), pre]);
}
