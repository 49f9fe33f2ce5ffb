// Servers, a browser, and pages that record whatever a page must not do; for the tests beside it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { after, afterEach, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const BIN = resolve(ROOT, process.env.DATAFLOW_BIN || 'build/dataflow');
export const SHOTS = join(ROOT, 'build/browser');
const FLAGS = ['--no-sandbox', '--headless', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export const LIMIT = { timeout: 150000 };

const scratch = mkdtempSync(join(tmpdir(), 'dataflow-browser-'));
const processes = [];
let context;

// Filled before the first test: `demo` is what --demo gives, `bare` has no admin key, `gateway` sends to a sandbox of its own.
export const demo = {};
export const bare = {};
export const gateway = {};

// Settings of the machine's user would override the test's own; and what is printed is read in English.
const env = { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('DATAFLOW_'))), LC_ALL: 'C.UTF-8' };

function start(name, args, ready) {
  return new Promise((done, fail) => {
    const child = spawn(BIN, args, { env, cwd: scratch, stdio: ['ignore', 'pipe', 'pipe'] });
    processes.push(child);
    const timer = setTimeout(() => fail(new Error(`${name}: not started\n${output}`)), 60000);
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

const serve = (name, settings, ready, ...more) => start(name, ['serve', ...more,
  ...Object.entries({ 'server.listen': '127.0.0.1:0', 'server.data_dir': join(scratch, name), ...settings })
    .flatMap(([key, value]) => ['--set', `${key}=${value}`])], ready);

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

const sandboxReady = (output) => /sandbox on (http:\S+)\//.exec(output)?.[1];

// A server that sends to a sandbox, which calls it back; it gives up soon, and its breaker is soon willing again.
async function startGateway() {
  const key = 'a key of the browser tests, long enough';
  writeFileSync(join(scratch, 'admin.key'), key);
  const sandbox = await start('sandbox', ['sandbox', '--listen', '127.0.0.1:0'], sandboxReady);
  const server = await serve('gateway', {
    'admin.key_file': join(scratch, 'admin.key'), 'gateway.api_key': 'gateway key', 'gateway.functional_ack_url': `${sandbox}/gateway/acks`,
    'gateway.ticket_return_url': `${sandbox}/gateway/returns`, 'gateway.ticket_send_url': `${sandbox}/gateway/tickets`,
    'omniflow.url': sandbox, 'omniflow.api_key': 'omniflow key', 'delivery.allow_private_targets': 'on', 'delivery.max_attempts': 2, 'delivery.retry_base_ms': 20, 'breaker.open_ms': 200, 'webhooks.retry_delays_ms': '20', 'alerts.interval_seconds': 1, 'series.interval_seconds': 1,
    'integration.sandbox.base_url': sandbox, 'relay.events.dispatcher': 'http', 'relay.events.target': `${sandbox}/gateway/events`,
  }, bareReady);
  const made = await ask(`${server.url}admin/clients`, { headers: { 'X-Admin-Key': key }, body: { name: 'Browser', scopes: ['interface', 'callback', 'imports', 'acks', 'events', 'integrations'] } });
  await ask(`${sandbox}/_config`, { method: 'PUT', body: { serverUrl: server.url, clientId: made.clientId, clientSecret: made.clientSecret } });
  return {
    ...server, key, sandbox, clientId: made.clientId, secret: made.clientSecret,
    headers: { 'X-Client-Id': made.clientId, 'X-Client-Secret': made.clientSecret },
  };
}

// A call beside the page; what is no success fails the test.
export async function ask(url, { method = 'POST', headers = {}, body } = {}) {
  const answer = await fetch(url, { method, headers: { 'Content-Type': 'application/json', ...headers }, body: body && JSON.stringify(body) });
  const said = await answer.text();
  assert.ok(answer.ok, `${method} ${url}: ${answer.status} ${said}`);
  return said ? JSON.parse(said) : null;
}

// A page that records whatever a page must not do. `allowed`: statuses that the test provokes.
export async function open(server, { allowed = [], hash = '', ...options } = {}) {
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

const identity = (server, as) => (as === 'admin' ? { as, key: server.key, client: null, me: { admin: 'admin', role: 'admin' } }
  : { as, key: null, client: { id: server.headers['X-Client-Id'], secret: server.headers['X-Client-Secret'] }, me: null });

// A page whose tab is signed in already, as administrator or (`as: 'client'`) as the server's client.
export async function openSignedIn(hash, { as = 'admin', server = gateway, language, ...options } = {}) {
  const page = await open(server, options);
  const given = identity(server, as);
  if (as === 'client') given.me = await fetch(`${server.url}whoami`, { headers: server.headers }).then((answer) => answer.json());
  await page.evaluate(([session, tongue]) => {
    sessionStorage.setItem('dataflow.session', session);
    if (tongue) localStorage.setItem('dataflow.language', tongue);
  }, [JSON.stringify(given), language]);
  await page.goto('about:blank'); // a new hash alone would not start the page anew
  await page.goto(`${server.url}${hash}`);
  const finish = page.finish;
  page.finish = async () => {
    if (language) await page.evaluate(() => localStorage.clear());
    await finish();
  };
  return page;
}

const AXE = readFileSync(join(ROOT, 'tests/browser/node_modules/axe-core/axe.min.js'), 'utf8');

// WCAG 2.2 AA, as far as a program can tell; and nothing wider than the window.
export async function accessible(page, what) {
  await page.evaluate(AXE); // by the driver, which the page's policy does not bind
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).join(' | ')}`), [], what);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${what} is ${wide} px too wide`);
}

export async function eventually(what, condition, timeout = 45000) {
  const deadline = Date.now() + timeout;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `not in time: ${what}`);
    await new Promise((next) => setTimeout(next, 100));
  }
}

export const text = (page, selector) => page.locator(selector).textContent();

// Requests until the returned function is called.
export function traffic(server, path = 'whoami') {
  let on = true;
  const work = async () => {
    while (on) {
      await fetch(`${server.url}${path}`, { headers: server.headers }).then((r) => r.arrayBuffer());
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

// In the form that stands in place of a page, or in the dialog.
export async function enterKey(page, key) {
  await page.locator('[name=key]:visible').fill(key);
  await page.locator('form.signin:visible [type=submit]').click();
}

before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  const [a, b, c] = await Promise.all([
    serve('demo', {}, demoReady, '--demo', '--sandbox-listen', '127.0.0.1:0'),
    serve('bare', { 'imports.maintenance_windows': '2099-11-20T02:00Z/2099-11-20T04:00Z' }, bareReady),
    startGateway(),
  ]);
  Object.assign(demo, a);
  Object.assign(bare, b);
  Object.assign(gateway, c);
  context = await chromium.launchPersistentContext(join(scratch, 'profile'), {
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium', headless: true, args: FLAGS, env, timeout: 120000,
  });
  context.setDefaultTimeout(45000);
});

// A tab that a failed test left would hand its sign-in to the next.
afterEach(async () => {
  for (const page of context.pages().slice(1)) await page.close();
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
