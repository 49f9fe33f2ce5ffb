// Tickets of all clients, for operators: a list by filters, one ticket with all that was sent for it, and
// reprocessing one or many, with a preview.
'use strict';
(() => {
  const {
    $, DASH, Problem, alertProblem, badge, call, cell, figure, h, look, notice, onSubmit, openDialog, replace, seconds, showFormProblem, stamp, t, table, text,
    ticketCard, time, views,
  } = df;
  const PAGE_SIZE = 20;
  const FIELDS = ['clientId', 'businessEntity', 'businessDocId', 'status', 'returnStatus', 'gatewayStatus'];
  const REPROCESSED = ['clientId', 'businessEntity', 'status']; // what a reprocess of many can be filtered by
  const PREVIEW_MS = 400;
  const MOST = 10000; // tickets that one call takes, and counts
  let at = new URLSearchParams();
  let acting = null; // what the dialog is about: { id } or { filter }
  let counting = false; // one preview at a time
  let wanted = false; // another one, for what was written meanwhile

  const address = (params) => `#alltickets?${new URLSearchParams(params)}`;
  const filterOf = (fields = FIELDS) => Object.fromEntries(fields.filter((f) => at.get(f)).map((f) => [f, at.get(f)]));

  // --- the list ---------------------------------------------------------------------------------

  function ticketRow(ticket) {
    const error = ticket.lastError || ticket.returnLastError || ticket.gatewaySendLastError || (ticket.callbackStatus === 'Error' ? ticket.callbackMessage : null);
    const row = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: address({ id: ticket.id }), textContent: ticket.businessDocId, 'data-keep': `ticket ${ticket.id}` }),
        h('span', { className: 'note', textContent: `${ticket.businessEntity}, phase ${ticket.phaseCode}` }),
        error ? h('p', { className: 'reason', textContent: error }) : null),
      cell('Client', ticket.clientId || DASH),
      cell('Processing', badge(ticket.status)), cell('Return', badge(ticket.returnStatus)), cell('Gateway', badge(ticket.gatewaySendStatus)),
      cell('Callback', badge(ticket.callbackStatus)), cell('Received', time(ticket.createdAt)));
    row.dataset.ticket = ticket.id;
    return row;
  }

  function showList(list) {
    const count = list.total.toLocaleString('en');
    text('alltickets-note', t(list.totalIsEstimate ? 'about {count} tickets' : '{count} tickets', { count }));
    const others = FIELDS.some((f) => at.get(f) && !REPROCESSED.includes(f));
    replace($('alltickets-actions'), list.total > 0 && !others && Object.keys(filterOf()).length > 0 ? h('button', {
      type: 'button', id: 'alltickets-reprocess', textContent: t('Reprocess…'), 'data-keep': 'reprocess', onclick: openMany,
    }) : '');
    replace($('alltickets-body'), h('div', { className: 'card' }, list.items.length
      ? table('Tickets', [['Document'], ['Client'], ['Processing'], ['Return'], ['Gateway'], ['Callback'], ['Received']], list.items.map(ticketRow))
      : h('p', { className: 'note', textContent: t('None.') }),
    h('div', { className: 'pager' },
      at.get('after') ? h('a', { className: 'button', href: address(filterOf()), textContent: t('Previous'), 'data-keep': 'first' }) : null,
      list.next ? h('a', { className: 'button', href: address({ ...filterOf(), after: list.next }), textContent: t('Next'), 'data-keep': 'next' }) : null)));
  }

  // --- one ticket -------------------------------------------------------------------------------

  function sendingRow(channel, sending) {
    return h('tr', {},
      h('td', {}, h('a', { className: 'name', href: `#outbox?${new URLSearchParams({ channel, id: sending.id })}`, textContent: `${channel} ${sending.id}`, 'data-keep': `${channel} ${sending.id}` }),
        sending.lastError ? h('p', { className: 'reason', textContent: sending.lastError }) : null),
      h('td', {}, badge(sending.status)), figure('Tries', Math.max(sending.tryCount, sending.attemptCount)), cell('Created', time(sending.createdAt)), cell('At', time(sending.sentAt || sending.lastAttemptAt)));
  }

  function sendingsCard(title, channel, sendings) {
    return h('div', { className: 'card' }, h('h2', { textContent: t(title) }), sendings.length
      ? table(title, [['Channel'], ['Status'], ['Tries', 'num'], ['Created'], ['At']], sendings.map((sending) => sendingRow(channel, sending)))
      : h('p', { className: 'note', textContent: t('None yet.') }));
  }

  function attemptRow(a) {
    return h('tr', {},
      cell('Channel', a.channel), cell('Outcome', badge(a.outcome)), cell('At', stamp(a.attemptedAt)),
      h('td', { className: 'num', 'data-label': 'HTTP', textContent: a.httpStatus ?? DASH }),
      h('td', { className: 'num', 'data-label': t('Took'), textContent: seconds(a.durationMs / 1000) }),
      h('td', {}, a.error ? h('p', { className: 'reason', textContent: a.error }) : null, a.answer ? h('code', { className: 'answer', textContent: a.answer }) : null));
  }

  function showTicket(ticket) {
    text('alltickets-title', `${ticket.businessEntity} ${ticket.businessDocId}`);
    text('alltickets-note', ticket.clientId ? t('of {client}', { client: ticket.clientId }) : '');
    replace($('alltickets-actions'), h('button', {
      type: 'button', id: 'alltickets-reprocess', textContent: t('Reprocess…'), 'data-keep': 'reprocess', onclick: () => openOne(ticket),
    }));
    replace($('alltickets-body'), ticketCard(ticket), df.timelineCard('ticket', ticket.id), sendingsCard('Returns', 'ticket-return', ticket.returns), sendingsCard('Functional acks', 'functional-ack', ticket.acks),
      h('div', { className: 'card' }, h('h2', { textContent: t('Attempts') }), ticket.attempts.length
        ? table('Attempts', [['Channel'], ['Outcome'], ['At'], ['HTTP', 'num'], ['Took', 'num'], ['Last error']], ticket.attempts.map(attemptRow))
        : h('p', { className: 'note', textContent: t('None yet.') })));
  }

  // --- reprocessing -----------------------------------------------------------------------------

  function openOne(ticket) {
    acting = { id: ticket.id };
    text('reprocess-title', t('Reprocess the ticket'));
    text('reprocess-text', `${ticket.businessEntity} ${ticket.businessDocId}, phase ${ticket.phaseCode}`);
    $('reprocess-error-field').hidden = true;
    $('reprocess-submit').disabled = false;
    openDialog('reprocess-dialog');
  }

  function openMany() {
    acting = { filter: filterOf(REPROCESSED) };
    text('reprocess-title', t('Reprocess tickets'));
    $('reprocess-error-field').hidden = false;
    $('reprocess-error').value = '';
    openDialog('reprocess-dialog');
    preview();
  }

  const manyBody = () => ({ ...acting.filter, ...($('reprocess-error').value.trim() && { error: $('reprocess-error').value.trim() }) });

  function showPreview(matched) {
    const count = Math.min(matched, MOST).toLocaleString('en');
    text('reprocess-text', t(matched > MOST ? 'More than {count} tickets match; the oldest {count} start over.' : '{count} tickets match and start over.', { count }));
    $('reprocess-submit').disabled = matched === 0;
  }

  async function previewOnce() {
    const mine = acting;
    const body = manyBody();
    const isStale = () => acting !== mine || JSON.stringify(manyBody()) !== JSON.stringify(body);
    try {
      const { matched } = await call('POST', 'admin/tickets/reprocess', { ...body, dryRun: true });
      if (!isStale()) showPreview(matched);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (!isStale()) showFormProblem($('reprocess-form'), problem);
    }
  }

  // How many it would be, while the filter is written. The next one waits for the answer of the one before.
  async function preview() {
    wanted = true;
    text('reprocess-text', t('Counting…'));
    $('reprocess-submit').disabled = true;
    if (counting) return;
    counting = true;
    try {
      while (wanted && acting.filter) {
        wanted = false;
        await previewOnce();
      }
    } finally {
      counting = false;
    }
  }

  async function reprocess() {
    if (acting.id) {
      await call('POST', `admin/tickets/${acting.id}/reprocess`);
      $('reprocess-dialog').close();
      notice(t('The ticket starts over.'));
    } else {
      const { matched, reprocessed, left } = await call('POST', 'admin/tickets/reprocess', manyBody());
      $('reprocess-dialog').close();
      const more = matched > MOST ? t('More are left: reprocess again.') : t('{count} are left: reprocess again.', { count: left.toLocaleString('en') });
      notice(`${t('{count} tickets start over.', { count: reprocessed.toLocaleString('en') })}${left ? ` ${more}` : ''}`);
    }
    await again().catch(alertProblem);
  }

  // --- which ------------------------------------------------------------------------------------

  function again() {
    if (at.get('id')) return look('alltickets', 'admin', () => call('GET', `admin/tickets/${encodeURIComponent(at.get('id'))}`), showTicket);
    const query = new URLSearchParams({ pageSize: PAGE_SIZE, ...filterOf(), ...(at.get('after') && { after: at.get('after') }) });
    return look('alltickets', 'admin', () => call('GET', `admin/tickets?${query}`), showList);
  }

  function clearProblems() {
    $('alltickets-form').querySelectorAll('.form-error, .field-error').forEach((node) => node.replaceChildren());
    $('alltickets-form').querySelectorAll('[aria-invalid]').forEach((node) => node.removeAttribute('aria-invalid'));
  }

  async function enter(params) {
    const id = params.get('id');
    at = params;
    clearProblems();
    $('alltickets-form').hidden = Boolean(id);
    $('alltickets-crumbs').replaceChildren(...(id ? [h('a', { href: '#alltickets', textContent: t('All tickets') })] : []));
    text('alltickets-title', t('All tickets'));
    text('alltickets-note', '');
    $('alltickets-actions').replaceChildren();
    $('alltickets-body').replaceChildren();
    for (const field of FIELDS) $('alltickets-form').elements.namedItem(field).value = params.get(field) || '';
    try {
      await again();
    } catch (problem) {
      if (!(problem instanceof Problem) || !problem.errors.length) throw problem;
      showFormProblem($('alltickets-form'), problem);
    }
  }

  $('alltickets-form').addEventListener('submit', (event) => {
    event.preventDefault();
    location.hash = address(FIELDS.map((field) => [field, event.target.elements.namedItem(field).value.trim()]).filter(([, value]) => value));
  });
  let timer = 0;
  $('reprocess-error').addEventListener('input', () => {
    clearTimeout(timer);
    $('reprocess-submit').disabled = true;
    timer = setTimeout(() => acting.filter && preview(), PREVIEW_MS);
  });
  onSubmit($('reprocess-form'), reprocess);

  views.alltickets = { title: 'Tickets · DataFlow', enter, again };
})();
