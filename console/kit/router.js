// From the address to a page. #path/part/part?name=value; a page is {render(ctx)} of its own module, listed in pages.js.
import { Problem } from './api.js';
import { $, h, patch } from './dom.js';
import { session } from './session.js';
import { has, t } from './text.js';
import { keepTime } from './time.js';
import { quiet, tell } from './toast.js';

const SHARE = 20; // looking again may take one part in so many of the time: counting large tables takes a while

const MOVED = { system: 'versions', allimports: 'imports', alltickets: 'tickets' }; // addresses that links and bookmarks have

let pages = [];
let gate = null;
let current = null; // the context of the page that is shown
let keep = false;

export const address = (path, params = {}) => {
  const filled = Object.entries(params).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return `#${[].concat(path).map(encodeURIComponent).join('/')}${filled.length ? `?${new URLSearchParams(filled)}` : ''}`;
};

// `keepFocus`: the page is the same list with another filter.
export function go(hash, { keepFocus = false } = {}) {
  keep = keepFocus;
  if (location.hash === hash) route();
  else location.hash = hash;
}

const isFor = (page) => page.who === 'any' || (page.who === session.as && (!page.scopes || session.as !== 'client' || page.scopes.some((s) => session.me?.scopes?.includes(s))));
export const visiblePages = () => pages.filter((page) => page.nav && isFor(page));

function parse() {
  const [whole, search = ''] = location.hash.slice(1).split(/\?(.*)/s);
  const parts = whole.split('/').map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const name = parts[0] || 'overview';
  return { name: MOVED[name] ?? name, parts: parts.slice(1), query: new URLSearchParams(search) };
}

class Context {
  constructor(page, place) {
    const stop = new AbortController();
    Object.assign(this, place, { page, stop, signal: stop.signal, root: h('div', { className: 'page', id: `page-${place.name}` }), focus: true });
  }

  // The address of this page with other parameters.
  address(params) { return address([this.name, ...this.parts], params); }

  // What stands above: title, the way back, a line below it, buttons. May be called again.
  heading({ title, crumbs = [], text, actions = [] }) {
    document.title = `${typeof title === 'string' ? title : title.textContent} · DataFlow`;
    this.head ??= h('header', { className: 'heading' });
    if (!this.head.isConnected) this.root.prepend(this.head);
    patch(this.head, h('div', {}, crumbs.length ? h('p', { className: 'crumbs' }, crumbs.map(([words, href]) => [h('a', { href }, words), ' / '])) : null,
      h('h1', { tabIndex: -1, id: 'title' }, title), text ? h('p', { className: 'note', id: 'note', role: 'status' }, text) : null), h('div', { className: 'row-actions', id: 'actions' }, actions));
  }

  // Looks again and again, while the page is seen and no dialog is open; a failure is shown by the bar, not here.
  every(ms, look) {
    const again = async () => {
      if (this.signal.aborted) return;
      const from = performance.now();
      if (!document.hidden && !document.querySelector('dialog[open]')) await look().catch((problem) => { if (!(problem instanceof Problem)) throw problem; });
      if (!this.signal.aborted) setTimeout(again, Math.max(ms, SHARE * (performance.now() - from)));
    };
    setTimeout(again, ms);
  }

  // Looks now and then again: `render(data)` draws what `look()` brought, when it differs.
  async watch(ms, look, render) {
    let said;
    const once = async () => {
      const data = await look();
      const now = JSON.stringify(data);
      if (this.signal.aborted || now === said) return;
      said = now;
      render(data);
    };
    this.again = async () => { said = undefined; await once(); };
    if (ms) this.every(ms, once);
    await once();
  }
}

async function route() {
  const place = parse();
  const of = pages.filter((page) => page.path === place.name);
  const page = of.find(isFor) || null;
  const before = current;
  before?.stop.abort();
  const ctx = new Context(page, place);
  current = ctx;
  quiet();
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.hash === `#${place.name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.dispatchEvent(new Event('routed'));
  const keepFocus = keep && before?.name === place.name && document.activeElement?.id;
  keep = false;
  const swap = () => {
    const main = $('page');
    if (current === ctx && !ctx.root.isConnected) main.replaceChildren(ctx.root);
    if (keepFocus && document.activeElement === document.body) $(keepFocus)?.focus();
  };
  try {
    if (!page) {
      gate(ctx, of[0]);
      swap();
    } else {
      const module = await page.load();
      if (ctx.signal.aborted) return;
      if (has(`${page.title}`)) ctx.heading({ title: t(page.title) });
      const rendered = module.default.render(ctx);
      swap();
      await rendered;
    }
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (current !== ctx) return;
    if (problem.status !== 401) tell(problem);
    swap();
  }
  // The link that was followed may be gone with its page.
  if (before && current === ctx && document.activeElement === document.body) ctx.root.querySelector('h1')?.focus({ preventScroll: true });
  if (before && !keepFocus && before.name !== place.name) scrollTo(0, 0);
}

export const reroute = () => route();

export function setup(list, signIn) {
  pages = list;
  gate = signIn;
}

export function start() {
  // `stays`, of a page that would lose something: what to ask before it is left.
  addEventListener('hashchange', ({ oldURL }) => {
    if (current?.stays && !confirm(current.stays)) history.replaceState(null, '', oldURL);
    else route();
  });
  addEventListener('beforeunload', (event) => { if (current?.stays) event.preventDefault(); });
  setInterval(keepTime, 1000);
  return route();
}
