// What is told above a page: that something was done, or why it was not. It stays until it is dismissed, replaced or left.
import { describe, Problem } from './api.js';
import { $, button, h, raw } from './dom.js';
import { t } from './text.js';

function announce(state, role, ...words) {
  const box = h('div', { className: 'alert', role, data: { state } }, h('div', {}, ...words),
    button('×', () => box.remove(), { className: 'quiet', 'aria-label': t('close') }));
  $('messages').replaceChildren(box);
}

export const notice = (words) => announce('ok', 'status', words);
export const quiet = () => $('messages').replaceChildren();

export function tell(problem) {
  if (!(problem instanceof Problem)) throw problem;
  if (problem.status < 0) return; // the page was left meanwhile
  announce('bad', 'alert', describe(problem), problem.errors.map(({ field, message }) => raw(`${field}: ${message}`, 'div')));
}

// A button whose action is busy while it runs, and tells what went wrong.
export function act(words, action, props = {}) {
  return button(words, async (event) => {
    const node = event.currentTarget;
    node.disabled = true;
    try {
      await action(node);
    } catch (problem) {
      tell(problem);
    } finally {
      node.disabled = false;
      if (node.isConnected && document.activeElement === document.body) node.focus();
    }
  }, props);
}
