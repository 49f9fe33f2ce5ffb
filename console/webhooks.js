// Webhooks: what was given up, of all clients; the subscriptions of one; one of them with its deliveries
// and their attempts. Which of them is in the address.
'use strict';
(() => {
  const {
    $, DASH, alertProblem, badge, call, cell, chooser, figure, h, look, notice, onSubmit, openDialog, pager, replace, seconds, showSecret, stamp, table, text,
    time, views, t,
  } = df;
  const PAGE_SIZE = 20;
  const STATUSES = ['Pending', 'Sending', 'Sent', 'Error'];
  const EVENTS = ['BatchCompleted', 'BatchFailed', 'BatchScheduled', 'BatchStarted', 'TicketProcessed', 'TicketFailed'];
  const USUAL = EVENTS.slice(0, 2);
  let at = new URLSearchParams();
  let acting = null; // what a dialog is about

  const address = (params) => `#webhooks?${new URLSearchParams(params)}`;
  const path = (client, ...parts) => ['clients', client, 'webhooks', ...parts].map(encodeURIComponent).join('/');

  // A button that makes one call, after which the page is looked at again.
  function act(words, label, action, more = {}) {
    const button = h('button', {
      type: 'button', textContent: words, 'aria-label': label, 'data-keep': label, ...more,
      onclick: async () => {
        button.disabled = true;
        try {
          await action();
          await again();
        } catch (problem) {
          alertProblem(problem);
        } finally {
          button.disabled = false;
        }
      },
    });
    return button;
  }

  // --- what was given up ------------------------------------------------------------------------

  async function replayOne(failure) {
    await call('POST', `admin/webhook-failures/${failure.id}/replay`);
    notice(`${failure.event} is to be sent again.`);
  }

  async function dismissOne(failure) {
    await call('POST', `admin/webhook-failures/${failure.id}/dismiss`);
    notice(t('The failure is dismissed.'));
  }

  function failureRow(f) {
    const row = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: address({ client: f.clientId, id: f.subscriptionId }), textContent: f.event, 'data-keep': `failure ${f.id}` }),
        h('p', { className: 'note', textContent: `${f.clientId}, ${f.url}` }),
        f.lastError ? h('p', { className: 'reason', textContent: f.lastError }) : null),
      h('td', { className: 'num', 'data-label': 'HTTP', textContent: f.lastStatus ?? DASH }),
      figure('Attempts', f.attempts), cell('Given up', time(f.createdAt)), cell('Replayed', time(f.replayedAt)),
      h('td', {}, h('div', { className: 'row-actions' }, f.replayedAt ? null : act('Replay', `Replay ${f.event} of ${f.clientId}`, () => replayOne(f), { 'data-keep': `replay ${f.id}` }),
        f.replayedAt || f.dismissedAt ? null : act('Dismiss', t('Dismiss {what}', { what: `${f.event} of ${f.clientId}` }), () => dismissOne(f), { 'data-keep': `dismiss ${f.id}` }))));
    row.dataset.failure = f.id;
    return row;
  }

  function showFailures(list) {
    text('webhooks-note', t('Notifications to clients about their imports and tickets, and those that could not be delivered.'));
    replace($('webhooks-actions'), list.total > 0
      ? h('button', { type: 'button', textContent: t('Replay all'), 'data-keep': 'replay all', onclick: () => openDialog('webhook-replay-dialog') }) : '');
    replace($('webhooks-body'),
      chooser('webhooks', 'Subscriptions of', 'Show', (client) => address({ client })),
      h('div', { className: 'card' }, h('h2', { textContent: t('Given up') }),
        list.items.length
          ? table('Given up', [['Event'], ['HTTP', 'num'], ['Attempts', 'num'], ['Given up'], ['Replayed'], ['Actions', 'sr']], list.items.map(failureRow))
          : h('p', { className: 'note', textContent: t('Nothing was.') }),
        pager(list, 'failures', (page) => address({ page }))));
  }

  async function replayAll() {
    const since = new Date(Date.now() - 1000 * Number($('webhook-replay-since').value)).toISOString();
    const { replayed, remaining, skipped } = await call('POST', `admin/webhook-failures/replay?since=${encodeURIComponent(since)}`);
    $('webhook-replay-dialog').close();
    notice(`${replayed.toLocaleString('en')} ${replayed === 1 ? 'delivery is' : 'deliveries are'} to be sent again`
      + `${remaining > 0 ? `; ${remaining.toLocaleString('en')} more are left, replay again` : ''}`
      + `${skipped > 0 ? `; ${skipped.toLocaleString('en')} of disabled subscriptions ${skipped === 1 ? 'stays as it is' : 'stay as they are'}` : ''}.`);
    await again().catch(alertProblem);
  }

  // --- the subscriptions of a client ------------------------------------------------------------

  const state = (s) => (s.isActive ? 'Active' : 'Disabled');
  const tags = (events) => h('div', { className: 'tags' }, ...events.map((e) => h('span', { className: 'tag', textContent: e })));
  const why = (s) => [
    s.disabledReason ? h('p', { className: 'reason', textContent: s.disabledReason }) : null,
    s.failureSince ? h('p', { className: 'reason' }, 'All deliveries have failed since ', time(s.failureSince)) : null,
  ].filter(Boolean);

  function subscriptionRow(client, s) {
    const row = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: address({ client, id: s.id }), textContent: s.url, 'data-keep': s.id }), ...why(s)),
      h('td', {}, badge(state(s))), h('td', {}, tags(s.events)), cell('Created', time(s.createdAt)),
      h('td', {}, h('div', { className: 'row-actions' }, s.isActive ? act('Test', `Test ${s.url}`, () => test(client, s), { 'data-keep': `test ${s.id}` }) : null)));
    row.dataset.subscription = s.id;
    return row;
  }

  function showSubscriptions(list) {
    const client = at.get('client');
    text('webhooks-note', `${list.total.toLocaleString('en')} ${list.total === 1 ? 'subscription' : 'subscriptions'}.`);
    replace($('webhooks-actions'), h('button', {
      type: 'button', className: 'primary', textContent: t('New subscription'), 'data-keep': 'new',
      onclick: () => {
        $('webhook-form').reset();
        openDialog('webhook-dialog');
      },
    }));
    replace($('webhooks-body'), h('div', { className: 'card' },
      list.items.length
        ? table('Subscriptions', [['URL'], ['State'], ['Events'], ['Created'], ['Actions', 'sr']], list.items.map((s) => subscriptionRow(client, s)))
        : h('p', { className: 'note', textContent: t('This client has no subscriptions yet.') }),
      pager(list, 'subscriptions', (page) => address({ client, page }))));
  }

  async function create() {
    const client = at.get('client');
    const form = $('webhook-form');
    const secret = form.elements.secret.value.trim();
    const body = {
      url: form.elements.url.value.trim(), events: [...form.querySelectorAll('[name="event"]:checked')].map((box) => box.value), ...(secret && { secret }),
    };
    const made = await call('POST', path(client), body);
    $('webhook-dialog').close();
    showSecret('Subscription created', 'Subscription', made.id, made.secret, '');
    await again().catch(alertProblem);
  }

  // --- one subscription -------------------------------------------------------------------------

  async function test(client, s) {
    await call('POST', path(client, s.id, 'test'));
    notice(`A test is on its way to ${s.url}.`);
  }

  const change = (client, s, body) => call('PATCH', path(client, s.id), body);

  function actions(client, s) {
    const ask = (words, dialog, more = {}) => h('button', {
      type: 'button', textContent: words, 'data-keep': words, ...more,
      onclick: () => {
        acting = { client, s };
        openDialog(dialog);
      },
    });
    return [
      s.isActive ? act('Test', 'Test', () => test(client, s)) : null,
      ask('Rotate secret', 'webhook-rotate-dialog'),
      s.isActive ? act('Disable', 'Disable', () => change(client, s, { isActive: false })) : act('Enable', 'Enable', () => change(client, s, { isActive: true })),
      ask('Delete', 'webhook-delete-dialog', { className: 'danger' }),
    ].filter(Boolean);
  }

  function attemptLine(a) {
    return h('li', { value: a.attempt },
      badge(a.outcome), ` ${stamp(a.attemptedAt)}, ${a.httpStatus ? `HTTP ${a.httpStatus}` : 'no answer'}, ${seconds(a.durationMs / 1000)}`,
      a.error ? h('p', { className: 'reason', textContent: a.error }) : null);
  }

  function deliveryRow(d) {
    const history = d.attemptsHistory.length === 0 ? null
      : h('details', { 'data-keep': `attempts ${d.id}` }, h('summary', { textContent: `${d.attempts} ${d.attempts === 1 ? 'attempt' : 'attempts'}` }),
        h('ol', { className: 'attempts' }, ...d.attemptsHistory.map(attemptLine)));
    const row = h('tr', {},
      h('td', {}, h('span', { className: 'name', textContent: d.event }), h('span', { className: 'note', textContent: d.reference || d.id }),
        d.lastError && d.status !== 'Sent' ? h('p', { className: 'reason', textContent: d.lastError }) : null, history),
      h('td', {}, badge(d.status)),
      h('td', { className: 'num', 'data-label': 'HTTP', textContent: d.attemptsHistory[0]?.httpStatus ?? DASH }),
      cell('Created', time(d.createdAt)), cell('Sent', time(d.sentAt)), cell('Next attempt', time(d.nextAttemptAt)));
    row.dataset.delivery = d.id;
    return row;
  }

  function statusFilter(params, status) {
    const select = h('select', {
      id: 'webhooks-status', 'data-keep': 'status', onchange: () => { location.hash = address({ ...params, ...(select.value && { status: select.value }) }); },
    }, h('option', { value: '', textContent: t('any') }), ...STATUSES.map((s) => h('option', { textContent: s })));
    select.value = status;
    return h('div', { className: 'filter' }, h('label', { htmlFor: 'webhooks-status', textContent: t('Status') }), select);
  }

  function showSubscription([s, list]) {
    const params = { client: at.get('client'), id: s.id };
    const status = at.get('status') || '';
    const fact = (name, ...value) => h('div', {}, h('dt', { textContent: name }), h('dd', {}, ...value));
    text('webhooks-title', s.url);
    text('webhooks-note', s.id);
    replace($('webhooks-actions'), ...actions(params.client, s));
    replace($('webhooks-body'),
      h('div', { className: 'card ticket', id: 'webhooks-subscription' }, h('p', {}, badge(state(s))), ...why(s),
        h('dl', { className: 'facts wide' }, fact(t('Events'), s.events.join(', ')), fact(t('Created'), time(s.createdAt)), fact('Disabled', time(s.disabledAt)),
          fact(t('Old secret valid until'), s.previousSecretValidUntil ? stamp(s.previousSecretValidUntil) : DASH),
          fact(t('Rotates by itself'), t(s.autoRotate ? 'yes' : 'no')), fact(t('Secret in use since'), time(s.secretChangedAt)),
          fact(t('New secret waits since'), s.nextSecretAt ? time(s.nextSecretAt) : DASH))),
      h('div', { className: 'card' }, h('h2', { textContent: t('Deliveries') }), statusFilter(params, status),
        list.items.length
          ? table('Deliveries', [['Event'], ['Status'], ['HTTP', 'num'], ['Created'], ['Sent'], ['Next attempt']], list.items.map(deliveryRow))
          : h('p', { className: 'note', textContent: t('None.') }),
        pager(list, 'deliveries', (page) => address({ ...params, ...(status && { status }), page }))));
  }

  async function rotate() {
    const { client, s } = acting;
    const made = await call('POST', path(client, s.id, 'rotate-secret'));
    $('webhook-rotate-dialog').close();
    showSecret('New secret', 'Subscription', s.id, made.secret, '');
    await again().catch(alertProblem);
  }

  async function remove() {
    await call('DELETE', path(acting.client, acting.s.id));
    $('webhook-delete-dialog').close();
    location.hash = address({ client: acting.client });
  }

  // --- which ------------------------------------------------------------------------------------

  function showPlace(before) {
    const [client, id] = [at.get('client'), at.get('id')];
    const crumbs = [];
    if (client) crumbs.push(h('a', { href: '#webhooks', textContent: t('Webhooks') }));
    if (id) crumbs.push(' / ', h('a', { href: address({ client }), textContent: client }));
    $('webhooks-crumbs').replaceChildren(...crumbs);
    if (id && id === before.get('id')) return; // the filter keeps the focus
    text('webhooks-title', id || client || 'Webhooks');
    text('webhooks-note', '');
    $('webhooks-actions').replaceChildren();
    $('webhooks-body').replaceChildren();
  }

  function again() {
    const [client, id] = [at.get('client'), at.get('id')];
    const query = new URLSearchParams({ page: at.get('page') || '1', pageSize: PAGE_SIZE, ...(at.get('status') && { status: at.get('status') }) });
    if (id) {
      return look('webhooks', 'admin', () => Promise.all([call('GET', path(client, id)), call('GET', `${path(client, id, 'deliveries')}?${query}`)]), showSubscription);
    }
    if (client) return look('webhooks', 'admin', () => call('GET', `${path(client)}?${query}`), showSubscriptions);
    return look('webhooks', 'admin', () => call('GET', `admin/webhook-failures?${query}`), showFailures);
  }

  $('webhook-events').append(...EVENTS.map((event) => h('label', {},
    h('input', { type: 'checkbox', name: 'event', value: event, defaultChecked: USUAL.includes(event) }), h('span', { textContent: event }))));
  onSubmit($('webhook-form'), create);
  onSubmit($('webhook-rotate-form'), rotate);
  onSubmit($('webhook-delete-form'), remove);
  onSubmit($('webhook-replay-form'), replayAll);

  views.webhooks = {
    title: 'Webhooks · DataFlow',
    enter: (params) => {
      const before = at;
      at = params;
      showPlace(before);
      return again();
    },
    again,
  };
})();
