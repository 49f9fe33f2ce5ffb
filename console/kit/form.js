// Forms: fields from a description, their values, and the server's errors beside them.
import { describe, Problem } from './api.js';
import { h, raw } from './dom.js';
import { t } from './text.js';

let forms = 0;

function control(f, id, describedBy) {
  const props = { id, name: f.name, 'aria-describedby': describedBy, required: f.required || false };
  if (f.type === 'select') {
    const node = h('select', { ...props, onchange: f.onchange }, f.options.map(([value, words]) => h('option', { value }, words)));
    if (f.value !== undefined && f.value !== null) node.value = f.value;
    return node;
  }
  if (f.type === 'textarea') return h('textarea', { ...props, rows: 4, spellcheck: false, value: f.value ?? '', maxLength: f.maxLength });
  return h('input', {
    ...props, type: f.type || 'text', autocomplete: 'off', spellcheck: false, value: f.value ?? '', maxLength: f.maxLength, min: f.min, max: f.max, step: f.step,
    oninput: f.oninput, onchange: f.onchange,
  });
}

// One field. Types: text, password, number, datetime-local, url, select, textarea, checks (a list of boxes), check (one box).
export function field(f, prefix) {
  const id = `${prefix}-${f.name}`;
  const error = h('p', { className: 'field-error', id: `${id}-error`, data: { field: f.name } });
  const hint = f.hint ? h('p', { className: 'note', id: `${id}-hint` }, f.hint) : null;
  const describedBy = [error.id, hint?.id].filter(Boolean).join(' ');
  if (f.type === 'checks') {
    return h('fieldset', { id, 'aria-describedby': describedBy }, h('legend', {}, f.label), h('div', { className: 'checks' }, f.options.map(([value, words, title]) => h('label', { title },
      h('input', { type: 'checkbox', name: f.name, value, checked: (f.value || []).includes(value) }), h('span', {}, words ?? raw(value))))), hint, error);
  }
  if (f.type === 'check') {
    return h('div', {}, h('label', { className: 'check' }, h('input', { type: 'checkbox', id, name: f.name, checked: Boolean(f.value), 'aria-describedby': describedBy }), h('span', {}, f.label)), hint, error);
  }
  return h('div', {}, h('label', { htmlFor: id }, f.label, f.optional ? h('span', { className: 'optional' }, ` ${t('optional')}`) : null), control(f, id, describedBy), hint, error);
}

// What is filled in: text trimmed, numbers as numbers (empty: null), boxes as lists or truth; what is empty is '' (or left out with `filled`).
// What is no number or time looks empty to a program: it is a Problem.
export function values(form, fields) {
  return Object.fromEntries(fields.map((f) => {
    const node = form.elements.namedItem(f.name);
    if (node.validity?.badInput) throw new Problem(400, { errors: [{ field: f.name, message: t('form.bad') }] });
    if (f.type === 'checks') return [f.name, [...form.querySelectorAll(`[name="${f.name}"]:checked`)].map((box) => box.value)];
    if (f.type === 'check') return [f.name, node.checked];
    if (f.type === 'number') return [f.name, node.value.trim() === '' ? null : Number(node.value)];
    if (f.type === 'datetime-local') return [f.name, node.value ? new Date(node.value).toISOString() : ''];
    return [f.name, f.type === 'password' || f.type === 'textarea' ? node.value : node.value.trim()];
  }));
}

export const filled = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== '' && value !== null && value !== undefined));

export function clearProblem(form) {
  form.querySelectorAll('.form-error, .field-error').forEach((node) => node.replaceChildren());
  form.querySelectorAll('[aria-invalid]').forEach((node) => node.removeAttribute('aria-invalid'));
}

// The server's errors, each beside its field; what has no field stands below.
export function showProblem(form, problem) {
  clearProblem(form);
  const rest = [];
  for (const { field: name, message } of problem.errors) {
    const place = [...form.querySelectorAll('[data-field]')].find((node) => node.dataset.field.toLowerCase() === name.replace(/\W.*/, '').toLowerCase());
    if (place) {
      place.replaceChildren(raw(message));
      const node = form.elements.namedItem(place.dataset.field);
      (node instanceof RadioNodeList ? node[0] : node)?.setAttribute('aria-invalid', 'true');
    } else {
      rest.push(raw(`${name}: ${message}`, 'div'));
    }
  }
  if (rest.length || problem.errors.length === 0) form.querySelector('.form-error').replaceChildren(...describe(problem).filter(Boolean), ...rest);
  form.querySelector('[aria-invalid]')?.focus();
}

// A form in a page: `submit(values)` is busy while it runs. Returns the node, with `values()` and `fail(problem)` on it.
export function form({ id = `form-${++forms}`, fields, submit, label, words = t('apply'), className = 'filters', role }) {
  const node = h('form', { id, className, noValidate: true, 'aria-label': label, role }, fields.map((f) => field(f, id)),
    words ? h('button', { type: 'submit', className: className === 'filters' ? '' : 'primary' }, words) : null, h('div', { className: 'form-error', role: 'alert' }));
  node.values = () => values(node, fields);
  node.fail = (problem) => showProblem(node, problem);
  node.onsubmit = async (event) => {
    event.preventDefault();
    const send = node.querySelector('[type=submit]');
    if (send) send.disabled = true;
    clearProblem(node);
    try {
      await submit(node.values(), node);
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      node.fail(problem);
    } finally {
      if (send) send.disabled = false;
    }
  };
  return node;
}
