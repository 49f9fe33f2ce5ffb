// The console's pages for imports: a file dropped, watched and looked at, with the sandbox as OmniFlow.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, ask, eventually, gateway, open, text } from './harness.mjs';

const fault = (body) => ask(`${gateway.sandbox}/_faults`, { body: { path: '/api/leads/import', ...body } });
const heal = () => ask(`${gateway.sandbox}/_faults`, { method: 'DELETE' });
const batchOf = (id) => ask(`${gateway.url}imports/${id}`, { method: 'GET', headers: gateway.headers });

const lead = (i, more) => ({ Telefone: `11 9${String(i).padStart(8, '0')}`, Nome: `n${i}`, ...more });
const leads = (count, more = () => ({})) => Buffer.from(JSON.stringify(Array.from({ length: count }, (_, i) => lead(i, more(i)))));
const named = (buffer, name = `${randomUUID().slice(0, 8)}.json`) => ({ name, mimeType: 'application/json', buffer });

// A call beside the page; the batch's id.
async function upload(file, fields = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append('file', new Blob([file.buffer]), file.name);
  const answer = await fetch(`${gateway.url}imports`, { method: 'POST', headers: gateway.headers, body: form });
  assert.equal(answer.status, 202);
  return (await answer.json()).batchId;
}

const ended = (id) => eventually(`the end of ${id}`, async () => {
  const batch = await batchOf(id);
  return ['Completed', 'CompletedWithErrors', 'Failed'].includes(batch.status) && batch;
});

async function openSignedIn(hash, options = {}) {
  const page = await open(gateway, options);
  await page.evaluate((client) => sessionStorage.setItem('dataflow.client', client), JSON.stringify({ id: gateway.clientId, secret: gateway.secret }));
  await page.goto(`${gateway.url}${hash}`);
  await page.reload();
  return page;
}

const shownId = async (page) => (await text(page, '#imports-note')).trim();
const hasStatus = (page, status) => page.locator(`#imports-batch[data-status=${status}]`).waitFor();

test('a file is chosen, uploaded, watched to its end, and stands in the history', LIMIT, async () => {
  const page = await open(gateway, { allowed: [401], hash: '#imports' });
  await page.locator('[data-gate=client]', { hasText: 'imports' }).locator('button').click();
  await page.locator('#client-id').fill(gateway.clientId);
  await page.locator('#client-secret').fill(gateway.secret);
  await page.locator('#client-form [type=submit]').click();
  await page.locator('#imports-form').waitFor();
  assert.equal(await text(page, '#imports-client'), `Client ${gateway.clientId}`);
  assert.ok(await page.locator('#imports-send').isDisabled(), 'nothing to send yet');

  const file = named(leads(500));
  await page.locator('#imports-file').setInputFiles(file);
  await page.locator('#imports-chosen', { hasText: file.name }).waitFor();
  await page.locator('#imports-origin').fill('Fair');
  await page.locator('#imports-send').click();
  await page.locator('#imports-title', { hasText: file.name }).waitFor();
  await hasStatus(page, 'Completed');
  assert.equal(await text(page, '#imports-imported'), '500');
  assert.equal(await text(page, '#imports-errors'), '0');
  assert.match(await text(page, '#imports-words'), /500 of 500 records/);
  assert.equal(await page.locator('#imports-items table').count(), 0);
  assert.equal((await batchOf(await shownId(page))).originDefault, 'Fair');

  await page.locator('#imports-crumbs a').click();
  const row = page.locator('#imports-body tbody tr', { hasText: file.name });
  await row.locator('.badge', { hasText: 'Completed' }).waitFor();
  assert.match(await row.textContent(), /500 of 500/);
  await page.locator('#imports-client').click();
  await page.locator('#client-forget').click();
  await page.locator('[data-gate=client]').waitFor();
  assert.equal(await page.locator('#imports-body tr').count(), 0);
  await page.finish();
});

test('a file is dropped on the page, and one that is refused says why', LIMIT, async () => {
  const page = await openSignedIn('#imports', { allowed: [400, 415] });
  const drop = async (name, content) => {
    const data = await page.evaluateHandle(([n, c]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([c], n));
      return transfer;
    }, [name, content]);
    await page.dispatchEvent('#imports-drop', 'drop', { dataTransfer: data });
  };
  await drop('other.zip', `PK\u0003\u0004${'\0'.repeat(100)}`);
  await page.locator('#imports-chosen', { hasText: 'other.zip' }).waitFor();
  await page.locator('#imports-send').click();
  await page.locator('#imports-file-error', { hasText: 'archive is broken' }).waitFor();
  assert.ok(await page.locator('#imports-send').isEnabled(), 'another attempt is possible');

  await drop('leads.csv', 'telefone;nome\n11 91234-5678;Ana\n');
  await page.locator('#imports-origin').fill('x'.repeat(300));
  await page.locator('#imports-send').click();
  await page.locator('#imports-origin-error', { hasText: '200' }).waitFor();
  await eventually('the focus', async () => (await page.evaluate(() => document.activeElement.id)) === 'imports-origin');

  await page.locator('#imports-origin').fill('');
  await page.locator('#imports-send').click();
  await hasStatus(page, 'Completed');
  assert.equal(await text(page, '#imports-imported'), '1');
  await page.finish();
});

test('the progress is live, and an upload can be stopped', LIMIT, async () => {
  await fault({ latencyMs: 1000 });
  try {
    const page = await openSignedIn('#imports');
    await page.locator('#imports-file').setInputFiles(named(leads(3000)));
    await page.locator('#imports-send').click();
    await hasStatus(page, 'Processing');
    const seen = new Set();
    await eventually('several steps', async () => {
      if (await page.locator('#imports-processed').count()) seen.add(await text(page, '#imports-processed'));
      return seen.size >= 3;
    });
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    await heal();
    await hasStatus(page, 'Completed');
    assert.equal(await text(page, '#imports-imported'), '3,000');
    assert.ok(asked.length < 40, 'told, not asked all the time');

    await page.locator('#imports-crumbs a').click();
    let stopped;
    const until = new Promise((done) => { stopped = done; });
    await page.route('**/imports', async (route) => { await until; await route.abort().catch(() => {}); });
    await page.locator('#imports-file').setInputFiles(named(leads(10)));
    await page.locator('#imports-send').click();
    await page.locator('#imports-stop').click();
    await page.locator('#imports-form .form-error', { hasText: 'Upload cancelled' }).waitFor();
    stopped();
    await page.finish();
  } finally {
    await heal();
  }
});

test('failed records, page by page, with why, as a report, and tried again', LIMIT, async () => {
  const name = `<b>${randomUUID().slice(0, 8)}</b>.json`;
  const id = await upload(named(leads(60, (i) => (i % 2 ? { sandboxError: `<i>refused ${i}</i>` } : {})), name));
  await ended(id);
  const page = await openSignedIn(`#imports?batch=${id}`);
  await hasStatus(page, 'CompletedWithErrors');
  assert.equal(await text(page, '#imports-errors'), '30');
  const rows = page.locator('#imports-items tbody tr');
  await eventually('the first page', async () => (await rows.count()) === 20);
  assert.match(await rows.first().textContent(), /^2/);
  await rows.first().locator('.reason', { hasText: '<i>refused 1</i>' }).waitFor();
  await rows.first().locator('summary').click();
  await rows.first().locator('pre', { hasText: '"PhoneNumber"' }).waitFor();
  await page.getByRole('link', { name: 'Next' }).click();
  await eventually('the second page', async () => (await rows.count()) === 10);
  assert.equal(await page.locator('#imports b, #imports i').count(), 0, 'what a file says is no markup');

  for (const format of ['CSV', 'JSON', 'XLSX']) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: `Error report as ${format}` }).click()]);
    assert.match(download.suggestedFilename(), new RegExp(`-errors\\.${format.toLowerCase()}$`));
    const content = readFileSync(await download.path());
    if (format === 'XLSX') assert.equal(content.subarray(0, 2).toString(), 'PK');
    else assert.match(content.toString(), /refused 59/);
  }

  await page.getByRole('button', { name: 'Retry failed' }).click();
  await page.locator('#imports-retry-form [data-close]').click();
  assert.equal((await batchOf(id)).attempt, 1, 'asked, not told');
  await page.getByRole('button', { name: 'Retry failed' }).click();
  await page.locator('#imports-retry-form [type=submit]').click();
  await page.locator('#messages', { hasText: '30 records' }).waitFor();
  await eventually('the second attempt', async () => (await batchOf(id)).attempt === 2);
  await hasStatus(page, 'CompletedWithErrors');
  await page.finish();
});

test('one that waits shows when, and is cancelled', LIMIT, async () => {
  const policy = (body) => ask(`${gateway.url}admin/clients/${gateway.clientId}/policy`, { method: 'PUT', headers: { 'X-Admin-Key': gateway.key }, body });
  const now = new Date().getUTCHours();
  await policy({ allowedStartHour: (now + 2) % 24, allowedEndHour: (now + 4) % 24 });
  try {
    const page = await openSignedIn('#imports');
    const file = named(leads(3));
    await page.locator('#imports-file').setInputFiles(file);
    await page.locator('#imports-send').click();
    await hasStatus(page, 'Scheduled');
    assert.match(await text(page, '#imports-batch'), /Begins \d{4}-\d\d-\d\d \d\d:00:00\.000 UTC \(in /);
    await page.getByRole('button', { name: 'Cancel import' }).click();
    await page.locator('#imports-cancel-form [type=submit]').click();
    await hasStatus(page, 'Cancelled');
    assert.equal(await page.getByRole('button', { name: 'Cancel import' }).filter({ visible: true }).count(), 0);
    await page.locator('#imports-crumbs a').click();
    await page.locator('#imports-status').focus();
    await page.locator('#imports-status').selectOption('Cancelled');
    await page.locator('#imports-note', { hasText: 'in Cancelled' }).waitFor();
    await page.locator('#imports-body tbody tr', { hasText: file.name }).waitFor();
    await eventually('the filter', async () => (await page.evaluate(() => document.activeElement.id)) === 'imports-status');
    await page.finish();
  } finally {
    await policy({ allowedStartHour: null, allowedEndHour: null });
  }
});

test('a batch that is not there, and one of nobody', LIMIT, async () => {
  const page = await openSignedIn(`#imports?batch=${randomUUID()}`, { allowed: [404] });
  await page.locator('#messages', { hasText: 'There is no import' }).waitFor();
  await page.goto(`${gateway.url}#imports?status=Failed&page=7`);
  await page.locator('#imports-note', { hasText: 'in Failed' }).waitFor();
  await page.finish();
});

test('maintenance is told beforehand', LIMIT, async () => {
  const admin = (method, body) => ask(`${gateway.url}admin/clients/${gateway.clientId}/policy`, { method, headers: { 'X-Admin-Key': gateway.key }, body });
  await admin('PATCH', { maintenanceWindow: '2099-11-20T02:00Z/2099-11-20T04:00Z' });
  const page = await openSignedIn('#imports');
  await page.locator('#imports-maintenance', { hasText: 'no files will be accepted from' }).waitFor();
  await admin('DELETE');
  await page.reload();
  await page.locator('#imports-status').waitFor();
  assert.equal(await page.locator('#imports-maintenance').count(), 0);
  await page.finish();
});

for (const [scheme, device, width, height] of [['light', 'desktop', 1280, 860], ['dark', 'phone', 390, 844], ['light', 'tablet', 760, 900]]) {
  test(`imports look right: ${scheme}, ${device}`, LIMIT, async () => {
    const long = `${'a-very-long-name-of-a-file-'.repeat(6)}.json`;
    const id = await upload(named(leads(30, (i) => (i % 3 ? {} : { sandboxError: 'The lead is known already, and cannot be imported again.' })), long));
    await ended(id);
    const page = await openSignedIn('#imports', { scheme, width, height });
    const fits = async (what) => {
      await page.screenshot({ path: join(SHOTS, `${what}-${scheme}-${device}.png`), fullPage: true });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(overflow <= 0, `${what}: ${overflow} pixels too wide`);
    };
    await page.locator(`tr[data-batch="${id}"]`).waitFor();
    await fits('imports');
    await page.locator(`tr[data-batch="${id}"] a`).click();
    await page.locator('#imports-items tbody tr').first().waitFor();
    await fits('import');
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, a, input, select, progress')]
      .filter((e) => !(e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label'))).map((e) => e.outerHTML));
    assert.deepEqual(nameless, []);
    await page.finish();
  });
}
