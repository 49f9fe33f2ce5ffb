// The search box of every page, and what it found: a document of any kind, by any of its ids.
'use strict';
(() => {
  const { $, DASH, badge, call, cell, h, look, replace, t, table, text, time, views } = df;
  let at = new URLSearchParams();

  // Where the console shows a document of a kind; counterparties have no page.
  const PLACES = {
    ticket: (id) => `#alltickets?${new URLSearchParams({ id })}`,
    import: (id) => `#allimports?${new URLSearchParams({ id })}`,
    client: () => '#clients',
    ack: (id) => rowOf('functional-ack', id),
    return: (id) => rowOf('ticket-return', id),
    event: (id) => rowOf('events', id),
    webhookDelivery: (id) => rowOf('webhooks', id),
    integrationCall: (id) => rowOf('integrations', id),
  };

  function rowOf(channel, id) {
    return `#outbox?${new URLSearchParams({ channel, id })}`;
  }

  function foundRow(item) {
    const place = PLACES[item.kind]?.(item.id);
    const keep = `${item.kind} ${item.id}`;
    const row = h('tr', {},
      cell('Kind', t(item.kind)),
      h('td', {}, place ? h('a', { className: 'name', href: place, textContent: item.title, 'data-keep': keep }) : h('span', { className: 'name', textContent: item.title }),
        h('code', { className: 'client-id', textContent: item.id })),
      cell('Status', item.status ? badge(item.status) : DASH), cell('Client', item.clientId || DASH), cell('Created', time(item.createdAt)));
    row.dataset.found = keep;
    return row;
  }

  function show(found) {
    const count = found.items.length;
    text('search-note', count === 0 ? t('Nothing has this id.')
      : `${t('{count} found.', { count })}${found.complete ? '' : ` ${t('There may be more.')}`}`);
    replace($('search-body'), h('div', { className: 'card' }, count
      ? table('What was found', [['Kind'], ['Document'], ['Status'], ['Client'], ['Created']], found.items.map(foundRow))
      : h('p', { className: 'note', textContent: t('Business document, ticket, batch, file name, event, delivery, correlation or trace id, or client.') })));
  }

  views.search = {
    title: 'Search · DataFlow',
    enter: (params) => {
      at = params;
      $('search-input').value = at.get('q') || '';
      text('search-note', '');
      $('search-body').replaceChildren();
      return look('search', 'admin', () => call('GET', `admin/search?${new URLSearchParams({ q: at.get('q') || '' })}`), show);
    },
  };

  $('search-form').addEventListener('submit', (event) => {
    event.preventDefault();
    const q = $('search-input').value.trim();
    const address = `#search?${new URLSearchParams({ q })}`;
    if (q.length < 2) return;
    if (location.hash === address) dispatchEvent(new HashChangeEvent('hashchange'));
    else location.hash = address;
  });
  $('language-button').addEventListener('click', dfWords.switchLanguage);
})();
