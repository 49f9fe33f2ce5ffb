// The console: the overview, the clients, and the way from one page to the other. It holds no data:
// it shows what /healthz, /readyz, /metrics, /admin, /api and /imports answer.
'use strict';
(() => {
  const {
    $, DASH, Problem, alertProblem, badge, bytes, call, duration, forget, h, keepCredential, keepTime, key, look, lookAtAlerts, lookAtSeries, lookAtStuck, looking, number, onSubmit,
    openClient, openDialog, openKey, replace, seconds, share, showCallers, showSecret, stamp, text, time, views, CLIENT, KEY, t,
  } = df;
  const POLL_MS = 1000;
  const HEALTH_EVERY = 3; // polls between two looks at health, readiness and alerts
  const REFRESH_MS = 2000;
  const REFRESH_SHARE = 20; // refreshing may take one part in so many of the time: counting large tables takes a while
  const POINTS = 60;
  const SCOPES = ['interface', 'callback', 'imports', 'acks', 'events', 'integrations', 'interface-all'];
  const DEFAULT_SCOPES = ['interface', 'imports'];
  // What probes and this page itself ask for; shown by route, left out of the headline.
  const QUIET = /^\/(healthz|readyz|metrics|console\/.*|admin\/(outbox.*|relays|alerts|circuit-breakers|webhook-failures|search|series|timeline.*|tickets.*|imports.*|clients\/{clientId}\/usage))?$/;

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // --- metrics ----------------------------------------------------------------------------------

  // The text format of Prometheus into name → [{labels, value}].
  function parseMetrics(body) {
    const families = new Map();
    for (const line of body.split('\n')) {
      const m = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
      if (!m) continue;
      const labels = {};
      for (const [, name, value] of (m[2] || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
        labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
      }
      if (!families.has(m[1])) families.set(m[1], []);
      families.get(m[1]).push({ labels, value: m[3] === '+Inf' ? Infinity : Number(m[3]) });
    }
    return families;
  }

  const sum = (series) => (series || []).reduce((total, s) => total + s.value, 0);

  // One look at the counters: totals by route, and what the store says of itself.
  function sample(families) {
    const routes = new Map();
    const at = (labels) => {
      const name = labels.route || 'other';
      if (!routes.has(name)) routes.set(name, { total: 0, client: 0, server: 0, buckets: new Map() });
      return routes.get(name);
    };
    for (const { labels, value } of families.get('dataflow_http_requests_total') || []) {
      const route = at(labels);
      route.total += value;
      if (/^4/.test(labels.status)) route.client += value;
      if (/^5/.test(labels.status)) route.server += value;
    }
    for (const { labels, value } of families.get('dataflow_http_request_seconds_bucket') || []) {
      const le = labels.le === '+Inf' ? Infinity : Number(labels.le);
      const buckets = at(labels).buckets;
      buckets.set(le, (buckets.get(le) || 0) + value);
    }
    const total = [...routes].reduce((n, [name, r]) => n + (QUIET.test(name) ? 0 : r.total), 0);
    return {
      time: performance.now(), routes, total,
      commits: sum(families.get('dataflow_db_group_size_count')),
      jobs: sum(families.get('dataflow_db_group_size_sum')),
      firing: sum(families.get('dataflow_alerts_firing')),
      memory: sum(families.get('process_resident_memory_bytes')),
    };
  }

  const NONE = { total: 0, client: 0, server: 0, buckets: new Map() };

  // What happened between two looks, of one route or (name null) of all that count.
  function between(old, now, name) {
    const result = { total: 0, client: 0, server: 0, buckets: new Map() };
    for (const [route, b] of now.routes) {
      if (name === null ? QUIET.test(route) : route !== name) continue;
      const a = old.routes.get(route) || NONE;
      for (const field of ['total', 'client', 'server']) result[field] += b[field] - a[field];
      for (const [le, n] of b.buckets) {
        result.buckets.set(le, (result.buckets.get(le) || 0) + n - (a.buckets.get(le) || 0));
      }
    }
    return result;
  }

  // As Prometheus' histogram_quantile: linear within the bucket.
  function quantile(q, buckets) {
    const bounds = [...buckets.keys()].sort((a, b) => a - b);
    const all = buckets.get(Infinity) || 0;
    if (!(all > 0)) return null;
    let low = 0;
    let below = 0;
    for (const le of bounds) {
      const n = buckets.get(le);
      if (n >= q * all) {
        if (le === Infinity) return low;
        return low + ((le - low) * (q * all - below)) / Math.max(n - below, 1e-9);
      }
      low = le;
      below = n;
    }
    return null;
  }

  // A line and the area below it over the last minute; returns how to redraw it.
  function sparkline(parent, withBase) {
    const width = 600;
    const height = 100;
    const area = svg('path', { class: 'area' });
    const stroke = svg('path', { class: 'stroke' });
    const base = withBase ? [svg('line', { class: 'base', x1: 0, x2: width, y1: height, y2: height })] : [];
    parent.append(svg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, ...base, area, stroke));
    return (values) => {
      if (values.length < 2 || (!withBase && Math.max(...values) === 0)) {
        area.removeAttribute('d');
        stroke.removeAttribute('d');
        return;
      }
      const top = Math.max(1, ...values) * 1.1;
      const step = width / (POINTS - 1);
      const from = width - step * (values.length - 1);
      const points = values.map((v, i) => `${(from + i * step).toFixed(1)} ${(height - (v / top) * height).toFixed(1)}`);
      stroke.setAttribute('d', `M${points.join('L')}`);
      area.setAttribute('d', `M${from.toFixed(1)} ${height}L${points.join('L')}L${width} ${height}Z`);
    };
  }

  let history = [];
  let rates = [];
  let drawChart = null;
  const rows = new Map();

  function take(now) {
    const last = history[history.length - 1];
    if (last && now.total < last.total) {
      history = []; // the server was started again
      rates = [];
      rows.forEach((row) => { row.rates = []; });
    }
    const before = history[history.length - 1];
    history.push(now);
    if (history.length > POINTS + 1) history.shift();
    const dt = before ? (now.time - before.time) / 1000 : 0;
    if (before && dt > 0) {
      rates.push((now.total - before.total) / dt);
      if (rates.length > POINTS) rates.shift();
    }
    showTotals(now, before, dt);
    showRoutes(now, before, dt);
  }

  function showTotals(now, before, dt) {
    const minute = between(history[0], now, null);
    text('rate', rates.length ? number(rates[rates.length - 1]) : DASH);
    text('peak', rates.length ? t('Peak {rate} in the last minute', { rate: number(Math.max(...rates)) }) : t('Measuring…'));
    text('p50', seconds(quantile(0.5, minute.buckets)));
    text('p99', seconds(quantile(0.99, minute.buckets)));
    text('errors', share(minute.server, minute.total));
    $('errors').classList.toggle('some', minute.server > 0);
    text('errors-note', minute.total ? `4xx ${share(minute.client, minute.total)}` : t('last minute'));
    text('memory', now.memory ? bytes(now.memory) : DASH);
    if (before && dt > 0) {
      const commits = now.commits - history[0].commits;
      text('commits', number((now.commits - before.commits) / dt));
      text('commits-note', commits > 0 && now.jobs ? t('{count} writes each', { count: number((now.jobs - history[0].jobs) / commits) }) : t('a second'));
    }
    drawChart = drawChart || sparkline($('chart'), true);
    drawChart(rates);
  }

  function routeRow(name) {
    const cells = {};
    const cell = (id) => (cells[id] = h('td', { className: 'num' }));
    const spark = h('div', { className: 'spark' });
    const node = h('tr', {}, h('th', { scope: 'row', textContent: name === 'none' ? 'no such route' : name }), h('td', {}, spark),
      ...['rate', 'p50', 'p99', 'client', 'server', 'total'].map(cell));
    const body = $('routes').tBodies[0];
    const after = [...rows].filter(([other]) => other > name).sort(([a], [b]) => (a < b ? -1 : 1))[0];
    body.insertBefore(node, after ? after[1].node : null);
    return { node, cells, draw: sparkline(spark, false), rates: [] };
  }

  function showRoutes(now, before, dt) {
    for (const name of now.routes.keys()) {
      if (!rows.has(name)) rows.set(name, routeRow(name));
      const row = rows.get(name);
      const minute = between(history[0], now, name);
      const last = before && dt > 0 ? between(before, now, name).total / dt : null;
      if (last !== null) row.rates.push(last);
      if (row.rates.length > POINTS) row.rates.shift();
      const set = (id, value) => { if (row.cells[id].textContent !== value) row.cells[id].textContent = value; };
      set('rate', last === null ? DASH : number(last));
      set('p50', seconds(quantile(0.5, minute.buckets)));
      set('p99', seconds(quantile(0.99, minute.buckets)));
      set('client', minute.client.toLocaleString('en'));
      set('server', minute.server.toLocaleString('en'));
      set('total', now.routes.get(name).total.toLocaleString('en'));
      row.cells.server.classList.toggle('some', minute.server > 0);
      row.draw(row.rates);
    }
    $('routes-empty').hidden = rows.size > 0;
    $('routes').hidden = rows.size === 0;
  }

  // --- health and the loop ----------------------------------------------------------------------

  const STATES = {
    ready: ['ok', 'Ready'],
    unavailable: ['bad', 'Not ready'],
    unreachable: ['bad', 'Unreachable'],
  };

  function showState(name) {
    const [state, words] = STATES[name] || ['unknown', name];
    $('state').dataset.state = state;
    text('state', t(words));
  }

  let maintenance = '';

  function showMaintenance(window) {
    const words = window ? `Maintenance: no files ${window.active ? 'are accepted until' : `will be accepted from ${stamp(window.from)} to`} ${stamp(window.to)}.` : '';
    if (words === maintenance) return;
    maintenance = words;
    replace($('overview-maintenance'), ...(words ? [h('p', { className: 'banner', textContent: words })] : []));
  }

  function showReadiness(ready) {
    // Not ready is a problem document, with the same checks in it.
    showState(ready.status === 'ready' ? 'ready' : 'unavailable');
    text('ready-summary', ready.status === 'ready' ? t('Ready for requests.') : ready.detail || ready.title || 'Not ready.');
    $('checks').replaceChildren(...(ready.checks || []).map((check) => {
      const item = h('li', {}, h('span', { className: 'name', textContent: check.name }), h('span', { textContent: check.status }),
        check.detail ? h('span', { className: 'detail', textContent: check.detail }) : null);
      item.dataset.state = check.status === 'ok' ? 'ok' : 'bad';
      return item;
    }));
    const backend = (ready.checks || []).map((check) => check.backend).find(Boolean);
    showMaintenance(ready.maintenance);
    if (backend) text('backend', { sqlite: 'SQLite', postgres: 'PostgreSQL', sqlserver: 'SQL Server' }[backend] || backend);
  }

  let started = null;

  async function lookAtHealth() {
    const [health, ready] = await Promise.all([call('GET', 'healthz'), call('GET', 'readyz')]);
    text('version', health.version);
    text('version-fact', health.version);
    started = Date.now() - health.uptimeSeconds * 1000;
    text('started', `since ${new Date(started).toLocaleString('en', { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })}`);
    showReadiness(ready);
  }

  function askForKeyForMetrics() {
    if ($('metrics-locked')) return;
    const box = h('div', { className: 'alert', id: 'metrics-locked' },
      h('div', {}, h('strong', { textContent: t('Metrics are for the administrator') }),
        h('span', { textContent: t('From another machine the server shows its metrics only with the admin key.') })),
      h('button', { type: 'button', textContent: t('Enter key'), onclick: openKey }));
    box.dataset.state = 'warn';
    $('messages').append(box);
  }

  async function lookAtMetrics() {
    try {
      take(sample(parseMetrics(await call('GET', 'metrics'))));
      $('metrics-locked')?.remove();
    } catch (problem) {
      if (problem.status !== 401 && problem.status !== 403) throw problem;
      askForKeyForMetrics();
    }
  }

  let polls = 0;

  async function poll() {
    if (!document.hidden) {
      try {
        const now = polls++ % HEALTH_EVERY === 0;
        if (now || $('state').dataset.state === 'bad') await lookAtHealth();
        await lookAtMetrics();
        if (now && current === 'overview') await lookAtAlerts(history.at(-1)?.firing || 0);
        if (current === 'overview') await lookAtStuck();
        if (current === 'overview') await lookAtSeries();
      } catch (problem) {
        if (problem.status) console.warn(problem);
        showState(problem.status ? 'unavailable' : 'unreachable');
      }
      if (started !== null && $('state').textContent !== t(STATES.unreachable[1])) text('uptime', duration((Date.now() - started) / 1000));
    }
    setTimeout(poll, POLL_MS);
  }

  // --- clients ----------------------------------------------------------------------------------

  const PAGE_SIZE = 20;
  let page = 1;
  let acting = null; // the client a dialog is about

  async function fetchClients() {
    const list = await call('GET', `admin/clients?page=${page}&pageSize=${PAGE_SIZE}`);
    const pages = Math.max(1, Math.ceil(list.total / PAGE_SIZE));
    if (page <= pages) return list;
    page = pages;
    return fetchClients();
  }

  const loadClients = () => look('clients', 'admin', fetchClients, showClients);

  function showClients(list) {
    const pages = Math.max(1, Math.ceil(list.total / PAGE_SIZE));
    $('clients-rows').replaceChildren(...list.items.map(clientRow));
    $('clients-none').hidden = list.total > 0;
    $('pager').hidden = pages < 2;
    $('prev').disabled = page <= 1;
    $('next').disabled = page >= pages;
    text('page-info', `Page ${page} of ${pages}, ${list.total} clients`);
  }

  function scopeTags(scopes) {
    const names = SCOPES.every((s) => scopes.includes(s)) ? ['all'] : scopes;
    return names.map((s) => h('span', { className: 'tag', textContent: s, title: scopes.join(', ') }));
  }

  function clientRow(client) {
    const active = client.status === 'Active';
    const act = (words, action) => h('button', { type: 'button', textContent: t(words), 'aria-label': `${t(words)} ${client.name}`, onclick: action });
    const go = (words, view) => h('a', {
      className: 'button', textContent: t(words), 'aria-label': `${words} of ${client.name}`, href: `#${view}?${new URLSearchParams({ client: client.clientId })}`,
    });
    const row = h('tr', {},
      h('td', {}, h('span', { className: 'client-name', textContent: client.name }), h('code', { className: 'client-id', textContent: client.clientId })),
      h('td', {}, badge(client.status)),
      h('td', {}, h('div', { className: 'tags' }, ...scopeTags(client.scopes || []))),
      h('td', { 'data-label': 'Created' }, time(client.createdAt)),
      h('td', { 'data-label': 'Last seen' }, client.lastSeenAt ? time(client.lastSeenAt) : t('never')),
      h('td', {}, h('div', { className: 'row-actions' },
        go('Webhooks', 'webhooks'), go('Usage', 'usage'),
        act('Scopes', () => openScopes(client)),
        act('Rotate secret', () => openRotate(client)),
        active ? act('Suspend', () => openSuspend(client)) : act('Activate', () => setStatus(client, 'Active').catch(alertProblem)))));
    row.dataset.client = client.clientId;
    return row;
  }

  const clientPath = (client) => `admin/clients/${encodeURIComponent(client.clientId)}`;

  async function setStatus(client, status) {
    await call('PATCH', clientPath(client), { status });
    await loadClients();
  }

  function openSuspend(client) {
    acting = client;
    text('suspend-text', `Requests of “${client.name}” are refused from now on, until it is activated again.`);
    openDialog('suspend-dialog');
  }

  function openScopes(client) {
    acting = client;
    text('scopes-text', `What “${client.name}” may do.`);
    for (const box of $('scopes-form').querySelectorAll('[name="scope"]')) box.checked = client.scopes.includes(box.value);
    openDialog('scopes-dialog');
  }

  function openRotate(client) {
    acting = client;
    text('rotate-text', `“${client.name}” gets a new secret.`);
    $('rotate-grace').value = '0';
    openDialog('rotate-dialog');
  }

  const tryIt = (clientId, secret) => `curl -H 'X-Client-Id: ${clientId}' -H 'X-Client-Secret: ${secret}' ${new URL('whoami', document.baseURI)}`;

  async function copy(button) {
    const source = $(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = 'Copied';
      text('copied', t('Copied'));
    } catch {
      // Without https or permission there is no clipboard: select it, so that one keystroke does.
      getSelection().selectAllChildren(source);
      button.textContent = 'Selected';
      text('copied', t('Selected; copy it with the keyboard'));
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  }

  const checkedScopes = (form) => [...form.querySelectorAll('[name="scope"]:checked')].map((box) => box.value);

  async function createClient() {
    const form = $('create-form');
    const body = { name: form.elements.name.value.trim() };
    if (form.elements.clientId.value.trim()) body.clientId = form.elements.clientId.value.trim();
    body.scopes = checkedScopes(form);
    const made = await call('POST', 'admin/clients', body);
    $('create-dialog').close();
    showSecret(`Client “${body.name}” created`, 'Client ID', made.clientId, made.clientSecret, tryIt(made.clientId, made.clientSecret));
    await loadClients();
  }

  async function rotate() {
    const made = await call('POST', `${clientPath(acting)}/rotate-secret?graceSeconds=${$('rotate-grace').value}`);
    $('rotate-dialog').close();
    showSecret(`New secret of “${acting.name}”`, 'Client ID', acting.clientId, made.clientSecret, tryIt(acting.clientId, made.clientSecret));
    await loadClients();
  }

  // --- wiring -----------------------------------------------------------------------------------

  views.overview = { title: 'DataFlow', enter: async () => { polls = 0; } };
  views.clients = { title: 'Clients · DataFlow', enter: loadClients };

  let current = null;

  // #view?name=value&…; what is no view (the skip link's) changes nothing.
  async function route() {
    const [name, query] = (location.hash.slice(1) || 'overview').split(/\?(.*)/s);
    const view = Object.hasOwn(views, name) ? name : current || 'overview';
    if (view === current && view !== name) return;
    const first = current === null;
    current = view;
    for (const [other] of Object.entries(views)) $(other).hidden = other !== view;
    for (const link of document.querySelectorAll('nav a')) {
      if (view === link.dataset.view || view === `all${link.dataset.view}`) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    document.title = views[view].title;
    $('messages').replaceChildren();
    document.querySelectorAll('[data-gate]').forEach((card) => { card.hidden = true; });
    forget();
    try {
      await views[view].enter(new URLSearchParams(query));
    } catch (problem) {
      alertProblem(problem);
    }
    // The link that was followed may be gone with its page.
    if (!first && document.activeElement === document.body) $(view).querySelector('h1')?.focus();
  }

  // Pages that change by themselves are looked at again and again, but not behind a dialog's back.
  async function refresh() {
    const { again } = views[current];
    const from = performance.now();
    if (again && !document.hidden && !looking() && !document.querySelector('dialog[open], [data-gate]:not([hidden])')) {
      await again().catch((problem) => { if (!(problem instanceof Problem)) throw problem; }); // the bar tells how the server is
    }
    keepTime();
    setTimeout(refresh, Math.max(REFRESH_MS, REFRESH_SHARE * (performance.now() - from)));
  }

  function turn(by) {
    page += by;
    loadClients().catch(alertProblem);
  }

  for (const [id, checked] of [['create-scopes', DEFAULT_SCOPES], ['scopes-scopes', []]]) {
    $(id).append(...SCOPES.map((scope) => h('label', {},
      h('input', { type: 'checkbox', name: 'scope', value: scope, defaultChecked: checked.includes(scope) }), h('span', { textContent: scope }))));
  }

  for (const button of document.querySelectorAll('[data-close]')) button.addEventListener('click', () => button.closest('dialog').close());
  for (const button of document.querySelectorAll('[data-copy]')) button.addEventListener('click', () => copy(button));
  $('secret-dialog').addEventListener('close', () => ['secret-id', 'secret-value', 'secret-curl'].forEach((id) => text(id, '')));
  $('key-button').addEventListener('click', openKey);
  for (const button of document.querySelectorAll('[data-client]')) button.addEventListener('click', openClient);
  for (const button of document.querySelectorAll('[data-gate="admin"] button')) button.addEventListener('click', openKey);
  for (const button of document.querySelectorAll('[data-gate="client"] button')) button.addEventListener('click', openClient);
  for (const button of document.querySelectorAll('[data-gate="off"] button')) button.addEventListener('click', route);
  $('prev').addEventListener('click', () => turn(-1));
  $('next').addEventListener('click', () => turn(1));
  $('new-client').addEventListener('click', () => {
    $('create-form').reset();
    openDialog('create-dialog');
  });
  $('key-forget').addEventListener('click', () => {
    $('key-dialog').close();
    keepCredential(KEY, '');
  });
  $('client-forget').addEventListener('click', () => {
    $('client-dialog').close();
    keepCredential(CLIENT, '');
  });
  onSubmit($('key-form'), async () => {
    const given = $('key-input').value.trim();
    $('key-input').value = '';
    $('key-dialog').close();
    keepCredential(KEY, given);
  });
  onSubmit($('client-form'), async () => {
    const given = { id: $('client-id').value.trim(), secret: $('client-secret').value.trim() };
    $('client-secret').value = '';
    $('client-dialog').close();
    keepCredential(CLIENT, JSON.stringify(given));
  });
  onSubmit($('create-form'), createClient);
  onSubmit($('rotate-form'), rotate);
  onSubmit($('scopes-form'), async () => {
    await call('PATCH', clientPath(acting), { scopes: checkedScopes($('scopes-form')) });
    $('scopes-dialog').close();
    await loadClients();
  });
  onSubmit($('suspend-form'), async () => {
    await setStatus(acting, 'Suspended');
    $('suspend-dialog').close();
  });

  addEventListener('hashchange', route);
  document.addEventListener('credentials', route);
  showCallers();
  route();
  refresh();
  poll();
})();
