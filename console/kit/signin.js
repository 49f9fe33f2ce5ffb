// One sign-in for an administrator's key or a client's credentials: in place of a page that needs it, or in a dialog.
import { call, get, Problem } from './api.js';
import { button, h, raw } from './dom.js';
import { openDialog } from './dialog.js';
import { clearProblem, field, showProblem } from './form.js';
import { session, signedIn } from './session.js';
import { t } from './text.js';

// The form. What was written stays when it is refused, but for the secret.
function signInForm({ as = 'admin', id = '', prefix = 'signin', problem, then }) {
  const isOf = (kind) => form.elements.as.value === kind;
  const choice = (value, words) => h('label', {}, h('input', { type: 'radio', name: 'as', value, checked: as === value, onchange: draw }), h('span', {}, words));
  const key = field({ name: 'key', label: t('signin.admin'), type: 'password', hint: t('signin.keyHint') }, prefix);
  const client = field({ name: 'clientId', label: t('signin.id'), value: id }, prefix);
  const secret = field({ name: 'secret', label: t('signin.secret'), type: 'password' }, prefix);
  const off = h('div', { className: 'banner', hidden: true, data: { gate: 'off' } }, h('h3', {}, t('off.title')), h('p', {}, t('off.text')),
    raw('openssl rand -base64 32 > admin.key\ndataflow serve --set admin.key_file=admin.key', 'pre', { tabIndex: 0 }), h('p', {}, t('off.cli'), ' ', raw('dataflow client create --name NAME', 'code')));
  const form = h('form', { id: `${prefix}-form`, noValidate: true, className: 'signin' },
    h('fieldset', { className: 'segments' }, h('legend', { className: 'sr' }, t('signin.as')), choice('admin', t('signin.admin')), choice('client', t('signin.client'))),
    key, client, secret, off, h('div', { className: 'form-error', role: 'alert' }), h('p', { className: 'note' }, t('signin.kept')),
    h('div', { className: 'actions' }, h('button', { type: 'submit', className: 'primary' }, t('account.signIn'))));
  form.elements.key.autocomplete = 'current-password';

  function draw() {
    key.hidden = !isOf('admin');
    client.hidden = secret.hidden = isOf('admin');
    off.hidden = !form.dataset.off || !isOf('admin');
  }

  form.onsubmit = async (event) => {
    event.preventDefault();
    const send = form.querySelector('[type=submit]');
    const given = isOf('admin') ? { as: 'admin', key: form.elements.key.value.trim() }
      : { as: 'client', client: { id: form.elements.clientId.value.trim(), secret: form.elements.secret.value.trim() } };
    send.disabled = true;
    clearProblem(form);
    try {
      const me = await get('whoami', {}, { who: given });
      then?.();
      signedIn(given, me);
    } catch (failure) {
      if (!(failure instanceof Problem)) throw failure;
      const wrong = form.elements[isOf('admin') ? 'key' : 'secret'];
      showProblem(form, failure);
      wrong.value = '';
      wrong.focus();
    } finally {
      send.disabled = false;
    }
  };
  draw();
  if (problem) showProblem(form, problem);
  return { form, draw };
}

// Without an admin key configured nothing under /admin exists.
function tellOff({ form, draw }) {
  call('GET', 'admin/circuit-breakers', { who: {} }).catch((problem) => {
    if (problem.status !== 404) return;
    form.dataset.off = 'true';
    draw();
  });
}

export function signIn(options) {
  if (document.getElementById('signin-dialog')) return;
  const made = signInForm({ ...options, prefix: 'again', then: () => dialog.close() });
  made.form.querySelector('.actions').prepend(button(t('cancel'), () => dialog.close()));
  const dialog = openDialog(t('account.signIn'), { id: 'signin-dialog' }, made.form);
  tellOff(made);
}

// Why the sign-in that stood was refused, for whoever asks for the next one.
export const refusal = { now: null };

// In place of a page: what it takes to see it. `page` is one that exists for somebody else.
export function gate(ctx, page) {
  ctx.heading({ title: t(page ? page.title : 'gate.nothing') });
  if (!page) {
    ctx.root.append(h('div', { className: 'card' }, h('p', {}, t('gate.noPage')), h('a', { href: '#overview' }, t('nav.overview'))));
  } else if (session.as && page.who === session.as) {
    ctx.root.append(h('div', { className: 'card', data: { gate: 'denied' } }, h('p', {}, t('gate.denied'))));
  } else {
    const made = signInForm({ as: page.who === 'client' ? 'client' : 'admin', ...refusal.now });
    refusal.now = null;
    ctx.root.append(h('div', { className: 'card narrow', data: { gate: page.who } }, h('h2', {}, t('account.signIn')), session.as ? h('p', {}, t('gate.other')) : null, made.form));
    tellOff(made);
  }
}

// A card for a page that shows more to those who are signed in.
export const signInCard = (text) => h('section', { className: 'card', data: { gate: 'more' } }, h('h2', {}, t('account.signIn')), h('p', {}, text), button(t('account.signIn'), () => signIn({}), { className: 'primary' }));
