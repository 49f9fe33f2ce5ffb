// Webhooks: the subscriptions of a client, one of them with its deliveries, one delivery; for the administrator also what was given up,
// of all clients. #webhooks/<client>/<webhook>/<delivery>
import '../texts/tenant.js';
import { change, get, path, post, query, remove } from '../kit/api.js';
import { badge, card, code, facts, folded, h, linkButton, note, patch, raw, reason, tags } from '../kit/dom.js';
import { ask, showSecret } from '../kit/dialog.js';
import { filled } from '../kit/form.js';
import { address, go } from '../kit/router.js';
import { clientId, isAdmin, isClient, may } from '../kit/session.js';
import { list } from '../kit/table.js';
import { t } from '../kit/text.js';
import { duration, instant, stamp, time, took } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';
import { acts, addCsv, choice, col, count, whole } from './whole.js';

const EVENTS = ['BatchCompleted', 'BatchFailed', 'BatchScheduled', 'BatchStarted', 'TicketProcessed', 'TicketFailed'];

const mayChange = () => isClient() || may('operate');
const urlOf = (client, ...parts) => path('clients', client, 'webhooks', ...parts);
const place = (...parts) => address(['webhooks', ...parts]);
// The way there clears what was told before.
function leave(words, ...parts) {
  document.addEventListener('routed', () => notice(words), { once: true });
  go(place(...parts));
}
const stateOf = (s) => badge(s.isActive ? 'Enabled' : 'Disabled');
const why = (s) => [reason(s.disabledReason), s.failureSince ? h('p', { className: 'reason' }, t('wh.failing'), ' ', time(s.failureSince)) : null];
const secretRows = (id, secret) => [[t('wh.id'), id, 'secret-id'], [t('signin.secret'), secret, 'secret-value']];

const fieldsOf = (s) => [
  { name: 'url', type: 'url', label: t('wh.url'), hint: t('wh.urlHint'), value: s?.url, required: true, maxLength: 2000 },
  { name: 'events', type: 'checks', label: t('nav.events'), value: s?.events ?? EVENTS.slice(0, 2), options: EVENTS.map((name) => [name]) },
  { name: 'autoRotate', type: 'check', label: t('wh.auto'), value: s?.autoRotate },
];

// --- what was given up, of all clients ---

const replayDialog = (url, then) => ask({
  id: 'webhook-replay', title: t('wh.replay'), text: t('wh.replayText'), submit: t('wh.replay'), fields: [{ name: 'since', type: 'select', label: t('wh.replaySince'), value: '86400', options: [3600, 86400, 604800, 2592000].map((s) => [s, duration(s)]) }],
  action: async ({ since }) => {
    const { replayed, remaining, skipped } = await post(url + query({ since: new Date(Date.now() - 1000 * since).toISOString() }));
    notice([t('wh.replayed', { n: replayed }), remaining > 0 && t('wh.remaining', { n: remaining }), skipped > 0 && t('wh.skipped', { n: skipped })].filter(Boolean).join(' '));
    await then();
  },
});

function failures(ctx) {
  let shown = null;
  const reload = () => shown.reload();
  const of = ctx.query.get('clientId');
  ctx.heading({ title: t('nav.webhooks'), text: t('wh.all'), actions: [of ? linkButton(t('wh.of', { client: of }), place(of), { id: 'webhooks-of' }) : null, may('operate') ? act(t('wh.replay'), () => replayDialog('admin/webhook-failures/replay', reload), { id: 'webhooks-replay' }) : null] });
  shown = list(ctx, {
    id: 'failures', label: t('w.failures'), path: 'admin/webhook-failures', key: (f) => f.id, order: t('state.GivenUp'),
    filters: [{ name: 'clientId', label: t('w.client') }, { name: 'replayed', type: 'select', label: t('w.replayedAt'), options: [['', t('any')], ['true', t('yes')], ['false', t('no')]] }],
    columns: [
      { label: t('w.event'), main: true, wide: true, cell: (f) => [h('a', { className: 'name', href: place(f.clientId, f.subscriptionId) }, raw(f.event)), note(raw(`${f.clientId}, ${f.url}`)), reason(f.lastError), folded(t('wh.payload'), f.payload, `payload ${f.id}`)] },
      col('w.http', 'lastStatus', raw, { num: true }), count('wh.tries', 'attempts'), col('state.GivenUp', 'createdAt'), col('w.replayedAt', 'replayedAt'),
      may('operate') && acts((f) => (f.replayedAt || f.dismissedAt ? null : h('div', { className: 'row-actions' }, ['replay', 'dismiss'].map((how) => act(t(`wh.${how}One`), async () => {
        await post(path('admin', 'webhook-failures', f.id, how));
        notice(t(`wh.${how}Done`, { event: f.event }));
        await reload();
      }))))),
    ],
  });
  addCsv(ctx, 'failures', 'admin/webhook-failures', shown);
  return shown.ready;
}

// --- the subscriptions of a client ---

function subscriptions(ctx, client) {
  const create = () => ask({
    id: 'webhook', title: t('wh.new'), submit: t('w.create'), fields: [...fieldsOf(null), { name: 'secret', label: t('signin.secret'), hint: t('w.secretHint'), optional: true }],
    action: async (values) => post(urlOf(client), filled(values)),
  }).then(async (made) => {
    if (!made) return;
    await showSecret(t('wh.created'), secretRows(made.id, made.secret));
    await ctx.again();
  });
  ctx.heading({
    title: isAdmin() ? raw(client) : t('nav.webhooks'), text: t('wh.text'), crumbs: isAdmin() ? [[t('nav.webhooks'), '#webhooks']] : [],
    actions: [mayChange() ? act(t('wh.new'), create, { className: 'primary', id: 'webhook-new' }) : null],
  });
  return whole(ctx, {
    id: 'webhooks', label: t('nav.webhooks'), path: urlOf(client), key: (s) => s.id, words: (s) => s.url,
    columns: [
      { label: t('wh.url'), main: true, wide: true, by: 'url', cell: (s) => [h('a', { className: 'name', href: place(client, s.id) }, raw(s.url)), why(s)] },
      { label: t('w.state'), by: 'isActive', cell: stateOf }, col('nav.events', 'events', tags), col('w.createdAt', 'createdAt'),
      mayChange() && acts((s) => (s.isActive ? act(t('wh.test'), () => test(client, s), { 'aria-label': `${t('wh.test')}: ${s.url}` }) : null)),
    ],
  });
}

async function test(client, s) {
  await post(urlOf(client, s.id, 'test'));
  notice(t('wh.tested', { url: s.url }));
}

// --- one subscription ---

const attemptLine = (a) => h('li', { value: a.attempt, data: { key: `${a.attemptedAt} ${a.attempt}` } }, badge(a.outcome), ' ', stamp(a.attemptedAt), ', ', a.httpStatus ? raw(`HTTP ${a.httpStatus}`) : t('wh.noAnswer'), ', ', took(a.durationMs / 1000),
  reason(a.error), a.answer ? folded(t('w.http'), a.answer, `answer ${a.attemptedAt}`) : null);
const attemptList = (d) => h('ol', { className: 'attempts' }, (d.attemptsHistory ?? []).map(attemptLine));
const deliveryBadge = (d) => badge(d.status, { retried: d.status === 'Error' && Boolean(d.nextAttemptAt) });

function buttons(ctx, client, s, reload) {
  if (!mayChange()) return [];
  const set = (body) => async () => { await change(urlOf(client, s.id), body); await reload(); };
  return [
    s.isActive ? act(t('wh.test'), async () => { await test(client, s); await reload(); }, { id: 'webhook-test' }) : null,
    act(t('wh.edit'), () => ask({ id: 'webhook', title: t('wh.edit'), submit: t('w.save'), fields: fieldsOf(s), action: async (values) => { await change(urlOf(client, s.id), values); notice(t('w.saved')); await reload(); } }), { id: 'webhook-edit' }),
    act(t('wh.replay'), () => replayDialog(urlOf(client, s.id, 'replay'), reload), { id: 'webhook-replay-these' }),
    act(t('w.rotate'), async () => {
      const made = await ask({ id: 'webhook-rotate', title: t('w.rotate'), text: t('wh.rotateText'), submit: t('w.rotate'), action: () => post(urlOf(client, s.id, 'rotate-secret')) });
      if (made) await showSecret(t('w.rotate'), secretRows(s.id, made.secret));
      await reload();
    }, { id: 'webhook-rotate' }),
    s.nextSecretAt && (isClient() || may('admin')) ? act(t('wh.fetch'), async () => {
      const made = await ask({ id: 'webhook-fetch', title: t('wh.fetch'), text: t('wh.fetchText'), submit: t('wh.fetch'), action: () => get(urlOf(client, s.id, 'secret')) });
      if (made) await showSecret(t('wh.fetch'), secretRows(s.id, made.secret));
      await reload();
    }, { id: 'webhook-fetch', className: 'primary' }) : null,
    s.isActive ? act(t('wh.disable'), set({ isActive: false })) : act(t('wh.enable'), set({ isActive: true })),
    act(t('wh.delete'), () => ask({ id: 'webhook-delete', title: t('wh.delete'), text: [t('wh.deleteText'), raw(s.url, 'p')], submit: t('wh.delete'), danger: true, action: async () => { await remove(urlOf(client, s.id)); } })
      .then((gone) => {
        if (!gone) return;
        leave(t('wh.deleted'), client);
      }), { className: 'danger' }),
  ];
}

const crumbsOf = (client, ...more) => [[t('nav.webhooks'), '#webhooks'], ...(isAdmin() ? [[raw(client), place(client)]] : []), ...more];

async function subscription(ctx, client, id) {
  const about = h('div', {});
  ctx.root.append(about);
  let shown = null;
  const draw = (s) => {
    ctx.heading({ title: raw(s.url), crumbs: crumbsOf(client), actions: buttons(ctx, client, s, async () => { draw(await get(urlOf(client, id))); await shown?.reload(); }) });
    patch(about, h('section', { className: 'card', id: 'webhook-about' }, h('p', {}, stateOf(s)), why(s), facts([[t('wh.id'), code(s.id)], [t('nav.events'), tags(s.events)], [t('w.createdAt'), time(s.createdAt)],
      s.disabledAt ? [t('wh.disabledAt'), time(s.disabledAt)] : null, s.previousSecretValidUntil ? [t('wh.oldSecret'), instant(s.previousSecretValidUntil)] : null, [t('wh.autoIs'), t(s.autoRotate ? 'yes' : 'no')],
      [t('wh.since'), time(s.secretChangedAt)], s.nextSecretAt ? [t('wh.next'), time(s.nextSecretAt)] : null])));
  };
  await ctx.watch(5000, () => get(urlOf(client, id), {}, ctx), draw);
  shown = list(ctx, {
    id: 'deliveries', label: t('wh.deliveries'), path: urlOf(client, id, 'deliveries'), key: (d) => d.id, order: t('w.createdAt'), every: 2000,
    filters: [choice(['Pending', 'Sending', 'Sent', 'Error'])],
    columns: [
      {
        label: t('w.event'), main: true, wide: true, cell: (d) => [h('a', { className: 'name', href: place(client, id, d.id) }, raw(d.event)), d.reference ? raw(d.reference, 'span', { className: 'note' }) : null, d.status === 'Sent' ? null : reason(d.lastError),
          d.attempts ? h('details', { data: { key: `attempts ${d.id}` } }, h('summary', {}, t('wh.attempts', { n: d.attempts })), attemptList(d)) : null],
      },
      { label: t('w.status'), cell: deliveryBadge }, { label: t('w.http'), num: true, cell: (d) => raw(d.lastStatus ?? d.attemptsHistory?.[0]?.httpStatus) },
      col('w.createdAt', 'createdAt'), col('state.Sent', 'sentAt'), col('wh.nextAt', 'nextAttemptAt'),
    ],
  });
  addCsv(ctx, 'deliveries', urlOf(client, id, 'deliveries'), shown);
  await shown.ready;
}

// --- one delivery ---

function delivery(ctx, client, id, deliveryId) {
  const url = urlOf(client, id, 'deliveries', deliveryId);
  const body = h('div', { className: 'stacked' });
  ctx.root.append(body);
  const resend = (d) => async () => {
    const made = await post(`${url}/resend`);
    leave(t('wh.replayDone', { event: d.event }), client, id, made.deliveryId);
  };
  return ctx.watch(2000, () => get(url, {}, ctx), (d) => {
    ctx.heading({ title: raw(d.event), crumbs: crumbsOf(client, [t('wh.deliveries'), place(client, id)]), actions: [mayChange() && d.status !== 'Sending' ? act(t('wh.resend'), resend(d), { id: 'delivery-resend' }) : null] });
    const shown = typeof d.payload === 'string' ? d.payload : JSON.stringify(d.payload, null, 2);
    patch(body, card(null, h('p', {}, deliveryBadge(d)), d.status === 'Sent' ? null : reason(d.lastError), facts([[t('wh.delivery'), code(d.id)], [t('w.http'), raw(d.lastStatus)], [t('w.createdAt'), instant(d.createdAt)],
      [t('state.Sent'), instant(d.sentAt)], [t('wh.nextAt'), instant(d.nextAttemptAt)]])), card(t('wh.tries'), d.attemptsHistory?.length ? attemptList(d) : note(t('none'))), card(t('wh.payload'), raw(shown, 'pre', { tabIndex: 0, id: 'delivery-payload' })));
  });
}

export default {
  async render(ctx) {
    const [client = clientId(), id, deliveryId] = isAdmin() && !ctx.parts[0] ? [null] : ctx.parts;
    if (!client) return failures(ctx);
    if (deliveryId) return delivery(ctx, client, id, deliveryId);
    return id ? subscription(ctx, client, id) : subscriptions(ctx, client);
  },
};
