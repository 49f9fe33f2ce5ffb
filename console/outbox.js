// Outboxes: all channels and the circuit breakers, the rows of one channel by a filter, one row with its
// attempts; trying again, pausing and resuming. Which of them is in the address, with the filter.
'use strict';
(() => {
  const {
    $, DASH, alertProblem, badge, call, cell, duration, figure, folded, h, look, notice, onSubmit, openDialog, pager, replace, seconds, stamp, t, table, text,
    time, views,
  } = df;
  const PAGE_SIZE = 20;
  // The first of a channel's states is of what waits, the last of what failed.
  const STATUSES = ['Pending', 'Sending', 'Sent', 'Error'];
  const EVENTS = ['PENDING', 'PROCESSED', 'FAILED'];
  const statusesOf = (channel) => (channel === 'events' ? EVENTS : STATUSES);
  const failedOf = (channel) => statusesOf(channel).at(-1);
  let at = new URLSearchParams();
  const FIELDS = ['status', 'target', 'error', 'since'];
  let acting = null; // what the dialog is about: a channel, and the filter

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
      type: 'button', textContent: t('Retry'), 'aria-label': `Retry ${row.reference || row.id}`, 'data-keep': `retry ${row.id}`,
      onclick: () => retryOne(channel, row.id, button),
    });
    return button;
  }

  // Of what was given up: nobody wants it any more, and it goes with what was sent.
  function dismissButton(channel, row) {
    const button = h('button', {
      type: 'button', textContent: t('Dismiss'), 'aria-label': t('Dismiss {what}', { what: row.reference || row.id }), 'data-keep': `dismiss ${row.id}`,
      onclick: async () => {
        button.disabled = true;
        try {
          await call('POST', path(channel, row.id, 'dismiss'));
          notice(t('{what} is dismissed: it counts as given up no longer.', { what: `${channel} ${row.id}` }));
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

  function retryAllButton(channel, count) {
    return h('button', {
      type: 'button', textContent: t('Retry all'), 'aria-label': `Retry all of ${channel} in ${failedOf(channel)}`, 'data-keep': `retry all ${channel}`,
      onclick: () => {
        acting = { channel, filter: { status: failedOf(channel) } };
        text('retry-title', `Retry all of ${channel}`);
        $('retry-submit').disabled = false;
        text('retry-submit', t('Retry all'));
        text('retry-text', `${count === 1 ? 'The row' : `All ${count.toLocaleString('en')} rows`} of ${channel} in ${failedOf(channel)} and any that fail meanwhile `
          + 'will be sent again, with all their attempts.');
        openDialog('retry-dialog');
      },
    });
  }

  // By the filter of the page: first how many rows it means.
  async function openRetryThese(channel, filter) {
    acting = { channel, filter };
    text('retry-title', t('Retry rows of {channel}', { channel }));
    text('retry-text', t('Counting…'));
    text('retry-submit', t('Retry'));
    $('retry-submit').disabled = true;
    openDialog('retry-dialog');
    try {
      const { matched } = await call('POST', path(channel, 'retry'), { ...filter, dryRun: true });
      text('retry-text', matched === 0 ? t('No row matches this filter.')
        : t('{count} rows of {channel} match this filter and will be sent again, with all their attempts.', { count: matched.toLocaleString('en'), channel }));
      $('retry-submit').disabled = matched === 0;
    } catch (problem) {
      $('retry-dialog').close();
      alertProblem(problem);
    }
  }

  async function retryAll() {
    const { channel, filter } = acting;
    const { retried, left } = await call('POST', path(channel, 'retry'), filter);
    $('retry-dialog').close();
    notice(retried === 0 ? `No row of ${channel} is in ${failedOf(channel)} any more.`
      : `${retried.toLocaleString('en')} ${retried === 1 ? 'row' : 'rows'} of ${channel} ${retried === 1 ? 'is' : 'are'} to be sent again.`
        + (left ? ` ${t('{count} are left: retry again.', { count: left.toLocaleString('en') })}` : ''));
    await again().catch(alertProblem);
  }

  // --- pausing ----------------------------------------------------------------------------------

  async function setPause(channel, target, pause, button) {
    const what = target ? `${channel} ${target}` : channel;
    button.disabled = true;
    try {
      await call('POST', path(channel, pause ? 'pause' : 'resume'), target ? { target } : {});
      notice(t(pause ? '{what} is paused: nothing is sent until it is resumed.' : '{what} goes on.', { what }));
      await again();
    } catch (problem) {
      alertProblem(problem);
    } finally {
      button.disabled = false;
    }
  }

  function pauseButton(channel, target, paused) {
    const words = paused ? 'Resume' : 'Pause';
    const button = h('button', {
      type: 'button', textContent: t(target ? words : `${words} channel`), 'aria-label': `${t(words)} ${target || channel}`, 'data-keep': `pause ${target || channel}`,
      onclick: () => setPause(channel, target, !paused, button),
    });
    return button;
  }

  function targetRow(channel, target) {
    const row = h('tr', {},
      h('td', {}, h('span', { className: 'name', textContent: target.target }), target.lastError && target.state === 'down' ? h('p', { className: 'reason', textContent: target.lastError }) : null),
      h('td', {}, badge(target.state), target.pausedBy ? h('p', { className: 'note', textContent: t('by {who}', { who: target.pausedBy }) }) : null),
      cell('Since', time(target.paused ? target.pausedAt : target.downSince)),
      figure('Arrived', target.arrived ?? 0),
      h('td', {}, h('div', { className: 'row-actions' }, pauseButton(channel, target.target, target.paused))));
    row.dataset.target = target.target;
    return row;
  }

  // The targets of a channel, and the channel as a whole.
  function targetsCard(c) {
    const card = h('div', { className: 'card' },
      h('div', { className: 'heading' }, h('h2', { textContent: t('Targets') }), h('div', { className: 'row-actions' }, pauseButton(c.channel, '', c.paused))),
      c.paused ? h('p', { className: 'banner', textContent: t('The channel is paused: nothing is sent until it is resumed.') }) : null,
      c.targets.length
        ? table('Targets', [['Target'], ['State'], ['Since'], ['Arrived', 'num'], ['Actions', 'sr']], c.targets.map((target) => targetRow(c.channel, target)))
        : h('p', { className: 'note', textContent: t('None yet.') }));
    card.id = 'outbox-targets';
    return card;
  }

  // --- all channels -----------------------------------------------------------------------------

  function givenUpCell(c) {
    return h('td', { className: 'num', 'data-label': t('Given up') }, h('a', {
      href: address({ channel: c.channel, status: 'GivenUp' }), textContent: c.givenUp.toLocaleString('en'), 'data-keep': `${c.channel} given up`,
      'aria-label': `${c.givenUp} given up of ${c.channel}`, className: c.givenUp > 0 ? 'some' : '',
    }));
  }

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
        c.configured ? null : h('p', { className: 'note' }, 'Not sent: ', h('code', { textContent: c.missing }), ' is not set.'),
        c.paused ? badge('Paused', t('Paused')) : null),
      ...statusesOf(c.channel).map(count),
      figure('Held', c.held), givenUpCell(c),
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
    text('outbox-note', t('Deliveries that wait, that were sent, and that failed.'));
    $('outbox-actions').replaceChildren();
    const channels = (label, statuses) => h('div', { className: 'card' },
      table(label, [['Channel'], ...statuses.map((s) => [s, 'num']), ['Held', 'num'], ['Given up', 'num'], ['Oldest pending'], ['Actions', 'sr']],
        outbox.channels.filter((c) => statusesOf(c.channel) === statuses).map(channelRow)));
    replace($('outbox-body'),
      channels('Channels', STATUSES), channels('Events', EVENTS),
      h('div', { className: 'card' }, h('h2', { textContent: t('Circuit breakers') }),
        breakers.items.length
          ? table('Circuit breakers', [['Destination'], ['State'], ['Since'], ['Failed', 'num'], ['Failure rate', 'num'], ['Slow rate', 'num'],
            ['Not permitted', 'num'], ['Last failure']], breakers.items.map(breakerRow))
          : h('p', { className: 'note', textContent: t('This process has made no calls yet.') })));
  }

  // --- one channel ------------------------------------------------------------------------------

  function outboxRow(channel, row) {
    const node = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: address({ channel, id: row.id }), textContent: row.reference || row.id, 'data-keep': `row ${row.id}` }),
        h('span', { className: 'note', textContent: row.id }),
        row.heldFor ? h('p', { className: 'note', textContent: t('waits for {target}', { target: row.heldFor }) }) : null,
        row.lastError ? h('p', { className: 'reason', textContent: row.lastError }) : null),
      h('td', {}, row.givenUp ? badge('Given up', t('Given up')) : badge(row.status), row.dismissedAt ? h('p', { className: 'note', textContent: t('dismissed') }) : null),
      figure('Tries', Math.max(row.tries, row.attempts)),
      cell('Created', time(row.createdAt)), cell('Last attempt', time(row.lastAttemptAt)), cell('Next attempt', time(row.nextAttemptAt)),
      h('td', {}, h('div', { className: 'row-actions' }, row.status === failedOf(channel) ? retryButton(channel, row) : null,
        row.givenUp ? dismissButton(channel, row) : null)));
    node.dataset.row = row.id;
    return node;
  }

  // What the address says, without what is empty.
  const filterOf = () => Object.fromEntries(FIELDS.filter((f) => at.get(f)).map((f) => [f, at.get(f)]));

  // The status is looked at as soon as it is chosen; the rest when it is applied.
  function filterForm(channel) {
    const field = (name, label, props) => {
      const input = h('input', { id: `outbox-${name}`, name, autocomplete: 'off', spellcheck: false, 'data-keep': name, value: at.get(name) || '', ...props });
      return h('div', {}, h('label', { htmlFor: input.id, textContent: t(label) }), input);
    };
    const select = h('select', { id: 'outbox-status', name: 'status', 'data-keep': 'status', onchange: () => { location.hash = address({ channel, ...values() }); } },
      h('option', { value: '', textContent: t('any') }), ...statusesOf(channel).map((s) => h('option', { textContent: s })), h('option', { value: 'GivenUp', textContent: t('Given up') }));
    select.value = at.get('status') || '';
    const form = h('form', {
      className: 'search outbox-filter', role: 'search', 'aria-label': `Rows of ${channel}`, onsubmit: (event) => {
        event.preventDefault();
        location.hash = address({ channel, ...values() });
      },
    }, h('div', {}, h('label', { htmlFor: 'outbox-status', textContent: t('Status') }), select), field('target', 'Target', {}), field('error', 'Error contains', { maxLength: 200 }),
    field('since', 'Tried since', { placeholder: '2026-11-15T00:00:00Z' }), h('button', { type: 'submit', textContent: t('Apply'), 'data-keep': 'apply' }));
    function values() {
      return Object.fromEntries(FIELDS.map((f) => [f, form.elements.namedItem(f).value.trim()]).filter(([, value]) => value));
    }
    return form;
  }

  // A retry takes what failed, whatever the status of the page is.
  function retryThese(channel) {
    const { target, error, since } = filterOf();
    if (!target && !error && !since) return '';
    return h('button', {
      type: 'button', id: 'outbox-retry-these', textContent: t('Retry these…'), 'data-keep': 'retry these',
      onclick: () => openRetryThese(channel, { ...(target && { target }), ...(error && { error }), ...(since && { since }) }),
    });
  }

  // While somebody fills in the filter, it stays as it is.
  const isFilling = () => document.activeElement?.matches?.('.outbox-filter input') ?? false;

  function showRows([list, overview]) {
    const channel = at.get('channel');
    const { status = '' } = filterOf();
    const c = overview.channels.find((one) => one.channel === channel);
    text('outbox-note', `${list.total.toLocaleString('en')} ${list.total === 1 ? 'row' : 'rows'}${status && ` in ${status}`}.`);
    replace($('outbox-actions'), status === failedOf(channel) && list.total > 0 && !retryThese(channel) ? retryAllButton(channel, list.total) : '', retryThese(channel));
    const rows = h('div', { id: 'outbox-rows' }, list.items.length
      ? table(`Rows of ${channel}`, [['Reference'], ['Status'], ['Tries', 'num'], ['Created'], ['Last attempt'], ['Next attempt'], ['Actions', 'sr']],
        list.items.map((row) => outboxRow(channel, row)))
      : h('p', { className: 'note', textContent: t('None.') }),
    pager(list, 'rows', (page) => address({ channel, ...filterOf(), page })));
    if (isFilling() && $('outbox-rows')) {
      replace($('outbox-rows'), ...rows.childNodes);
      return;
    }
    replace($('outbox-body'), h('div', { className: 'card' }, filterForm(channel), rows), ...(c ? [targetsCard(c)] : []));
  }

  // The channels whose rows have a time line.
  const KIND_OF = { 'ticket-gateway': 'ticket', 'ticket-return': 'return', 'functional-ack': 'ack', webhooks: 'webhook', events: 'event', integrations: 'integration' };

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
    replace($('outbox-actions'), row.status === failedOf(channel) ? retryButton(channel, row) : '', row.givenUp ? dismissButton(channel, row) : '');
    replace($('outbox-body'),
      h('div', { className: 'card ticket', id: 'outbox-row' },
        h('p', {}, badge(row.status), row.givenUp ? badge('Given up', t('Given up')) : null),
        row.lastError ? h('p', { className: 'reason', textContent: row.lastError }) : null,
        h('dl', { className: 'facts wide' },
          fact(t('Tries'), String(Math.max(row.tries, row.attempts))), fact(...(channel === 'events' ? ['Correlation ID', row.correlationId || DASH] : ['To', row.targetUrl || DASH])), fact(t('Created'), ...instant(row.createdAt)),
          fact(t('Last attempt'), ...instant(row.lastAttemptAt)), fact('Sent', ...instant(row.sentAt)), fact(t('Next attempt'), ...instant(row.nextAttemptAt))),
        folded(t('Payload'), row.payload ?? '', 'payload')),
      KIND_OF[channel] ? df.timelineCard(KIND_OF[channel], row.id) : '',
      h('div', { className: 'card' }, h('h2', { textContent: t('Attempts') }),
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
    if (channel) crumbs.push(h('a', { href: '#outbox', textContent: t('Outboxes') }));
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
      const query = new URLSearchParams({ page: at.get('page') || '1', pageSize: PAGE_SIZE, ...filterOf() });
      return look('outbox', 'admin', () => Promise.all([call('GET', `${path(channel)}?${query}`), call('GET', 'admin/outbox')]), showRows);
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
