// Tickets: one document's phases, each with its way through the four state machines, or a page of all
// tickets in a status. The search is in the address, so that it can be kept, shared and gone back to.
'use strict';
(() => {
  const { $, DASH, Problem, alertProblem, badge, call, cell, folded, h, look, pager, replace, showFormProblem, stamp, text, time, views, t: say } = df;
  const PAGE_SIZE = 20;
  const FIELDS = ['businessEntity', 'businessDocId', 'status'];
  let asked = new URLSearchParams();

  const address = (params) => `#tickets?${new URLSearchParams(params)}`;
  const documentOf = (t) => address({ businessEntity: t.businessEntity, businessDocId: t.businessDocId });

  // --- the way of one ticket --------------------------------------------------------------------

  // The time of processing is the row's last change, which a callback is as well.
  const processedAt = (t) => (t.status === 'Awaiting' || t.updatedAt === t.callbackReceivedAt ? null : t.updatedAt);

  const UNPROCESSED = 'Waits for processing.';

  function processingNote(t) {
    if (t.status === 'Error' && !t.nextAttemptAt) return say('Not tried again: send a corrected ticket.');
    return t.status === 'Processing' ? 'Under way.' : null;
  }

  function gatewayNote(t) {
    if (t.gatewaySendStatus === 'Pending' && t.status !== 'Processed') return UNPROCESSED;
    return t.gatewaySendStatus === 'Error' && !t.gatewaySendNextAttemptAt ? 'Not tried again automatically.' : null;
  }

  function callbackNote(t) {
    if (t.callbackStatus === 'Pending') return t.gatewaySendStatus === 'Sent' ? 'Waits for the gateway’s answer.' : 'Waits for the gateway.';
    return [t.callbackCode, t.callbackMessage].filter(Boolean).join(': ');
  }

  const steps = (t) => [
    { name: 'Received', at: t.createdAt, note: t.payloadVersion > 1 ? `This is version ${t.payloadVersion} of its payload.` : null },
    {
      name: 'Processing', state: t.status, at: processedAt(t), attempts: t.attemptCount, error: t.lastError,
      next: t.status === 'Error' ? t.nextAttemptAt : null, note: processingNote(t),
    },
    {
      name: 'Return', state: t.returnStatus, at: t.returnStatus === 'Sent' ? t.returnSentAt : t.returnLastAttemptAt,
      attempts: t.returnAttemptCount, error: t.returnLastError,
      note: t.returnStatus === 'Pending' && t.status !== 'Processed' ? UNPROCESSED : null,
      link: t.returnStatus === 'Error' ? ['Failed returns', '#outbox?channel=ticket-return&status=Error'] : null,
    },
    {
      name: 'Gateway', state: t.gatewaySendStatus, at: t.gatewaySendStatus === 'Sent' ? t.gatewaySendSentAt : t.gatewaySendLastAttemptAt,
      attempts: t.gatewaySendAttemptCount, error: t.gatewaySendLastError, note: gatewayNote(t),
      next: t.gatewaySendStatus === 'Error' ? t.gatewaySendNextAttemptAt : null,
      link: t.gatewaySendAttemptCount > 0 ? ['Its attempts', `#outbox?channel=ticket-gateway&id=${t.id}`] : null,
    },
    {
      name: 'Callback', state: t.callbackStatus, at: t.callbackReceivedAt,
      error: t.callbackStatus === 'Error' ? callbackNote(t) || 'The gateway gave no reason.' : null,
      note: t.callbackStatus === 'Error' ? null : callbackNote(t),
    },
  ];

  function step(s, keep) {
    const state = s.state ? badge(s.state) : badge('Received');
    if (!s.state) state.dataset.state = 'ok';
    const item = h('li', {},
      h('div', { className: 'step' }, h('h3', { textContent: say(s.name) }), state,
        s.at ? h('span', { className: 'note' }, stamp(s.at), ' (', time(s.at), ')') : null,
        s.attempts ? h('span', { className: 'note', textContent: s.attempts === 1 ? '1 attempt' : `${s.attempts} attempts` }) : null,
        s.next ? h('span', { className: 'note' }, 'again ', time(s.next)) : null,
        s.link ? h('a', { href: s.link[1], textContent: s.link[0], 'data-keep': `${keep} ${s.name}` }) : null),
      s.error ? h('p', { className: 'reason', textContent: s.error }) : null,
      s.note ? h('p', { className: 'note', textContent: s.note }) : null);
    item.dataset.step = s.name.toLowerCase();
    item.dataset.state = state.dataset.state;
    return item;
  }

  function ticketCard(t) {
    const keep = `ticket ${t.id}`;
    const fact = (name, value) => h('div', {}, h('dt', { textContent: name }), h('dd', { textContent: value ?? DASH }));
    const card = h('article', { className: 'card ticket' },
      h('h2', { textContent: `${t.businessEntity} ${t.businessDocId}, phase ${t.phaseCode}` }),
      h('dl', { className: 'facts wide' },
        fact(say('Event'), t.shipmentEvent), fact(say('Company'), t.companyCode), fact(say('Branch'), t.branchCode), fact(say('Destination'), t.destinationCode),
        fact(say('Target'), t.targetApplicationCode), fact(say('Functional ack'), t.functionalAckIsRequired ? 'required' : 'not required')),
      h('ol', { className: 'timeline' }, ...steps(t).map((s) => step(s, keep))),
      folded(say('Payload'), t.rawPayloadJson ?? '', `${keep} payload`),
      t.callbackPayloadJson ? folded(say('Callback'), t.callbackPayloadJson, `${keep} callback`) : null);
    card.dataset.phase = t.phaseCode;
    return card;
  }

  // --- a page of tickets ------------------------------------------------------------------------

  function ticketRow(t) {
    const error = t.lastError || t.returnLastError || t.gatewaySendLastError || (t.callbackStatus === 'Error' ? t.callbackMessage : null);
    const row = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: documentOf(t), textContent: t.businessDocId, 'data-keep': `ticket ${t.id}` }),
        h('span', { className: 'note', textContent: `${t.businessEntity}, phase ${t.phaseCode}` }),
        error ? h('p', { className: 'reason', textContent: error }) : null),
      cell('Processing', badge(t.status)), cell('Return', badge(t.returnStatus)), cell('Gateway', badge(t.gatewaySendStatus)),
      cell('Callback', badge(t.callbackStatus)), cell('Received', time(t.createdAt)));
    row.dataset.doc = t.businessDocId;
    return row;
  }

  function ticketTable(list) {
    const head = ['Document', 'Processing', 'Return', 'Gateway', 'Callback', 'Received'];
    return h('div', { className: 'card' },
      h('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Tickets' },
        h('table', { className: 'stack' },
          h('thead', {}, h('tr', {}, ...head.map((words) => h('th', { scope: 'col', textContent: words })))),
          h('tbody', {}, ...list.items.map(ticketRow)))),
      pager(list, 'tickets', (page) => address([...FIELDS.filter((f) => asked.get(f)).map((f) => [f, asked.get(f)]), ['page', page]])));
  }

  // --- searching --------------------------------------------------------------------------------

  // Of one document everything comes at once; else it is a page.
  function show(found) {
    const count = found.total ?? found.items.length;
    const noun = found.total === undefined ? ['phase', 'phases'] : ['ticket', 'tickets'];
    text('tickets-found', count === 0 ? 'Nothing found.' : `${count.toLocaleString('en')} ${noun[count === 1 ? 0 : 1]} found.`);
    if (found.total === undefined) replace($('tickets-result'), ...found.items.map(ticketCard));
    else replace($('tickets-result'), ...(count ? [ticketTable(found)] : []));
  }

  const nothingAsked = () => FIELDS.every((field) => !asked.get(field));

  // Before there is anything to look for: are the credentials good?
  async function find() {
    if (nothingAsked()) {
      await call('GET', 'whoami');
      return null;
    }
    const query = new URLSearchParams(FIELDS.filter((field) => asked.get(field)).map((field) => [field, asked.get(field)]));
    if (!asked.get('businessEntity') || !asked.get('businessDocId')) {
      query.set('page', asked.get('page') || '1');
      query.set('pageSize', PAGE_SIZE);
    }
    return call('GET', `api/tickets?${query}`);
  }

  function render(found) {
    clearProblems();
    if (found) {
      show(found);
    } else {
      text('tickets-found', '');
      $('tickets-result').replaceChildren();
    }
  }

  function clearProblems() {
    $('tickets-form').querySelectorAll('.form-error, .field-error').forEach((node) => node.replaceChildren());
    $('tickets-form').querySelectorAll('[aria-invalid]').forEach((node) => node.removeAttribute('aria-invalid'));
  }

  const load = () => look('tickets', 'client', find, render);

  async function enter(params) {
    asked = params;
    for (const field of FIELDS) $('tickets-form').elements.namedItem(field).value = params.get(field) || '';
    try {
      await load();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      text('tickets-found', '');
      $('tickets-result').replaceChildren();
      if (problem.errors.length) showFormProblem($('tickets-form'), problem);
      else throw problem;
    }
  }

  $('tickets-form').addEventListener('submit', (event) => {
    event.preventDefault();
    const fields = FIELDS.map((field) => [field, event.target.elements.namedItem(field).value.trim()]).filter(([, value]) => value);
    if (location.hash === address(fields)) enter(new URLSearchParams(fields)).catch(alertProblem);
    else location.hash = address(fields);
  });

  Object.assign(df, { ticketCard });
  views.tickets = { title: 'Tickets · DataFlow', enter, again: async () => { if (!nothingAsked()) await load(); } };
})();
