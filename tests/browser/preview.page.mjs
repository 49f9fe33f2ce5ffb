// What the importer does with the server's preview, mappings and mended retries: by a client, in both languages.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, ask, eventually, gateway, openSignedIn, text } from './harness.mjs';
import { batchOf, drop, ended, hasStatus, leads, named, upload } from './leads.mjs';
import { fault, heal } from './gateway.mjs';

const own = (method, path, body) => ask(`${gateway.url}${path}`, { method, headers: gateway.headers, body });
const forget = () => fetch(`${gateway.url}clients/${gateway.clientId}/mapping`, { method: 'DELETE', headers: gateway.headers });
const line = (i, phone = `11 9${String(10000000 + i)}`) => `${phone};Ana ${i};Site;sim`;
const csv = (count, phone = () => undefined, head = 'Fone do cliente;Nome;Origem;Aceita?') => `${head}\n${Array.from({ length: count }, (_, i) => line(i, phone(i))).join('\n')}\n# ${randomUUID()};;;\n`;
const means = (page, column) => page.locator(`tr[data-column="${column}"] select`);
const focused = (page) => page.evaluate(() => document.activeElement.getAttribute('aria-label') || document.activeElement.id);

test('before anything is sent: columns, what they mean, samples, problems; what was not recognised is mapped and kept', LIMIT, async () => {
  await forget();
  const page = await openSignedIn('#imports', { as: 'client' });
  const before = (await own('GET', 'imports')).total;
  await drop(page, 'leads.csv', csv(60, (i) => (i % 7 === 3 ? 'none' : undefined)));
  await page.locator('#import-columns').waitFor();
  assert.equal(await means(page, 'Nome').inputValue(), 'Name');
  assert.equal(await means(page, 'Fone do cliente').inputValue(), '');
  assert.match(await page.locator('tr[data-column="Nome"]').textContent(), /recognised.*Ana 0/s);
  await page.locator('#import-nophone').waitFor();
  assert.match(await page.locator('#import-sample tbody tr').first().textContent(), /^2.*Ana 0/s);
  assert.equal((await own('GET', 'imports')).total, before, 'nothing is stored');
  await accessible(page, 'a preview');
  await page.screenshot({ path: join(SHOTS, 'preview.png'), fullPage: true });

  await means(page, 'Fone do cliente').focus();
  await means(page, 'Fone do cliente').selectOption('PhoneNumber');
  await page.locator('#import-nophone').waitFor({ state: 'detached' });
  await page.locator('#import-problems', { hasText: 'first in row 5' }).waitFor();
  assert.equal(await focused(page), 'Fone do cliente is used as', 'the focus stays');
  await page.locator('#import-start').click();
  await hasStatus(page, 'CompletedWithErrors');
  assert.equal(await text(page, '#import-errors'), '10'); // nine phones and the last line

  // The next file with such a column is read by the choice that was kept, until it is forgotten.
  await page.goto(`${gateway.url}#imports`);
  await drop(page, 'next.csv', csv(3));
  await page.locator('tr[data-column="Fone do cliente"]', { hasText: 'kept from before' }).waitFor();
  await page.locator('#import-forget').click();
  await page.locator('tr[data-column="Fone do cliente"]', { hasText: 'not recognised' }).waitFor();
  await page.finish();
});

test('an import that has begun is shown, though the choices could not be kept', LIMIT, async () => {
  await forget();
  const page = await openSignedIn('#imports', { as: 'client', allowed: [503] });
  await page.route('**/mapping', (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', json: { title: 'Busy', detail: 'The choices are not kept.' } }));
  await drop(page, 'once.csv', csv(3));
  await means(page, 'Fone do cliente').selectOption('PhoneNumber');
  await page.locator('tr[data-column="Fone do cliente"]', { hasText: 'your choice' }).waitFor();
  const before = (await own('GET', 'imports')).total;
  await page.locator('#import-start').click();
  await page.locator('#import-batch').waitFor();
  await page.locator('#messages [role=alert]', { hasText: 'The choices are not kept' }).waitFor();
  assert.equal((await own('GET', 'imports')).total, before + 1);
  await page.finish();
});

test('the cell that is wrong is marked, by what the server names', LIMIT, async () => {
  const id = await upload(named(Buffer.from('telefone;nome\n11 91234-5678;Bia\nnone;Ana\n'), 'a.csv'));
  await ended(id);
  const page = await openSignedIn('#overview', { as: 'client' });
  await page.goto(`${gateway.url}#imports/${id}`);
  const wrong = page.locator('#import-grid input[aria-invalid=true]');
  await wrong.waitFor();
  assert.equal(await wrong.inputValue(), 'none');
  await accessible(page, 'a wrong cell');
  await page.finish();
});

test('an administrator, who corrects no cells, is told who can', LIMIT, async () => {
  const id = await upload(named(Buffer.from('telefone;nome\nnone;Ana\n'), 'a.csv'));
  await ended(id);
  const page = await openSignedIn(`#imports/${id}`);
  await page.locator('#import-mend', { hasText: 'The client can correct them' }).waitFor();
  assert.doesNotMatch(await text(page, '#import-mend'), /below/);
  await page.finish();
});

test('one column for each field: the other keeps its own name', LIMIT, async () => {
  await forget();
  const page = await openSignedIn('#imports', { as: 'client' });
  await drop(page, 'two.csv', 'A;B\n11 91234-5678;11 91234-5679\n');
  await means(page, 'A').selectOption('PhoneNumber');
  await page.locator('tr[data-column=A]', { hasText: 'your choice' }).waitFor();
  await means(page, 'B').selectOption('PhoneNumber');
  await page.locator('tr[data-column=B]', { hasText: 'your choice' }).waitFor();
  await eventually('A without it', async () => (await means(page, 'A').inputValue()) === '');
  await page.finish();
});

test('nested members of JSON are mapped by their path', LIMIT, async () => {
  await forget();
  const page = await openSignedIn('#imports', { as: 'client' });
  await drop(page, 'nested.json', JSON.stringify([{ contact: { reach: '11 91234-5678' }, id: randomUUID() }]));
  await page.locator('#import-sample tbody td').first().waitFor();
  assert.ok(!(await page.locator('#import-sample tbody td').allTextContents()).includes(''), 'no cell is blank');
  await means(page, 'contact.reach').selectOption('PhoneNumber');
  await page.locator('tr[data-column="contact.reach"]', { hasText: 'your choice' }).waitFor();
  await page.locator('#import-keep').uncheck();
  await page.locator('#import-start').click();
  await hasStatus(page, 'Completed');
  assert.equal(await text(page, '#import-imported'), '1');
  assert.equal((await fetch(`${gateway.url}clients/${gateway.clientId}/mapping`, { headers: gateway.headers })).status, 404, 'not kept');
  await page.finish();
});

test('a file that came before is told, with the way to it; a large one by its checksum, of which only the head is sent', LIMIT, async () => {
  await forget();
  const page = await openSignedIn('#imports', { as: 'client' });
  const content = `telefone;nome\n${Array.from({ length: 280000 }, (_, i) => `11 9${String(10000000 + i)};${randomUUID().slice(0, 8)}`).join('\n')}\n`;
  assert.ok(content.length > 5 << 20);
  const id = await upload(named(Buffer.from(content), 'first.csv'));
  const sizes = [];
  page.on('request', (request) => { if (request.url().endsWith('/preview')) sizes.push(request.postDataBuffer()?.length ?? 0); });
  await page.locator('#import-file').setInputFiles(named(Buffer.from(content), 'second.csv'));
  await page.locator('#import-columns').waitFor();
  await page.locator('#import-duplicate', { hasText: 'first.csv' }).waitFor();
  assert.match(await page.locator('#import-duplicate a').getAttribute('href'), new RegExp(id));
  assert.equal(await text(page, '#import-start'), 'Import it again');
  assert.ok(sizes.every((size) => size < (5 << 20) + 4096), `${sizes}`);
  await accessible(page, 'a file that came before');
  await page.finish();
});

test('bad cells are corrected by keyboard and sent again; only what can help is offered', LIMIT, async () => {
  const name = `${randomUUID().slice(0, 8)}.csv`;
  const id = await upload(named(Buffer.from(`telefone;nome;origem\n${Array.from({ length: 80 }, (_, i) => `${i % 2 ? 'none' : `11 9${String(20000000 + i)}`};<b>Ana ${i}</b>;Site`).join('\n')}\n`), name));
  await ended(id);
  const page = await openSignedIn(`#imports/${id}`, { as: 'client' });
  await page.locator('#import-reasons li', { hasText: 'correct the cell first' }).waitFor();
  await page.locator('#import-mend', { hasText: 'would fail again' }).waitFor();
  assert.equal(await page.locator('#import-retry').count(), 0, 'a retry would not help');
  const rows = page.locator('#import-grid tbody tr');
  assert.equal(await rows.count(), 40);
  assert.equal(await page.locator('main b').count(), 0, 'what a file says is no markup');
  assert.match(await rows.first().textContent(), /^3/, 'the row of the spreadsheet');

  await rows.first().locator('input').first().focus();
  assert.equal(await focused(page), 'telefone, row 3');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('11 98888-0001');
  await page.keyboard.press('Enter');
  assert.equal(await focused(page), 'telefone, row 5', 'Enter goes down');
  await page.keyboard.type('11 98888-0002');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.type('wrong');
  await page.keyboard.press('Escape');
  assert.equal(await rows.nth(2).locator('input').first().inputValue(), 'none', 'Esc takes it back');
  await page.locator('#import-draft', { hasText: '2 cells changed in 2 rows' }).waitFor();
  await new Promise((next) => setTimeout(next, 6000)); // the page looks again
  assert.equal(await rows.first().locator('input').first().inputValue(), '11 98888-0001', 'what was typed stays');
  assert.equal(await focused(page), 'telefone, row 7', 'and so does the focus');
  await accessible(page, 'corrections');
  await page.screenshot({ path: join(SHOTS, 'corrections.png'), fullPage: true });

  await page.locator('#import-mended').click();
  await page.locator('#import-retry-form', { hasText: '2 of them with your corrections' }).locator('[type=submit]').click();
  await page.locator('#messages', { hasText: 'will be sent again' }).waitFor();
  await eventually('the second attempt', async () => (await batchOf(id)).importedCount === 42);
  await page.locator('#import-errors', { hasText: /^38$/ }).waitFor();
  await eventually('the rest', async () => (await rows.count()) === 38);
  assert.deepEqual(await rows.first().locator('input').evaluateAll((nodes) => nodes.map((node) => node.value)), ['none', '<b>Ana 5</b>', 'Site'], 'each value under its column');
  assert.ok(!(await page.locator('#import-draft').isVisible()));
  await page.finish();
});

test('reasons are grouped and chosen from; what the other side refused may be sent again as it is', LIMIT, async () => {
  const id = await upload(named(leads(130, (i) => (i % 2 ? { sandboxError: 'full' } : i % 10 ? {} : { Telefone: 'none' }))));
  await ended(id);
  const page = await openSignedIn(`#imports/${id}`, { as: 'client' });
  const reasons = page.locator('#import-reasons li');
  await eventually('all, and two reasons', async () => (await reasons.count()) === 3);
  await page.locator('#import-retry').waitFor();
  const rows = page.locator('#import-grid tbody tr');
  await eventually('the first page', async () => (await rows.count()) === 50);
  await page.getByRole('link', { name: 'Next' }).click();
  await eventually('the second page', async () => (await rows.count()) === 28);
  await reasons.filter({ hasText: 'correct the cell first' }).getByRole('link').click();
  await eventually('one reason', async () => (await rows.count()) === 13);
  assert.match(page.url(), /reason=/, 'in the address');
  await page.locator('#import-retry').click();
  await page.locator('#import-retry-form', { hasText: '13 will fail again' }).locator('[data-close]').click();
  await page.finish();
});

// A workbook by hand: a ZIP archive of stored files.
function workbook(sheets) {
  const table = Array.from({ length: 256 }, (_, n) => { let c = n; for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1; return c; });
  const crc = (data) => (data.reduce((c, byte) => (c >>> 8) ^ table[(c ^ byte) & 255], -1) ^ -1) >>> 0;
  const xml = (body) => `<?xml version="1.0" encoding="UTF-8"?>${body}`;
  const main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"';
  const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
  const packages = 'xmlns="http://schemas.openxmlformats.org/package/2006';
  const cell = (value, row, column) => `<c r="${String.fromCharCode(65 + column)}${row + 1}" t="inlineStr"><is><t>${value}</t></is></c>`;
  const sheet = (rows) => xml(`<worksheet ${main}><sheetData>${rows.map((row, r) => `<row r="${r + 1}">${row.map((value, c) => cell(value, r, c)).join('')}</row>`).join('')}</sheetData></worksheet>`);
  const names = Object.keys(sheets);
  const files = {
    '[Content_Types].xml': xml(`<Types ${packages}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>${names.map((_, i) => `<Override PartName="/xl/worksheets/sheet${i + 1}.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>`).join('')}</Types>`),
    '_rels/.rels': xml(`<Relationships ${packages}/relationships"><Relationship Id="rId1" Type="${office}/officeDocument" Target="xl/workbook.xml"/></Relationships>`),
    'xl/workbook.xml': xml(`<workbook ${main} xmlns:r="${office}"><sheets>${names.map((name, i) => `<sheet name="${name}" sheetId="${i + 1}" r:id="rId${i + 1}"/>`).join('')}</sheets></workbook>`),
    'xl/_rels/workbook.xml.rels': xml(`<Relationships ${packages}/relationships">${names.map((_, i) => `<Relationship Id="rId${i + 1}" Type="${office}/worksheet" Target="worksheets/sheet${i + 1}.xml"/>`).join('')}</Relationships>`),
    ...Object.fromEntries(names.map((name, i) => [`xl/worksheets/sheet${i + 1}.xml`, sheet(sheets[name])])),
  };
  const [parts, directory] = [[], []];
  let at = 0;
  for (const [name, text_] of Object.entries(files)) {
    const [title, data] = [Buffer.from(name), Buffer.from(text_)];
    const facts = Buffer.alloc(26);
    facts.writeUInt16LE(20, 0);
    facts.writeUInt32LE(crc(data), 10);
    facts.writeUInt32LE(data.length, 14);
    facts.writeUInt32LE(data.length, 18);
    facts.writeUInt16LE(title.length, 22);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(at, 10);
    parts.push(Buffer.from('PK\x03\x04'), facts, title, data);
    directory.push(Buffer.from('PK\x01\x02\x14\0'), facts, rest, title);
    at += 30 + title.length + data.length;
  }
  const end = Buffer.alloc(18);
  end.writeUInt16LE(Object.keys(files).length, 4);
  end.writeUInt16LE(Object.keys(files).length, 6);
  end.writeUInt32LE(Buffer.concat(directory).length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...parts, ...directory, Buffer.from('PK\x05\x06'), end]);
}

test('a workbook: another sheet is chosen, and it is the one that is imported', LIMIT, async () => {
  await forget();
  const page = await openSignedIn('#imports', { as: 'client' });
  const book = workbook({ Resumo: [['Total'], ['2']], Leads: [['telefone', 'nome'], ['11 91234-5678', 'Ana'], ['11 91234-5679', randomUUID()]] });
  await page.locator('#import-file').setInputFiles(named(book, 'leads.xlsx'));
  await page.locator('tr[data-column=Total]').waitFor();
  await page.locator('#note', { hasText: 'Excel' }).waitFor();
  await page.locator('#import-sheet').focus();
  await page.locator('#import-sheet').selectOption('Leads');
  await page.locator('tr[data-column=telefone]', { hasText: 'recognised' }).waitFor();
  assert.equal(await focused(page), 'import-sheet');
  await accessible(page, 'a workbook');
  await page.locator('#import-start').click();
  await hasStatus(page, 'Completed');
  assert.equal(await text(page, '#import-imported'), '2');
  await page.finish();
});

test('what a batch waits for is told: OmniFlow is away, and the place in line behind another', LIMIT, async () => {
  await fault({ path: '/api/leads/import', status: 503 });
  try {
    const first = await upload(named(leads(500)));
    const second = await upload(named(leads(500)));
    const page = await openSignedIn(`#imports/${first}`, { as: 'client' });
    await page.locator('#import-wait[data-code=OmniFlowAway]').waitFor();
    assert.doesNotMatch(await text(page, '#import-batch'), /left/, 'no remaining time that nobody knows');
    assert.equal((await text(page, '#import-wait')).match(/OmniFlow does not answer|OmniFlow takes nothing/g).length, 1, 'said once');
    assert.match(await text(page, '#import-wait'), /since \d\d:\d\d/, 'since a moment, not since how long');
    await accessible(page, 'an import that waits');
    await page.goto(`${gateway.url}#imports/${second}`);
    await page.locator('#import-wait[data-code=InLine]').waitFor();
    await heal();
    await hasStatus(page, 'Completed');
    assert.equal(await page.locator('#import-wait').count(), 0);
    await page.finish();
  } finally {
    await heal();
  }
});

test('the error report, mended and imported again: its own columns are ignored', LIMIT, async () => {
  const id = await upload(named(Buffer.from('telefone;nome\nnone;Ana\n11 91234-5678;Bia\n'), 'a.csv'));
  await ended(id);
  const page = await openSignedIn(`#imports/${id}`, { as: 'client' });
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Error report as CSV' }).click()]);
  const { readFileSync } = await import('node:fs');
  const mended = readFileSync(await download.path()).toString().replace('none', '11 97777-6666');
  await page.goto(`${gateway.url}#imports`);
  await drop(page, 'mended.csv', mended);
  await page.locator('#import-columns').waitFor();
  assert.deepEqual(await page.locator('#import-columns tbody tr').evaluateAll((nodes) => nodes.map((node) => node.dataset.column)), ['telefone', 'nome']);
  await page.locator('#import-start').click();
  await hasStatus(page, 'Completed');
  await page.finish();
});

for (const [language, width, scheme] of [['pt', 390, 'dark'], ['pt', 1280, 'light'], ['en', 390, 'light']]) {
  test(`a preview and corrections fit: ${language}, ${width} px, ${scheme}`, LIMIT, async () => {
    const id = await upload(named(Buffer.from(`telefone;nome\nnone;${'long '.repeat(30)}\n`), 'a.csv'));
    await ended(id);
    const page = await openSignedIn('#imports', { as: 'client', language, width, scheme });
    await drop(page, 'leads.csv', csv(5));
    await page.locator('#import-columns').waitFor();
    await accessible(page, 'a preview');
    await page.goto(`${gateway.url}#imports/${id}`);
    await page.locator('#import-grid input').first().fill('11 91234-5678');
    await page.locator('#import-mended').waitFor();
    await accessible(page, 'corrections');
    await page.screenshot({ path: join(SHOTS, `corrections-${language}-${width}.png`), fullPage: true });
    page.on('dialog', (dialog) => dialog.accept());
    await page.locator('#import-undo').click();
    assert.ok(!(await page.locator('#import-draft').isVisible()));
    await page.finish();
  });
}
