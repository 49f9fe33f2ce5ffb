// What a client uses of its limits, and what it sent in the last day; for the client itself, and on the client's page for the administrator.
import '../texts/tenant.js';
import { get, path } from '../kit/api.js';
import { bars, meter } from '../kit/chart.js';
import { bytes, card, h, patch } from '../kit/dom.js';
import { clientId, isAdmin } from '../kit/session.js';
import { number, t } from '../kit/text.js';
import { local, time } from '../kit/time.js';

const METRICS = ['accepted', 'delivered', 'failed'];

// Used of a limit; without one the figure alone.
function tile(id, used, limit, words = number, more = null) {
  const name = t(`use.${id}`);
  return h('div', { className: 'card tile', data: { usage: id } }, h('dt', {}, name), h('dd', {}, words(used)),
    h('dd', { className: 'note' }, limit === null ? t('use.none') : t('use.of', { limit: words(limit) }), more ? [', ', more] : null),
    limit === null ? null : h('dd', {}, meter(used / Math.max(limit, 1), t('use.label', { name, used: words(used), limit: words(limit) }))));
}

export const usageTiles = (u) => [
  u.maintenance ? h('p', { className: 'banner' }, t('use.maintenance', { from: local(u.maintenance.from), to: local(u.maintenance.to) })) : null,
  h('dl', { className: 'tiles four' }, tile('requests', u.requests.lastMinute, u.requests.limit), tile('uploads', u.uploads.inProgress, u.uploads.limit),
    tile('batches', u.batches.today, u.batches.limit, number, [t('use.anew'), ' ', time(u.batches.resetsAt)]), tile('storage', u.storage.usedBytes, u.storage.quotaBytes, bytes)),
];

const seriesCard = ({ points }) => card(t('use.lastDay'), h('div', { className: 'series' }, METRICS.map((metric) => {
  const values = points.map((point) => point[metric] ?? 0);
  const n = values.reduce((a, b) => a + b, 0);
  return h('figure', { data: { metric } }, h('figcaption', {}, t(`use.${metric}`), ' ', h('strong', {}, number(n))), bars(values, { label: t('use.series', { name: t(`use.${metric}`), n, most: Math.max(0, ...values) }) }));
})));

export async function lookAtUsage(client, ctx) {
  const from = new Date(Date.now() - 86400000).toISOString();
  return Promise.all([get(path(...(isAdmin() ? ['admin'] : []), 'clients', client, 'usage'), {}, ctx),
    get(isAdmin() ? 'admin/series' : path('clients', client, 'series'), { metric: METRICS.join(), from, step: 'hour', ...(isAdmin() && { clientId: client }) }, ctx)]);
}

export const usageOf = ([usage, series]) => [usageTiles(usage), seriesCard(series)];

export default {
  render(ctx) {
    const body = h('div', { className: 'stacked' });
    ctx.root.append(body);
    return ctx.watch(5000, () => lookAtUsage(clientId(), ctx), (data) => patch(body, usageOf(data)));
  },
};
