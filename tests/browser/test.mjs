// The console in a real browser: what it shows, that it lives, the way from the admin key to a
// client's secret, and that it asks nobody but its own server for anything.
//
//   node tests/browser/test.mjs              all of it, with the files beside it; starts build/dataflow by itself
//   DATAFLOW_BIN                             another binary
//   CHROMIUM                                 another browser than /usr/bin/chromium
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, bare, demo, enterKey, eventually, open, text, traffic } from './harness.mjs';
import './alerts.mjs';
import './imports.mjs';
import './interface.mjs';
import './operators.mjs';
import './series.mjs';
import './webhooks.mjs';

test('shows version, readiness, each check and the back end', LIMIT, async () => {
  const page = await open(demo);
  await page.locator('#state[data-state=ok]').waitFor();
  assert.equal(await text(page, '#state'), 'Ready');
  assert.match(await text(page, '#version'), /^\d+\.\d+\.\d+$/);
  assert.equal(await text(page, '#backend'), 'SQLite');
  assert.deepEqual(await page.locator('#checks .name').allTextContents(), ['database', 'schema', 'disk', 'locks']);
  await eventually('uptime', async () => /\d+ (s|min|h)/.test(await text(page, '#uptime')));
  await eventually('memory', async () => /iB$/.test(await text(page, '#memory')));
  await page.finish();
});

test('throughput, latency and routes follow the requests', LIMIT, async () => {
  const page = await open(demo);
  await eventually('a first figure', async () => (await text(page, '#rate')) !== '–');
  const stop = traffic(demo);
  await eventually('throughput', async () => Number.parseFloat((await text(page, '#rate')).replace(',', '')) > 5);
  await eventually('latency', async () => /(µs|ms|s)$/.test(await text(page, '#p99')));
  const row = page.locator('#routes tbody tr', { hasText: '/whoami' });
  await row.waitFor();
  await eventually('a line in the chart', async () => /L/.test((await page.locator('#chart .stroke').getAttribute('d')) || ''));
  await eventually('4xx', async () => /4xx [1-9]/.test(await text(page, '#errors-note')));
  await stop();
  await eventually('rest', async () => (await text(page, '#rate')) === '0');
  await page.finish();
});

test('from the admin key to a client, its secret once, suspended and active again', LIMIT, async () => {
  const page = await open(demo, { allowed: [400, 401, 409], hash: '#clients' });
  await page.locator('[data-gate=admin] button').click();
  await enterKey(page, 'wrong');
  await page.locator('#key-form .form-error', { hasText: 'Correlation ID' }).waitFor();
  await enterKey(page, demo.key);
  await page.locator('#new-client').click();

  await page.locator('#create-name').fill('');
  await page.locator('#create-id').fill('not valid');
  await page.locator('#create-form [type=submit]').click();
  await page.locator('#create-id-error', { hasText: /\S/ }).waitFor();
  await page.locator('#create-name-error', { hasText: /\S/ }).waitFor();

  const name = '<img src=x onerror=alert(1)> São João 🚚';
  await page.locator('#create-name').fill(name);
  await page.locator('#create-id').fill('browser-1');
  for (const scope of ['imports', 'acks']) await page.locator('#create-scopes label', { hasText: scope }).click();
  await page.locator('#create-form [type=submit]').click();
  await page.locator('#secret-value', { hasText: /\S{40}/ }).waitFor();
  const secret = await text(page, '#secret-value');
  assert.equal(await text(page, '#secret-id'), 'browser-1');
  const me = await fetch(`${demo.url}whoami`, { headers: { 'X-Client-Id': 'browser-1', 'X-Client-Secret': secret } });
  const answer = await me.json();
  assert.equal(answer.name, name);
  assert.deepEqual(answer.scopes, ['interface', 'acks']);

  await page.screenshot({ path: join(SHOTS, 'secret.png') });
  await page.locator('#secret-dialog [type=submit]').click();
  await eventually('the secret gone from the page', async () => !(await page.content()).includes(secret));

  const row = page.locator('tr[data-client="browser-1"]');
  assert.equal(await row.locator('.client-name').textContent(), name);
  await row.getByRole('button', { name: 'Suspend' }).click();
  await page.locator('#suspend-form [type=submit]').click();
  await row.locator('.badge', { hasText: 'Suspended' }).waitFor();
  const refused = await fetch(`${demo.url}whoami`, { headers: { 'X-Client-Id': 'browser-1', 'X-Client-Secret': secret } });
  assert.equal(refused.status, 403);
  await row.getByRole('button', { name: 'Activate' }).click();
  await row.locator('.badge', { hasText: 'Active' }).waitFor();

  await row.getByRole('button', { name: 'Scopes' }).click();
  assert.equal(await page.locator('#scopes-scopes input[value=imports]').isChecked(), false, 'as the client has them');
  await page.locator('#scopes-scopes label', { hasText: 'imports' }).click();
  await page.locator('#scopes-scopes label', { hasText: 'acks' }).click();
  await page.locator('#scopes-form [type=submit]').click();
  await row.locator('.tag', { hasText: 'imports' }).waitFor();
  assert.equal(await row.locator('.tag', { hasText: 'acks' }).count(), 0);

  await row.getByRole('button', { name: 'Rotate secret' }).click();
  await page.locator('#rotate-grace').selectOption('300');
  await page.locator('#rotate-form [type=submit]').click();
  await page.locator('#secret-value', { hasText: /\S{40}/ }).waitFor();
  assert.notEqual(await text(page, '#secret-value'), secret);
  await page.locator('#secret-dialog [type=submit]').click();

  // A taken identifier is told, with the reference for the log.
  await page.locator('#new-client').click();
  await page.locator('#create-name').fill('Again');
  await page.locator('#create-id').fill('browser-1');
  await page.locator('#create-form [type=submit]').click();
  await page.locator('#create-form', { hasText: /Correlation ID|taken|exists/i }).locator('.form-error, .field-error').filter({ hasText: /\S/ }).first().waitFor();
  await page.locator('#create-form [data-close]').click();

  assert.equal(await page.evaluate(() => localStorage.length), 0, 'nothing is kept beyond the tab');
  await page.finish();
});

test('says how to configure an admin key when there is none', LIMIT, async () => {
  const page = await open(bare, { allowed: [404], hash: '#clients' });
  await page.locator('[data-gate=off]', { hasText: 'admin.key_file' }).waitFor();
  await page.finish();
});

test('can be used by keyboard, and every control has a name', LIMIT, async () => {
  const page = await open(demo);
  await page.locator('#state[data-state=ok]').waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button, a, input, select')]
    .filter((e) => !(e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label'))).map((e) => e.outerHTML));
  assert.deepEqual(nameless, []);
  await page.finish();
});

test('says so when the server is gone', LIMIT, async () => {
  const page = await open(bare, { allowed: [] });
  await page.locator('#state[data-state=ok]').waitFor();
  await page.route('**/*', (route) => route.abort());
  await page.locator('#state', { hasText: 'Unreachable' }).waitFor();
  await page.unroute('**/*');
  await page.locator('#state', { hasText: 'Ready' }).waitFor();
  await page.close(); // the failed loads stand in its console, as they should
});

for (const scheme of ['light', 'dark']) {
  for (const [device, width, height] of [['desktop', 1280, 860], ['phone', 390, 844]]) {
    test(`looks right: ${scheme}, ${device}`, LIMIT, async () => {
      const page = await open(demo, { scheme, width, height, allowed: [401] });
      const stop = traffic(demo);
      await eventually('figures', async () => /s$/.test(await text(page, '#p99')));
      await page.waitForTimeout(1500);
      await page.screenshot({ path: join(SHOTS, `overview-${scheme}-${device}.png`), fullPage: true });
      const cut = await page.locator('#overview .scroll').evaluate((e) => e.scrollWidth - e.clientWidth);
      assert.ok(cut <= 0, `${cut} pixels of the routes are out of sight`);
      await stop();
      await page.evaluate((key) => sessionStorage.setItem('dataflow.adminKey', key), demo.key);
      await page.goto(`${demo.url}#clients`);
      await page.reload();
      await page.locator('tr[data-client="demo"]').waitFor();
      await page.screenshot({ path: join(SHOTS, `clients-${scheme}-${device}.png`), fullPage: true });
      await page.locator('#new-client').click();
      await page.screenshot({ path: join(SHOTS, `create-${scheme}-${device}.png`) });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(overflow <= 0, `${overflow} pixels too wide`);
      await page.finish();
    });
  }
}
