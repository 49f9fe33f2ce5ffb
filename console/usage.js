// Limits of a client and what it uses of them.
'use strict';
(() => {
  const { $, bytes, call, chooser, h, look, replace, stamp, text, time, views, t } = df;
  let at = '';

  // Used of a limit; without one the figure alone.
  function meter(name, used, limit, words = (n) => n.toLocaleString('en'), note = null) {
    const tile = h('div', { className: 'card tile' }, h('dt', { textContent: name }),
      h('dd', { textContent: words(used) }),
      h('dd', { className: 'note' }, limit === null ? 'no limit' : `of ${words(limit)}`, ...(note ? [', ', note] : [])),
      limit === null ? null : h('dd', {}, h('meter', { min: 0, max: Math.max(limit, 1), high: 0.8 * limit, value: Math.min(used, limit), 'aria-label': `${name}: ${words(used)} of ${words(limit)}` })));
    tile.dataset.usage = name;
    return tile;
  }

  function show(u) {
    const m = u.maintenance;
    text('usage-note', '');
    replace($('usage-body'),
      h('dl', { className: 'tiles' },
        meter('Requests in the last minute', u.requests.lastMinute, u.requests.limit),
        meter('Uploads at once', u.uploads.inProgress, u.uploads.limit),
        meter('Batches today', u.batches.today, u.batches.limit, undefined, h('span', {}, 'anew ', time(u.batches.resetsAt))),
        meter('Temporary storage', u.storage.usedBytes, u.storage.quotaBytes, bytes)),
      m ? h('p', { className: 'banner', textContent: `${m.active ? 'Maintenance' : 'Next maintenance'}: ${stamp(m.from)} to ${stamp(m.to)}. Imports are refused meanwhile.` }) : '');
  }

  const again = () => look('usage', 'admin', () => (at ? call('GET', `admin/clients/${encodeURIComponent(at)}/usage`) : call('GET', 'admin/clients?pageSize=1')),
    (data) => (at ? show(data) : replace($('usage-body'), chooser('usage', 'Limits and use of', 'Show', (client) => `#usage?${new URLSearchParams({ client })}`))));

  views.usage = {
    title: 'Limits and use · DataFlow',
    enter: (params) => {
      at = params.get('client') || '';
      text('usage-title', at || 'Limits and use');
      $('usage-crumbs').replaceChildren(...(at ? [h('a', { href: '#clients', textContent: t('Clients') })] : []));
      text('usage-note', '');
      $('usage-body').replaceChildren();
      return again();
    },
    again,
  };
})();
