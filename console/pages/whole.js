// Lists that come whole, filtered as one types; tables sorted by their heads; CSV of what the server does not export.
import { get } from '../kit/api.js';
import { button, card, DASH, h, note, patch } from '../kit/dom.js';
import { EXPORTED, table } from '../kit/table.js';
import { named, number, t } from '../kit/text.js';
import { time } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';

const MOST = 500; // are drawn
export const BATCHES = ['Pending', 'Scheduled', 'Processing', 'Completed', 'CompletedWithErrors', 'Failed', 'Cancelled'];

// Columns: of one member, `by` which they can be sorted; of buttons. A filter by state.
export const col = (label, by, show = time, more) => ({ label: t(label), by, cell: (row) => show(row[by]), ...more });
export const acts = (cell) => ({ label: t('actions'), hidden: true, cell });
export const count = (label, by, show = (n) => number(n) ?? DASH) => col(label, by, show, { num: true });
export const choice = (names, name = 'status', label = t('w.status')) => ({ name, type: 'select', label, options: [['', t('any')], ...names.map((one) => [one, named('state', one)])] });

async function all(ctx, path, params) {
  const rows = [];
  for (let page = 1, after; ; page++) {
    const { items, next, total } = await get(path, { ...params, pageSize: 200, ...(after ? { after } : { page }) }, ctx);
    rows.push(...items);
    after = next;
    if (rows.length >= EXPORTED) {
      notice(t('list.cut', { n: EXPORTED }));
      return rows;
    }
    if (!items.length || !(after ?? (after === undefined && rows.length < total))) return rows;
  }
}

// What a spreadsheet would run begins with an apostrophe, as in the server's own.
const cell = (value) => `"${(typeof value === 'string' ? value.replace(/^[=+\-@\t\r\n]/, "'$&") : JSON.stringify(value)).replaceAll('"', '""')}"`;

const csvButton = (id, rows) => act(t('list.csv'), async () => {
  const items = await rows();
  const names = [...new Set(items.flatMap(Object.keys))];
  const href = URL.createObjectURL(new Blob([names, ...items.map((item) => names.map((name) => item[name] ?? ''))].map((line) => `${line.map(cell)}\r\n`)));
  h('a', { href, download: `${id}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}, { id: `${id}-csv` });

// Beside a list of kit/table.js: all that its filters match.
export const addCsv = (ctx, id, path, shown) => ctx.root.querySelector(`#${id}-card .list-head`).append(csvButton(id, () => all(ctx, path, shown.filter())));

const orders = {}; // of each table, for when `again` draws it

export function sorted({ rows, ...spec }, again) {
  const { label, down } = orders[spec.id] ?? {};
  const by = spec.columns.find((c) => c.label === label)?.by;
  const order = (a, b) => (a === b ? 0 : a === '' || a < b ? -1 : 1) * (down ? -1 : 1);
  const head = (c) => c.by && {
    props: by === c.by && { 'aria-sort': down ? 'descending' : 'ascending' },
    content: button(c.label, () => { orders[spec.id] = { label: c.label, down: by === c.by && !down }; again(); }, { className: 'sorter' }),
  };
  return [table({ ...spec, head, rows: (by ? [...rows].sort((a, b) => order(a[by] ?? '', b[by] ?? '')) : rows).slice(0, MOST) }), rows.length > MOST ? note(t('w.first', { n: MOST })) : null];
}

export function whole(ctx, { path, words, ...spec }) {
  let rows = [];
  const found = h('p', { className: 'note found', role: 'status' });
  const body = h('div');
  const input = h('input', { type: 'search', id: `${spec.id}-name`, 'aria-label': t('w.filter'), placeholder: t('w.filter'), value: ctx.query.get('name'), oninput: () => { history.replaceState(null, '', ctx.address({ name: input.value })); draw(); } });
  const wanted = () => rows.filter((row) => words(row).toLowerCase().includes(input.value.trim().toLowerCase()));
  function draw() {
    const some = wanted();
    found.textContent = t('list.total', { n: some.length });
    patch(body, some.length ? sorted({ ...spec, rows: some }, draw) : note(t('none')));
  }
  ctx.root.append(card(null, h('div', { className: 'list-head' }, input, found, csvButton(spec.id, wanted)), body));
  return ctx.watch(5000, () => all(ctx, path), (data) => { rows = data; draw(); });
}
