// How the parts are: relays, integrations with their breakers, maintenance windows, and the versions that run.
import '../texts/admin.js';
import { get, path, post } from '../kit/api.js';
import { badge, card, code, DASH, facts, h, note, patch, raw, reason, tags } from '../kit/dom.js';
import { ask } from '../kit/dialog.js';
import { address } from '../kit/router.js';
import { may } from '../kit/session.js';
import { table } from '../kit/table.js';
import { has, number, t } from '../kit/text.js';
import { duration, instant, time } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';

const stateBadge = (state) => badge(state, has(`sy.state.${state}`) ? { words: t(`sy.state.${state}`) } : {});

const relays = {
  text: 'sy.relaysText', look: (signal) => get('admin/relays', {}, { signal }),
  draw: ({ items }) => card(null, items.length ? table({
    label: t('nav.relays'), id: 'relays', rows: items, key: (r) => r.name, rowProps: (r) => ({ data: { relay: r.name } }), columns: [
      { label: t('sy.relay'), main: true, cell: (r) => [raw(r.name, 'span', { className: 'name' }), note(raw(`${r.table} · ${r.source}`)), reason(r.problem ?? r.lastError)] },
      { label: t('w.state'), cell: (r) => [stateBadge(r.state ?? (r.running ? 'running' : 'stopped')), r.downSince || r.pausedAt ? note(time(r.downSince || r.pausedAt)) : null, r.notified ? note(t('sy.notified')) : null] },
      { label: t('sy.to'), cell: (r) => [raw(r.dispatcher), r.target ? note(raw(r.target)) : null, r.order === 'none' ? null : note(raw(r.order))] },
      { label: t('sy.waiting'), num: true, cell: (r) => (r.waiting === null ? DASH : number(r.waiting)) }, { label: t('sy.oldest'), cell: (r) => time(r.oldestAt) }, { label: t('sy.dispatched'), num: true, cell: (r) => number(r.dispatched) },
      { label: t('sy.retried'), num: true, cell: (r) => number(r.retried) }, { label: t('w.failures'), num: true, cell: (r) => number(r.givenUp) }, { label: t('sy.last'), cell: (r) => time(r.lastDispatchAt) },
    ],
  }) : note(t('sy.noRelays')), h('p', {}, h('a', { href: address(['outbox', 'events'], { status: 'FAILED' }) }, t('sy.seeGivenUp')))),
};

const integrations = {
  text: 'sy.breakersText', look: (signal) => get('admin/circuit-breakers', {}, { signal }),
  draw: ({ items }, again) => card(null, items.length ? table({
    label: t('nav.integrations'), id: 'breakers', rows: items, key: (b) => b.name, rowProps: (b) => ({ data: { breaker: b.name } }), columns: [
      { label: t('w.destination'), main: true, cell: (b) => raw(b.name, 'span', { className: 'name' }) },
      { label: t('w.state'), cell: (b) => [badge(b.state), b.state === 'OPEN' ? note(t('sy.probe', { time: duration(Math.ceil(b.retryMs / 1000)) })) : null] }, { label: t('sy.since'), cell: (b) => time(b.since) },
      { label: t('sy.failures'), num: true, cell: (b) => raw(`${number(b.failed)} / ${number(b.calls)}${b.failureRate === null ? '' : ` (${number(b.failureRate)} %)`}`) }, { label: t('sy.refused'), num: true, cell: (b) => number(b.notPermitted) }, { label: t('sy.lastFailure'), cell: (b) => time(b.lastFailureAt) },
      may('operate') && {
        label: t('actions'), hidden: true, cell: (b) => (b.state === 'CLOSED' ? null : act(t('sy.reset'), () => ask({
          id: 'reset', title: t('sy.reset'), text: [raw(b.name, 'p'), t('sy.resetText')], submit: t('sy.reset'), action: async () => { await post(path('admin', 'circuit-breakers', b.name, 'reset')); notice(t('sy.resetDone', { name: b.name })); await again(); },
        }), { 'aria-label': `${t('sy.reset')}: ${b.name}` })),
      },
    ],
  }) : note(t('sy.noBreakers')), h('p', {}, h('a', { href: '#outbox' }, t('nav.outbox')))),
};

const maintenance = {
  text: 'sy.windowsText', look: (signal) => get('admin/maintenance-windows', {}, { signal }),
  draw: ({ items }) => card(null, items.length ? table({
    label: t('nav.maintenance'), id: 'windows', rows: items, key: (w) => `${w.clientId ?? ''} ${w.windows}`, rowProps: (w) => ({ data: { whose: w.clientId ?? '' } }), columns: [
      { label: t('sy.whose'), main: true, cell: (w) => (w.clientId ? h('a', { href: address(['clients', w.clientId]) }, raw(w.clientId)) : t('sy.everybody')) }, { label: t('sy.window'), cell: (w) => code(w.windows) },
      { label: t('list.next'), cell: (w) => (w.active ? [badge('paused', { words: t('sy.active') }), ' ', t('sy.until'), ' ', instant(w.until)] : instant(w.next)) },
    ],
  }) : note(t('sy.noWindows'))),
};

const versions = {
  text: 'sy.versionsText', look: async (signal) => {
    const [owners, health, ready] = await Promise.all([get('admin/owners', {}, { signal }), get('healthz', {}, { signal }), get('readyz', {}, { signal, okay: [503] })]);
    return { ...owners, version: health.version, up: Math.floor(health.uptimeSeconds / 60) * 60, database: (ready.checks ?? []).map((c) => c.backend).find(Boolean) };
  },
  draw: ({ items, unowned, version, up, database }) => {
    const n = new Set(items.map((o) => o.version)).size;
    return [card(t('sy.server'), facts([[t('sy.version'), code(version)], [t('sy.uptime'), duration(up)], [t('sy.database'), raw(database)]]), h('p', {}, h('a', { href: 'openapi.json' }, t('sy.api')))),
      card(null, n > 1 ? h('p', { className: 'banner', id: 'versions-differ' }, t('sy.differ', { n })) : null, table({
        label: t('nav.versions'), id: 'versions', rows: items, key: (o) => o.id, columns: [
          { label: t('sy.process'), main: true, cell: (o) => raw(o.name, 'span', { className: 'name' }) }, { label: t('sy.version'), cell: (o) => code(o.version) }, { label: t('w.state'), cell: (o) => badge(o.isLate ? 'down' : 'up', { words: t(o.isLate ? 'sy.late' : 'sy.alive') }) },
          { label: t('sy.started'), cell: (o) => time(o.startedAt) }, { label: t('sy.renewed'), cell: (o) => time(o.renewedAt) }, { label: t('sy.work'), wide: true, cell: (o) => tags(o.work.map((w) => w.channel)) },
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
    return ctx.watch(3000, () => view.look(ctx.signal), (data) => patch(body, view.draw(data, () => ctx.again())));
  },
};
