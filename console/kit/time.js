// Times: how long ago or how soon, kept true while they stand; local time with UTC at hand, or UTC by choice.
import { DASH, h } from './dom.js';
import { locale, number, t } from './text.js';

const ZONE = 'dataflow.zone';
export const isUtc = localStorage.getItem(ZONE) === 'utc';

export function setZone(zone) {
  if (zone === 'utc') localStorage.setItem(ZONE, zone);
  else localStorage.removeItem(ZONE);
  location.reload();
}

export function duration(s) {
  s = Math.floor(s);
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([size]) => s >= size);
  if (first < 0) return '0 s';
  return parts.slice(first, first + 2).map(([size, unit], i) => [Math.floor((i ? s % parts[first][0] : s) / size), unit])
    .filter(([count], i) => i === 0 || count > 0).map(([count, unit]) => `${count} ${unit}`).join(' ');
}

// Of something measured.
export function took(s) {
  if (s === null || s === undefined || !Number.isFinite(s)) return DASH;
  if (s === 0) return '< 1 ms';
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  return s < 1 ? `${number(s * 1000)} ms` : s < 100 ? `${number(s)} s` : duration(s);
}

export function when(iso) {
  const ago = (Date.now() - Date.parse(iso)) / 1000;
  if (Number.isNaN(ago)) return iso;
  const words = duration(Math.abs(ago)).replace(/^(\d+ \w+).*/, '$1');
  if (ago <= -1) return t('time.in', { words });
  if (ago < 5) return t('time.now');
  return ago < 86400 * 30 ? t('time.ago', { words }) : local(iso).slice(0, 10);
}

const pad = (n, size = 2) => String(n).padStart(size, '0');

export const utc = (iso) => `${new Date(iso).toISOString().slice(0, 23).replace('T', ' ')} UTC`;

// 2026-11-15 03:16:05.123, local.
export function local(iso) {
  const d = new Date(iso);
  if (Number.isNaN(d.getTime())) return iso;
  if (isUtc) return utc(iso);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}.${pad(d.getMilliseconds(), 3)}`;
}

export const clock = (iso) => new Date(iso).toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit', ...(isUtc && { timeZone: 'UTC' }) });
// The moment as people say it: 22:14, or with its day when that is another.
export const moment = (iso) => (iso ? h('time', { dateTime: iso, title: title(iso) }, new Date(iso).toDateString() === new Date().toDateString() ? clock(iso) : local(iso).slice(0, 16)) : DASH);
const title = (iso) => (isUtc ? utc(iso) : `${local(iso)} · ${utc(iso)}`);

// How long ago; or, `exact`, the moment itself. The other is in the title, with UTC.
export const time = (iso) => (iso ? h('time', { dateTime: iso, title: title(iso), data: { live: '' } }, when(iso)) : DASH);
export const stamp = (iso) => (iso ? h('time', { dateTime: iso, title: title(iso) }, local(iso)) : DASH);
export const instant = (iso) => (iso ? [stamp(iso), ' (', time(iso), ')'] : DASH);

export function keepTime() {
  for (const node of document.querySelectorAll('time[data-live]')) {
    const now = when(node.dateTime);
    if (node.textContent !== now) node.textContent = now;
  }
}
