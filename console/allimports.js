// Imports of all clients, for operators: a list by filters, and one batch: what it waits for, since when, who has
// its lock, its failed records; cancel, retry, release.
'use strict';
(() => {
  const { $, DASH, Problem, alertProblem, badge, bytes, call, cell, figure, h, look, notice, pager, replace, showFormProblem, stamp, t, table, text, time, views } = df;
  const PAGE_SIZE = 20;
  const FIELDS = ['clientId', 'fileName', 'status'];
  const OVER = ['Completed', 'CompletedWithErrors', 'Failed', 'Cancelled'];
  let at = new URLSearchParams();

  const address = (params) => `#allimports?${new URLSearchParams(params)}`;
  const path = (id, ...parts) => ['admin', 'imports', id, ...parts].map(encodeURIComponent).join('/');
  const filterOf = () => Object.fromEntries(FIELDS.filter((f) => at.get(f)).map((f) => [f, at.get(f)]));

  const waits = (batch) => (batch.waitingFor
    ? [h('span', { textContent: batch.waitingFor }), h('span', { className: 'note' }, time(batch.waitingSince))] : [DASH]);

  function batchRow(batch) {
    const total = batch.totalRecords === null ? '' : ` / ${batch.totalRecords.toLocaleString('en')}`;
    const row = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: address({ id: batch.batchId }), textContent: batch.fileName, 'data-keep': `batch ${batch.batchId}` }),
        h('span', { className: 'note', textContent: `${batch.fileType}, ${bytes(batch.fileSizeBytes)}` }),
        batch.lastError ? h('p', { className: 'reason', textContent: batch.lastError }) : null),
      cell('Client', batch.clientId || DASH), h('td', {}, badge(batch.status)), cell('Waits for', ...waits(batch)),
      h('td', { className: 'num', 'data-label': t('Records'), textContent: `${batch.processedRecords.toLocaleString('en')}${total}` }),
      figure('Errors', batch.errorCount), cell('Uploaded', time(batch.createdAt)));
    row.dataset.batch = batch.batchId;
    return row;
  }

  function showList(list) {
    text('allimports-note', t('{count} imports', { count: list.total.toLocaleString('en') }));
    $('allimports-actions').replaceChildren();
    replace($('allimports-body'), h('div', { className: 'card' }, list.items.length
      ? table('Imports', [['File'], ['Client'], ['Status'], ['Waits for'], ['Records', 'num'], ['Errors', 'num'], ['Uploaded']], list.items.map(batchRow))
      : h('p', { className: 'note', textContent: t('None.') }),
    pager(list, 'imports', (page) => address({ ...filterOf(), page }))));
  }

  // --- one batch --------------------------------------------------------------------------------

  async function act(method, parts, words, button) {
    button.disabled = true;
    try {
      await call(method, path(at.get('id'), ...parts));
      notice(t(words));
      await again();
    } catch (problem) {
      alertProblem(problem);
    } finally {
      button.disabled = false;
    }
  }

  function actionButtons(batch) {
    const make = (words, method, parts, done) => {
      const button = h('button', { type: 'button', textContent: t(words), 'data-keep': words, onclick: () => act(method, parts, done, button) });
      return button;
    };
    return [
      ['Pending', 'Scheduled'].includes(batch.status) ? make('Cancel import', 'DELETE', [], 'The import is cancelled.') : null,
      OVER.includes(batch.status) && batch.errorCount > 0 ? make('Retry failed', 'POST', ['retry'], 'The failed records will be sent again.') : null,
      batch.lockedBy ? make('Release lock', 'POST', ['release'], 'Its lock is released.') : null,
    ].filter(Boolean);
  }

  function itemRow(item) {
    return h('tr', {},
      h('td', { className: 'num', 'data-label': t('Record'), textContent: (item.sequence + 1).toLocaleString('en') }),
      h('td', {}, h('p', { className: 'reason', textContent: item.errorMessage || DASH })));
  }

  function showBatch([batch, items]) {
    const fact = (name, ...value) => h('div', {}, h('dt', { textContent: t(name) }), h('dd', {}, ...value));
    const instant = (iso) => (iso ? [stamp(iso), ' (', time(iso), ')'] : [DASH]);
    text('allimports-title', batch.fileName);
    text('allimports-note', batch.batchId);
    replace($('allimports-actions'), ...actionButtons(batch));
    replace($('allimports-body'),
      h('div', { className: 'card ticket', id: 'allimports-batch' }, h('p', {}, badge(batch.status)),
        batch.lastError ? h('p', { className: 'reason', textContent: batch.lastError }) : null,
        h('dl', { className: 'facts wide' },
          fact('Client', batch.clientId || DASH), fact('Waits for', batch.waitingFor || DASH), fact('Since', ...instant(batch.waitingSince)),
          fact('Locked by', batch.lockedBy || DASH), fact('Records', `${batch.processedRecords.toLocaleString('en')} / ${batch.totalRecords?.toLocaleString('en') ?? DASH}`),
          fact('Errors', batch.errorCount.toLocaleString('en')), fact('Uploaded', ...instant(batch.createdAt)), fact('File', `${batch.fileType}, ${bytes(batch.fileSizeBytes)}`))),
      df.timelineCard('batch', batch.batchId),
      items.total > 0 ? h('div', { className: 'card' }, h('h2', { textContent: t('Failed records') }),
        table('Failed records', [['Record', 'num'], ['Reason']], items.items.map(itemRow)),
        pager(items, 'failed records', (page) => address({ id: batch.batchId, page }))) : '');
  }

  // --- which ------------------------------------------------------------------------------------

  function again() {
    const page = at.get('page') || '1';
    const id = at.get('id');
    if (id) {
      const query = new URLSearchParams({ status: 'Error', page, pageSize: PAGE_SIZE });
      return look('allimports', 'admin', () => Promise.all([call('GET', path(id)), call('GET', `${path(id, 'items')}?${query}`)]), showBatch);
    }
    const query = new URLSearchParams({ page, pageSize: PAGE_SIZE, ...filterOf() });
    return look('allimports', 'admin', () => call('GET', `admin/imports?${query}`), showList);
  }

  async function enter(params) {
    const id = params.get('id');
    at = params;
    $('allimports-form').hidden = Boolean(id);
    $('allimports-form').querySelectorAll('.form-error, .field-error').forEach((node) => node.replaceChildren());
    $('allimports-crumbs').replaceChildren(...(id ? [h('a', { href: '#allimports', textContent: t('All imports') })] : []));
    text('allimports-title', t('All imports'));
    text('allimports-note', '');
    $('allimports-actions').replaceChildren();
    $('allimports-body').replaceChildren();
    for (const field of FIELDS) $('allimports-form').elements.namedItem(field).value = params.get(field) || '';
    try {
      await again();
    } catch (problem) {
      if (!(problem instanceof Problem) || !problem.errors.length) throw problem;
      showFormProblem($('allimports-form'), problem);
    }
  }

  $('allimports-form').addEventListener('submit', (event) => {
    event.preventDefault();
    location.hash = address(FIELDS.map((field) => [field, event.target.elements.namedItem(field).value.trim()]).filter(([, value]) => value));
  });

  views.allimports = { title: 'Imports · DataFlow', enter, again };
})();
