// Relays: where each takes events from, where it brings them, what waits and what is wrong.
'use strict';
(() => {
  const { $, DASH, badge, call, cell, figure, h, look, replace, text, time, views, t } = df;
  const FAILED = '#outbox?channel=events&status=FAILED';

  const known = (label, value) => (value === null ? h('td', { className: 'num', 'data-label': label, textContent: DASH }) : figure(label, value));

  function relayRow(r) {
    const state = r.running ? 'running' : r.standingBy ? 'standing by' : 'not running';
    const row = h('tr', {},
      h('td', {}, h('span', { className: 'name', textContent: r.name }),
        h('p', { className: 'note', textContent: `${r.table} of ${r.source}` }),
        r.problem ? h('p', { className: 'reason', textContent: r.problem }) : null),
      h('td', {}, badge(state), r.notified ? h('p', { className: 'note', textContent: t('woken by NOTIFY') }) : null),
      cell('To', r.dispatcher, ...[r.target, r.order === 'none' ? null : `order by ${r.order}`].filter(Boolean)
        .map((words) => h('p', { className: 'note', textContent: words }))),
      known('Waiting', r.waiting), cell('Oldest', time(r.oldestAt)),
      figure('Dispatched', r.dispatched), figure('Retried', r.retried), figure('Given up', r.givenUp), cell('Last', time(r.lastDispatchAt)));
    row.dataset.relay = r.name;
    return row;
  }

  function show({ items }) {
    text('relays-note', items.length ? 'Events from outbox tables to their destinations. Dispatched, retried and given up are counted since this process started.' : '');
    const head = [['Relay'], ['State'], ['To'], ['Waiting', 'num'], ['Oldest'], ['Dispatched', 'num'], ['Retried', 'num'], ['Given up', 'num'], ['Last']];
    replace($('relays-body'), h('div', { className: 'card' },
      items.length
        ? h('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Relays' },
          h('table', { className: 'stack' },
            h('thead', {}, h('tr', {}, ...head.map(([words, kind]) => h('th', { scope: 'col', className: kind || '', textContent: words })))),
            h('tbody', {}, ...items.map(relayRow))))
        : h('p', { className: 'note', textContent: t('This process does not have the role relay.') }),
      h('p', { className: 'note' }, 'The server’s own events that were given up: ', h('a', { href: FAILED, textContent: 'outbox', 'data-keep': 'failed' }), '.')));
  }

  const again = () => look('relays', 'admin', () => call('GET', 'admin/relays'), show);

  views.relays = { title: 'Relays · DataFlow', enter: again, again };
})();
