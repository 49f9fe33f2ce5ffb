// A new import: a file is dropped or chosen, the server reads its head and says what it found, the user maps what was not recognised,
// is warned of a file that came before, and starts.
import '../texts/importer.js';
import { call, headers, path, Problem } from '../kit/api.js';
import { bytes, card, h, linkButton, note, patch, raw, reason } from '../kit/dom.js';
import { clearProblem, field, showProblem } from '../kit/form.js';
import { address, go } from '../kit/router.js';
import { clientId } from '../kit/session.js';
import { table } from '../kit/table.js';
import { named, number, t } from '../kit/text.js';
import { time } from '../kit/time.js';
import { act, notice, tell } from '../kit/toast.js';
import { sha256 } from './sha256.js';

const HEAD = 5 << 20; // enough of JSON and CSV; of a workbook the whole is needed
const ONLY_ASKING = 64 << 10; // enough to ask about a checksum
const AT_ONCE = 16 << 20; // what is larger is checked again only when asked to
const ACCEPT = '.json,.jsonl,.ndjson,.xlsx,.xlsm,.csv,.txt';
const FIELDS = ['PhoneNumber', 'AreaCode', 'Name', 'Email', 'Document', 'Origin', 'BirthDate', 'Company', 'Address', 'City', 'State', 'ZipCode', 'Message', 'Notes', 'Campaign', 'Interest', 'Budget', 'PropertyContextJson', 'LeadContextJson'];

let chosen = null; // the file of the import that is prepared; a reload forgets it, and so does another sign-in
document.addEventListener('session', () => { chosen = null; });

const newKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`; // there is no randomUUID without https
const isWorkbook = async (file) => new Uint8Array(await file.slice(0, 2).arrayBuffer()).join() === '80,75';

// The place for a file. Whatever is dropped beside it would be opened instead of the page.
export function dropZone() {
  const take = (file) => {
    if (!file) return;
    chosen = file;
    go(address(['imports', 'new']));
  };
  const input = h('input', { className: 'sr', id: 'import-file', name: 'file', type: 'file', accept: ACCEPT, onchange: () => take(input.files[0]) });
  const zone = h('label', { className: 'drop', id: 'import-drop' }, h('span', { className: 'name' }, t('imp.drop')), h('span', { className: 'note' }, t('imp.kinds')), input);
  zone.ondragover = (event) => { event.preventDefault(); zone.classList.add('over'); };
  zone.ondragleave = () => zone.classList.remove('over');
  zone.ondrop = (event) => {
    event.preventDefault();
    zone.classList.remove('over');
    take(event.dataTransfer?.files[0]);
  };
  return zone;
}

for (const type of ['dragover', 'drop']) addEventListener(type, (event) => { if (document.getElementById('import-drop')) event.preventDefault(); });

class Importer {
  constructor(ctx, file) {
    Object.assign(this, { ctx, file, mapping: {}, sheet: '', found: null, problem: null, duplicate: null, sending: null, hashed: 0, checksum: null, key: newKey() });
    this.body = h('div', { className: 'stacked' });
    this.form = this.makeForm();
    ctx.root.append(this.body, this.form);
    ctx.signal.addEventListener('abort', () => { this.asked?.abort(); this.sending?.abort(); });
  }

  // --- what the server says of it ---

  parts(piece, more = {}) {
    const form = new FormData();
    const fields = { sheet: this.sheet, mapping: Object.keys(this.mapping).length ? JSON.stringify(this.mapping) : '', checksum: this.checksum, ...more };
    for (const [name, value] of Object.entries(fields)) if (value) form.append(name, value);
    form.append('file', piece, this.file.name);
    return form;
  }

  async ask(piece) {
    this.asked?.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const more = piece.size < this.file.size ? { complete: 'false' } : {};
    return call('POST', 'imports/preview', { body: this.parts(piece, more), signal, timeout: 300000 });
  }

  async look() {
    const { file } = this;
    this.busy = true;
    this.draw();
    try {
      this.workbook ??= await isWorkbook(file);
      this.found = await this.ask(this.workbook ? file : file.slice(0, HEAD));
      this.sheet = this.found.sheet ?? '';
      this.duplicate = this.found.duplicateOf ?? this.duplicate;
      this.checksum = this.found.checksum ?? this.checksum;
      this.problem = null;
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.status < 0) return; // asked again, or left
      this.problem = problem;
    }
    this.busy = false;
    this.draw();
  }

  // Of the whole file, while its preview can be read; a second, small question finds out whether it came before.
  async compare() {
    if (this.file.size <= HEAD || this.workbook) return;
    try {
      this.checksum = await sha256(this.file, { signal: this.ctx.signal, progress: (done) => { this.hashed = done; this.drawHash(); } });
      const { duplicateOf } = await call('POST', 'imports/preview', { body: this.parts(this.file.slice(0, ONLY_ASKING), { complete: 'false' }), signal: this.ctx.signal });
      this.duplicate = duplicateOf;
    } catch (problem) {
      if (!(problem instanceof Problem) && problem.name !== 'AbortError') throw problem;
    }
    this.hashed = 0;
    this.draw();
  }

  // --- drawing ---

  get what() { return t(this.found.complete ? 'imp.whole' : 'imp.head', { n: this.found.records }); }

  drawHash() {
    const node = document.getElementById('import-hash');
    if (node) node.textContent = this.hashed ? t('imp.checksum', { percent: Math.floor((100 * this.hashed) / this.file.size) }) : '';
  }

  draw() {
    const { file, found } = this;
    if (this.ctx.signal.aborted) return;
    this.ctx.heading({
      title: raw(file.name), crumbs: [[t('nav.imports'), '#imports']], actions: [linkButton(t('imp.other'), '#imports')],
      text: [bytes(file.size), found ? [named('imp.format', found.format), this.what, found.headerRow ? t('imp.header', { row: String(found.headerRow) }) : null] : []].flat().filter(Boolean).join(' · '),
    });
    patch(this.body,
      this.busy && !found ? note(t('imp.reading')) : null, h('p', { className: 'note', id: 'import-hash', role: 'status' }),
      this.problem ? h('div', { className: 'card', id: 'import-problem', role: 'alert' }, h('strong', {}, raw(this.problem.title)), reason(this.problem.errors[0]?.message || this.problem.message), this.isRefused ? null : note(t('imp.noPreview'))) : null,
      this.duplicate ? this.warning() : null, found ? [this.problems(), this.columns(), this.sample()] : null);
    // A field keeps what a person chose; another column may have lost its meaning by it.
    for (const column of found?.columns ?? []) document.getElementById(`import-map-${column.name}`).value = this.meaning(column);
    this.drawHash();
    const send = this.form.querySelector('[type=submit]');
    this.form.hidden = !found && !(this.problem && !this.isRefused);
    send.disabled = this.busy || this.sending !== null;
    send.textContent = t(this.duplicate ? 'imp.startAgain' : 'imp.start');
    this.form.querySelector('#import-keep-row').hidden = Object.keys(this.mapping).length === 0;
    this.drawSheets();
  }

  // The file itself is wrong, or too large: starting would be refused too.
  get isRefused() { return [400, 409, 413, 415].includes(this.problem?.status); }

  warning() {
    const before = this.duplicate;
    return h('div', { className: 'banner', id: 'import-duplicate', role: 'status' }, h('strong', {}, t('imp.same'), ' '), time(before.createdAt), '. ', t('imp.sameText', { name: before.fileName }), ' ',
      h('a', { href: address(['imports', before.batchId]), target: '_blank' }, t('imp.sameSee')));
  }

  problems() {
    const { problems } = this.found;
    return card(t('imp.problems'), problems.length ? [note(t('imp.problemsNote', { what: this.what })), h('ul', { className: 'causes', id: 'import-problems' }, problems.map((one) => h('li', { data: { key: one.reason } },
      h('strong', { className: 'num' }, number(one.count)), raw(one.message || one.reason), one.firstRow ? h('span', { className: 'note' }, t('imp.firstRow', { row: String(one.firstRow) })) : null)))]
      : note(t('imp.noProblems', { what: this.what })));
  }

  columns() {
    const { columns } = this.found;
    const kept = columns.some((c) => c.by === 'client');
    return card(t('imp.columns'), note(t('imp.columnsNote')),
      columns.some((c) => c.canonical === 'PhoneNumber') ? null : h('p', { className: 'banner', data: { state: 'bad' }, id: 'import-nophone' }, t('imp.noPhone')),
      kept ? h('p', { className: 'row-actions' }, t('imp.kept'), ' ', act(t('imp.forget'), () => this.forget(), { className: 'link', id: 'import-forget' })) : null,
      table({
        label: t('imp.columns'), id: 'import-columns', rows: columns, key: (c) => c.name, rowProps: (c) => ({ data: { column: c.name } }), columns: [
          { label: t('imp.column'), main: true, cell: (c) => raw(c.name, 'span', { className: 'name' }) },
          { label: t('imp.means'), cell: (c) => h('div', { className: 'means' }, this.select(c), h('span', { className: 'badge', data: { state: c.canonical ? 'ok' : 'unknown' } }, t(`imp.by.${c.by || 'none'}`))) },
          { label: t('imp.samples'), wide: true, cell: (c) => h('span', { className: 'samples' }, c.samples.filter(Boolean).slice(0, 3).map((one) => raw(one, 'code'))) },
        ],
      }),
      this.file.size > AT_ONCE && this.workbook ? act(t('imp.again'), () => this.look(), { id: 'import-again' }) : null);
  }

  meaning(column) { return this.mapping[column.name] ?? column.canonical ?? ''; }

  select(column) {
    const node = h('select', { id: `import-map-${column.name}`, 'aria-label': t('imp.meansOf', { column: column.name }), onchange: (event) => this.map(column, event.currentTarget.value) },
      h('option', { value: '' }, t('imp.own')), FIELDS.map((name) => h('option', { value: name }, t(`imp.field.${name}`))));
    node.value = this.meaning(column);
    return node;
  }

  // One column for each field: what was chosen for it before keeps its own name.
  map(column, field_) {
    const { mapping } = this;
    if (field_) for (const [name, other] of Object.entries(mapping)) if (other === field_) mapping[name] = '';
    mapping[column.name] = field_;
    if (this.workbook && this.file.size > AT_ONCE) this.draw();
    else this.look();
  }

  async forget() {
    await call('DELETE', path('clients', clientId(), 'mapping'));
    notice(t('imp.forgotten'));
    await this.look();
  }

  sample() {
    const { sample, columns } = this.found;
    if (!sample.length) return null;
    // A nested member has a column, and stands in its parent's.
    return card(t('imp.sample'), table({
      label: t('imp.sample'), id: 'import-sample', rows: sample, key: (row) => row.row, head: (c) => (c.own ? { content: raw(c.label) } : null),
      columns: [{ label: t('imp.row'), num: true, cell: (row) => raw(row.row) }, ...columns.filter(({ name }) => sample.some((row) => name in row.values)).map(({ name }) => ({ label: name, own: true, cell: (row) => raw(row.values[name] ?? '') }))],
    }));
  }

  // --- starting ---

  makeForm() {
    const progress = h('progress', { id: 'import-sent', 'aria-label': t('imp.bytes'), hidden: true });
    const form = h('form', { className: 'card upload', id: 'import-form', 'aria-label': t('imp.new'), noValidate: true, hidden: true },
      h('div', { id: 'import-sheets' }), field({ name: 'originDefault', label: t('imp.origin'), optional: true }, 'import'),
      h('div', { id: 'import-keep-row', hidden: true }, field({ name: 'keep', type: 'check', label: t('imp.keep'), value: true }, 'import')),
      h('p', { className: 'field-error', data: { field: 'file' } }), h('div', { className: 'form-error', role: 'alert' }),
      h('div', { className: 'sent' }, progress, h('p', { className: 'note', id: 'import-sent-text', role: 'status' })),
      h('div', { className: 'actions' }, h('button', { type: 'button', id: 'import-stop', hidden: true, onclick: () => this.sending?.abort() }, t('w.stop')),
        h('button', { type: 'submit', className: 'primary', id: 'import-start' }, t('imp.start'))));
    form.onsubmit = (event) => {
      event.preventDefault();
      if (!this.sending) this.start();
    };
    return form;
  }

  drawSheets() {
    const sheets = this.found?.sheets ?? [];
    patch(this.form.querySelector('#import-sheets'), sheets.length > 1 ? field({
      name: 'sheet', type: 'select', label: t('imp.sheet'), value: this.sheet, options: sheets.map((name) => [name, name]), onchange: (event) => {
        this.sheet = event.currentTarget.value;
        this.mapping = {};
        this.look();
      },
    }, 'import') : null);
  }

  showSent(sent, total) {
    const bar = this.form.querySelector('#import-sent');
    bar.hidden = false;
    bar.max = total;
    bar.value = sent;
    this.form.querySelector('#import-sent-text').textContent = sent < total ? t('imp.sent', { sent: bytes(sent), total: bytes(total) }) : t('imp.storing');
  }

  // fetch does not tell how much of a body has gone out. The same key, so that a file which did arrive is not taken twice.
  send(body) {
    return new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      request.open('POST', 'imports');
      headers().forEach((value, name) => request.setRequestHeader(name, value));
      request.setRequestHeader('Idempotency-Key', this.key);
      request.upload.onprogress = (event) => this.showSent(event.loaded, event.total);
      request.onerror = () => fail(new Problem(0, { title: t('imp.lost'), detail: t('imp.lostText') }));
      request.onabort = () => fail(new Problem(0, { title: t('imp.stopped'), detail: t('imp.nothing') }));
      request.onload = () => {
        let answer = {};
        try {
          answer = JSON.parse(request.responseText);
        } catch {
          // What is no JSON has its status.
        }
        if (request.status === 202) done(answer);
        else fail(new Problem(request.status, answer));
      };
      this.sending = request;
      request.send(body);
    });
  }

  async start() {
    const { form, mapping } = this;
    clearProblem(form);
    const stop = form.querySelector('#import-stop');
    stop.hidden = false;
    this.showSent(0, 1);
    try {
      const body = new FormData();
      const origin = form.elements.originDefault.value.trim();
      const fields = { originDefault: origin, sheet: this.found?.sheets?.length > 1 ? this.sheet : '', mapping: Object.keys(mapping).length ? JSON.stringify(mapping) : '' };
      for (const [name, value] of Object.entries(fields)) if (value) body.append(name, value);
      body.append('file', this.file, this.file.name);
      const sent = this.send(body);
      this.ctx.stays = t('imp.leave');
      this.draw();
      const batch = await sent;
      // The file is taken, whatever becomes of the mapping: what fails is told on its page.
      if (fields.mapping && form.elements.keep.checked) await this.keep().catch((problem) => document.addEventListener('routed', () => tell(problem), { once: true }));
      chosen = this.ctx.stays = null;
      if (!this.ctx.signal.aborted) go(address(['imports', batch.batchId]));
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.status > 0) this.key = newKey();
      showProblem(form, problem);
    } finally {
      this.sending = this.ctx.stays = null;
      stop.hidden = true;
      form.querySelector('#import-sent').hidden = true;
      form.querySelector('#import-sent-text').textContent = '';
      this.draw();
    }
  }

  // Together with what was kept before and is still in use.
  async keep() {
    const before = Object.fromEntries((this.found?.columns ?? []).filter((c) => c.by === 'client').map((c) => [c.name, c.canonical ?? '']));
    await call('PUT', path('clients', clientId(), 'mapping'), { body: { mapping: { ...before, ...this.mapping } } });
  }
}

export default {
  async render(ctx) {
    if (!chosen) {
      ctx.heading({ title: t('imp.new'), crumbs: [[t('nav.imports'), '#imports']] });
      ctx.root.append(card(null, dropZone()));
      return;
    }
    const importer = new Importer(ctx, chosen);
    await importer.look();
    importer.compare();
  },
};
