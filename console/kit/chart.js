// Charts: bars over time with marks, and a line over the last minute. The figures are in the label, for those who do not see them.
import { h, svg } from './dom.js';

const WIDTH = 600;
const HEIGHT = 100;

const frame = (label, ...children) => svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', ...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': 'true' }) }, ...children);
const base = () => svg('line', { class: 'base', x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT });

// A bar for each value; what is null has none. `marks` are {at (0 to 1), title, bad}.
export function bars(values, { label, marks = [], top = Math.max(1, ...values.map((v) => v ?? 0)) * 1.05 } = {}) {
  const step = WIDTH / Math.max(values.length, 1);
  const width = Math.max(step * 0.8, 0.5);
  const d = values.map((v, i) => (v > 0 ? `M${(i * step).toFixed(1)} ${HEIGHT}h${width.toFixed(1)}v${((-HEIGHT * v) / top).toFixed(1)}h${(-width).toFixed(1)}z` : '')).join('');
  return frame(label, base(), svg('path', { class: 'bars', d }), ...marks.map(({ at, title, bad }) => {
    const words = svg('title', {});
    words.textContent = title;
    return svg('line', { class: bad ? 'tick bad' : 'tick', x1: at * WIDTH, x2: at * WIDTH, y1: 0, y2: HEIGHT }, words);
  }));
}

// A line and the area below it; `points` is how many values fill its width.
export function line(values, { label, points = values.length } = {}) {
  if (values.length < 2) return frame(label, base());
  const top = Math.max(1e-9, ...values) * 1.1;
  const step = WIDTH / Math.max(points - 1, 1);
  const from = WIDTH - step * (values.length - 1);
  const way = values.map((v, i) => `${(from + i * step).toFixed(1)} ${(HEIGHT - (v / top) * HEIGHT).toFixed(1)}`).join('L');
  return frame(label, base(), svg('path', { class: 'area', d: `M${from.toFixed(1)} ${HEIGHT}L${way}L${WIDTH} ${HEIGHT}Z` }), svg('path', { class: 'stroke', d: `M${way}` }));
}

// A share of a whole, 0 to 1.
export const meter = (share, label, state = share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'ok') => {
  const fill = svg('rect', { class: 'fill', x: 0, y: 0, width: Math.min(share, 1) * WIDTH, height: HEIGHT });
  return h('div', { className: 'meter', data: { state } }, frame(label, fill));
};
