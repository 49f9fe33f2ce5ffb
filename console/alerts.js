// Alerts: what fires and what did, and the line about it on the start page.
'use strict';
(() => {
  const { $, Problem, badge, call, cell, h, key, look, pager, replace, table, text, time, views, t } = df;
  const PAGE_SIZE = 20;
  const MOST = 200; // that a page has
  const SEVERITIES = ['critical', 'error', 'warning', 'info']; // the worst first
  const FIRING = '#alerts?status=firing';
  let at = new URLSearchParams();

  const address = (params) => `#alerts?${new URLSearchParams(params)}`;
  const fires = (n) => (n === 1 ? '1 alert fires' : `${n.toLocaleString('en')} alerts fire`);

  function alertRow(a) {
    const details = Object.entries(a.details).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${value}`).join(', ');
    const row = h('tr', {},
      h('td', {}, h('span', { className: 'name', textContent: a.rule }), h('code', { className: 'client-id', textContent: a.subject })),
      h('td', {}, badge(a.status)), cell('Severity', a.severity),
      cell('What', a.summary, h('p', { className: 'note', textContent: details })),
      cell('Fired', time(a.firedAt)), cell('Resolved', time(a.resolvedAt)));
    row.dataset.alert = a.id;
    return row;
  }

  // Nobody hears of an alert that is only shown here.
  const nowhere = (sinks) => (sinks.length ? null : h('p', { className: 'note', id: 'alerts-nowhere' }, 'Nobody is told: neither ',
    h('code', { textContent: 'alerts.pagerduty_routing_key' }), ' nor ', h('code', { textContent: 'alerts.teams_url' }), ' is set.'));

  function statusFilter(status) {
    const select = h('select', {
      id: 'alerts-status', 'data-keep': 'status', onchange: () => { location.hash = select.value ? address({ status: select.value }) : '#alerts'; },
    }, h('option', { value: '', textContent: t('any') }), ...['firing', 'resolved'].map((s) => h('option', { textContent: s })));
    select.value = status;
    return h('div', { className: 'filter' }, h('label', { htmlFor: 'alerts-status', textContent: t('Status') }), select);
  }

  function show(list) {
    const status = at.get('status') || '';
    text('alerts-note', `${list.total.toLocaleString('en')} ${list.total === 1 ? 'alert' : 'alerts'}${status && `, ${status}`}. Resolved alerts are kept for 30 days.`);
    replace($('alerts-body'), h('div', { className: 'card' }, nowhere(list.sinks), statusFilter(status),
      list.items.length
        ? table('Alerts', [['Rule'], ['Status'], ['Severity'], ['What'], ['Fired'], ['Resolved']], list.items.map(alertRow))
        : h('p', { className: 'note', textContent: status === 'firing' ? 'None fires.' : 'None.' }),
      pager(list, 'alerts', (page) => address({ ...Object.fromEntries(at), page }))));
  }

  function fetchList() {
    const query = new URLSearchParams({ pageSize: PAGE_SIZE, page: at.get('page') || '1' });
    if (at.get('status')) query.set('status', at.get('status'));
    return call('GET', `admin/alerts?${query}`);
  }

  const again = () => look('alerts', 'admin', fetchList, show);

  views.alerts = {
    title: 'Alerts · DataFlow',
    enter: (params) => {
      at = params;
      text('alerts-note', '');
      $('alerts-body').replaceChildren();
      return again();
    },
    again,
  };

  // --- on the start page ------------------------------------------------------------------------

  let refused = null; // a key that is none
  let said = '';

  function tell(count, ...words) {
    const now = count ? `${count} ${words.join(' ')}` : '';
    if (now === said) return;
    said = now;
    replace($('overview-alerts'), ...(count ? [h('p', { className: 'banner', 'data-state': 'bad' },
      h('strong', { textContent: `${fires(count)}. ` }), ...words, ' ', h('a', { href: FIRING, textContent: t('Alerts'), 'data-keep': 'alerts' }))] : []));
  }

  // With the key from the database, which knows of all; without it the figures of this process tell how many.
  async function lookAtAlerts(counted) {
    if (!key() || key() === refused) {
      tell(counted);
      return;
    }
    try {
      const { items, total } = await call('GET', `admin/alerts?status=firing&pageSize=${MOST}`);
      const worst = SEVERITIES.map((severity) => items.find((a) => a.severity === severity)).find(Boolean);
      tell(total, ...(worst ? [`${total > 1 ? 'The worst has severity' : 'Severity'} ${worst.severity}: ${worst.summary}.`] : []));
    } catch (problem) {
      if (!(problem instanceof Problem) || !problem.status) throw problem;
      if (problem.status < 500) refused = key();
      tell(counted);
    }
  }

  Object.assign(df, { lookAtAlerts });
})();
