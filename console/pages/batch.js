// One import, of the client itself or of any client for an operator: its progress as it happens, what it waits for, why records failed,
// and their cells to be corrected and sent again.
import '../texts/importer.js';
import { call, curlButton, download, get, isMissing, path, Problem } from '../kit/api.js';
import { $, badge, button, bytes, card, code, DASH, facts, folded, h, linkButton, note, patch, raw, reason } from '../kit/dom.js';
import { ask } from '../kit/dialog.js';
import { address } from '../kit/router.js';
import { isAdmin, isClient, may } from '../kit/session.js';
import { table } from '../kit/table.js';
import { has, named, number, t } from '../kit/text.js';
import { duration, instant, moment, time, took } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';
import { events } from './stream.js';

const PAGE = 50;
const MOST = 10000; // rows that one retry takes with corrections
const COLUMNS = 60; // of a file that are shown
const FORMATS = ['xlsx', 'csv', 'json'];
const OVER = ['Completed', 'CompletedWithErrors', 'Failed', 'Cancelled'];
const isOver = (batch) => OVER.includes(batch.status);

// Corrections that were not sent yet, by batch and record: they stay while somebody turns pages.
const drafts = new Map();
const draftOf = (id) => {
  if (!drafts.has(id)) drafts.set(id, new Map());
  return drafts.get(id);
};
document.addEventListener('session', () => drafts.clear());
addEventListener('beforeunload', (event) => { if ([...drafts.values()].some((draft) => draft.size)) event.preventDefault(); });

// --- what it waits for ---

function waitLine(batch) {
  const wait = batch.waiting;
  if (!wait) return null;
  const key = `imp.wait.${wait.code === 'InLine' && !wait.place ? 'Turn' : wait.code}`;
  const times = [wait.since && [t('wait.since'), ' ', moment(wait.since)], wait.next && [t('imp.wait.next'), ' ', time(wait.next)]].filter(Boolean);
  return h('p', { className: 'banner', id: 'import-wait', data: { code: wait.code } }, has(key) ? t(key, { place: wait.place }) : [t('imp.wait.other'), ' ', raw(wait.detail)], times.map((one, i) => [i ? ', ' : ' (', one, i === times.length - 1 ? ')' : null]),
    wait.behind ? [' ', h('a', { href: address(['imports', wait.behind]) }, t('imp.wait.behind'))] : null);
}

// --- progress ---

function pace(batch) {
  if (isOver(batch)) {
    const spent = (Date.parse(batch.completedAt) - Date.parse(batch.startedAt)) / 1000;
    return spent >= 0 ? [t('w.took', { time: took(spent) })] : [];
  }
  if (batch.status !== 'Processing' || batch.waiting) return [];
  return [batch.rowsPerSecond > 0 ? t('imp.rate', { rate: batch.rowsPerSecond }) : null,
    batch.remainingSeconds === null || batch.remainingSeconds === undefined ? t('imp.leftUnknown') : t('imp.left', { time: duration(batch.remainingSeconds) })].filter(Boolean);
}

const tile = (name, id, value, { bad, more } = {}) => h('div', { className: 'card tile' }, h('dt', {}, name), h('dd', { id, className: bad && value > 0 ? 'some' : '' }, number(value)), more ? h('dd', { className: 'note' }, more) : null);

function progressCard(batch) {
  const total = batch.totalRecords;
  const known = total > 0;
  const bar = h('progress', { id: 'import-progress', 'aria-label': t('imp.bar'), max: known ? total : 1 });
  if (known || isOver(batch)) bar.setAttribute('value', known ? batch.processedRecords : 1);
  const words = known ? t('imp.ofRecords', { done: batch.processedRecords, n: total }) : t('imp.whole', { n: batch.processedRecords });
  return h('section', { className: 'card', id: 'import-batch', data: { status: batch.status } },
    h('p', { className: 'step' }, badge(batch.status), ' ',
      batch.status === 'Scheduled' ? h('span', { className: 'note' }, t('imp.begins'), ' ', instant(batch.scheduledFor)) : h('span', { className: 'note', id: 'import-words' }, [words, ...pace(batch)].join(' · '))),
    waitLine(batch), ['Pending', 'Scheduled', 'Cancelled'].includes(batch.status) ? null : bar, reason(batch.lastError),
    h('dl', { className: 'tiles four' }, tile(t('imp.processed'), 'import-processed', batch.processedRecords), tile(t('imp.imported'), 'import-imported', batch.importedCount),
      tile(t('w.errors'), 'import-errors', batch.errorCount, { bad: true }), tile(t('imp.skipped'), 'import-skipped', batch.skippedCount, { more: batch.skippedCount ? t('imp.skippedNote') : null })),
    facts([[t('imp.batchId'), code(batch.batchId)], batch.clientId ? [t('w.client'), h('a', { href: address(['clients', batch.clientId]) }, raw(batch.clientId))] : null,
      [t('w.file'), `${named('imp.format', batch.fileType)}, ${bytes(batch.fileSizeBytes)}`], [t('w.uploaded'), instant(batch.createdAt)], [t('imp.started'), instant(batch.startedAt)],
      [t('imp.ended'), instant(batch.completedAt)], [t('imp.origined'), raw(batch.originDefault || DASH)], [t('imp.askedBy'), raw(batch.requestedBy || DASH)],
      [t('w.attempt'), number(batch.attempt)], batch.lockedBy ? [t('imp.lockedBy'), raw(batch.lockedBy), ' ', time(batch.lockedAt)] : null,
      batch.checksum ? [t('imp.checksumIs'), raw(`${batch.checksum.slice(0, 16)}…`, 'code', { title: batch.checksum })] : null]));
}

// --- the page ---

class BatchPage {
  constructor(ctx) {
    Object.assign(this, { ctx, id: ctx.parts[0], batch: null, reasons: [], items: null, live: false });
    this.draft = draftOf(this.id);
    this.progress = h('div', {});
    this.failed = h('div', { id: 'import-items', className: 'stacked' });
    ctx.root.append(this.progress, this.failed);
  }

  url(...parts) { return path(...(isAdmin() ? ['admin'] : []), 'imports', this.id, ...parts); }

  async look() {
    const { ctx } = this;
    this.batch = await get(this.url(), {}, { signal: ctx.signal });
    const now = [isOver(this.batch), this.batch.errorCount, this.batch.attempt].join();
    if (now !== this.failedOf) await this.lookAtFailed();
    this.failedOf = now;
    this.draw();
    if (!isOver(this.batch)) this.follow();
  }

  async lookAtFailed() {
    const { ctx, batch } = this;
    if (!batch.errorCount) {
      Object.assign(this, { reasons: [], items: null });
      return;
    }
    const reasons = get(this.url('reasons'), {}, { signal: ctx.signal }).catch((problem) => { if (isMissing(problem)) return { items: [] }; throw problem; });
    const items = get(this.url('items'), { status: 'Error', reason: ctx.query.get('reason'), after: ctx.query.get('after'), pageSize: PAGE }, { signal: ctx.signal });
    this.reasons = (await reasons).items;
    this.items = await items;
  }

  // Beside the page's own looking: what the server tells by itself. A stream that breaks is begun again by the next look.
  async follow() {
    if (this.live) return;
    this.live = true;
    let over = false;
    try {
      for await (const { name, data } of events(this.url('events'), this.ctx.signal)) {
        over = name === 'completed';
        if (over) break;
        this.batch = { ...this.batch, ...data };
        this.drawProgress();
      }
    } catch {
      // The bar tells how the server is.
    }
    this.live = false;
    if (over && !this.ctx.signal.aborted) await this.look().catch((problem) => { if (!(problem instanceof Problem)) throw problem; });
  }

  draw() {
    this.drawProgress();
    this.drawFailed();
  }

  drawProgress() {
    const { batch, ctx } = this;
    ctx.heading({ title: raw(batch.fileName), crumbs: [[t('nav.imports'), '#imports']], actions: this.actions() });
    patch(this.progress, progressCard(batch));
  }

  // --- actions ---

  // As they are, or with other values.
  get canRetry() { return this.batch.canRetry ?? (isOver(this.batch) && this.batch.errorCount > 0); }
  get canMend() { return this.batch.canMend ?? this.canRetry; }

  actions() {
    const { batch } = this;
    const may_ = isClient() || may('operate');
    const canCancel = batch.canCancel ?? ['Pending', 'Scheduled'].includes(batch.status);
    return [
      may_ && (this.canRetry || this.draft.size) ? act(t(this.draft.size ? 'imp.retryMended' : 'imp.retry'), () => this.retry(), { id: 'import-retry', className: this.draft.size ? 'primary' : '' }) : null,
      may('operate') && batch.lockedBy ? act(t('imp.release'), () => this.release(), { id: 'import-release' }) : null,
      may_ && canCancel ? act(t('imp.cancel'), () => this.cancel(), { id: 'import-cancel' }) : null,
      curlButton('GET', this.url()),
    ];
  }

  confirm(what, text, method, url, done) {
    return ask({
      id: `import-${what}`, title: t(`imp.${what}`), text, submit: t(`imp.${what}`), danger: true,
      action: async () => {
        await call(method, url);
        notice(done);
        await this.look();
      },
    });
  }

  cancel() {
    const name = this.batch.fileName;
    return this.confirm('cancel', t('imp.cancelText', { name }), 'DELETE', this.url(), t('imp.cancelled', { name }));
  }

  release() { return this.confirm('release', t('imp.releaseText'), 'POST', this.url('release'), t('imp.released')); }

  // How many would fail again: their cell is unchanged, and it is the cell that is wrong.
  inVain() {
    const mended = [...this.draft.values()];
    return this.reasons.filter((one) => !one.retryable).reduce((n, one) => n + Math.max(0, one.count - mended.filter((d) => d.reason === one.reason).length), 0);
  }

  retry() {
    const { batch, draft } = this;
    const items = [...draft].map(([sequence, { values }]) => ({ sequence, values }));
    const vain = this.inVain();
    return ask({
      id: 'import-retry', title: t(items.length ? 'imp.retryMended' : 'imp.retry'), submit: t(items.length ? 'imp.retryMended' : 'imp.retry'),
      text: [t('imp.retryText', { n: batch.errorCount }), items.length ? t('imp.retryWith', { n: items.length }) : null, vain ? t('imp.retryVain', { n: vain }) : null],
      action: async () => {
        const taken = await call('POST', this.url('retry'), items.length ? { body: { items } } : {});
        draft.clear();
        notice(t('imp.retried', { n: taken.items ?? batch.errorCount, name: batch.fileName }));
        await this.look();
      },
    });
  }

  // --- failed records ---

  address(params) { return address(['imports', this.id], params); }

  reasonsCard() {
    if (!this.reasons.length) return null;
    const at = this.ctx.query.get('reason') || '';
    const link = (params, ...words) => h('a', { href: this.address(params), 'aria-current': (params.reason || '') === at ? 'true' : null }, ...words);
    return h('section', { className: 'card causes', id: 'import-reasons' }, h('h2', {}, t('imp.reasons')),
      h('ul', {}, h('li', { data: { key: 'all' } }, h('strong', { className: 'num' }, number(this.batch.errorCount)), link({}, t('imp.reasonAll'))),
        this.reasons.map((one) => h('li', { data: { key: `${one.reason} ${one.message}` } }, h('strong', { className: 'num' }, number(one.count)), one.reason ? link({ reason: one.reason }, raw(one.message || one.reason)) : raw(one.message),
          h('span', { className: 'badge', title: one.reason, data: { state: one.retryable ? 'retry' : 'bad' } }, t(one.retryable ? 'imp.reasonCan' : 'imp.reasonMend')),
          one.firstRow ? h('span', { className: 'note' }, t('imp.firstRow', { row: String(one.firstRow) })) : null))));
  }

  reports() {
    const stem = this.batch.fileName.replace(/\.[^.]*$/, '');
    return h('div', { className: 'row-actions', role: 'group', 'aria-label': t('imp.report') }, h('span', { className: 'note' }, t('imp.report')),
      FORMATS.map((format) => act(raw(format.toUpperCase()), () => download(this.url(`errors.${format}`), `${stem}-errors.${format}`), { 'aria-label': t('imp.reportAs', { format: format.toUpperCase() }) })));
  }

  drawFailed() {
    const { batch, items } = this;
    if (!items) {
      patch(this.failed);
      return;
    }
    const editable = isClient() && this.canMend && items.items.some((item) => item.values);
    patch(this.failed, this.reasonsCard(), card(null, h('div', { className: 'heading' }, h('h2', {}, t('imp.failed')), this.reports()), note(t('imp.reportNote')),
      this.canMend && !this.canRetry ? h('p', { className: 'banner', id: 'import-mend' }, t('imp.retryNot'), ' ', t(editable ? 'imp.mendHere' : 'imp.mendThere')) : null, editable ? note(t('imp.editNote')) : null,
      items.items.length ? this.grid(items.items, editable) : note(t('imp.noneIn')), this.pager(items), h('div', { className: 'savebar', id: 'import-draft', role: 'status', hidden: true })));
    this.drawDraft();
  }

  pager(items) {
    const reasonAt = this.ctx.query.get('reason');
    const { next } = items;
    const after = this.ctx.query.get('after');
    if (!next && !after) return null;
    return h('nav', { className: 'pager', 'aria-label': t('list.pages') }, after ? linkButton(t('list.first'), this.address({ reason: reasonAt })) : h('span', {}),
      next ? linkButton(t('list.next'), this.address({ reason: reasonAt, after: next })) : h('span', {}));
  }

  grid(rows, editable) {
    // An empty cell may be left out of a record: the fullest one has the order of the file.
    const keys = rows.map((item) => Object.keys(item.values ?? {})).sort((a, b) => b.length - a.length);
    const names = [...new Set(keys.flat())].slice(0, COLUMNS);
    const columns = [
      { label: t('imp.row'), num: true, cell: (item) => raw(item.row ?? item.sequence + 1) },
      { label: t('w.reason'), wide: true, cell: (item) => [reason(item.errorMessage || item.reason), item.values ? null : [note(t('imp.notKept')), item.payload ? folded(t('imp.asSent'), JSON.stringify(item.payload, null, 2), `sent ${item.sequence}`) : null]] },
      ...names.map((name) => ({ label: name, own: true, cell: (item) => this.cell(item, name, editable) })),
    ];
    const node = table({
      label: t('imp.failed'), columns, rows, key: (item) => item.sequence, id: 'import-grid', rowProps: (item) => ({ data: { sequence: item.sequence } }),
      head: (column) => (column.own ? { content: raw(column.label) } : null),
    });
    node.classList.add('grid');
    node.onkeydown = (event) => this.keys(event);
    (node.$on ??= {}).onkeydown = node.onkeydown;
    return node;
  }

  cell(item, name, editable) {
    const was = item.values?.[name];
    if (was === undefined && !item.values) return null;
    const text = was === null || was === undefined ? '' : typeof was === 'string' ? was : JSON.stringify(was);
    const wrong = name === item.column;
    if (!editable) return raw(text || DASH, 'span', { className: wrong ? 'some' : '' });
    const now = this.draft.get(item.sequence)?.values[name];
    return h('input', {
      className: 'cell', value: now ?? text, 'aria-invalid': wrong && now === undefined ? 'true' : null, autocomplete: 'off', spellcheck: false, 'aria-label': t('imp.cell', { column: name, row: String(item.row ?? item.sequence + 1) }),
      size: Math.min(Math.max(text.length, 8), 40), data: { key: `${name} ${text}`, was: text, name, ...(now !== undefined && { changed: '' }) }, oninput: (event) => this.change(event.currentTarget, item),
    });
  }

  change(input, item) {
    const { draft } = this;
    const { was, name } = input.dataset;
    const entry = draft.get(item.sequence) ?? { values: {}, reason: item.reason };
    if (input.value === was) delete entry.values[name];
    else entry.values[name] = input.value;
    if (!draft.has(item.sequence) && draft.size >= MOST) {
      input.value = was;
      notice(t('imp.most', { n: MOST }));
      return;
    }
    if (Object.keys(entry.values).length) draft.set(item.sequence, entry);
    else draft.delete(item.sequence);
    input.toggleAttribute('data-changed', input.value !== was);
    this.drawDraft();
    this.drawProgress();
  }

  keys(event) {
    const input = event.target;
    if (!input.matches('input.cell') || event.isComposing) return;
    if (event.key === 'Escape') {
      input.value = input.dataset.was;
      input.dispatchEvent(new Event('input'));
    } else if (['Enter', 'ArrowDown', 'ArrowUp'].includes(event.key)) {
      const td = input.closest('td');
      const row = td.parentNode[event.key === 'ArrowUp' || (event.key === 'Enter' && event.shiftKey) ? 'previousElementSibling' : 'nextElementSibling'];
      const next = row?.cells[td.cellIndex].querySelector('input');
      next?.focus();
      next?.select();
    } else {
      return;
    }
    event.preventDefault();
  }

  drawDraft() {
    const bar = $('import-draft');
    if (!bar) return;
    const rows = this.draft.size;
    bar.hidden = rows === 0;
    const cells = [...this.draft.values()].reduce((n, entry) => n + Object.keys(entry.values).length, 0);
    patch(bar, rows ? [h('strong', {}, t('imp.changed', { n: cells, rows: t('imp.rows', { n: rows }) })),
      act(t('imp.retryMended'), () => this.retry(), { className: 'primary', id: 'import-mended' }),
      button(t('imp.undo'), () => this.undo(), { className: 'link', id: 'import-undo' })] : []);
  }

  undo() {
    this.draft.clear();
    for (const input of this.failed.querySelectorAll('input[data-changed]')) {
      input.value = input.dataset.was;
      input.removeAttribute('data-changed');
    }
    this.draw();
    notice(t('imp.undone'));
    this.failed.querySelector('input.cell')?.focus();
  }
}

export default {
  async render(ctx) {
    const page = new BatchPage(ctx);
    ctx.every(5000, () => page.look());
    await page.look();
    if (isAdmin()) ctx.root.append((await import('./document.js')).timeline(ctx, 'batch', page.id).node);
  },
};
