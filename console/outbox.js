// Outboxes: all channels and the circuit breakers, the rows of one channel, one row with its attempts.
// Which of them is in the address.
'use strict';
(() => {
  const {
    $, DASH, alertProblem, badge, call, cell, duration, figure, folded, h, look, notice, onSubmit, openDialog, pager, replace, seconds, stamp, table, text,
    time, views,
  } = df;
  const PAGE_SIZE = 20;
  // The first of a channel's states is of what waits, the last of what failed.
  const STATUSES = ['Pending', 'Sending', 'Sent', 'Error'];
  const EVENTS = ['PENDING', 'PROCESSED', 'FAILED'];
  const statusesOf = (channel) => (channel === 'events' ? EVENTS : STATUSES);
  const failedOf = (channel) => statusesOf(channel).at(-1);
  let at = new URLSearchParams();
  let acting = null; // the channel whose rows are to be retried

  const address = (params) => `#outbox?${new URLSearchParams(params)}`;
  const path = (...parts) => ['admin/outbox', ...parts.map(encodeURIComponent)].join('/');

  // --- trying again -----------------------------------------------------------------------------

  async function retryOne(channel, id, button) {
    button.disabled = true;
    try {
      await call('POST', path(channel, id, 'retry'));
      notice(`${channel} ${id} is to be sent again.`);
      await again();
    } catch (problem) {
      alertProblem(problem);
    } finally {
      button.disabled = false;
    }
  }

  function retryButton(channel, row) {
    const button = h('button', {
      type: 'button', textContent: 'Retry', 'aria-label': `Retry ${row.reference || row.id}`, 'data-keep': `retry ${row.id}`,
      onclick: () => retryOne(channel, row.id, button),
    });
    return button;
  }

  function retryAllButton(channel, count) {
    return h('button', {
      type: 'button', textContent: 'Retry all', 'aria-label': `Retry all of ${channel} in ${failedOf(channel)}`, 'data-keep': `retry all ${channel}`,
      onclick: () => {
        acting = channel;
        text('retry-title', `Retry all of ${channel}`);
        text('retry-text', `${count === 1 ? 'The row' : `All ${count.toLocaleString('en')} rows`} of ${channel} in ${failedOf(channel)} and any that fail meanwhile `
          + 'will be sent again, with all their attempts.');
        openDialog('retry-dialog');
      },
    });
  }

  async function retryAll() {
    const { retried } = await call('POST', path(acting, 'retry'), { status: failedOf(acting) });
    $('retry-dialog').close();
    notice(retried === 0 ? `No row of ${acting} is in ${failedOf(acting)} any more.`
      : `${retried.toLocaleString('en')} ${retried === 1 ? 'row' : 'rows'} of ${acting} ${retried === 1 ? 'is' : 'are'} to be sent again.`);
    await again().catch(alertProblem);
  }

  // --- all channels -----------------------------------------------------------------------------

  function channelRow(c) {
    const failed = failedOf(c.channel);
    const count = (status) => {
      const link = h('a', {
        href: address({ channel: c.channel, status }), textContent: c.counts[status].toLocaleString('en'), 'data-keep': `${c.channel} ${status}`,
        'aria-label': `${c.counts[status]} ${status} of ${c.channel}`, className: status === failed && c.counts[status] > 0 ? 'some' : '',
      });
      return h('td', { className: 'num', 'data-label': status }, link);
    };
    const row = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: address({ channel: c.channel }), textContent: c.channel, 'data-keep': c.channel }),
        c.configured ? null : h('p', { className: 'note' }, 'Not sent: ', h('code', { textContent: c.missing }), ' is not set.')),
      ...statusesOf(c.channel).map(count),
      cell('Oldest pending', time(c.oldestPendingAt)),
      h('td', {}, h('div', { className: 'row-actions' }, c.counts[failed] > 0 ? retryAllButton(c.channel, c.counts[failed]) : null)));
    row.dataset.channel = c.channel;
    return row;
  }

  const rate = (value) => (value === null ? DASH : `${Math.round(value)} %`);

  function breakerRow(b) {
    const row = h('tr', {},
      h('td', {}, h('span', { className: 'name', textContent: b.name })),
      h('td', {}, badge(b.state), b.retryMs > 0 ? h('p', { className: 'note', textContent: `probe in ${duration(Math.ceil(b.retryMs / 1000))}` }) : null),
      cell('Since', time(b.since)),
      h('td', { className: 'num', 'data-label': 'Failed', textContent: `${b.failed} of ${b.calls}` }),
      h('td', { className: 'num', 'data-label': 'Failure rate', textContent: rate(b.failureRate) }),
      h('td', { className: 'num', 'data-label': 'Slow rate', textContent: rate(b.slowRate) }),
      figure('Not permitted', b.notPermitted),
      cell('Last failure', time(b.lastFailureAt)));
    row.dataset.breaker = b.name;
    return row;
  }

  function showChannels([outbox, breakers]) {
    text('outbox-note', 'Deliveries that wait, that were sent, and that failed.');
    $('outbox-actions').replaceChildren();
    const channels = (label, statuses) => h('div', { className: 'card' },
      table(label, [['Channel'], ...statuses.map((s) => [s, 'num']), ['Oldest pending'], ['Actions', 'sr']],
        outbox.channels.filter((c) => statusesOf(c.channel) === statuses).map(channelRow)));
    replace($('outbox-body'),
      channels('Channels', STATUSES), channels('Events', EVENTS),
      h('div', { className: 'card' }, h('h2', { textContent: 'Circuit breakers' }),
        breakers.items.length
          ? table('Circuit breakers', [['Destination'], ['State'], ['Since'], ['Failed', 'num'], ['Failure rate', 'num'], ['Slow rate', 'num'],
            ['Not permitted', 'num'], ['Last failure']], breakers.items.map(breakerRow))
          : h('p', { className: 'note', textContent: 'This process has made no calls yet.' })));
  }

  // --- one channel ------------------------------------------------------------------------------

  function outboxRow(channel, row) {
    const node = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: address({ channel, id: row.id }), textContent: row.reference || row.id, 'data-keep': `row ${row.id}` }),
        h('span', { className: 'note', textContent: row.id }),
        row.lastError ? h('p', { className: 'reason', textContent: row.lastError }) : null),
      h('td', {}, badge(row.status)),
      figure('Attempts', row.attempts),
      cell('Created', time(row.createdAt)), cell('Last attempt', time(row.lastAttemptAt)), cell('Next attempt', time(row.nextAttemptAt)),
      h('td', {}, h('div', { className: 'row-actions' }, row.status === failedOf(channel) ? retryButton(channel, row) : null)));
    node.dataset.row = row.id;
    return node;
  }

  function statusFilter(channel, status) {
    const select = h('select', {
      id: 'outbox-status', 'data-keep': 'status',
      onchange: () => { location.hash = address({ channel, ...(select.value && { status: select.value }) }); },
    }, h('option', { value: '', textContent: 'any' }), ...statusesOf(channel).map((s) => h('option', { textContent: s })));
    select.value = status;
    return h('div', { className: 'filter' }, h('label', { htmlFor: 'outbox-status', textContent: 'Status' }), select);
  }

  function showRows(list) {
    const channel = at.get('channel');
    const status = at.get('status') || '';
    text('outbox-note', `${list.total.toLocaleString('en')} ${list.total === 1 ? 'row' : 'rows'}${status && ` in ${status}`}.`);
    replace($('outbox-actions'), status === failedOf(channel) && list.total > 0 ? retryAllButton(channel, list.total) : '');
    replace($('outbox-body'), h('div', { className: 'card' }, statusFilter(channel, status),
      list.items.length
        ? table(`Rows of ${channel}`, [['Reference'], ['Status'], ['Attempts', 'num'], ['Created'], ['Last attempt'], ['Next attempt'], ['Actions', 'sr']],
          list.items.map((row) => outboxRow(channel, row)))
        : h('p', { className: 'note', textContent: 'None.' }),
      pager(list, 'rows', (page) => address({ channel, ...(status && { status }), page }))));
  }

  // --- one row ----------------------------------------------------------------------------------

  function attemptRow(a) {
    return h('tr', {},
      figure('Attempt', a.attempt), cell('', badge(a.outcome)), cell('At', stamp(a.attemptedAt)),
      h('td', { className: 'num', 'data-label': 'HTTP', textContent: a.httpStatus ?? DASH }),
      h('td', { className: 'num', 'data-label': 'Took', textContent: seconds(a.durationMs / 1000) }),
      h('td', {}, a.error ? h('p', { className: 'reason', textContent: a.error }) : null,
        a.answer ? h('code', { className: 'answer', textContent: a.answer }) : null));
  }

  function showRow(row) {
    const channel = at.get('channel');
    const fact = (name, ...value) => h('div', {}, h('dt', { textContent: name }), h('dd', {}, ...value));
    const instant = (iso) => (iso ? [stamp(iso), ' (', time(iso), ')'] : [DASH]);
    text('outbox-note', `${row.reference || ''}`);
    replace($('outbox-actions'), row.status === failedOf(channel) ? retryButton(channel, row) : '');
    replace($('outbox-body'),
      h('div', { className: 'card ticket', id: 'outbox-row' },
        h('p', {}, badge(row.status)),
        row.lastError ? h('p', { className: 'reason', textContent: row.lastError }) : null,
        h('dl', { className: 'facts wide' },
          fact('Attempts', String(row.attempts)), fact(...(channel === 'events' ? ['Correlation ID', row.correlationId || DASH] : ['To', row.targetUrl || DASH])), fact('Created', ...instant(row.createdAt)),
          fact('Last attempt', ...instant(row.lastAttemptAt)), fact('Sent', ...instant(row.sentAt)), fact('Next attempt', ...instant(row.nextAttemptAt))),
        folded('Payload', row.payload ?? '', 'payload')),
      h('div', { className: 'card' }, h('h2', { textContent: 'Attempts' }),
        row.attemptsHistory.length
          ? table('Attempts', [['Attempt', 'num'], ['Outcome'], ['At'], ['HTTP', 'num'], ['Took', 'num'], ['Outcome']],
            row.attemptsHistory.map(attemptRow))
          : h('p', { className: 'note', textContent: channel === 'events' ? 'For events only the number of attempts is kept; the log has each attempt.' : 'None yet.' })));
  }

  // --- which ------------------------------------------------------------------------------------

  // What stands stays until the new rows come, if it is the same list: the filter keeps the focus.
  function showPlace(before) {
    const channel = at.get('channel');
    const id = at.get('id');
    const crumbs = [];
    if (channel) crumbs.push(h('a', { href: '#outbox', textContent: 'Outboxes' }));
    if (id) crumbs.push(' / ', h('a', { href: address({ channel }), textContent: channel }));
    $('outbox-crumbs').replaceChildren(...crumbs);
    text('outbox-title', id ? `${channel} ${id}` : channel || 'Outboxes');
    if (channel && channel === before.get('channel') && !id && !before.get('id')) return;
    text('outbox-note', '');
    $('outbox-actions').replaceChildren();
    $('outbox-body').replaceChildren();
  }

  function again() {
    const channel = at.get('channel');
    if (channel && at.get('id')) return look('outbox', 'admin', () => call('GET', path(channel, at.get('id'))), showRow);
    if (channel) {
      const query = new URLSearchParams({ page: at.get('page') || '1', pageSize: PAGE_SIZE, ...(at.get('status') && { status: at.get('status') }) });
      return look('outbox', 'admin', () => call('GET', `${path(channel)}?${query}`), showRows);
    }
    return look('outbox', 'admin', () => Promise.all([call('GET', 'admin/outbox'), call('GET', 'admin/circuit-breakers')]), showChannels);
  }

  onSubmit($('retry-form'), retryAll);

  views.outbox = {
    title: 'Outboxes · DataFlow',
    enter: (params) => {
      const before = at;
      at = params;
      showPlace(before);
      return again();
    },
    again,
  };
})();
