// What the pages of the console share: nodes, words and figures, calls, credentials, dialogs, and
// looking at something of the server's. Everything is written with textContent, so that nothing a
// client, a document or an answer says can become markup.
'use strict';
const df = (() => {
  const KEY = 'dataflow.adminKey';
  const CLIENT = 'dataflow.client';
  const DASH = '–';
  const { t } = dfWords;

  const $ = (id) => document.getElementById(id);
  const text = (id, value) => {
    const node = $(id);
    if (node.textContent !== value) node.textContent = value;
  };

  function h(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
      else if (name in node) node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children.filter((c) => c !== null && c !== undefined));
    return node;
  }

  // New content in place of the old; focus and what was unfolded stay where they were (data-keep).
  function replace(parent, ...nodes) {
    const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.keep : undefined;
    const unfolded = [...parent.querySelectorAll('details[open]')].map((node) => node.dataset.keep);
    parent.replaceChildren(...nodes);
    for (const node of parent.querySelectorAll('[data-keep]')) {
      if (node.dataset.keep === focused) node.focus();
      if (unfolded.includes(node.dataset.keep)) node.open = true;
    }
  }

  // --- words and figures ------------------------------------------------------------------------

  const number = (v) => (v >= 100 ? Math.round(v).toLocaleString('en') : v >= 10 ? v.toFixed(1) : v > 0 ? v.toFixed(2) : '0');
  const share = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(part > 0 && part / all < 0.1 ? 2 : 0)} %` : DASH);

  function seconds(s) {
    if (s === null || !Number.isFinite(s)) return DASH;
    if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
    if (s < 1) return `${(s * 1000).toFixed(s < 0.01 ? 2 : s < 0.1 ? 1 : 0)} ms`;
    return `${s.toFixed(2)} s`;
  }

  function bytes(b) {
    if (!(b >= 0)) return DASH;
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let i = 0;
    while (b >= 1024 && i < units.length - 1) {
      b /= 1024;
      i++;
    }
    return `${i > 0 && b < 100 ? b.toFixed(1) : Math.round(b)} ${units[i]}`;
  }

  function duration(s) {
    s = Math.floor(s);
    const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
    const first = parts.findIndex(([size]) => s >= size);
    if (first < 0) return '0 s';
    return parts.slice(first, first + 2)
      .map(([size, unit], i) => `${Math.floor((i ? s % parts[first][0] : s) / size)} ${unit}`)
      .join(' ');
  }

  function when(iso) {
    if (!iso) return t('never');
    const ago = (Date.now() - Date.parse(iso)) / 1000;
    if (Number.isNaN(ago)) return iso;
    const words = duration(Math.abs(ago)).replace(/^(\d+ \w+).*/, '$1');
    if (ago <= -1) return t('in {words}', { words });
    if (ago < 5) return t('just now');
    return ago < 86400 * 30 ? t('{words} ago', { words }) : iso.slice(0, 10);
  }

  // As logs have it.
  const stamp = (iso) => iso.replace('T', ' ').replace('Z', ' UTC');

  // How long ago (or how soon); keepTime keeps it true.
  const time = (iso) => (iso ? h('time', { textContent: when(iso), title: stamp(iso), dateTime: iso }) : DASH);

  function keepTime() {
    for (const node of document.querySelectorAll('time')) {
      if (node.dateTime && node.textContent !== when(node.dateTime)) node.textContent = when(node.dateTime);
    }
  }

  const STATES = {
    Processed: 'ok', PROCESSED: 'ok', running: 'ok', Sent: 'ok', Success: 'ok', CLOSED: 'ok', Active: 'ok', Completed: 'ok', resolved: 'ok', up: 'ok',
    'standing by': 'warn', Processing: 'warn', Sending: 'warn', Received: 'warn', HALF_OPEN: 'warn', Suspended: 'warn', Retry: 'warn', CompletedWithErrors: 'warn', Disabled: 'warn', paused: 'warn', Paused: 'warn', Waiting: 'warn', 'Import waits': 'warn',
    FAILED: 'bad', firing: 'bad', down: 'bad', Down: 'bad', 'Given up': 'bad', 'Processing failed': 'bad', 'not running': 'bad', Error: 'bad', OPEN: 'bad', Permanent: 'bad', Failed: 'bad',
  };

  // A state keeps the name that it has in the API, but for those that only the console has.
  function badge(state, words = state) {
    const node = h('span', { className: 'badge', textContent: words });
    node.dataset.state = STATES[state] || 'unknown';
    return node;
  }

  const cell = (label, ...children) => h('td', { 'data-label': t(label) }, ...children);
  const figure = (label, value) => h('td', { 'data-label': t(label), className: 'num', textContent: value.toLocaleString('en') });

  // Columns are [words, kind]: `num` to the right, `sr` for those who do not see.
  function table(label, head, rows) {
    return h('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': t(label) },
      h('table', { className: 'stack' },
        h('thead', {}, h('tr', {}, ...head.map(([words, kind]) => h('th', { scope: 'col', className: kind === 'num' ? 'num' : '' },
          kind === 'sr' ? h('span', { className: 'sr', textContent: t(words) }) : t(words))))),
        h('tbody', {}, ...rows)));
  }

  // What may be long stays folded, and out of the page until it is unfolded.
  function folded(words, content, keep) {
    const node = h('details', { 'data-keep': keep }, h('summary', { textContent: words }));
    node.addEventListener('toggle', () => {
      if (node.open && !node.querySelector('pre')) node.append(h('pre', { tabIndex: 0, textContent: content }));
    });
    return node;
  }

  // Under a list: where it is, and the ways to the pages beside. `address` makes the link of a page.
  function pager(list, noun, address) {
    const pages = Math.max(1, Math.ceil(list.total / list.pageSize));
    const way = (words, to, there) => h('a', {
      className: 'button', textContent: t(words), 'data-keep': words, ...(there ? { href: address(to) } : { 'aria-disabled': 'true' }),
    });
    if (pages < 2 && list.page === 1) return null;
    return h('div', { className: 'pager' },
      way('Previous', Math.min(list.page - 1, pages), list.page > 1),
      h('span', { textContent: t('Page {page} of {pages}, {total}', { page: list.page, pages, total: `${list.total.toLocaleString('en')} ${noun}` }) }),
      way('Next', list.page + 1, list.page < pages));
  }

  // Asks which client something is to be shown of, and goes there.
  function chooser(id, label, words, address) {
    const input = h('input', { id: `${id}-client`, autocomplete: 'off', spellcheck: false, required: true, placeholder: 'client ID', 'data-keep': 'client' });
    return h('form', {
      className: 'card chooser', onsubmit: (event) => {
        event.preventDefault();
        location.hash = address(input.value.trim());
      },
    }, h('div', {}, h('label', { htmlFor: input.id, textContent: label }), input), h('button', { type: 'submit', className: 'primary', textContent: words }));
  }

  // --- calls ------------------------------------------------------------------------------------

  class Problem extends Error {
    constructor(status, body) {
      super(body.detail || body.title || `The server answered ${status}.`);
      Object.assign(this, { status, title: body.title, code: body.code, correlationId: body.correlationId, errors: body.errors || [] });
    }
  }

  const key = () => sessionStorage.getItem(KEY) || '';
  const client = () => JSON.parse(sessionStorage.getItem(CLIENT) || 'null');

  // Who calls: a client, or the administrator. Where one's secret is wanted the other's is not sent.
  function headersFor(path) {
    const headers = new Headers();
    try {
      if (/^(api|imports|whoami)\b/.test(path)) {
        headers.set('X-Client-Id', client()?.id || '');
        headers.set('X-Client-Secret', client()?.secret || '');
      } else if (key()) {
        headers.set('X-Admin-Key', key());
      }
    } catch {
      throw new Problem(401, { title: 'Unauthorized', detail: 'It has characters that an HTTP header cannot carry.' });
    }
    return headers;
  }

  async function call(method, path, body) {
    const headers = headersFor(path);
    if (body) headers.set('Content-Type', 'application/json');
    let response;
    try {
      response = await fetch(path, {
        method, headers, body: body && JSON.stringify(body), cache: 'no-store', credentials: 'omit', signal: AbortSignal.timeout(10000),
      });
    } catch {
      throw new Problem(0, { title: 'Unreachable', detail: 'The server does not answer.' });
    }
    const json = /[/+]json\b/.test(response.headers.get('Content-Type') || '');
    const data = json ? await response.json() : await response.text();
    if (!response.ok && !(path === 'readyz' && response.status === 503)) throw new Problem(response.status, json ? data : {});
    return data;
  }

  function describe(problem) {
    return [
      h('strong', { textContent: problem.title || 'Failed' }),
      h('span', { textContent: problem.message }),
      problem.correlationId ? h('div', { className: 'reference', textContent: `${problem.code} · Correlation ID ${problem.correlationId}` }) : null,
    ].filter(Boolean);
  }

  function announce(state, role, ...words) {
    const box = h('div', { className: 'alert', role }, h('div', {}, ...words),
      h('button', { type: 'button', textContent: t('Dismiss'), onclick: () => box.remove() }));
    box.dataset.state = state;
    $('messages').replaceChildren(box);
  }

  const alertProblem = (problem) => announce('bad', 'alert', ...describe(problem),
    ...(problem.errors || []).map(({ field, message }) => h('div', { textContent: `${field}: ${message}` })));
  const notice = (words) => announce('ok', 'status', h('span', { textContent: words }));

  // --- dialogs ----------------------------------------------------------------------------------

  function openDialog(id) {
    const dialog = $(id);
    dialog.querySelectorAll('.form-error, .field-error').forEach((node) => node.replaceChildren());
    dialog.querySelectorAll('[aria-invalid]').forEach((node) => node.removeAttribute('aria-invalid'));
    dialog.showModal();
    return dialog;
  }

  function showFormProblem(form, problem) {
    const rest = [];
    form.querySelectorAll('.form-error, .field-error').forEach((node) => node.replaceChildren());
    form.querySelectorAll('[aria-invalid]').forEach((node) => node.removeAttribute('aria-invalid'));
    for (const { field, message } of problem.errors) {
      const place = form.querySelector(`[data-field="${CSS.escape(field.replace(/\W.*/, ''))}"]`);
      if (!place) {
        rest.push(`${field}: ${message}`);
        continue;
      }
      place.textContent = message;
      form.elements.namedItem(place.dataset.field)?.setAttribute('aria-invalid', 'true');
    }
    if (rest.length || problem.errors.length === 0) {
      form.querySelector('.form-error').replaceChildren(...describe(problem), ...rest.map((line) => h('div', { textContent: line })));
    }
    form.querySelector('[aria-invalid]')?.focus();
  }

  // A form that makes one call: busy while it runs, open with the reason when it fails.
  function onSubmit(form, action) {
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      const button = form.querySelector('[type="submit"]');
      button.disabled = true;
      try {
        await action();
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        showFormProblem(form, problem);
      } finally {
        button.disabled = false;
      }
    });
  }

  // Shown this once. `curl`: how to try it, if there is a way.
  function showSecret(title, label, id, secret, curl) {
    text('secret-title', title);
    text('secret-id-label', label);
    text('secret-id', id);
    text('secret-value', secret);
    text('secret-curl', curl);
    $('secret-curl').parentElement.hidden = !curl;
    text('copied', '');
    openDialog('secret-dialog');
  }

  // --- credentials ------------------------------------------------------------------------------

  // Either is kept in this tab only. Whoever shows something that depends on them hears `credentials`.
  function keepCredential(name, value) {
    if (value) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
    showCallers();
    document.dispatchEvent(new Event('credentials'));
  }

  function showCallers() {
    text('key-button', t(key() ? 'Admin key set' : 'Admin key'));
    for (const button of document.querySelectorAll('[data-client]')) button.textContent = client() ? t('Client {id}', { id: client().id }) : t('Client');
  }

  function openKey() {
    $('key-input').value = '';
    $('key-forget').hidden = !key();
    openDialog('key-dialog');
  }

  function openClient() {
    $('client-id').value = client()?.id || '';
    $('client-secret').value = '';
    $('client-forget').hidden = !client();
    openDialog('client-dialog');
  }

  const CALLERS = {
    admin: { known: () => key() !== '', storage: KEY, open: openKey, form: 'key-form' },
    client: { known: () => client() !== null, storage: CLIENT, open: openClient, form: 'client-form' },
  };

  // --- looking ----------------------------------------------------------------------------------

  let looks = 0; // so many began: what an earlier one brings comes too late
  let under = 0; // so many are under way
  let shown = '';

  // A view's content, or in its place the card that says what it takes to see it.
  function showView(view, gate) {
    for (const card of document.querySelectorAll('[data-gate]')) card.hidden = card.dataset.gate !== gate;
    for (const node of $(view).querySelectorAll('[data-content]')) node.hidden = gate !== '';
  }

  // Without an admin key configured nothing under /admin exists.
  const adminIsOff = () => call('GET', 'admin/circuit-breakers').then(() => false, (problem) => problem.status === 404);

  async function refused(view, who, problem, late) {
    const caller = CALLERS[who];
    if (who === 'admin' && (!problem || problem.status === 404) && await adminIsOff()) {
      if (!late()) showView(view, 'off');
    } else if (late()) {
      // Somebody looks at something else by now.
    } else if (!problem) {
      showView(view, who);
    } else if (problem.status === 401) {
      sessionStorage.removeItem(caller.storage);
      showCallers();
      showView(view, who);
      caller.open();
      showFormProblem($(caller.form), problem);
    } else {
      throw problem;
    }
  }

  // Shows in a view what `fetch` brings, for which credentials are needed: who is `admin` or `client`.
  async function look(view, who, fetch, render) {
    const mine = ++looks;
    const late = () => mine !== looks;
    under++;
    try {
      if (!CALLERS[who].known()) {
        await refused(view, who, null, late);
        return;
      }
      const data = await fetch();
      if (late()) return;
      showView(view, '');
      const said = location.hash + JSON.stringify(data);
      if (said === shown) return; // what is selected stays selected
      render(data);
      shown = said;
    } catch (problem) {
      if (!late()) shown = '';
      if (!(problem instanceof Problem)) throw problem;
      await refused(view, who, problem, late);
    } finally {
      under--;
    }
  }

  const forget = () => { looks++; shown = ''; };
  const looking = () => under > 0;

  return {
    $, DASH, Problem, alertProblem, announce, badge, bytes, call, cell, chooser, client, describe, duration, figure, folded, forget, h, headersFor, keepCredential,
    keepTime, key, look, looking, notice, number, onSubmit, openClient, openDialog, openKey, pager, replace, seconds, share,
    showCallers, showFormProblem, showSecret, stamp, t, table, text, time, when, CLIENT, KEY, views: {},
  };
})();
