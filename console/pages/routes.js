// HTTP by route, from the server's own metrics: throughput, latency and errors of the last minute.
import '../texts/home.js';
import { call, Problem } from '../kit/api.js';
import { bytes, card, DASH, h, note, patch, raw } from '../kit/dom.js';
import { line } from '../kit/chart.js';
import { number, t } from '../kit/text.js';
import { took } from '../kit/time.js';
import { count, sorted } from './whole.js';

const POLL_MS = 1000;
const POINTS = 60;
// What probes and this console itself ask for; shown by route, left out of the headline.
const OWN = /^\/(healthz|readyz|metrics|console\/.*|whoami|search|admin\/(?!purge|subjects|keys).*|clients\/\{clientId\}\/(usage|series))?$/;

// The text format of Prometheus into name → [{labels, value}].
function parse(body) {
  const families = new Map();
  for (const text of body.split('\n')) {
    const m = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(text);
    if (!m) continue;
    const labels = Object.fromEntries([...(m[2] || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c))]));
    if (!families.has(m[1])) families.set(m[1], []);
    families.get(m[1]).push({ labels, value: m[3] === '+Inf' ? Infinity : Number(m[3]) });
  }
  return families;
}

const sum = (series) => (series || []).reduce((total, s) => total + s.value, 0);
const none = () => ({ total: 0, client: 0, server: 0, buckets: new Map() });

// One look at the counters: totals by route, and what the store says of itself.
function sample(families) {
  const routes = new Map();
  const at = ({ route = 'other' }) => routes.get(route) ?? routes.set(route, none()).get(route);
  for (const { labels, value } of families.get('dataflow_http_requests_total') || []) {
    const route = at(labels);
    route.total += value;
    if (/^4/.test(labels.status)) route.client += value;
    if (/^5/.test(labels.status)) route.server += value;
  }
  for (const { labels, value } of families.get('dataflow_http_request_seconds_bucket') || []) {
    const le = labels.le === '+Inf' ? Infinity : Number(labels.le);
    const { buckets } = at(labels);
    buckets.set(le, (buckets.get(le) || 0) + value);
  }
  return {
    time: performance.now(), routes, commits: sum(families.get('dataflow_db_group_size_count')), jobs: sum(families.get('dataflow_db_group_size_sum')), memory: sum(families.get('process_resident_memory_bytes')),
    total: [...routes].reduce((n, [name, r]) => n + (OWN.test(name) ? 0 : r.total), 0),
  };
}

// What happened between two looks, of one route or (name null) of all that count.
function between(old, now, name) {
  const result = none();
  for (const [route, b] of now.routes) {
    if (name === null ? OWN.test(route) : route !== name) continue;
    const a = old.routes.get(route) || none();
    for (const field of ['total', 'client', 'server']) result[field] += b[field] - a[field];
    for (const [le, n] of b.buckets) result.buckets.set(le, (result.buckets.get(le) || 0) + n - (a.buckets.get(le) || 0));
  }
  return result;
}

// As Prometheus' histogram_quantile: linear within the bucket.
function quantile(q, buckets) {
  const all = buckets.get(Infinity) || 0;
  let low = 0;
  let below = 0;
  if (!(all > 0)) return null;
  for (const le of [...buckets.keys()].sort((a, b) => a - b)) {
    const n = buckets.get(le);
    if (n >= q * all) return le === Infinity ? low : low + ((le - low) * (q * all - below)) / Math.max(n - below, 1e-9);
    low = le;
    below = n;
  }
  return null;
}

const share = (part, all) => (all > 0 ? `${number((100 * part) / all)} %` : DASH);
const figure = (label, ...more) => ({ ...count('routes.total', ...more), label });
const tile = (id, words, value, text, bad = false) => h('div', { className: 'card tile' }, h('dt', {}, words), h('dd', { id, className: bad ? 'some' : '' }, value), h('dd', { className: 'note', id: `${id}-note` }, text));

export default {
  async render(ctx) {
    ctx.heading({ title: t('nav.routes'), text: t('routes.text') });
    const body = h('div', { className: 'page' });
    let history = [];
    let rates = [];
    ctx.root.append(body);

    function draw(now, before, dt) {
      const minute = between(history[0], now, null);
      const commits = now.commits - history[0].commits;
      const rate = rates.length ? number(rates.at(-1)) : DASH;
      const rows = [...now.routes.keys()].sort().map((name) => ({ name, ...between(history[0], now, name), rate: before && dt > 0 ? between(before, now, name).total / dt : null, total: now.routes.get(name).total })).map((r) => ({ ...r, p50: quantile(0.5, r.buckets), p99: quantile(0.99, r.buckets) }));
      patch(body, h('section', { className: 'card hero' }, h('div', {}, h('h2', {}, t('routes.throughput')), h('p', { className: 'big' }, h('span', { id: 'rate' }, rate), ' ', h('small', {}, t('routes.perSecond'))), note(rates.length ? t('routes.peak', { rate: Math.max(...rates) }) : t('routes.measuring'))),
        h('figure', { id: 'chart' }, line(rates, { label: t('routes.chart', { rate }), points: POINTS }))),
      h('dl', { className: 'tiles' }, tile('p50', t('routes.p50'), took(quantile(0.5, minute.buckets)), t('routes.minute')), tile('p99', t('routes.p99'), took(quantile(0.99, minute.buckets)), t('routes.minute')),
        tile('errors', t('routes.errors'), share(minute.server, minute.total), minute.total ? `4xx ${share(minute.client, minute.total)}` : t('routes.minute'), minute.server > 0),
        tile('commits', t('routes.commits'), before && dt > 0 ? number((now.commits - before.commits) / dt) : DASH, commits > 0 ? t('routes.writes', { n: (now.jobs - history[0].jobs) / commits }) : t('routes.aSecond')), tile('memory', t('routes.memory'), now.memory ? bytes(now.memory) : DASH, t('routes.resident'))),
      card(t('routes.byRoute'), sorted({
        label: t('routes.byRoute'), id: 'routes', rows, key: (r) => r.name, columns: [
          { label: t('routes.route'), main: true, by: 'name', cell: (r) => [r.name === 'none' ? t('routes.none') : raw(r.name, 'code'), OWN.test(r.name) ? h('span', { className: 'note' }, ` ${t('routes.own')}`) : null] },
          figure('req/s', 'rate'), figure('p50', 'p50', took), figure('p99', 'p99', took), figure('4xx', 'client'),
          figure('5xx', 'server', (n) => h('span', { className: n ? 'some' : '' }, number(n))), count('routes.total', 'total'),
        ],
      }, () => draw(now, before, dt)), note(t('routes.foot'))));
    }

    async function look() {
      let text;
      try {
        text = await call('GET', 'metrics', { signal: ctx.signal });
      } catch (problem) {
        if (!(problem instanceof Problem) || ![401, 403].includes(problem.status)) throw problem;
        patch(body, card(null, note(t('routes.locked'))));
        return;
      }
      const now = sample(parse(text));
      const last = history.at(-1);
      if (last && now.total < last.total) { // the server was started again
        history = [];
        rates = [];
      }
      const before = history.at(-1);
      history = [...history, now].slice(-(POINTS + 1));
      const dt = before ? (now.time - before.time) / 1000 : 0;
      if (dt > 0) rates = [...rates, (now.total - before.total) / dt].slice(-POINTS);
      draw(now, before, dt);
    }
    ctx.every(POLL_MS, look);
    await look();
  },
};
