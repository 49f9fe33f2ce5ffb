// Nodes. Everything is written with textContent, so that nothing a client, a document or an answer says can become markup.
import { has, named, number, t } from './text.js';

export const DASH = '–';
export const $ = (id) => document.getElementById(id);

// A property, an attribute, or a handler (`onclick`); `data` goes to the dataset. Children: nodes, strings, lists; null is nothing.
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (name === 'data') for (const [key, one] of Object.entries(value)) node.dataset[key] = one;
    else if (name.startsWith('on')) (node.$on ??= {})[name] = node[name] = value;
    else if (name in node && name !== 'list' && name !== 'form') node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== ''));
  return node;
}

export function svg(tag, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const keyOf = (node) => node.dataset?.key;
const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b) && a.id === b.id;

function become(old, node) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  const isField = /^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName);
  for (const { name } of [...old.attributes]) if (!node.hasAttribute(name) && !(name === 'open' && old.nodeName === 'DETAILS')) old.removeAttribute(name);
  for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value && !(isField && name === 'value')) old.setAttribute(name, value);
  for (const name of Object.keys(old.$on ?? {})) if (!node.$on?.[name]) old[name] = null;
  for (const [name, value] of Object.entries(node.$on ?? {})) old[name] = value;
  old.$on = node.$on;
  if ('disabled' in old) old.disabled = node.disabled;
  if (!isField && !('lazy' in old.dataset)) patch(old, ...node.childNodes);
}

// New content in place of the old. What is the same stays the same node (data-key tells rows apart), so that focus, selection and what
// was unfolded or filled in stay.
export function patch(parent, ...nodes) {
  const wanted = nodes.flat(Infinity).filter((n) => n !== null && n !== undefined && n !== false && n !== '').map((n) => (n instanceof Node ? n : document.createTextNode(n)));
  const keyed = new Map([...parent.childNodes].filter(keyOf).map((n) => [keyOf(n), n]));
  let at = parent.firstChild;
  for (const node of wanted) {
    const key = keyOf(node);
    while (!key && at && keyOf(at) && at.parentNode === parent && !same(at, node)) at = at.nextSibling;
    let old = key ? keyed.get(key) : at;
    // What stands between may have gone: the next one like it is the same.
    for (let later = at; !key && later && !same(old, node); later = later.nextSibling) if (!keyOf(later) && same(later, node)) at = old = later;
    if (old === node) {
      at = node.nextSibling;
      continue;
    }
    if (old && same(old, node)) {
      if (old !== at) parent.insertBefore(old, at);
      else at = at.nextSibling;
      become(old, node);
      old.$kept = true;
    } else {
      parent.insertBefore(node, at);
      node.$kept = true;
    }
  }
  const keep = new Set(wanted);
  for (const child of [...parent.childNodes]) {
    if (!child.$kept && !keep.has(child)) child.remove();
    delete child.$kept;
  }
}

// What the server or a person wrote: no text of ours, and nothing to translate.
export const raw = (value, tag = 'span', props = {}) => h(tag, { translate: false, ...props }, String(value ?? DASH));
export const clip = (value) => raw(value, 'span', { className: 'clip', title: value ?? '' });
export const code = (value) => raw(value, 'code');
export const note = (...children) => h('p', { className: 'note' }, ...children);

// What a peer answered is often JSON: its words, and the whole of it in the title.
const WORDS = /"(?:detail|message|error_description|error|title)"\s*:\s*"((?:[^"\\]|\\.)+)/g;
export function plain(text) {
  const [, head, json] = /^([^{]*)(\{.*)$/s.exec(text) ?? [];
  const said = json && [...json.matchAll(WORDS)].map(([, one]) => one.replace(/\\(.)/g, '$1'));
  return said?.length ? head + [...new Set(said)].join(': ') : text;
}
export const reason = (value) => (value ? raw(plain(value), 'p', { className: 'reason', title: value }) : null);
export const card = (title, ...children) => h('section', { className: 'card' }, title ? h('h2', {}, title) : null, ...children);
export const button = (words, onclick, props = {}) => h('button', { type: 'button', onclick, ...props }, words);
export const linkButton = (words, href, props = {}) => h('a', { className: 'button', href, ...props }, words);
export const tags = (names) => h('div', { className: 'tags' }, names.map((name) => raw(name, 'span', { className: 'tag' })));

// Pairs of a name and what it is.
export const facts = (pairs) => h('dl', { className: 'facts' }, pairs.filter(Boolean).map(([name, ...value]) => h('div', {}, h('dt', {}, name), h('dd', {}, ...value))));

// What may be long stays folded, and out of the page until it is unfolded.
export function folded(words, content, key = words) {
  const node = h('details', { data: { key } }, h('summary', {}, words));
  node.ontoggle = () => {
    if (node.open && node.children.length < 2) node.append(typeof content === 'function' ? content() : raw(content, 'pre', { tabIndex: 0 }));
  };
  (node.$on = {}).ontoggle = node.ontoggle;
  node.dataset.lazy = '';
  return node;
}

const GOOD = ['Processed', 'PROCESSED', 'running', 'Sent', 'Success', 'CLOSED', 'Active', 'Completed', 'resolved', 'up', 'ok', 'Enabled', 'Ready'];
const BAD = ['FAILED', 'firing', 'down', 'Down', 'GivenUp', 'not running', 'Error', 'OPEN', 'Permanent', 'Failed', 'critical', 'bad', 'failed'];
const IDLE = ['Awaiting', 'Pending', 'PENDING', 'Cancelled', 'Scheduled', 'dismissed', 'unknown'];
export const tone = (state) => (GOOD.includes(state) ? 'ok' : BAD.includes(state) ? 'bad' : IDLE.includes(state) ? 'unknown' : 'warn');

// A state in words, with the name it has in the API. `retried`: it failed and will be tried again by itself.
export function badge(state, { words, retried = false } = {}) {
  const name = retried ? 'Retrying' : state;
  return h('span', { className: 'badge', title: state, data: { state: retried ? 'retry' : tone(state) }, translate: Boolean(words) || has(`state.${name}`) }, words ?? named('state', name));
}

// Of what is sent or processed: failed for good, or tried again at the time `next`.
export const trial = (state, next) => badge(state, { retried: state === 'Error' && Boolean(next) });

export function bytes(b) {
  if (!(b >= 0)) return DASH;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; b >= 1024 && i < units.length - 1; i++) b /= 1024;
  return `${number(b)} ${units[i]}`;
}

export async function copy(source, button_) {
  const before = button_.textContent;
  try {
    await navigator.clipboard.writeText(typeof source === 'string' ? source : source.textContent);
    button_.textContent = t('copied');
  } catch {
    // Without https or permission there is no clipboard: select it, so that one keystroke does.
    if (source instanceof Node) getSelection().selectAllChildren(source);
    button_.textContent = t('selected');
  }
  setTimeout(() => { button_.textContent = before; }, 2000);
}
