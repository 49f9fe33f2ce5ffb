// The shell: navigation, search, who is signed in, how the server is, theme and language. The pages are in pages/.
import './texts/core.js';
import { call, get, isMissing, Problem } from './kit/api.js';
import { $, button, code, h, patch, raw } from './kit/dom.js';
import { openDialog } from './kit/dialog.js';
import pages, { groups } from './pages.js';
import { address, go, reroute, setup, start, visiblePages } from './kit/router.js';
import { isClient, resume, session, signedIn, signOut } from './kit/session.js';
import { gate, refusal, signIn } from './kit/signin.js';
import { language, languages, setLanguage, t } from './kit/text.js';
import { isUtc, setZone } from './kit/time.js';
import { act } from './kit/toast.js';

const THEME = 'dataflow.theme';
const HEALTH_MS = 3000;

// --- theme, by the system or by choice ---

const theme = () => localStorage.getItem(THEME) || 'auto';

function setTheme(name) {
  if (name === 'auto') localStorage.removeItem(THEME);
  else localStorage.setItem(THEME, name);
  document.documentElement.dataset.theme = name;
}

document.documentElement.dataset.theme = theme();

// --- the frame ---

function drawNav() {
  const visible = visiblePages();
  patch($('nav'), groups.map((group) => {
    const links = visible.filter((page) => page.nav === group);
    return links.length ? [h('h2', { data: { key: group } }, t(`group.${group}`)), h('ul', { data: { key: `${group}-list` } }, links.map((page) => h('li', {}, h('a', { href: `#${page.path}`, data: { view: page.path } }, t(page.title)))))] : null;
  }));
}

function who() {
  if (!session.as) return t('account.signIn');
  return isClient() ? session.me?.name || session.client.id : session.me?.admin || t('account.admin');
}

function drawFrame() {
  for (const node of document.querySelectorAll('[data-text]')) node.textContent = t(node.dataset.text);
  $('nav').setAttribute('aria-label', t('pages'));
  $('search-form').setAttribute('aria-label', t('search.label'));
  $('search-input').setAttribute('aria-label', t('search.label'));
  $('search-input').placeholder = t('search.hint');
  $('search-form').hidden = !session.as;
  patch($('account'), session.as ? [raw(who(), 'span', { className: 'who' }), h('span', { className: 'sr' }, ` ${t('account.open')}`)] : t('account.signIn'));
  drawNav();
}

const choice = (label, name, options, value, choose) => h('div', {}, h('label', { htmlFor: name }, label),
  (() => {
    const node = h('select', { id: name, onchange: () => choose(node.value) }, Object.entries(options).map(([key, words]) => h('option', { value: key }, words)));
    node.value = value;
    return node;
  })());

function openAccount() {
  const other = session.as === 'admin' ? 'client' : 'admin';
  const known = other === 'admin' ? session.key : session.client;
  const dialog = openDialog(t('account.title'), { id: 'account-dialog' }, h('form', { method: 'dialog' },
    session.as ? h('p', {}, isClient() ? t('account.asClient') : t('account.asAdmin'), ' ', raw(who(), 'strong'), isClient() ? [' ', code(session.client.id)] : ` (${t(`role.${session.me?.role ?? 'admin'}`)})`) : null,
    session.as ? h('div', { className: 'row-actions start' },
      known ? act(t(other === 'admin' ? 'account.toAdmin' : 'account.toClient'), async () => {
        dialog.close();
        const given = { ...session, as: other };
        signedIn({ as: other }, await get('whoami', {}, { who: given }));
      }, { id: 'account-switch' }) : null,
      button(t('account.other'), () => { dialog.close(); signIn({ as: other }); }, { id: 'account-other' }),
      button(t('account.signOut'), () => { dialog.close(); signOut(); }, { id: 'account-out' })) : button(t('account.signIn'), () => { dialog.close(); signIn({}); }, { className: 'primary' }),
    choice(t('language'), 'language', languages, language, setLanguage),
    choice(t('theme'), 'theme', { auto: t('theme.auto'), light: t('theme.light'), dark: t('theme.dark') }, theme(), setTheme),
    choice(t('zone'), 'zone', { local: t('zone.local'), utc: 'UTC' }, isUtc ? 'utc' : 'local', setZone),
    h('p', { className: 'note' }, t('account.kept')),
    h('div', { className: 'actions' }, h('button', { type: 'submit' }, t('close')))));
}

// --- how the server is ---

let problemOf = null;
let older = false; // the server that answered has no such call

// What needs somebody, for whom may see it.
async function attentionOf() {
  if (older || session.as !== 'admin') return null;
  try {
    return await get('admin/attention');
  } catch (problem) {
    if (!isMissing(problem)) throw problem;
    older = true;
    return null;
  }
}

function showState(state, key, title = '') {
  $('state').dataset.state = state;
  $('state').title = title;
  if ($('state').textContent !== t(key)) $('state').textContent = t(key);
}

// The pill is the worst that is known: whether the server answers, is ready, and what needs somebody.
async function health() {
  if (!document.hidden) {
    try {
      const [alive, ready] = await Promise.all([call('GET', 'healthz', { who: {} }), call('GET', 'readyz', { who: session, okay: [503] })]);
      const wrong = (ready.checks || []).filter((check) => check.status !== 'ok');
      const attention = ready.status === 'ready' ? await attentionOf() : null;
      $('version').textContent = alive.version;
      document.dispatchEvent(new CustomEvent('health', { detail: { alive, ready, attention } }));
      if (ready.status !== 'ready') showState('bad', 'server.notReady', ready.detail || '');
      else if (attention?.status === 'critical') showState('bad', 'server.critical');
      else if (attention?.status === 'degraded' || wrong.length) showState('warn', 'server.degraded', wrong.map((check) => check.detail).join('; '));
      else showState('ok', 'server.ready');
      problemOf = null;
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      showState('bad', problem.status > 0 ? 'server.notReady' : 'server.unreachable', problem.message);
      problemOf = problem;
    }
  }
  setTimeout(health, problemOf ? 1000 : HEALTH_MS);
}

// --- wiring ---

function menu(open) {
  $('menu-button').setAttribute('aria-expanded', open);
  document.body.classList.toggle('menu-open', open);
}

$('menu-button').onclick = () => menu($('menu-button').getAttribute('aria-expanded') !== 'true');
$('account').onclick = openAccount;
$('search-form').onsubmit = (event) => {
  event.preventDefault();
  const q = $('search-input').value.trim();
  if (q.length > 1) go(address('search', { q }));
};
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && document.body.classList.contains('menu-open')) {
    menu(false);
    $('menu-button').focus();
  }
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select, dialog') || $('search-form').hidden) return;
  event.preventDefault();
  $('search-input').select();
  $('search-input').focus();
});
document.querySelector('.skip').onclick = (event) => {
  event.preventDefault(); // the address is the page's
  $('page').focus();
};
document.addEventListener('routed', () => menu(false));
document.addEventListener('session', () => { drawFrame(); reroute(); });
document.addEventListener('refused', ({ detail }) => {
  refusal.now = { as: session.as, id: session.client?.id, problem: detail };
  signOut({ everywhere: false });
  // The page that was seen may need no sign-in.
  if (refusal.now) signIn(refusal.now);
  refusal.now = null;
});

setup(pages, gate);
drawFrame();
await resume();
drawFrame();
start();
health();
