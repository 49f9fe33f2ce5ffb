// Dialogs: a question with fields, a secret that is shown once, and work on many rows with preview, progress and outcome.
import { Problem } from './api.js';
import { button, copy, h, raw } from './dom.js';
import { clearProblem, field, showProblem, values } from './form.js';
import { number, t } from './text.js';

let dialogs = 0;

// Opens, and is gone from the page when it closes; the focus goes back to where it was.
export function openDialog(title, { id = `dialog-${++dialogs}`, wide = false, stubborn = false }, ...content) {
  const back = document.activeElement;
  const key = back?.closest?.('[data-key]')?.dataset.key;
  const label = back?.textContent;
  const node = h('dialog', { id, className: wide ? 'wide' : '', 'aria-labelledby': `${id}-title` }, h('h2', { id: `${id}-title` }, title), ...content);
  document.body.append(node);
  node.oncancel = (event) => { if (stubborn) event.preventDefault(); };
  node.onkeydown = (event) => { if (stubborn && event.key === 'Escape') event.preventDefault(); }; // a second Esc would close it all the same
  node.onclose = () => {
    node.remove();
    // The page may have been drawn again meanwhile: the same button of the same row, else the heading.
    const again = back?.isConnected && back !== document.body ? back
      : [...document.querySelectorAll(key ? `[data-key="${CSS.escape(key)}"] :is(a, button)` : 'main :is(a, button)')].find((one) => one.textContent === label);
    (again || document.querySelector('h1'))?.focus();
    node.onclosed?.();
  };
  node.showModal();
  return node;
}

// Asks, then acts: `action(values)` keeps the dialog open with the reason when it fails. Resolves to what it gave, or undefined when closed.
export function ask({ title, text, fields = [], submit, danger = false, action, id }) {
  return new Promise((done) => {
    const prefix = id || `ask-${dialogs + 1}`;
    let result;
    const send = h('button', { type: 'submit', className: danger ? 'danger' : 'primary' }, submit);
    const form = h('form', { method: 'dialog', noValidate: true, id: `${prefix}-form` },
      (Array.isArray(text) ? text : [text]).filter(Boolean).map((one) => (one instanceof Node ? one : h('p', {}, one))), fields.map((f) => field(f, prefix)),
      h('div', { className: 'form-error', role: 'alert' }),
      h('div', { className: 'actions' }, button(t('cancel'), () => dialog.close(), { data: { close: '' } }), send));
    const dialog = openDialog(title, { id: id ? `${id}-dialog` : undefined }, form);
    dialog.onclosed = () => done(result);
    form.onsubmit = async (event) => {
      event.preventDefault();
      send.disabled = true;
      clearProblem(form);
      try {
        result = (await action(values(form, fields), dialog)) ?? true;
        dialog.close();
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        showProblem(form, problem);
      } finally {
        send.disabled = false;
      }
    };
  });
}

export function copyRow(label, value, id) {
  const node = raw(value, 'code', { id, tabIndex: 0, 'aria-label': label });
  return h('div', { className: 'copy-row' }, h('span', { className: 'copy-label' }, label), node, button(t('copy'), (event) => copy(node, event.currentTarget), { 'aria-label': `${t('copy')}: ${label}` }));
}

// Shown this once, until it is acknowledged. `rows` are [label, value, id?]; `more` are buttons beside the acknowledgement.
export function showSecret(title, rows, more = []) {
  return new Promise((done) => {
    const dialog = openDialog(title, { id: 'secret-dialog', wide: true, stubborn: true }, h('form', { method: 'dialog' },
      h('p', { className: 'banner' }, t('secret.once')), rows.map(([label, value, id]) => copyRow(label, value, id)),
      h('div', { className: 'actions' }, more, h('button', { type: 'submit', className: 'primary' }, t('secret.stored')))));
    dialog.onclosed = done;
  });
}

// A step of `work` that acts on one after the other. What is gone or was done meanwhile is left out; after another problem it is still there.
export function oneByOne(ids, action) {
  const left = [...ids];
  return async () => {
    let failed = 0;
    try {
      await action(left[0]);
    } catch (problem) {
      if (![404, 409, 410].includes(problem.status)) throw problem;
      failed = 1;
    }
    left.shift();
    return { done: 1 - failed, failed, left: left.length };
  };
}

// Work on many rows. `preview()` gives how many; `step(signal)` does a part and gives {done, left, failed?}, until nothing is left.
// `words`: {count: n => text, done: (n, failed) => text}. Resolves to how many were done, or undefined.
export function work({ title, text, preview, step, submit, words, id = 'work', danger = false, fields = [] }) {
  return new Promise((resolve) => {
    let done = 0;
    let failed = 0;
    let ran = false;
    const stop = new AbortController();
    const said = h('p', { role: 'status', id: `${id}-text` }, t('counting'));
    const bar = h('progress', { hidden: true, 'aria-label': title });
    const error = h('div', { className: 'form-error', role: 'alert' });
    const send = h('button', { type: 'submit', className: danger ? 'danger' : 'primary', disabled: true, id: `${id}-submit` }, submit);
    const close = button(t('cancel'), () => dialog.close(), { data: { close: '' } });
    const form = h('form', { method: 'dialog', noValidate: true, id: `${id}-form` }, text ? h('p', {}, text) : null, fields.map((f) => field({ ...f, oninput: () => count() }, id)), said, bar, error,
      h('div', { className: 'actions' }, close, send));
    const dialog = openDialog(title, { id: `${id}-dialog` }, form);
    dialog.onclosed = () => { stop.abort(); resolve(ran ? done : undefined); };
    let total = 0;
    let counting = false; // one preview at a time, and the last one counts
    let wanted = false;
    let timer;
    const fail = (problem) => {
      if (!(problem instanceof Problem)) throw problem;
      if (!stop.signal.aborted) showProblem(form, problem);
    };
    function count(wait = 400) {
      wanted = true;
      send.disabled = true;
      said.textContent = t('counting');
      clearTimeout(timer);
      timer = setTimeout(run, wait);
    }
    async function run() {
      if (counting || stop.signal.aborted) return;
      counting = true;
      wanted = false;
      try {
        const n = await preview(values(form, fields), stop.signal);
        if (!wanted) {
          total = n;
          said.textContent = words.count(n);
          send.disabled = n === 0;
        }
      } catch (problem) {
        fail(problem);
      } finally {
        counting = false;
        if (wanted) run();
      }
    }
    form.onsubmit = async (event) => {
      event.preventDefault();
      if (ran && !bar.hidden) return;
      ran = true;
      send.disabled = true;
      bar.hidden = false;
      bar.max = Math.max(total, 1);
      try {
        for (let left = true; left && !stop.signal.aborted;) {
          const one = await step(values(form, fields), stop.signal);
          done += one.done;
          failed += one.failed ?? 0;
          left = one.left > 0 && (one.done > 0 || one.failed > 0);
          bar.value = done + failed;
          said.textContent = t('work.progress', { n: number(done), of: number(Math.max(total, done)) });
        }
        if (failed) {
          said.textContent = words.done(done, failed);
          close.textContent = t('close');
          send.hidden = true;
        } else {
          dialog.close();
        }
      } catch (problem) {
        fail(problem);
        send.disabled = false;
      } finally {
        bar.hidden = true;
      }
    };
    count(0);
  });
}
