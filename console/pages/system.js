// How the parts are: relays, integrations with their breakers, maintenance windows, and the versions that run.
import '../texts/admin.js';
import '../texts/work.js';
import { get, path, post } from '../kit/api.js';
import { badge, card, code, facts, h, note, patch, raw, reason, tags } from '../kit/dom.js';
import { ask } from '../kit/dialog.js';
import { address } from '../kit/router.js';
import { may } from '../kit/session.js';
import { table } from '../kit/table.js';
import { number, t } from '../kit/text.js';
import { duration, instant, time } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';
import { acts, col, count, sorted } from './whole.js';

function toggle(r, again) {
  const how = r.pausedAt ? 'resume' : 'pause';
  const words = t(`outbox.${how}`);
  return act(words, async () => {
    await post(path('admin', 'outbox', 'relay', how), { target: r.name });
    notice(t(`outbox.${how}d`, { what: r.name }));
    await again();
  }, { 'aria-label': `${words}: ${r.name}` });
}

const relays = {
  text: 'sy.relaysText', look: (ctx) => get('admin/relays', {}, ctx),
  draw: ({ items }, again, redraw) => card(null, items.length ? sorted({
    label: t('nav.relays'), id: 'relays', rows: items, key: (r) => r.name, columns: [
      { label: t('sy.relay'), main: true, by: 'name', cell: (r) => [raw(r.name, 'span', { className: 'name' }), note(raw(`${r.table} · ${r.source}`)), reason(r.problem ?? r.lastError)] },
      { label: t('w.state'), cell: (r) => [badge(r.state), r.downSince || r.pausedAt ? note(time(r.downSince || r.pausedAt)) : null, r.notified ? note(t('sy.notified')) : null, may('operate') ? h('p', {}, toggle(r, again)) : null] },
      { label: t('w.to'), cell: (r) => [raw(r.dispatcher), r.target ? note(raw(r.target)) : null, r.order === 'none' ? null : note(raw(r.order))] },
      count('sy.waiting', 'waiting'), col('sy.oldest', 'oldestAt'), count('sy.dispatched', 'dispatched'),
      count('sy.retried', 'retried'), count('w.failures', 'givenUp'), col('sy.last', 'lastDispatchAt'),
    ],
  }, redraw) : note(t('sy.noRelays')), h('p', {}, h('a', { href: address(['outbox', 'events'], { status: 'FAILED' }) }, t('sy.seeGivenUp')))),
};

const integrations = {
  text: 'sy.breakersText', look: (ctx) => get('admin/circuit-breakers', {}, ctx),
  draw: ({ items }, again, redraw) => card(null, items.length ? sorted({
    label: t('nav.integrations'), id: 'breakers', rows: items, key: (b) => b.name, rowProps: (b) => ({ data: { breaker: b.name } }), columns: [
      { label: t('w.destination'), main: true, by: 'name', cell: (b) => raw(b.name, 'span', { className: 'name' }) },
      { label: t('w.state'), by: 'state', cell: (b) => [badge(b.state), b.state === 'OPEN' ? note(t('sy.probe', { time: duration(Math.ceil(b.retryMs / 1000)) })) : null] }, col('w.since', 'since'),
      { label: t('sy.failures'), num: true, by: 'failed', cell: (b) => raw(`${number(b.failed)} / ${number(b.calls)}${b.failureRate === null ? '' : ` (${number(b.failureRate)} %)`}`) }, count('sy.refused', 'notPermitted'), col('sy.lastFailure', 'lastFailureAt'),
      may('operate') && acts((b) => (b.state === 'CLOSED' ? null : act(t('sy.reset'), () => ask({
          id: 'reset', title: t('sy.reset'), text: [raw(b.name, 'p'), t('sy.resetText')], submit: t('sy.reset'), action: async () => { await post(path('admin', 'circuit-breakers', b.name, 'reset')); notice(t('sy.resetDone', { name: b.name })); await again(); },
        }), { 'aria-label': `${t('sy.reset')}: ${b.name}` }))),
    ],
  }, redraw) : note(t('none')), h('p', {}, h('a', { href: '#outbox' }, t('nav.outbox')))),
};

const maintenance = {
  text: 'sy.windowsText', look: (ctx) => get('admin/maintenance-windows', {}, ctx),
  draw: ({ items }) => card(null, items.length ? table({
    label: t('nav.maintenance'), id: 'windows', rows: items, key: (w) => `${w.clientId ?? ''} ${w.windows}`, columns: [
      { label: t('sy.whose'), main: true, cell: (w) => (w.clientId ? h('a', { href: address(['clients', w.clientId]) }, raw(w.clientId)) : t('sy.everybody')) }, col('sy.window', 'windows', code),
      { label: t('list.next'), cell: (w) => (w.active ? [badge('paused', { words: t('sy.active') }), ' ', t('sy.until'), ' ', instant(w.until)] : instant(w.next)) },
    ],
  }) : note(t('none'))),
};

const versions = {
  text: 'sy.versionsText', look: async (ctx) => {
    const [owners, health, ready] = await Promise.all([get('admin/owners', {}, ctx), get('healthz', {}, ctx), get('readyz', {}, { signal: ctx.signal, okay: [503] })]);
    return { ...owners, version: health.version, up: Math.floor(health.uptimeSeconds / 60) * 60, database: (ready.checks ?? []).map((c) => c.backend).find(Boolean) };
  },
  draw: ({ items, unowned, version, up, database }) => {
    const n = new Set(items.map((o) => o.version)).size;
    return [card(t('sy.server'), facts([[t('w.version'), code(version)], [t('w.uptime'), duration(up)], [t('w.database'), raw(database)]]), h('p', {}, h('a', { href: 'openapi.json' }, t('sy.api')))),
      card(null, n > 1 ? h('p', { className: 'banner', id: 'versions-differ' }, t('sy.differ', { n })) : null, table({
        label: t('nav.versions'), id: 'versions', rows: items, key: (o) => o.id, columns: [
          { label: t('sy.process'), main: true, cell: (o) => raw(o.name, 'span', { className: 'name' }) }, col('w.version', 'version', code), { label: t('w.state'), cell: (o) => badge(o.isLate ? 'down' : 'up', { words: t(o.isLate ? 'sy.late' : 'sy.alive') }) },
          col('sy.started', 'startedAt'), col('sy.renewed', 'renewedAt'), { label: t('sy.work'), wide: true, cell: (o) => tags(o.work.map((w) => w.channel)) },
        ],
      }), unowned?.length ? h('p', {}, t('sy.unowned'), ' ', tags(unowned.map((w) => w.channel))) : null)];
  },
};

const views = { relays, integrations, maintenance, versions };

export default {
  render(ctx) {
    const view = views[ctx.name];
    ctx.heading({ title: t(`nav.${ctx.name}`), text: t(view.text) });
    const body = h('div', { className: 'stacked' });
    ctx.root.append(body);
    const draw = (data) => patch(body, view.draw(data, () => ctx.again(), () => draw(data)));
    return ctx.watch(3000, () => view.look(ctx), draw);
  },
};
