// Outboxes: all channels, the rows of one channel, one row with its life; trying again, dismissing, pausing.
import '../texts/work.js';
import { curlButton, get, path, post } from '../kit/api.js';
import { badge, card, code, facts, h, linkButton, note, patch, raw, reason } from '../kit/dom.js';
import { oneByOne, work } from '../kit/dialog.js';
import { address } from '../kit/router.js';
import { may } from '../kit/session.js';
import { list, table } from '../kit/table.js';
import { named, number, t } from '../kit/text.js';
import { instant, time } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';
import { attempts, payload, timeline, waits } from './document.js';

const STATUSES = ['Pending', 'Sending', 'Sent', 'Error'];
const EVENTS = ['PENDING', 'PROCESSED', 'FAILED'];
const KIND_OF = { 'functional-ack': 'ack', 'ticket-return': 'return', 'ticket-gateway': 'ticket', events: 'event', webhooks: 'webhook', integrations: 'integration' };
const statusesOf = (channel) => (channel === 'events' ? EVENTS : STATUSES);
const failedOf = (channel) => statusesOf(channel).at(-1);
const url = (...parts) => path('admin', 'outbox', ...parts);
const nameOf = (row) => row.reference || row.id;

// A failure that is tried again by itself looks unlike one that waits for a person.
export const rowBadge = (channel, row) => (row.givenUp ? badge('GivenUp') : badge(row.status, { retried: row.status === failedOf(channel) && (row.willRetry ?? Boolean(row.nextAttemptAt)) }));

// --- trying again, dismissing ---

const actOn = (channel, row, verb, done) => act(t(`outbox.${verb}`), async () => {
  await post(url(channel, row.id, verb));
  await done();
  notice(t(`outbox.${verb}One`, { what: `${channel} ${nameOf(row)}` }));
}, { 'aria-label': `${t(`outbox.${verb}`)} ${nameOf(row)}`, data: { verb } });

// What the filter of a list means to the calls that act on many: they take what failed, whatever the list shows.
function bodyOf(channel, filter) {
  const { target, error, since, until } = filter;
  const body = Object.fromEntries(Object.entries({ target, error, since, until }).filter(([, value]) => value));
  if (filter.status === 'GivenUp') body.givenUp = true;
  return Object.keys(body).length ? body : { status: failedOf(channel) };
}

// Rows by filter, or one by one those that were selected.
export async function many(channel, verb, { ids = [], filter, all }) {
  const body = bodyOf(channel, filter);
  const field = verb === 'retry' ? 'retried' : 'dismissed';
  const one = oneByOne(ids, (id) => post(url(channel, id, verb)));
  const wider = all && verb === 'retry' && filter.status && ![failedOf(channel), 'GivenUp'].includes(filter.status);
  const done = await work({
    id: verb, title: t(`outbox.${verb}Many`, { channel }), text: [t(`outbox.${verb}Text`), wider ? t('outbox.wider') : ''].join(' '), submit: t(`outbox.${verb}`), danger: verb === 'dismiss',
    preview: async () => (all ? (await post(url(channel, verb), { ...body, dryRun: true })).matched : ids.length),
    step: async () => {
      if (!all) return one();
      const some = await post(url(channel, verb), body, { timeout: 120000 });
      return { done: some[field], left: some.left ?? 0 };
    },
    words: { count: (n) => (n === 0 ? t('outbox.noneMatch') : t(`outbox.${verb}Count`, { n, channel })), done: (n, failed) => t('outbox.partly', { n, failed }) },
  });
  if (done !== undefined) notice(t(`outbox.${verb}Done`, { n: done, channel }));
  return done;
}

// --- pausing ---

const pauseButton = (channel, target, paused, done) => act(t(target ? (paused ? 'outbox.resume' : 'outbox.pause') : paused ? 'outbox.resumeChannel' : 'outbox.pauseChannel'), async () => {
  await post(url(channel, paused ? 'resume' : 'pause'), target ? { target } : {});
  await done();
  notice(t(paused ? 'outbox.resumed' : 'outbox.paused', { what: target ? `${channel} ${target}` : channel }));
}, { 'aria-label': `${t(paused ? 'outbox.resume' : 'outbox.pause')} ${target || channel}` });

function targetsCard(c, done) {
  return [h('div', { className: 'heading' }, h('h2', {}, t('outbox.targets')), may('operate') ? h('div', { className: 'row-actions' }, pauseButton(c.channel, '', c.paused, done)) : null),
    c.paused ? h('p', { className: 'banner' }, t('outbox.isPaused')) : null, c.configured ? null : h('p', { className: 'banner' }, t('outbox.missing'), ' ', code(c.missing)),
    c.targets.length ? table({
      label: t('outbox.targets'), rows: c.targets, key: (one) => one.target, rowProps: (one) => ({ data: { target: one.target } }),
      columns: [
        { label: t('w.target'), main: true, cell: (one) => [raw(one.target, 'span', { className: 'name' }), one.state === 'down' ? reason(one.lastError) : null] },
        { label: t('w.state'), cell: (one) => [badge(one.state), one.pausedBy ? note(t('doc.by'), ' ', raw(one.pausedBy)) : null] }, { label: t('w.since'), cell: (one) => time(one.paused ? one.pausedAt : one.downSince) },
        { label: t('outbox.arrived'), num: true, cell: (one) => number(one.arrived ?? 0) }, may('operate') && { label: t('actions'), hidden: true, cell: (one) => h('div', { className: 'row-actions' }, pauseButton(c.channel, one.target, one.paused, done)) },
      ],
    }) : note(t('outbox.noTargets'))];
}

// --- all channels ---

function channels(label, items, statuses, again) {
  const count = (c, status, n, bad) => h('a', { href: address(['outbox', c.channel], { status }), className: bad && n > 0 ? 'some' : '', 'aria-label': `${number(n)} ${named('state', status)}, ${c.channel}` }, number(n));
  return h('section', { className: 'card' }, table({
    label, rows: items, key: (c) => c.channel, rowProps: (c) => ({ data: { channel: c.channel } }),
    columns: [
      { label: t('outbox.channel'), main: true, cell: (c) => [h('a', { className: 'name', href: address(['outbox', c.channel]) }, raw(c.channel)), c.configured ? null : note(t('outbox.missing'), ' ', code(c.missing)), c.paused ? [' ', badge('paused')] : null] },
      ...statuses.map((status) => ({ label: named('state', status), num: true, cell: (c) => count(c, status, c.counts[status], status === statuses.at(-1)) })),
      { label: t('outbox.held'), num: true, cell: (c) => number(c.held) }, { label: t('state.GivenUp'), num: true, cell: (c) => count(c, 'GivenUp', c.givenUp, true) }, { label: t('outbox.oldest'), cell: (c) => time(c.oldestPendingAt) },
      may('operate') && { label: t('actions'), hidden: true, cell: (c) => (c.counts[statuses.at(-1)] > 0 ? h('div', { className: 'row-actions' }, act(t('outbox.retryAll'), async () => { if (await many(c.channel, 'retry', { filter: {}, all: true }) !== undefined) await again(); }, { 'aria-label': `${t('outbox.retryAll')} ${c.channel}` })) : null) },
    ],
  }));
}

async function renderAll(ctx) {
  ctx.heading({ title: t('nav.outbox'), text: t('outbox.text'), actions: [linkButton(t('nav.integrations'), '#integrations')] });
  const body = h('div', { className: 'page' });
  ctx.root.append(body);
  const again = () => ctx.again();
  await ctx.watch(2000, () => get('admin/outbox', {}, { signal: ctx.signal }), (outbox) => patch(body,
    channels(t('outbox.channels'), outbox.channels.filter((c) => c.channel !== 'events'), STATUSES, again), channels(t('outbox.events'), outbox.channels.filter((c) => c.channel === 'events'), EVENTS, again)));
}

// --- one channel ---

async function renderChannel(ctx, channel) {
  ctx.heading({ title: raw(channel), crumbs: [[t('nav.outbox'), '#outbox']] });
  const targets = h('section', { className: 'card', id: 'outbox-targets' });
  ctx.root.append(targets);
  const look = async () => {
    const { channels: all } = await get('admin/outbox', {}, { signal: ctx.signal });
    const c = all.find((one) => one.channel === channel);
    if (c) patch(targets, targetsCard(c, look));
  };
  const rows = list(ctx, {
    id: 'outbox', label: t('outbox.rows', { channel }), path: url(channel), csv: url(`${channel}.csv`), causes: url(channel, 'causes'), key: (row) => row.id, name: nameOf, order: t('w.createdAt'), every: 2000, rowProps: (row) => ({ data: { row: row.id } }),
    filters: [
      { name: 'status', type: 'select', label: t('w.status'), options: [['', t('any')], ...[...statusesOf(channel), 'GivenUp'].map((name) => [name, named('state', name)])] },
      { name: 'target', label: t('w.target') }, { name: 'error', label: t('outbox.error'), maxLength: 200 }, { name: 'since', type: 'datetime-local', label: t('outbox.triedSince') }, { name: 'until', type: 'datetime-local', label: t('outbox.triedUntil') },
    ],
    columns: [
      { label: t('outbox.reference'), main: true, wide: true, cell: (row) => [h('a', { className: 'name', href: address(['outbox', channel, row.id]) }, raw(nameOf(row))), raw(row.id, 'span', { className: 'note' }), row.heldFor ? note(t('outbox.heldFor'), ' ', raw(row.heldFor)) : null, reason(row.lastError)] },
      { label: t('w.status'), cell: (row) => [rowBadge(channel, row), row.dismissedAt ? note(t('state.dismissed')) : null] }, { label: t('outbox.tries'), num: true, cell: (row) => number(row.tries || row.attempts) },
      { label: t('w.createdAt'), cell: (row) => time(row.createdAt) }, { label: t('outbox.lastAttempt'), cell: (row) => time(row.lastAttemptAt) }, { label: t('wh.nextAt'), cell: (row) => time(row.nextAttemptAt) },
      may('operate') && { label: t('actions'), hidden: true, cell: (row) => h('div', { className: 'row-actions' }, row.status === failedOf(channel) ? actOn(channel, row, 'retry', () => rows.reload()) : null, row.givenUp ? actOn(channel, row, 'dismiss', () => rows.reload()) : null) },
    ],
    actions: may('operate') ? [{ words: t('outbox.retryMore'), run: (chosen) => many(channel, 'retry', chosen) }, { words: t('outbox.dismissMore'), danger: true, run: (chosen) => many(channel, 'dismiss', chosen) }] : [],
  });
  ctx.every(4000, look);
  await Promise.all([rows.ready, look()]);
}

// --- one row ---

async function renderRow(ctx, channel, id) {
  const body = h('div', { className: 'page' });
  ctx.heading({ title: raw(`${channel} ${id}`), crumbs: [[t('nav.outbox'), '#outbox'], [raw(channel), address(['outbox', channel])]] });
  const life = KIND_OF[channel] ? timeline(ctx, KIND_OF[channel], id) : null;
  ctx.root.append(body);
  const again = async () => { await ctx.again(); await life?.look(); };
  await ctx.watch(2000, () => get(url(channel, id), {}, { signal: ctx.signal }), (row) => {
    ctx.heading({
      title: raw(`${channel} ${id}`), crumbs: [[t('nav.outbox'), '#outbox'], [raw(channel), address(['outbox', channel])]], text: raw(row.reference || ''),
      actions: [may('operate') && row.status === failedOf(channel) ? actOn(channel, row, 'retry', again) : null, may('operate') && row.givenUp ? actOn(channel, row, 'dismiss', again) : null, curlButton('GET', url(channel, id))],
    });
    patch(body, h('section', { className: 'card', id: 'outbox-row' }, h('p', {}, rowBadge(channel, row)), reason(row.lastError),
      facts([[t('outbox.tries'), number(row.tries || row.attempts)], channel === 'events' ? [t('api.reference'), raw(row.correlationId)] : [t('w.to'), row.targetUrl ? raw(row.targetUrl) : t('outbox.itsUrl')], [t('w.createdAt'), instant(row.createdAt)],
        [t('outbox.lastAttempt'), instant(row.lastAttemptAt)], [t('state.Sent'), instant(row.sentAt)], [t('wh.nextAt'), instant(row.nextAttemptAt)]])),
    waits(row.waitingFor),
    payload(row.payload, row.payloadMasked ?? false, async () => (await get(url(channel, id), { reveal: true })).payload), life?.node,
    card(t('wh.tries'), channel === 'events' ? note(t('outbox.eventAttempts')) : attempts(row.attemptsHistory)));
  });
  await life?.ready;
}

export default {
  render(ctx) {
    // Addresses of before.
    const [channel, id] = ctx.parts.length ? ctx.parts : [ctx.query.get('channel'), ctx.query.get('id')];
    if (!channel) return renderAll(ctx);
    ctx.parts = id ? [channel, id] : [channel];
    return id ? renderRow(ctx, channel, id) : renderChannel(ctx, channel);
  },
};
