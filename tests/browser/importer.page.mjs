// Imports as a client: a file chosen or dropped, watched to its end, its failed records looked at and sent again.
import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, ask, eventually, gateway, open, openSignedIn, text } from './harness.mjs';
import { batchOf, drop, ended, hasStatus, leads, named, started, upload } from './leads.mjs';
import { fault, heal } from './gateway.mjs';
import { sha256 } from './console.mjs';

const slow = () => fault({ path: '/api/leads/import', latencyMs: 1000 });
const policy = (method, body) => ask(`${gateway.url}admin/clients/${gateway.clientId}/policy`, { method, headers: { 'X-Admin-Key': gateway.key }, body });

test('the checksum of a file is SHA-256, whatever its length', async () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, (1 << 20) - 9, 1 << 20, (1 << 20) + 1, 3 << 20]) {
    const data = randomBytes(length);
    const seen = [];
    assert.equal(await sha256(new Blob([data]), { progress: (done) => seen.push(done) }), createHash('sha256').update(data).digest('hex'), `${length} bytes`);
    assert.equal(seen.at(-1), length);
  }
  const stop = new AbortController();
  await assert.rejects(sha256(new Blob([randomBytes(3 << 20)]), { signal: stop.signal, progress: () => stop.abort() }), { name: 'AbortError' });
});

test('a file is chosen, imported, watched to its end, and stands in the history', LIMIT, async () => {
  const page = await open(gateway, { allowed: [401], hash: '#imports' });
  await page.locator('[data-gate] label', { hasText: 'Client credentials' }).click();
  await page.locator('[name=clientId]').fill(gateway.clientId);
  await page.locator('[name=secret]').fill(gateway.secret);
  await page.locator('form.signin [type=submit]').click();
  await page.locator('#import-drop').waitFor();

  const file = named(leads(500));
  await page.locator('#import-file').setInputFiles(file);
  await page.locator('#title', { hasText: file.name }).waitFor();
  await page.locator('#import-originDefault').fill('Fair');
  await page.locator('#import-start').click();
  await hasStatus(page, 'Completed');
  assert.equal(await text(page, '#import-imported'), '500');
  assert.equal(await text(page, '#import-errors'), '0');
  assert.match(await text(page, '#import-words'), /500 of 500 records/);
  assert.equal(await page.locator('#import-grid').count(), 0);
  assert.equal((await batchOf(page.url().split('/').at(-1))).originDefault, 'Fair');

  await page.locator('.crumbs a').click();
  const row = page.locator('#imports-table tbody tr', { hasText: file.name });
  await row.locator('.badge', { hasText: 'Completed' }).waitFor();
  assert.match(await row.textContent(), /500 of 500/);
  await accessible(page, 'imports');
  await page.locator('#account').click();
  await page.locator('#account-out').click();
  await page.locator('[data-gate] form').waitFor();
  assert.equal(await page.locator('#imports-table').count(), 0);
  await page.finish();
});

test('a file is dropped on the page, and one that is refused says why', LIMIT, async () => {
  const page = await openSignedIn('#imports', { as: 'client', allowed: [400, 415] });
  await drop(page, 'other.zip', `PK\u0003\u0004${'\0'.repeat(100)}`);
  await page.locator('#title', { hasText: 'other.zip' }).waitFor();
  // By the preview, or, where there is none, by the upload itself.
  await page.locator('#import-problem').waitFor();
  if (await page.locator('#import-start').isVisible()) await page.locator('#import-start').click();
  await page.locator('#import-problem, #import-form', { hasText: 'archive is broken' }).first().waitFor();

  await page.locator('#actions a').click();
  await drop(page, 'leads.csv', 'telefone;nome\n11 91234-5678;Ana\n');
  await page.locator('#import-originDefault').fill('x'.repeat(300));
  await page.locator('#import-start').click();
  await page.locator('#import-originDefault-error', { hasText: '200' }).waitFor();
  await eventually('the focus', async () => (await page.evaluate(() => document.activeElement.id)) === 'import-originDefault');
  await page.locator('#import-originDefault').fill('');
  await page.locator('#import-start').click();
  await hasStatus(page, 'Completed');
  assert.equal(await text(page, '#import-imported'), '1');
  await page.finish();
});

test('the progress is live, and an upload can be stopped', LIMIT, async () => {
  await slow();
  try {
    const page = await openSignedIn('#imports', { as: 'client' });
    await started(page, named(leads(3000)));
    await hasStatus(page, 'Processing');
    const seen = new Set();
    await eventually('several steps', async () => {
      if (await page.locator('#import-processed').count()) seen.add(await text(page, '#import-processed'));
      return seen.size >= 3;
    });
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    await heal();
    await hasStatus(page, 'Completed');
    assert.equal(await text(page, '#import-imported'), '3,000');
    assert.ok(asked.length < 60, 'told, not asked all the time');

    await page.locator('.crumbs a').click();
    let release;
    const until = new Promise((done) => { release = done; });
    await page.route('**/imports', async (route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      await until;
      return route.abort().catch(() => {});
    });
    await started(page, named(leads(10)));
    await page.locator('#import-stop').click();
    await page.locator('#import-form .form-error', { hasText: 'Upload stopped' }).waitFor();
    assert.ok(await page.locator('#import-start').isEnabled(), 'another attempt is possible');
    release();
    await page.finish();
  } finally {
    await heal();
  }
});

test('when the stream breaks, the page looks by itself', LIMIT, async () => {
  await slow();
  try {
    const id = await upload(named(leads(800)));
    const page = await openSignedIn('#overview', { as: 'client' });
    await page.route('**/events', (route) => route.fulfill({ status: 200, contentType: 'text/event-stream', body: '' }));
    await page.goto(`${gateway.url}#imports/${id}`);
    await hasStatus(page, 'Processing');
    await heal();
    await hasStatus(page, 'Completed');
    assert.equal(await text(page, '#import-imported'), '800');
    await page.finish();
  } finally {
    await heal();
  }
});

test('a stream that is refused is not asked for again and again', LIMIT, async () => {
  await slow();
  try {
    const id = await upload(named(leads(800)));
    const page = await openSignedIn('#overview', { as: 'client', allowed: [503] });
    let asked = 0;
    await page.route('**/events', (route) => { asked++; return route.fulfill({ status: 503, json: {} }); });
    await page.goto(`${gateway.url}#imports/${id}`);
    await hasStatus(page, 'Processing');
    await page.waitForTimeout(3000);
    assert.ok(asked < 4, `asked ${asked} times`);
    await page.finish();
  } finally {
    await heal();
  }
});

test('while a file is sent, the page is left only after a question', LIMIT, async () => {
  const page = await openSignedIn('#imports', { as: 'client' });
  await page.route('**/imports', (route) => (route.request().method() === 'POST' ? null : route.fallback())); // no answer
  let leave = false;
  const asked = [];
  page.on('dialog', async (dialog) => {
    asked.push(dialog.message());
    await (leave ? dialog.accept() : dialog.dismiss());
  });
  await started(page, named(leads(10)));
  await page.locator('#import-stop').waitFor();
  await page.locator('#nav a[data-view=overview]').click();
  await eventually('the question', () => asked.length === 1);
  assert.match(asked[0], /still being sent/);
  assert.match(page.url(), /#imports\/new$/);
  assert.ok(await page.locator('#import-stop').isVisible(), 'it goes on');
  leave = true;
  await page.locator('#nav a[data-view=overview]').click();
  await page.locator('#overview-flow').waitFor();
  assert.equal(asked.length, 2);
  await page.locator('#nav a[data-view=imports]').click();
  await page.locator('#import-drop').waitFor();
  await page.finish(); // and nothing was drawn on a page that is gone
});

test('failed records with why, as a report, and sent again after a question', LIMIT, async () => {
  const name = `<b>${randomUUID().slice(0, 8)}</b>.json`;
  const id = await upload(named(leads(60, (i) => (i % 2 ? { sandboxError: `<i>refused ${i}</i>` } : {})), name));
  await ended(id);
  const page = await openSignedIn(`#imports/${id}`, { as: 'client' });
  await hasStatus(page, 'CompletedWithErrors');
  assert.equal(await text(page, '#import-errors'), '30');
  const rows = page.locator('#import-grid tbody tr');
  await eventually('the records', async () => (await rows.count()) === 30);
  assert.match(await rows.first().textContent(), /^2/, 'the second record of the file');
  await rows.first().locator('.reason', { hasText: '<i>refused 1</i>' }).waitFor();
  assert.equal(await page.locator('main b, main i').count(), 0, 'what a file says is no markup');

  for (const format of ['CSV', 'JSON', 'XLSX']) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: `Error report as ${format}` }).click()]);
    assert.match(download.suggestedFilename(), new RegExp(`-errors\\.${format.toLowerCase()}$`));
    const content = readFileSync(await download.path());
    if (format === 'XLSX') assert.equal(content.subarray(0, 2).toString(), 'PK');
    else assert.match(content.toString(), /refused 59/);
  }

  await page.evaluate(() => { navigator.clipboard.writeText = async (words) => { window.copied = words; }; });
  await page.locator('#curl').click();
  const copied = await page.evaluate(() => window.copied);
  assert.match(copied, new RegExp(`^curl .*/imports/${id}'$`));
  assert.ok(!copied.includes(gateway.secret));

  await page.locator('#import-retry').click();
  await page.locator('#import-retry-form', { hasText: '30 failed records are sent again' }).locator('[data-close]').click();
  assert.equal((await batchOf(id)).attempt, 1, 'asked, not told');
  await page.locator('#import-retry').click();
  await page.locator('#import-retry-form [type=submit]').click();
  await page.locator('#messages', { hasText: '30 records' }).waitFor();
  await eventually('the second attempt', async () => (await batchOf(id)).attempt === 2);
  await hasStatus(page, 'CompletedWithErrors');
  await page.finish();
});

test('one that waits shows when, and is cancelled', LIMIT, async () => {
  const now = new Date().getUTCHours();
  await policy('PUT', { allowedStartHour: (now + 2) % 24, allowedEndHour: (now + 4) % 24 });
  try {
    const page = await openSignedIn('#imports', { as: 'client' });
    const file = named(leads(3));
    await started(page, file);
    await hasStatus(page, 'Scheduled');
    assert.match(await text(page, '#import-batch'), /begins \d{4}-\d\d-\d\d \d\d:00:00\.000 \(in /);
    assert.match(await page.locator('#import-batch time').first().getAttribute('title'), /UTC/);
    await page.locator('#import-cancel').click();
    await page.locator('#import-cancel-form [type=submit]').click();
    await hasStatus(page, 'Cancelled');
    assert.equal(await page.locator('#import-cancel').count(), 0);
    await page.locator('.crumbs a').click();
    await page.locator('#imports-status').focus();
    await page.locator('#imports-status').selectOption('Cancelled');
    await page.locator('#imports-table tbody tr', { hasText: file.name }).waitFor();
    await eventually('only those', async () => (await page.locator('#imports-table tbody .badge:not([title=Cancelled])').count()) === 0);
    await eventually('the filter', async () => (await page.evaluate(() => document.activeElement.id)) === 'imports-status');
    assert.match(page.url(), /#imports\?status=Cancelled$/, 'the filter is in the address');
    await page.finish();
  } finally {
    await policy('PUT', { allowedStartHour: null, allowedEndHour: null });
  }
});

test('a batch that is not there', LIMIT, async () => {
  const page = await openSignedIn(`#imports/${randomUUID()}`, { as: 'client', allowed: [404] });
  await page.locator('#messages', { hasText: 'There is no import' }).waitFor();
  await page.finish();
});

test('maintenance is told beforehand', LIMIT, async () => {
  await policy('PATCH', { maintenanceWindow: '2099-11-20T02:00Z/2099-11-20T04:00Z' });
  const page = await openSignedIn('#imports', { as: 'client' });
  await page.locator('#imports-maintenance', { hasText: 'no files will be accepted from' }).waitFor();
  await policy('DELETE');
  await page.reload();
  await page.locator('#imports-list').waitFor();
  await eventually('nothing about it', async () => !(await page.locator('#imports-maintenance').isVisible()));
  await page.finish();
});

for (const [scheme, device, width, height] of [['light', 'desktop', 1280, 860], ['dark', 'phone', 390, 844], ['light', 'tablet', 760, 900]]) {
  test(`imports look right: ${scheme}, ${device}`, LIMIT, async () => {
    const long = `${'a-very-long-name-of-a-file-'.repeat(6)}.json`;
    const id = await upload(named(leads(30, (i) => (i % 3 ? {} : { sandboxError: 'The lead is known already, and cannot be imported again.' })), long));
    await ended(id);
    const page = await openSignedIn('#imports', { as: 'client', scheme, width, height });
    await page.locator(`tr[data-batch="${id}"]`).waitFor();
    await accessible(page, 'imports');
    await page.screenshot({ path: join(SHOTS, `imports-${scheme}-${device}.png`), fullPage: true });
    await page.locator(`tr[data-batch="${id}"] a`).click();
    await page.locator('#import-grid tbody tr').first().waitFor();
    await accessible(page, 'import');
    await page.screenshot({ path: join(SHOTS, `import-${scheme}-${device}.png`), fullPage: true });
    await page.goto(`${gateway.url}#imports/new`);
    await page.locator('#import-drop').waitFor();
    await accessible(page, 'a new import');
    await page.finish();
  });
}
