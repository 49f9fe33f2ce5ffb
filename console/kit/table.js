// Tables, and lists that scale: filters and place in the address, keyset pages, newer rows announced instead of jumping in, CSV,
// selection by row or by filter, failures by cause.
import { download, get, isMissing, Problem, query } from './api.js';
import { button, h, linkButton, note, patch, plain, raw } from './dom.js';
import { clearProblem, field, filled, showProblem, values } from './form.js';
import { go } from './router.js';
import { number, t } from './text.js';
import { time } from './time.js';
import { act, notice, tell } from './toast.js';

const PAGE = 20;
export const EXPORTED = 100000; // rows that an export has at most

// Columns are {label, cell(row), num?, wide?, hidden? (a label for those who do not see)}. Rows need a `key`.
export function table({ label, columns, rows, key, id, rowProps, head }) {
  columns = columns.filter(Boolean);
  return h('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': label },
    h('table', { className: 'stack', id },
      h('thead', {}, h('tr', {}, columns.map((c, i) => h('th', { scope: 'col', className: c.num ? 'num' : '', ...(head?.(c, i)?.props) },
        c.hidden ? h('span', { className: 'sr' }, c.label) : head?.(c, i)?.content ?? c.label)))),
      h('tbody', {}, rows.map((row) => h('tr', { ...rowProps?.(row), data: { key: key(row), ...rowProps?.(row)?.data } }, columns.map((c) => h('td', {
        className: [c.num ? 'num' : '', c.wide ? 'wide' : ''].join(' ').trim(), ...(c.label && !c.main && !c.hidden && !c.tick && { 'data-label': c.label }),
      }, c.cell(row))))))));
}

const totalOf = (answer) => t(answer.totalIsEstimate ? 'list.about' : 'list.total', { n: answer.total ?? answer.items.length });

// A list in a page. spec:
//   id, label, path (what is asked), columns, key(row), rowProps?(row)
//   filters?   fields of a form; a select looks as soon as it is chosen. Their values are in the address
//   csv?       path of the export     causes?  path of the failures by cause
//   order?     label of the column by which the server sorts (newest or oldest first)
//   actions?   [{words, run({ids, rows, filter, all, total}) → promise}], for rows that are selected or for all that match
//   empty?     text or node        every?   milliseconds between looks (5000; 0: never)
//   then?(answer)  called with each answer
export function list(ctx, spec) {
  const { path, id } = spec;
  const filters = spec.filters || [];
  const at = (name) => ctx.query.get(name) || '';
  const filter = () => filled(Object.fromEntries(filters.map((f) => [f.name, at(f.name)])));
  const after = at('after');
  const oldest = at('order') === 'oldest';
  const address = (more) => ctx.address({ ...filter(), ...(oldest && { order: 'oldest' }), ...more });
  const selected = new Map();
  let all = false;
  let rows = [];
  let answer = null;
  let waiting = null; // an answer with newer rows, that nobody asked to see yet

  const params = () => ({
    ...filter(), pageSize: PAGE, ...(oldest && { order: 'oldest' }), ...(after.startsWith('page:') ? { page: after.slice(5) } : after && { after }),
  });
  // Servers that have no cursor for this list have pages.
  const nextOf = (a) => a.next ?? (a.next === undefined && a.page * a.pageSize < a.total ? `page:${a.page + 1}` : null);

  const body = h('div', { id: `${id}-list` });
  const causes = h('div', {});
  const bar = h('div', { className: 'selection', role: 'group', 'aria-label': t('list.selection') });
  const news = h('div', { className: 'news', role: 'status' });
  const found = h('p', { className: 'note found', role: 'status', id: `${id}-found` });

  const form = filters.length ? h('form', { className: 'filters', role: 'search', 'aria-label': spec.label, noValidate: true, id: `${id}-form` },
    filters.map((f) => field({ ...f, value: f.type === 'datetime-local' ? localValue(at(f.name)) : at(f.name), ...(f.type === 'select' && { onchange: submit }) }, id)),
    h('div', { className: 'filter-actions' }, h('button', { type: 'submit', className: 'primary' }, t('apply')), Object.keys(filter()).length ? linkButton(t('list.clear'), ctx.address({})) : null),
    h('div', { className: 'form-error', role: 'alert' })) : null;
  if (form) form.onsubmit = (event) => { event.preventDefault(); submit(); };

  function submit() {
    clearProblem(form);
    try {
      const where = ctx.address({ ...filled(values(form, filters)), ...(oldest && { order: 'oldest' }) });
      if (location.hash === where) look().catch(tell);
      else go(where, { keepFocus: true });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      showProblem(form, problem);
    }
  }

  // --- selecting ---

  function selection() {
    if (!spec.actions?.length) return;
    const count = all ? answer.total : selected.size;
    patch(bar, count === 0 ? note(t('list.none')) : [
      h('strong', { role: 'status' }, all ? t(answer.totalIsEstimate ? 'list.aboutMatching' : 'list.matching', { n: count }) : t('list.selected', { n: count })),
      !all && selected.size === rows.length && answer.total > rows.length ? button(t('list.takeAll', { n: answer.total }), () => { all = true; draw(); }, { className: 'link', id: `${id}-all` }) : null,
      spec.actions.map((a) => act(a.words, async () => {
        const ran = await a.run({ ids: [...selected.keys()], rows: [...selected.values()], filter: filter(), all, total: count });
        if (ran === undefined) return;
        selected.clear();
        all = false;
        await reload();
      }, { className: a.danger ? 'danger' : '' })),
      button(t('list.unselect'), () => { selected.clear(); all = false; draw(); }, { className: 'link' }),
    ]);
  }

  const box = (label, checked, toggle) => {
    const node = h('input', { type: 'checkbox', 'aria-label': label, onchange: (event) => { all = false; toggle(event.currentTarget.checked); draw(); } });
    node.checked = checked;
    return node;
  };

  function columns() {
    if (!spec.actions?.length) return spec.columns.filter(Boolean);
    return [{
      label: t('list.select'), tick: true,
      cell: (row) => box(t('list.selectRow', { what: spec.name?.(row) ?? spec.key(row) }), all || selected.has(spec.key(row)), (on) => (on ? selected.set(spec.key(row), row) : selected.delete(spec.key(row)))),
    }, ...spec.columns.filter(Boolean)];
  }

  // The head of the column that the server sorts by, and the box for all rows.
  function head(column) {
    if (column.tick) {
      return { content: box(t('list.selectPage'), rows.length > 0 && (all || selected.size === rows.length), (on) => rows.forEach((row) => (on ? selected.set(spec.key(row), row) : selected.delete(spec.key(row))))) };
    }
    if (!spec.order || column.label !== spec.order) return null;
    return {
      props: { 'aria-sort': oldest ? 'ascending' : 'descending' },
      content: h('a', { className: 'sorter', href: ctx.address({ ...filter(), ...(oldest ? {} : { order: 'oldest' }) }) }, column.label),
    };
  }

  // --- drawing ---

  function draw() {
    const next = nextOf(answer);
    found.textContent = totalOf(answer);
    patch(body, rows.length ? table({ label: spec.label, columns: columns(), rows, key: spec.key, id: `${id}-table`, rowProps: spec.rowProps, head }) : note(spec.empty || t('none')),
      after || next ? h('nav', { className: 'pager', 'aria-label': t('list.pages') },
        after ? linkButton(t('list.first'), address({})) : h('span', {}), next ? linkButton(t('list.next'), address({ after: next })) : h('span', {})) : null);
    // A box keeps what was ticked by hand; what the selection says comes after.
    for (const input of body.querySelectorAll('tbody input[type=checkbox]')) input.checked = all || [...selected.keys()].some((k) => String(k) === input.closest('tr').dataset.key);
    const top = body.querySelector('thead input');
    if (top) top.checked = rows.length > 0 && (all || rows.every((row) => selected.has(spec.key(row))));
    selection();
  }

  function show(data) {
    answer = data;
    waiting = null;
    rows = data.items;
    for (const key of selected.keys()) if (!rows.some((row) => spec.key(row) === key)) selected.delete(key);
    patch(news);
    draw();
    spec.then?.(data);
  }

  // Rows that stand there are brought up to date; newer ones wait until somebody wants them.
  function refresh(data) {
    const standing = new Set(rows.map(spec.key));
    const fresh = data.items.filter((row) => !standing.has(spec.key(row)));
    if (!fresh.length || !rows.length || after || oldest || data.items.length - fresh.length === 0 && !nextOf(data)) return show(data);
    const now = new Map(data.items.map((row) => [spec.key(row), row]));
    answer = { ...data, next: answer.next };
    rows = rows.map((row) => now.get(spec.key(row)) ?? (nextOf(data) ? row : null)).filter(Boolean);
    waiting = data;
    draw();
    spec.then?.(data);
    patch(news, button(t('list.newer', { n: fresh.length }), () => { show(waiting); body.querySelector('a, button')?.focus(); }, { className: 'primary', id: `${id}-newer` }));
    return null;
  }

  async function causesOf() {
    if (!spec.causes) return;
    try {
      const { items } = await get(spec.causes, { ...filter() }, { signal: ctx.signal });
      patch(causes, items.length ? h('details', { className: 'card causes', open: true, data: { key: 'causes' } }, h('summary', {}, t('causes.title', { n: items.length })),
        h('ul', {}, items.map((c) => h('li', { data: { key: c.cause } },
          h('strong', { className: 'num' }, number(c.count)), h('a', { href: ctx.address({ ...filter(), error: c.cause }), ...(at('error') === c.cause && { 'aria-current': 'true' }) }, raw(plain(c.cause))),
          h('span', { className: 'badge', data: { state: c.retried ? 'retry' : 'bad' } }, t(c.retried ? 'causes.retried' : 'causes.person')), h('span', { className: 'note' }, time(c.last)))))) : null);
    } catch (problem) {
      if (!isMissing(problem)) throw problem;
    }
  }

  async function look(refreshing = false) {
    try {
      const data = await get(path, params(), { signal: ctx.signal });
      if (refreshing && answer) refresh(data);
      else show(data);
    } catch (problem) {
      if (form && problem instanceof Problem && problem.errors.length) {
        showProblem(form, problem);
        patch(body);
        found.textContent = '';
        return;
      }
      throw problem;
    }
    await causesOf();
  }

  const reload = () => look(false);

  const export_ = spec.csv ? act(t('list.csv'), async () => {
    await download(spec.csv + query({ ...filter(), ...(oldest && { order: 'oldest' }), limit: EXPORTED }), `${id}.csv`);
    if (answer?.total > EXPORTED) notice(t('list.cut', { n: EXPORTED }));
  }, { id: `${id}-csv` }) : null;
  ctx.root.append(...[form && h('div', { className: 'card' }, form), causes, h('div', { className: 'card', id: `${id}-card` }, h('div', { className: 'list-head' }, found, bar, export_), news, body)].filter(Boolean));
  if (spec.every !== 0) ctx.every(spec.every || 5000, () => look(true));
  return { ready: look(), reload, filter };
}

function localValue(iso) {
  if (!iso) return '';
  const d = new Date(iso);
  return new Date(d.getTime() - d.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}
