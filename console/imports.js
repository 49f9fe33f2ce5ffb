// Imports: a file to upload, all batches, and one batch with its progress as it happens, the records that
// failed and why. Which of them is in the address.
'use strict';
(() => {
  const {
    $, DASH, Problem, alertProblem, badge, bytes, call, cell, client, duration, figure, folded, h, headersFor, look, notice, onSubmit, openDialog,
    pager, replace, showFormProblem, stamp, text, time, views, t,
  } = df;
  const PAGE_SIZE = 20;
  const STATUSES = ['Pending', 'Processing', 'Scheduled', 'Completed', 'CompletedWithErrors', 'Failed', 'Cancelled'];
  const OVER = ['Completed', 'CompletedWithErrors', 'Failed', 'Cancelled'];
  const FORMATS = ['xlsx', 'csv', 'json'];
  let at = new URLSearchParams();
  let acting = null; // the batch that a dialog is about
  let live = null; // the stream that is read: its batch as last told

  const address = (params) => `#imports?${new URLSearchParams(params)}`;
  const path = (id, ...parts) => ['imports', id, ...parts].map(encodeURIComponent).join('/');
  const count = (n, one, many) => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
  const isOver = (batch) => OVER.includes(batch.status);

  function table(label, head, rows) {
    return h('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': label },
      h('table', { className: 'stack' },
        h('thead', {}, h('tr', {}, ...head.map(([words, kind]) => h('th', { scope: 'col', className: kind || '', textContent: words })))),
        h('tbody', {}, ...rows)));
  }

  // --- uploading --------------------------------------------------------------------------------

  let sending = null;

  function showChosen() {
    const file = $('imports-file').files[0];
    text('imports-chosen', file ? `${file.name}, ${bytes(file.size)}` : 'JSON, Excel or CSV');
    $('imports-send').disabled = !file || sending !== null;
  }

  function showSending(sent, total) {
    $('imports-sent').hidden = false;
    $('imports-sent').max = total;
    $('imports-sent').value = sent;
    text('imports-sent-text', sent < total ? `${bytes(sent)} of ${bytes(total)}` : 'Sent; the server is storing it.');
  }

  // fetch does not tell how much of a body has gone out.
  function send(form) {
    return new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      const lost = () => fail(new Problem(0, { title: 'Upload failed', detail: 'The connection was lost: nothing was stored.' }));
      request.open('POST', 'imports');
      headersFor('imports').forEach((value, name) => request.setRequestHeader(name, value));
      request.upload.addEventListener('progress', (event) => showSending(event.loaded, event.total));
      request.addEventListener('error', lost);
      request.addEventListener('abort', () => fail(new Problem(0, { title: 'Upload cancelled', detail: 'Nothing was stored.' })));
      request.addEventListener('load', () => {
        let answer = {};
        try {
          answer = JSON.parse(request.responseText);
        } catch {
          // What is no JSON has its status.
        }
        if (request.status === 202) done(answer);
        else fail(new Problem(request.status, answer));
      });
      request.send(form);
      sending = request;
    });
  }

  async function upload() {
    const form = new FormData();
    const origin = $('imports-origin').value.trim();
    if (origin) form.append('originDefault', origin);
    form.append('file', $('imports-file').files[0]);
    $('imports-form').querySelectorAll('.form-error, .field-error').forEach((node) => node.replaceChildren());
    $('imports-form').querySelectorAll('[aria-invalid]').forEach((node) => node.removeAttribute('aria-invalid'));
    $('imports-stop').hidden = false;
    showSending(0, 1);
    try {
      const taken = send(form);
      showChosen();
      const batch = await taken;
      $('imports-file').value = '';
      location.hash = address({ batch: batch.batchId });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      showFormProblem($('imports-form'), problem);
    } finally {
      sending = null;
      $('imports-stop').hidden = true;
      $('imports-sent').hidden = true;
      text('imports-sent-text', '');
      showChosen();
    }
  }

  function take(event) {
    event.preventDefault();
    $('imports-drop').classList.remove('over');
    if (sending || !event.dataTransfer?.files.length) return;
    $('imports-file').files = event.dataTransfer.files;
    showChosen();
  }

  // --- all batches ------------------------------------------------------------------------------

  function progressWords(batch) {
    if (batch.status === 'Scheduled') return ['begins ', time(batch.scheduledFor)];
    if (batch.totalRecords === null) return [batch.processedRecords ? batch.processedRecords.toLocaleString('en') : DASH];
    return [`${batch.processedRecords.toLocaleString('en')} of ${batch.totalRecords.toLocaleString('en')}`];
  }

  function batchRow(batch) {
    const row = h('tr', {},
      h('td', {}, h('a', { className: 'name', href: address({ batch: batch.batchId }), textContent: batch.fileName, 'data-keep': `batch ${batch.batchId}` }),
        h('span', { className: 'note', textContent: `${batch.fileType}, ${bytes(batch.fileSizeBytes)}` }),
        batch.status === 'Failed' && batch.lastError ? h('p', { className: 'reason', textContent: batch.lastError }) : null),
      h('td', {}, badge(batch.status)),
      h('td', { className: 'num', 'data-label': 'Records' }, ...progressWords(batch)),
      figure('Errors', batch.errorCount),
      cell('Uploaded', time(batch.createdAt)), cell('Ended', time(batch.completedAt)));
    row.dataset.batch = batch.batchId;
    if (batch.errorCount > 0) row.cells[3].classList.add('some');
    return row;
  }

  function statusFilter(status) {
    const select = h('select', {
      id: 'imports-status', 'data-keep': 'status', onchange: () => { location.hash = select.value ? address({ status: select.value }) : '#imports'; },
    }, h('option', { value: '', textContent: t('any') }), ...STATUSES.map((s) => h('option', { textContent: s })));
    select.value = status;
    return h('div', { className: 'filter' }, h('label', { htmlFor: 'imports-status', textContent: t('Status') }), select);
  }

  function maintenanceBanner(window) {
    if (!window) return [];
    const words = window.active ? ['Maintenance: no files are accepted until ', time(window.to), '.']
      : ['Maintenance: no files will be accepted from ', time(window.from), ' to ', time(window.to), '.'];
    return [h('p', { className: 'banner', id: 'imports-maintenance' }, ...words)];
  }

  function showList(list) {
    const status = at.get('status') || '';
    text('imports-note', `${count(list.total, 'import', 'imports')}${status && ` in ${status}`}.`);
    $('imports-actions').replaceChildren();
    replace($('imports-body'), ...maintenanceBanner(list.maintenance), h('div', { className: 'card' }, h('h2', { textContent: t('History') }), statusFilter(status),
      list.items.length
        ? table('Imports', [['File'], ['Status'], ['Records', 'num'], ['Errors', 'num'], ['Uploaded'], ['Ended']], list.items.map(batchRow))
        : h('p', { className: 'note', textContent: status ? 'None.' : 'Nothing has been imported yet.' }),
      pager(list, 'imports', (page) => address({ ...(status && { status }), page }))));
  }

  // --- one batch --------------------------------------------------------------------------------

  async function download(batch, format, button) {
    button.disabled = true;
    try {
      const answer = await fetch(path(batch.batchId, `errors.${format}`), { headers: headersFor('imports'), cache: 'no-store', credentials: 'omit' });
      if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
      const name = /filename="([^"]+)"/.exec(answer.headers.get('Content-Disposition') || '')?.[1] || `errors.${format}`;
      const link = h('a', { href: URL.createObjectURL(await answer.blob()), download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    } catch (problem) {
      alertProblem(problem instanceof Problem ? problem : new Problem(0, { title: 'Unreachable', detail: 'The server does not answer.' }));
    } finally {
      button.disabled = false;
    }
  }

  function downloadButtons(batch) {
    return h('div', { className: 'row-actions', role: 'group', 'aria-label': 'Error report' }, ...FORMATS.map((format) => {
      const button = h('button', {
        type: 'button', textContent: format.toUpperCase(), 'aria-label': `Error report as ${format.toUpperCase()}`, 'data-keep': `report ${format}`,
        onclick: () => download(batch, format, button),
      });
      return button;
    }));
  }

  function actionButtons(batch) {
    const act = (words, dialog) => h('button', {
      type: 'button', textContent: words, 'data-keep': words, onclick: () => {
        acting = batch;
        openDialog(dialog);
      },
    });
    const buttons = [];
    if (['Pending', 'Scheduled'].includes(batch.status)) buttons.push(act('Cancel import', 'imports-cancel-dialog'));
    if (isOver(batch) && batch.errorCount > 0) buttons.push(act('Retry failed', 'imports-retry-dialog'));
    return buttons;
  }

  function rateWords(batch) {
    const spent = (Date.parse(batch.completedAt || new Date().toISOString()) - Date.parse(batch.startedAt)) / 1000;
    if (!batch.startedAt || !(spent > 0)) return '';
    const rate = batch.processedRecords / spent;
    const left = !isOver(batch) && batch.totalRecords > batch.processedRecords && rate > 0 ? (batch.totalRecords - batch.processedRecords) / rate : null;
    return `${rate >= 1 ? `${Math.round(rate).toLocaleString('en')} records/s, ` : ''}${duration(spent)}${left === null ? '' : `, about ${duration(left)} left`}`;
  }

  function progressCard(batch) {
    const total = batch.totalRecords;
    const known = total !== null && total > 0;
    const words = known ? `${batch.processedRecords.toLocaleString('en')} of ${total.toLocaleString('en')} records`
      : count(batch.processedRecords, 'record', 'records');
    const bar = h('progress', { id: 'imports-progress', 'aria-label': 'Records processed', max: known ? total : 1 });
    if (known || isOver(batch)) bar.value = known ? batch.processedRecords : 1;
    const tile = (name, id, value, bad) => h('div', { className: 'card tile' }, h('dt', { textContent: name }),
      h('dd', { id, textContent: value.toLocaleString('en'), className: bad && value > 0 ? 'some' : '' }));
    return h('div', { className: 'card ticket', id: 'imports-batch', 'data-status': batch.status },
      h('div', { className: 'step' }, badge(batch.status),
        h('span', { className: 'note', id: 'imports-words', textContent: batch.status === 'Scheduled' ? '' : words }),
        h('span', { className: 'note', textContent: rateWords(batch) }),
        batch.gaveWayAt ? h('span', { className: 'note', id: 'imports-turn', textContent: t('Waits for its next turn while another client has the worker.') }) : null,
        batch.status === 'Scheduled' ? h('span', { className: 'note' }, `Begins ${stamp(batch.scheduledFor || '')} (`, time(batch.scheduledFor), ')') : null),
      ['Pending', 'Scheduled', 'Cancelled'].includes(batch.status) ? null : bar,
      batch.lastError ? h('p', { className: 'reason', textContent: batch.lastError }) : null,
      h('dl', { className: 'tiles four' }, tile('Processed', 'imports-processed', batch.processedRecords),
        tile('Imported', 'imports-imported', batch.importedCount), tile('Errors', 'imports-errors', batch.errorCount, true),
        tile('Skipped', 'imports-skipped', batch.skippedCount)),
      factsOf(batch));
  }

  function factsOf(batch) {
    const fact = (name, ...value) => h('div', {}, h('dt', { textContent: name }), h('dd', {}, ...value));
    const instant = (iso) => (iso ? [stamp(iso)] : [DASH]);
    return h('dl', { className: 'facts wide' },
      fact(t('Uploaded'), ...instant(batch.createdAt)), fact(t('Started'), ...instant(batch.startedAt)), fact(t('Ended'), ...instant(batch.completedAt)),
      fact(t('File'), `${batch.fileType}, ${bytes(batch.fileSizeBytes)}`), fact(t('Origin'), batch.originDefault || DASH),
      fact(t('Asked for by'), batch.requestedBy || DASH), fact(t('Decision'), batch.policyDecision || DASH), fact(t('Attempt'), String(batch.attempt)));
  }

  function itemRow(item) {
    const row = h('tr', {},
      h('td', { className: 'num', 'data-label': 'Record', textContent: (item.sequence + 1).toLocaleString('en') }),
      h('td', {}, h('p', { className: 'reason', textContent: item.errorMessage || 'No reason was given.' })),
      cell('Phone', item.payload?.PhoneNumber ?? DASH), cell('Origin', item.payload?.Origin ?? DASH),
      h('td', {}, item.payload ? folded(t('Record'), JSON.stringify(item.payload, null, 2), `item ${item.sequence}`) : 'not kept'));
    row.dataset.sequence = item.sequence;
    return row;
  }

  function showItems(batch, items) {
    replace($('imports-items'), items.total === 0 && batch.errorCount === 0 ? '' : h('div', { className: 'card' },
      h('div', { className: 'heading' }, h('h2', { textContent: t('Failed records') }), downloadButtons(batch)),
      items.items.length
        ? table('Failed records', [['Record', 'num'], ['Reason'], ['Phone'], ['Origin'], ['As sent']], items.items.map(itemRow))
        : h('p', { className: 'note', textContent: t('None on this page.') }),
      pager(items, 'failed records', (page) => address({ batch: batch.batchId, page }))));
  }

  function showBatch(batch) {
    text('imports-title', batch.fileName);
    text('imports-note', batch.batchId);
    replace($('imports-actions'), ...actionButtons(batch));
    replace($('imports-progress-card'), progressCard(batch));
  }

  // What does not change with the progress stays in the page while it goes on.
  function showWhole([batch, items]) {
    if (!$('imports-progress-card')) {
      $('imports-body').replaceChildren(h('div', { id: 'imports-progress-card' }), h('div', { id: 'imports-items' }));
    }
    showBatch(batch);
    showItems(batch, items);
    if (!isOver(batch)) follow(batch);
  }

  async function cancel() {
    await call('DELETE', path(acting.batchId));
    $('imports-cancel-dialog').close();
    notice(`${acting.fileName} is cancelled.`);
    await again();
  }

  async function retry() {
    const taken = await call('POST', path(acting.batchId, 'retry'));
    $('imports-retry-dialog').close();
    notice(`${count(taken.items ?? acting.errorCount, 'record', 'records')} of ${acting.fileName} will be sent again.`);
    await again();
  }

  // --- the stream -------------------------------------------------------------------------------

  function stopFollowing() {
    live?.abort.abort();
    live = null;
  }

  // Events as they come; EventSource could not send the credentials.
  async function* events(id, signal) {
    const answer = await fetch(path(id, 'events'), { headers: headersFor('imports'), cache: 'no-store', credentials: 'omit', signal });
    if (!answer.ok) return;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let kept = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      kept += value;
      const whole = kept.split('\n\n');
      kept = whole.pop();
      for (const event of whole) {
        const name = /^event: (.*)$/m.exec(event)?.[1];
        const data = [...event.matchAll(/^data: (.*)$/gm)].map((line) => line[1]).join('\n');
        if (name && data) yield { name, batch: JSON.parse(data) };
      }
    }
  }

  // Beside the page's own looking, which brings the failed records; a stream that breaks is begun again by it.
  async function follow(batch) {
    if (live?.id === batch.batchId) return;
    stopFollowing();
    const mine = { id: batch.batchId, batch, abort: new AbortController() };
    live = mine;
    try {
      for await (const { name, batch: told } of events(mine.id, mine.abort.signal)) {
        if (live !== mine) return;
        mine.batch = told;
        if (name === 'completed') break;
        if ($('imports-progress-card')) showBatch(told);
      }
    } catch {
      // The bar tells how the server is.
    }
    if (live !== mine) return;
    live = null;
    if (isOver(mine.batch)) await again().catch(() => {});
  }

  // --- which ------------------------------------------------------------------------------------

  async function fetchWhole() {
    const id = at.get('batch');
    const query = new URLSearchParams({ status: 'Error', page: at.get('page') || '1', pageSize: PAGE_SIZE });
    const items = await call('GET', `${path(id, 'items')}?${query}`);
    return [live?.id === id ? live.batch : await call('GET', path(id)), items];
  }

  function again() {
    if (at.get('batch')) return look('imports', 'client', fetchWhole, showWhole);
    const query = new URLSearchParams({ page: at.get('page') || '1', pageSize: PAGE_SIZE, ...(at.get('status') && { status: at.get('status') }) });
    return look('imports', 'client', () => call('GET', `imports?${query}`), showList);
  }

  function showPlace(before) {
    const id = at.get('batch');
    $('imports-form').hidden = Boolean(id);
    $('imports-crumbs').replaceChildren(...(id ? [h('a', { href: '#imports', textContent: t('Imports') })] : []));
    if (id !== live?.id) stopFollowing();
    if (id === before.get('batch')) return;
    text('imports-title', t('Imports'));
    text('imports-note', '');
    $('imports-actions').replaceChildren();
    $('imports-body').replaceChildren();
  }

  function enter(params) {
    const before = at;
    at = params;
    showPlace(before);
    return again();
  }

  addEventListener('hashchange', () => { if (!location.hash.startsWith('#imports')) stopFollowing(); });
  document.addEventListener('credentials', () => {
    stopFollowing();
    if (!client()) $('imports-body').replaceChildren();
  });
  for (const type of ['dragover', 'drop']) {
    // Beside the place for it a file would be opened in place of the page.
    addEventListener(type, (event) => { if (!$('imports').hidden) event.preventDefault(); });
  }
  $('imports-drop').addEventListener('dragover', () => $('imports-drop').classList.add('over'));
  $('imports-drop').addEventListener('dragleave', () => $('imports-drop').classList.remove('over'));
  $('imports-drop').addEventListener('drop', take);
  $('imports-file').addEventListener('change', showChosen);
  $('imports-stop').addEventListener('click', () => sending?.abort());
  $('imports-form').addEventListener('submit', (event) => {
    event.preventDefault();
    if ($('imports-file').files[0] && !sending) upload().catch(alertProblem);
  });
  onSubmit($('imports-cancel-form'), cancel);
  onSubmit($('imports-retry-form'), retry);
  showChosen();

  views.imports = { title: 'Imports · DataFlow', enter, again };
})();
