// What needs a person, on the first page: what was given up, by channel and target, what is down or paused and
// since when, what has waited for long, and what to do about each.
'use strict';
(() => {
  const { $, DASH, Problem, alertProblem, badge, call, cell, h, key, replace, t, table, time } = df;
  const EVERY_MS = 6000;
  const SHARE = 20; // looking may take one part in so many of the time: counting large tables takes a while
  const OLD_MS = 5 * 60 * 1000; // what waits longer than this is shown, and an import that waits for OmniFlow at once
  const SHOWN = 8; // batches
  let next = 0;
  let refused = null; // a key that is none
  let said = '';

  const outboxOf = (params) => `#outbox?${new URLSearchParams(params)}`;
  const figure = (n) => n.toLocaleString('en');
  const isOld = (iso) => iso && Date.now() - Date.parse(iso) > OLD_MS;

  // A line: what it is, where, since when, what to do, and the way there.
  function line({ state, what, where, note, reason, since, advice, link, button, name }) {
    const row = h('tr', {},
      cell('What', badge(state, t(state)), h('p', { className: 'note', textContent: what })),
      h('td', { 'data-label': t('Where') }, h('span', { className: 'name', textContent: where || DASH }), note ? h('span', { className: 'note', textContent: note }) : null,
        reason ? h('p', { className: 'reason', textContent: reason }) : null),
      cell('Since', time(since)),
      h('td', { 'data-label': t('What to do') }, h('p', { className: 'note', textContent: advice }),
        h('div', { className: 'row-actions' }, link ? h('a', { className: 'button', href: link[1], textContent: t(link[0]), 'aria-label': `${t(link[0])}: ${where || what}`, 'data-keep': `${name} link` }) : null, button)));
    row.dataset.stuck = name;
    return row;
  }

  async function setPause(channel, target, verb, button) {
    button.disabled = true;
    try {
      await call('POST', `admin/outbox/${encodeURIComponent(channel)}/${verb}`, target ? { target } : {});
      next = 0;
      await lookAtStuck();
    } catch (problem) {
      alertProblem(problem);
    } finally {
      button.disabled = false;
    }
  }

  function pauseButton(channel, target, verb) {
    const words = verb === 'pause' ? 'Pause' : 'Resume';
    const button = h('button', {
      type: 'button', textContent: t(words), 'aria-label': `${t(words)} ${target || channel}`, 'data-keep': `${words} ${channel} ${target}`, onclick: () => setPause(channel, target, verb, button),
    });
    return button;
  }

  function givenUpLine(channel, given) {
    return line({
      state: 'Given up', what: t('{count} of {channel}', { count: figure(given.count), channel }), where: given.target, since: given.since, advice: t('Mend the cause, then retry.'),
      link: ['Look and retry', outboxOf({ channel, status: 'GivenUp', ...(given.target && { target: given.target }) })], name: `given-up ${channel} ${given.target ?? ''}`,
    });
  }

  function targetLine(channel, target, held) {
    const paused = target.state === 'paused';
    return line({
      state: paused ? 'Paused' : 'Down', what: channel, where: target.target, since: paused ? target.pausedAt : target.downSince,
      note: [paused && target.pausedBy ? t('by {who}', { who: target.pausedBy }) : '', held ? t('{count} wait', { count: figure(held) }) : ''].filter(Boolean).join(', '),
      reason: paused ? null : target.lastError,
      advice: t(paused ? 'Nothing is sent until it is resumed.' : 'What waits for it goes by itself when it answers again.'),
      link: ['Look', channel === 'relay' ? '#relays' : outboxOf({ channel })], button: channel === 'tickets' ? null : pauseButton(channel, target.target, paused ? 'resume' : 'pause'),
      name: `${target.state} ${channel} ${target.target}`,
    });
  }

  function channelLines(c) {
    const lines = c.givenUpByTarget.map((given) => givenUpLine(c.channel, given));
    const away = c.targets.filter((target) => target.state !== 'up');
    if (c.paused) lines.push(targetLine(c.channel, { target: '', state: 'paused', pausedAt: c.pausedAt, pausedBy: c.pausedBy }, c.waiting));
    lines.push(...away.map((target) => targetLine(c.channel, target, away.length === 1 ? c.held : 0)));
    if (isOld(c.oldestWaitingAt) && !c.paused && away.length === 0) {
      lines.push(line({
        state: 'Waiting', what: t('{count} wait', { count: figure(c.waiting) }), where: c.channel, since: c.oldestWaitingAt, reason: c.configured ? null : c.missing,
        advice: t('In {channel}: look at the oldest rows.', { channel: c.channel }), link: ['Look', outboxOf({ channel: c.channel })], name: `waiting ${c.channel}`,
      }));
    }
    return lines;
  }

  function ticketLine(failed) {
    return line({
      state: 'Processing failed', what: t('{count} tickets', { count: figure(failed.total) }), where: 'tickets', since: failed.items[0]?.updatedAt,
      reason: failed.items[0]?.lastError, advice: t('Not tried again: correct them, or reprocess.'), link: ['Look and reprocess', '#alltickets?status=Error'], name: 'tickets',
    });
  }

  const ADVICE = {
    OmniFlow: 'It goes on by itself when OmniFlow answers.',
    Turn: 'It goes on by itself when its turn comes.',
    Worker: 'Look whether a process with the role import runs, and who has the lock.',
  };

  function batchLine(batch) {
    return line({
      state: 'Import waits', what: t('Waits for {what}', { what: batch.waitingFor }), where: batch.fileName, note: t('of {client}', { client: batch.clientId }),
      since: batch.waitingSince, reason: batch.lastError, advice: t(ADVICE[batch.waitingFor] || ADVICE.Worker),
      link: ['Look', `#allimports?${new URLSearchParams({ id: batch.batchId })}`], name: `import ${batch.batchId}`,
    });
  }

  // Which processes share the work, and how many shards of each channel they own.
  function processTable(owners) {
    const works = (work) => work.map((w) => `${w.channel} ${w.shards.length}`).join(', ') || DASH;
    const rows = owners.items.map((o) => h('tr', {},
      cell('Process', h('span', { className: 'name', textContent: o.name }), o.isLate ? badge('Down', t('Down')) : null),
      cell('Version', o.version), cell('Since', time(o.startedAt)), cell('Shards', h('span', { className: 'note', textContent: works(o.work) }))));
    if (owners.unowned.length) rows.push(h('tr', {}, cell('Process', t('nobody')), cell('Version', DASH), cell('Since', DASH), cell('Shards', works(owners.unowned))));
    return table('Processes', [['Process'], ['Version'], ['Since'], ['Shards']], rows);
  }

  function show([outbox, failed, owners, ...batches]) {
    const stuck = batches.flatMap((list) => list.items).filter((b) => b.waitingFor === 'OmniFlow' || (b.waitingFor && isOld(b.waitingSince))).slice(0, SHOWN);
    const lines = [...outbox.channels.flatMap(channelLines), ...outbox.targets.filter((target) => target.state !== 'up').map((target) => targetLine(target.channel, target, 0)),
      ...(failed.total > 0 ? [ticketLine(failed)] : []), ...stuck.map(batchLine)];
    replace($('stuck-body'), lines.length
      ? table('What needs a person', [['What'], ['Where'], ['Since'], ['What to do']], lines)
      : h('p', { className: 'note', textContent: t('Nothing was given up, and nothing is down, paused or stuck.') }), processTable(owners));
    $('stuck-body').dataset.lines = lines.length;
  }

  const calls = () => Promise.all([call('GET', 'admin/outbox'), call('GET', 'admin/tickets?status=Error&pageSize=1'),
    call('GET', 'admin/owners').then((o) => ({ ...o, items: o.items.map(({ renewedAt, leaseUntil, ...rest }) => rest) })), // the same, while nothing changes
    ...['Pending', 'Processing'].map((status) => call('GET', `admin/imports?status=${status}&pageSize=50`))]);

  // Called now and then while the first page is looked at.
  async function lookAtStuck() {
    if (!key() || key() === refused || performance.now() < next) return;
    const from = performance.now();
    next = Infinity;
    try {
      const data = await calls();
      const now = JSON.stringify(data);
      if (now !== said) show(data);
      said = now;
    } catch (problem) {
      if (!(problem instanceof Problem) || !problem.status) throw problem;
      if ([401, 403, 404].includes(problem.status)) refused = key();
    } finally {
      next = performance.now() + Math.max(EVERY_MS, SHARE * (performance.now() - from));
    }
  }

  document.addEventListener('credentials', () => {
    next = 0;
    said = '';
    if (!key()) $('stuck-body').replaceChildren(h('p', { className: 'note', textContent: t('With the admin key this page shows what was given up, what is down and what is stuck.') }));
  });

  Object.assign(df, { lookAtStuck });
})();
