// What needs you, worst first, with the button that helps; below it the flow of documents as the server kept it, and how the server is.
import '../texts/home.js';
import { get, isMissing, path, post } from '../kit/api.js';
import { badge, card, DASH, facts, h, linkButton, note, patch, raw, reason } from '../kit/dom.js';
import { bars } from '../kit/chart.js';
import { ask } from '../kit/dialog.js';
import { address } from '../kit/router.js';
import { clientId, hasScope, isAdmin, isClient, may, session } from '../kit/session.js';
import { signInCard } from '../kit/signin.js';
import { has, named, number, t } from '../kit/text.js';
import { clock, duration, local, moment, stamp, time } from '../kit/time.js';
import { act, notice, tell } from '../kit/toast.js';

const HOUR = 3600000;
const WINDOWS = { hour: [HOUR, 60], day: [24 * HOUR, 300], week: [7 * 24 * HOUR, 3600], quarter: [90 * 24 * HOUR, 86400] };
const METRICS = ['accepted', 'delivered', 'failed', 'waiting'];
const MARKS = 8; // named below the charts
const BAD_MARKS = ['BreakerOpened', 'AlertFired', 'ReplicaStopped'];
const WINDOW = 'overview.window';

// --- what needs you ---

// What the buttons do; undefined: it was not done. Work on many rows is the pages' own, with preview, progress and outcome.
const onRows = (verb) => async (i) => {
  if (i.kind === 'Tickets') return (await import('./tickets.js')).many({ filter: { status: 'Error' }, all: true });
  return (await import('./outbox.js')).many(i.channel, verb, { filter: { status: 'GivenUp', target: i.target }, all: true });
};
const HELP = {
  retry: onRows('retry'),
  dismiss: onRows('dismiss'),
  reset: (i) => post(path('admin', 'circuit-breakers', i.id ?? i.target, 'reset')),
  resume: (i) => post(path('admin', 'outbox', i.channel, 'resume'), i.target ? { target: i.target } : {}),
  release: (i) => ask({ id: 'help', title: t('help.release'), text: raw(i.title, 'p'), submit: t('help.release'), action: () => post(path('admin', 'imports', i.target ?? i.id, 'release')) }),
  acknowledge: (i) => post(path('admin', 'alerts', i.id, 'acknowledge'), {}),
};

function help(name, item, again) {
  const words = t(`help.${name}`);
  return act(words, async () => {
    if (await HELP[name](item) === undefined) return;
    const what = name === 'acknowledge' ? item.title : [item.channel, item.target ?? item.id].filter(Boolean).join(' ');
    if (has(`did.${name}`)) notice([t(`did.${name}`), ' ', raw(what)]);
    await again();
  }, { 'aria-label': `${words}: ${item.title}`, data: { help: name } });
}

// Only what there is a call for. What waits is not what failed: to retry it would send something else.
const canHelp = (name, i) => HELP[name] && !(name === 'retry' && i.kind === 'Oldest') && !(name === 'dismiss' && i.kind === 'Tickets');

// In words of the catalogue; of what people named, with the name.
function titleOf(i) {
  const kind = i.actions.includes('resume') ? 'Paused' : i.kind === 'Breaker' && !i.channel ? 'Circuit' : i.kind;
  if (!has(`need.${kind}`)) return raw(i.title);
  return [t(`need.${kind}`, { n: i.count ?? 1, channel: i.channel ?? '' }), ['GivenUp', 'Tickets', 'Paused', 'Breaker', 'Oldest'].includes(kind) ? null : [' ', raw(kind === 'Circuit' ? i.id : i.title)]];
}

// A subscription's page is under its client.
const placeOf = (i) => (i.kind === 'Webhook' && i.clientId ? address(['webhooks', i.clientId, i.target]) : `#${i.link.replace(/^#/, '')}`);

function need(item, again) {
  return h('li', { data: { key: [item.kind, item.channel, item.target, item.id, item.clientId].join(' '), kind: item.kind, state: item.severity === 'critical' ? 'bad' : 'warn' } },
    h('div', { className: 'need' },
      h('div', {}, h('h3', {}, titleOf(item)), item.target ? raw(item.target, 'p', { className: 'note' }) : null, reason(item.cause),
        h('p', { className: 'note' }, item.clientId ? [t('need.client'), ' ', raw(item.clientId), ' · '] : null, t('wait.since'), ' ', moment(item.since), item.next ? [' · ', t('need.next'), ' ', time(item.next)] : null)),
      h('div', { className: 'row-actions' }, may('operate') ? item.actions.filter((name) => canHelp(name, item)).map((name) => help(name, item, again)) : null,
        item.link ? linkButton(t('need.look'), placeOf(item), { 'aria-label': `${t('need.look')}: ${item.title}` }) : null)));
}

function needs(ctx) {
  const body = h('div', { id: 'needs' }, note(t('doc.loading')));
  const draw = ({ items }) => {
    patch(body, items.length ? h('ul', { className: 'needs' }, items.map((item) => need(item, look))) : h('p', { className: 'calm' }, t('need.nothing')));
    body.dataset.items = items.length;
  };
  const look = async () => {
    try {
      draw(await get('admin/attention', {}, { signal: ctx.signal }));
    } catch (problem) {
      if (!isMissing(problem)) throw problem;
      patch(body, note(t('older.text')));
    }
  };
  // The bar asks for it again and again.
  document.addEventListener('health', ({ detail }) => { if (detail.attention && !document.querySelector('dialog[open]')) draw(detail.attention); }, { signal: ctx.signal });
  const node = card(t('need.title'), body);
  node.id = 'overview-needs';
  return { node, ready: look() };
}

// Of a client: imports that ended with failures in the last days, tickets that wait for a person, and webhooks that fail.
const RECENT_MS = 7 * 24 * HOUR;
const MANY = 100; // tickets that are looked at

async function ownItems(signal) {
  const asks = [];
  if (hasScope('imports')) {
    asks.push(...['CompletedWithErrors', 'Failed'].map(async (status) => (await get('imports', { status, pageSize: 5 }, { signal })).items
      .filter((b) => Date.now() - Date.parse(b.createdAt) < RECENT_MS && ((b.canRetry ?? true) || b.canMend))
      .map((b) => ({ key: b.batchId, title: b.errorCount ? t('own.import', { n: b.errorCount }) : t('own.failed'), name: b.fileName, cause: b.lastError, since: b.completedAt ?? b.createdAt, href: address(['imports', b.batchId]) }))));
  }
  if (hasScope('interface', 'interface-all')) {
    asks.push(get('api/tickets', { status: 'Error', pageSize: MANY }, { signal }).then(({ items, total }) => {
      const final = items.filter((k) => !k.nextAttemptAt);
      return final.length ? [{ key: 'tickets', title: t('need.Tickets', { n: total - items.length + final.length }), cause: final[0].lastError, since: final.at(-1).updatedAt, href: address('tickets', { status: 'Error' }) }] : [];
    }));
  }
  asks.push(get(path('clients', clientId(), 'webhooks'), {}, { signal }).then(({ items }) => items.filter((w) => w.failureSince)
    .map((w) => ({ key: w.id, title: t('own.webhook'), name: w.url, since: w.failureSince, href: address(['webhooks', clientId(), w.id]) }))));
  return (await Promise.all(asks)).flat();
}

function ownNeeds(ctx) {
  const body = h('div', { id: 'needs' }, note(t('doc.loading')));
  const look = async () => {
    const items = await ownItems(ctx.signal);
    patch(body, items.length ? h('ul', { className: 'needs' }, items.map((i) => h('li', { data: { key: i.key, state: 'warn' } }, h('div', { className: 'need' },
      h('div', {}, h('h3', {}, i.name ? [raw(i.name), ': '] : null, i.title), reason(i.cause), h('p', { className: 'note' }, t('wait.since'), ' ', moment(i.since))), linkButton(t('need.look'), i.href, { 'aria-label': `${t('need.look')}: ${i.name ?? i.title}` }))))) : h('p', { className: 'calm' }, t('own.nothing')));
  };
  ctx.every(10000, look);
  return { node: card(t('need.title'), body), ready: look() };
}

// --- the flow ---

function stepBox(step, from, to) {
  const values = step.points.map((p) => p.count);
  const label = t('flow.label', { step: t(`flow.${step.name}`), n: step.perMinute, waiting: step.waiting, failed: step.failed });
  return h('li', { className: 'flow-step', data: { key: step.name, step: step.name } }, h('h3', {}, t(`flow.${step.name}`)), h('p', { className: 'big' }, number(step.perMinute), ' ', h('small', {}, t('flow.perMinute'))),
    h('figure', {}, bars(values, { label }), h('figcaption', { className: 'note' }, h('span', {}, from), h('span', {}, to))),
    h('p', { className: 'note' }, t('flow.waiting', { n: step.waiting }), ' · ', h('span', { className: step.failed ? 'some' : '' }, t('flow.failed', { n: step.failed }))));
}

function chart(data, metric) {
  const values = data.points.map((p) => p[metric]);
  const known = values.filter((v) => v !== null && v !== undefined);
  const isGauge = metric === 'waiting';
  const figure = isGauge ? known.at(-1) ?? null : known.reduce((a, b) => a + b, 0);
  const from = Date.parse(data.from);
  const span = Math.max(Date.parse(data.to) - from, 1);
  const label = t(isGauge ? 'series.gauge' : 'series.sum', { words: t(`series.${metric}`), n: figure ?? 0, most: Math.max(0, ...known) });
  return h('figure', { className: metric === 'failed' && figure > 0 ? 'some' : '', data: { metric, figure: figure ?? '' } }, h('figcaption', {}, h('span', {}, t(`series.${metric}`)), h('strong', {}, figure === null ? DASH : number(figure))),
    bars(values, { label, marks: (data.annotations ?? []).map((mark) => ({ at: (Date.parse(mark.time) - from) / span, title: `${local(mark.time)} ${named('mark', mark.kind)}: ${mark.subject}`, bad: BAD_MARKS.includes(mark.kind) })) }));
}

const marks = (items) => (items?.length ? h('ul', { className: 'marks', 'aria-label': t('series.marks') }, items.slice(0, MARKS).map((mark) => h('li', { data: { mark: mark.kind } }, time(mark.time), ' ',
  h('span', { className: BAD_MARKS.includes(mark.kind) ? 'some' : '' }, named('mark', mark.kind)), ' ', raw(mark.subject, 'span', { className: 'note' })))) : null);

function flow(ctx) {
  const picture = h('div', { id: 'flow' });
  const body = h('div', { id: 'series' }, note(t('doc.loading')));
  const choice = h('select', { id: 'window', 'aria-label': t('series.window'), onchange: () => { sessionStorage.setItem(WINDOW, choice.value); look().catch(tell); } }, Object.keys(WINDOWS).map((name) => h('option', { value: name }, t(`window.${name}`))));
  choice.value = sessionStorage.getItem(WINDOW) || 'hour';
  const look = async () => {
    const [span, step] = WINDOWS[choice.value];
    const from = new Date(Date.now() - span).toISOString();
    const says = (iso) => (choice.value === 'hour' || choice.value === 'day' ? clock(iso) : local(iso).slice(5, 10));
    const [kept, series] = await Promise.all([
      isAdmin() && choice.value !== 'quarter' ? get('admin/flow', { window: choice.value }, { signal: ctx.signal }).catch((problem) => (isMissing(problem) ? null : Promise.reject(problem))) : null,
      get(isAdmin() ? 'admin/series' : path('clients', clientId(), 'series'), { metric: METRICS.join(), from, step }, { signal: ctx.signal }),
    ]);
    patch(picture, kept ? h('ol', { className: 'flow' }, kept.steps.map((one) => stepBox(one, says(from), t('time.now')))) : null);
    patch(body, h('div', { className: 'series' }, METRICS.filter((metric) => isAdmin() || metric !== 'waiting').map((metric) => chart(series, metric))), marks(series.annotations));
  };
  ctx.every(10000, look);
  return { node: h('section', { className: 'card', id: 'overview-flow' }, h('div', { className: 'heading' }, h('h2', {}, t('flow.title')), choice), picture, body), ready: look() };
}

// --- the server ---

const BACKENDS = { sqlite: 'SQLite', postgres: 'PostgreSQL', sqlserver: 'SQL Server' };

function server(ctx) {
  const banner = h('div', {});
  const body = h('div', {}, note(t('doc.loading')));
  const show = ({ alive, ready }) => {
    const window = ready.maintenance;
    patch(banner, window ? h('p', { className: 'banner' }, window.active ? [t('maintenance.now'), ' ', stamp(window.to)] : [t('maintenance.from'), ' ', stamp(window.from), ' ', t('maintenance.to'), ' ', stamp(window.to)]) : null);
    const backend = (ready.checks || []).map((check) => check.backend).find(Boolean);
    patch(body, h('ul', { className: 'health', id: 'checks' }, (ready.checks || []).map((check) => h('li', {}, badge(check.status, { words: named('check', check.name) }), check.detail ? raw(check.detail, 'span', { className: 'note' }) : null))),
      facts([[t('w.database'), raw(BACKENDS[backend], 'span', { id: 'backend' })], [t('w.version'), raw(alive.version)], [t('w.uptime'), h('span', { id: 'uptime' }, duration(alive.uptimeSeconds))]]),
      h('p', { className: 'links' }, ['openapi.json', ...(isAdmin() ? ['metrics'] : []), 'readyz'].map((name) => [h('a', { href: name, target: '_blank', rel: 'noopener' }, raw(name)), ' '])));
  };
  const look = async () => { const [alive, ready] = await Promise.all([get('healthz'), get('readyz', {}, { okay: [503] })]); show({ alive, ready }); };
  document.addEventListener('health', (event) => show(event.detail), { signal: ctx.signal });
  return { banner, node: card(t('server.title'), body), ready: look() };
}

export default {
  async render(ctx) {
    const how = server(ctx);
    const parts = [];
    if (isAdmin()) parts.push(needs(ctx), flow(ctx));
    if (isClient()) parts.push(ownNeeds(ctx), flow(ctx));
    ctx.root.append(how.banner, ...parts.map((part) => part.node), h('div', { className: 'two' }, ...(session.as ? [] : [signInCard(t('overview.signIn'))]), how.node));
    if (!session.as || isClient()) how.node.before(h('section', { className: 'card' }, h('h2', {}, t('overview.new')), h('p', {}, t('overview.what')), linkButton(t('nav.start'), '#start')));
    await Promise.all([how.ready, ...parts.map((part) => part.ready)]);
  },
};
