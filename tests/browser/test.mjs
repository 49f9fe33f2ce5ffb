// The console in a real browser: what it shows, that it lives, the way from the admin key to a
// client's secret, and that it asks nobody but its own server for anything.
//
//   node tests/browser/test.mjs              starts build/dataflow serve --demo by itself
//   DATAFLOW_BIN                             another binary
//   CHROMIUM                                 another browser than /usr/bin/chromium
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const BIN = resolve(ROOT, process.env.DATAFLOW_BIN || 'build/dataflow');
const SHOTS = join(ROOT, 'build/browser');
const FLAGS = ['--no-sandbox', '--headless', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

const LIMIT = { timeout: 60000 };

const scratch = mkdtempSync(join(tmpdir(), 'dataflow-browser-'));
const processes = [];
let demo;
let bare;
let context;

// Settings of the machine's user would override the test's own.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('DATAFLOW_')));

function start(name, args, ready) {
  return new Promise((done, fail) => {
    const child = spawn(BIN, ['serve', '--set', 'server.listen=127.0.0.1:0', '--set', `server.data_dir=${scratch}/${name}`, ...args],
      { env, cwd: scratch, stdio: ['ignore', 'pipe', 'pipe'] });
    processes.push(child);
    const timer = setTimeout(() => fail(new Error(`${name}: not started\n${output}`)), 30000);
    let output = '';
    const read = (data) => {
      output += data;
      const found = ready(output);
      if (found) {
        clearTimeout(timer);
        done(found);
      }
    };
    child.stdout.setEncoding('utf8').on('data', read);
    child.stderr.setEncoding('utf8').on('data', read);
    child.on('error', fail);
    child.on('exit', (code) => fail(new Error(`${name}: exit status ${code}\n${output}`)));
  });
}

function demoReady(output) {
  const url = /console\s+(http:\S+)/.exec(output);
  const key = /admin key\s+(\S+)/.exec(output);
  const id = /X-Client-Id: (\S+)/.exec(output);
  const secret = /X-Client-Secret: (\S+)/.exec(output);
  return output.includes('_stats') && url && key && id && secret
    ? { url: url[1], key: key[1], headers: { 'X-Client-Id': id[1], 'X-Client-Secret': secret[1] } } : null;
}

function bareReady(output) {
  const line = output.split('\n').find((l) => l.includes('"ServerStarted"') && l.endsWith('}'));
  return line ? { url: `http://${JSON.parse(line).address}/` } : null;
}

// A page that records whatever a page must not do. `allowed`: statuses that the test provokes.
async function open(server, { allowed = [], hash = '', ...options } = {}) {
  const page = await context.newPage();
  const trouble = [];
  page.on('console', (message) => {
    const provoked = allowed.some((status) => message.text().includes(`status of ${status}`));
    if (['error', 'warning'].includes(message.type()) && !provoked) trouble.push(message.text());
  });
  page.on('pageerror', (error) => trouble.push(String(error)));
  page.on('request', (request) => {
    if (!request.url().startsWith(server.url)) trouble.push(`asked for ${request.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));
  });
  await page.setViewportSize({ width: options.width || 1280, height: options.height || 860 });
  await page.emulateMedia({ colorScheme: options.scheme || 'light' });
  await page.goto(server.url + hash);
  page.finish = async () => {
    await page.close();
    assert.deepEqual(trouble, []);
  };
  return page;
}

async function eventually(what, condition, timeout = 15000) {
  const deadline = Date.now() + timeout;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `not in time: ${what}`);
    await new Promise((next) => setTimeout(next, 100));
  }
}

const text = (page, selector) => page.locator(selector).textContent();

// Requests until the returned function is called.
function traffic(server) {
  let on = true;
  const work = async () => {
    while (on) {
      await fetch(`${server.url}whoami`, { headers: server.headers }).then((r) => r.arrayBuffer());
      await fetch(`${server.url}nothing`).then((r) => r.arrayBuffer());
      await new Promise((next) => setTimeout(next, 5));
    }
  };
  const workers = [work(), work(), work()];
  return async () => {
    on = false;
    await Promise.all(workers);
  };
}

async function enterKey(page, key) {
  await page.locator('#key-input').fill(key);
  await page.locator('#key-form [type=submit]').click();
}

before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  [demo, bare] = await Promise.all([
    start('demo', ['--demo', '--sandbox-listen', '127.0.0.1:0'], demoReady),
    start('bare', [], bareReady),
  ]);
  context = await chromium.launchPersistentContext(join(scratch, 'profile'), {
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium', headless: true, args: FLAGS, env,
  });
  context.setDefaultTimeout(15000);
});

after(async () => {
  await context?.close();
  for (const child of processes) {
    child.removeAllListeners('exit');
    const ended = new Promise((done) => child.once('exit', (code) => done(code)));
    child.kill('SIGTERM');
    assert.equal(child.exitCode ?? await ended, 0, 'the server ends with 0');
  }
  rmSync(scratch, { recursive: true, force: true });
});

test('shows version, readiness, each check and the back end', LIMIT, async () => {
  const page = await open(demo);
  await page.locator('#state[data-state=ok]').waitFor();
  assert.equal(await text(page, '#state'), 'Ready');
  assert.match(await text(page, '#version'), /^\d+\.\d+\.\d+$/);
  assert.equal(await text(page, '#backend'), 'SQLite');
  assert.deepEqual(await page.locator('#checks .name').allTextContents(), ['database', 'schema']);
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
  await page.locator('#unlock').click();
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
  await page.locator('#create-scopes label', { hasText: 'imports' }).click();
  await page.locator('#create-form [type=submit]').click();
  await page.locator('#secret-value', { hasText: /\S{40}/ }).waitFor();
  const secret = await text(page, '#secret-value');
  assert.equal(await text(page, '#secret-id'), 'browser-1');
  const me = await fetch(`${demo.url}whoami`, { headers: { 'X-Client-Id': 'browser-1', 'X-Client-Secret': secret } });
  const answer = await me.json();
  assert.equal(answer.name, name);
  assert.deepEqual(answer.scopes, ['interface', 'callback', 'acks', 'events', 'integrations']);

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
  await page.locator('#clients-off', { hasText: 'admin.key_file' }).waitFor();
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
      await eventually('figures', async () => /(µs|ms)$/.test(await text(page, '#p99')));
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
