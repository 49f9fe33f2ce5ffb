// The figures that the server keeps itself, on the first page, and the time line of a document, on its page.
'use strict';
(() => {
  const { $, DASH, Problem, badge, call, cell, h, key, number, replace, seconds, stamp, t, table, time } = df;
  const EVERY_MS = 15000;
  const LINE_EVERY_MS = 5000;
  const WIDTH = 600;
  const HEIGHT = 80;
  const MARKS = 8; // named below the charts
  const METRICS = [['accepted', 'Accepted'], ['delivered', 'Delivered'], ['failed', 'Failed'], ['waiting', 'Waiting']];
  const HOUR = 3600000;
  const RANGES = { hour: [HOUR, 60], day: [24 * HOUR, 300], week: [7 * 24 * HOUR, 3600], quarter: [90 * 24 * HOUR, 86400] };
  const BAD = ['BreakerOpened', 'AlertFired', 'ReplicaStopped'];
  const REASONS = {
    target: 'waits for its target', due: 'waits for its time', person: 'waits for a person', schedule: 'waits for its schedule', turn: 'waits for its turn', worker: 'waits for a worker', ack: 'waits for an ack',
  };
  let next = 0;
  let refused = null; // a key that is none

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // --- the charts -------------------------------------------------------------------------------

  // A bar for each step; what was not noted has none.
  function bars(values, top) {
    const step = WIDTH / Math.max(values.length, 1);
    const width = Math.max(step * 0.8, 0.5);
    return values.map((v, i) => (v > 0 ? `M${(i * step).toFixed(1)} ${HEIGHT}h${width.toFixed(1)}v${(-HEIGHT * v / top).toFixed(1)}h${(-width).toFixed(1)}z` : '')).join('');
  }

  function ticks(data) {
    const from = Date.parse(data.from);
    const span = Math.max(Date.parse(data.to) - from, 1);
    return data.annotations.map((mark) => {
      const x = (((Date.parse(mark.time) - from) / span) * WIDTH).toFixed(1);
      const title = svg('title', {});
      title.textContent = `${stamp(mark.time)} ${t(mark.kind)}: ${mark.subject}`;
      return svg('line', { class: BAD.includes(mark.kind) ? 'tick bad' : 'tick', x1: x, x2: x, y1: 0, y2: HEIGHT }, title);
    });
  }

  function chart(data, metric, words) {
    const values = data.points.map((p) => p[metric]);
    const known = values.filter((v) => v !== null);
    const most = Math.max(0, ...known);
    const isGauge = metric === 'waiting';
    const figure = isGauge ? known.at(-1) ?? null : known.reduce((a, b) => a + b, 0);
    const shown = figure === null ? DASH : figure.toLocaleString('en');
    const said = isGauge ? t('{words}: {count} now, at most {most}.', { words: t(words), count: shown, most: number(most) })
      : t('{words}: {count} in all, at most {most} in a step.', { words: t(words), count: shown, most: number(most) });
    const node = h('figure', { className: metric === 'failed' && figure > 0 ? 'some' : '' },
      h('figcaption', {}, h('span', { textContent: t(words) }), h('strong', { textContent: shown })),
      svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': said },
        svg('line', { class: 'base', x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }), svg('path', { class: 'bars', d: bars(values, Math.max(most, 1) * 1.05) }), ...ticks(data)));
    node.dataset.metric = metric;
    node.dataset.figure = figure ?? '';
    return node;
  }

  function markList(marks) {
    if (!marks.length) return '';
    return h('ul', { className: 'marks', 'aria-label': t('What happened meanwhile') }, ...marks.slice(0, MARKS).map((mark) => {
      const item = h('li', {}, time(mark.time), ' ', h('span', { className: BAD.includes(mark.kind) ? 'some' : '', textContent: t(mark.kind) }), ' ', h('span', { className: 'note', textContent: mark.subject }));
      item.dataset.mark = mark.kind;
      return item;
    }));
  }

  function showSeries(data) {
    replace($('series-body'), h('div', { className: 'charts' }, ...METRICS.map(([metric, words]) => chart(data, metric, words))), markList(data.annotations));
  }

  // Called now and then while the first page is looked at.
  async function lookAtSeries() {
    if (!key() || key() === refused || performance.now() < next) return;
    const [span, step] = RANGES[$('series-range').value];
    next = Infinity;
    try {
      const query = new URLSearchParams({ metric: METRICS.map(([m]) => m).join(','), from: new Date(Date.now() - span).toISOString(), step });
      showSeries(await call('GET', `admin/series?${query}`));
    } catch (problem) {
      if (!(problem instanceof Problem) || !problem.status) throw problem;
      if ([401, 403, 404].includes(problem.status)) refused = key();
    } finally {
      next = performance.now() + EVERY_MS;
    }
  }

  // --- the time line of a document --------------------------------------------------------------

  let line = { name: '', node: null, due: 0 };

  function entryRow(e) {
    const row = h('tr', {},
      cell('At', stamp(e.time)), cell('What', badge(e.outcome === 'ok' ? '' : e.outcome || e.event, t(e.event)), e.outcome && e.outcome !== 'ok' ? ` ${e.outcome}` : ''),
      h('td', { 'data-label': t('Where') }, `${e.subject} ${e.id}`, e.error ? h('p', { className: 'reason', textContent: e.error }) : null),
      h('td', { className: 'num', 'data-label': t('Attempt'), textContent: e.attempt ?? DASH }), h('td', { className: 'num', 'data-label': 'HTTP', textContent: e.httpStatus ?? DASH }),
      h('td', { className: 'num', 'data-label': t('Took'), textContent: e.durationMs === null ? DASH : seconds(e.durationMs / 1000) }),
      h('td', { className: 'num', 'data-label': t('Count'), textContent: e.count?.toLocaleString('en') ?? DASH }), cell('By', e.by || DASH));
    row.dataset.event = e.event;
    return row;
  }

  function waitLine(w) {
    return h('p', { className: 'note' }, `${w.subject} ${w.id}: ${t(REASONS[w.reason])}${w.target ? ` (${w.target})` : ''}`, ...(w.nextAttemptAt ? [', ', time(w.nextAttemptAt)] : []));
  }

  async function fill(mine, kind, id) {
    mine.due = Infinity;
    try {
      const data = await call('GET', `admin/timeline/${kind}/${encodeURIComponent(id)}`);
      replace(mine.node.querySelector('.line-body'), ...data.waits.map(waitLine),
        table('Time line', [['At'], ['What'], ['Where'], ['Attempt', 'num'], ['HTTP', 'num'], ['Took', 'num'], ['Count', 'num'], ['By']], data.entries.map(entryRow)),
        data.truncated ? h('p', { className: 'note', textContent: t('There is more than is shown.') }) : '');
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      replace(mine.node.querySelector('.line-body'), h('p', { className: 'reason', textContent: problem.message }));
    } finally {
      mine.due = performance.now() + LINE_EVERY_MS;
    }
  }

  // A card that stays the same node while its document is looked at, and asks only while it is unfolded.
  function timelineCard(kind, id) {
    const name = `${kind} ${id}`;
    if (line.name !== name) {
      const details = h('details', { id: 'timeline' }, h('summary', { textContent: t('Time line') }), h('div', { className: 'line-body' }));
      const mine = { name, node: h('div', { className: 'card' }, details), due: 0 };
      details.addEventListener('toggle', () => { if (details.open && performance.now() >= mine.due) fill(mine, kind, id); });
      line = mine;
    } else if (line.node.firstChild.open && performance.now() >= line.due) {
      fill(line, kind, id);
    }
    return line.node;
  }

  $('series-range').addEventListener('change', () => {
    next = 0;
    lookAtSeries();
  });
  document.addEventListener('credentials', () => {
    next = 0;
    line = { name: '', node: null, due: 0 };
    if (!key()) $('series-body').replaceChildren(h('p', { className: 'note', textContent: t('With the admin key this page shows what was accepted, delivered and failed, and what waits.') }));
  });

  Object.assign(df, { lookAtSeries, timelineCard });
})();
