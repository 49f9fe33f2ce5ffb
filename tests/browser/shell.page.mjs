// The frame of every page: signing in, tabs, languages, theme, the state of the server, and what the files weigh.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, ROOT, SHOTS, accessible, bare, demo, enterKey, eventually, gateway, open, openSignedIn, text } from './harness.mjs';

const CONSOLE = join(ROOT, 'console');
const files = readdirSync(CONSOLE, { recursive: true }).filter((name) => /\.(js|css|html|svg)$/.test(name));
const modules = files.filter((name) => name.endsWith('.js')).map((name) => [name, readFileSync(join(CONSOLE, name), 'utf8')]);

test('all of the console stays under 300 KiB', () => {
  const size = files.reduce((sum, name) => sum + statSync(join(CONSOLE, name)).size, 0);
  assert.ok(size < 300 * 1024, `${size} bytes`);
});

test('each text has both languages, with the same values, and each text that is asked for is there', () => {
  const catalogue = new Map();
  for (const [name, source] of modules.filter(([name]) => name.startsWith('texts/'))) {
    const pairs = new Function(source.replace(/^import .*$/gm, '').replace(/^add\(/m, 'return ('))();
    for (const [key, pair] of Object.entries(pairs)) {
      assert.ok(!catalogue.has(key), `${name}: ${key} is there twice`);
      assert.ok(Array.isArray(pair) && pair.length === 2 && pair.every((words) => typeof words === 'string' && words), `${name}: ${key}`);
      const values = pair.map((words) => [...new Set(words.match(/\{\w+\}/g) ?? [])].sort().join());
      assert.equal(values[0], values[1], `${name}: ${key} has other values in the other language`);
      assert.equal(pair[0].includes('|'), pair[1].includes('|'), `${name}: ${key} has other forms in the other language`);
      catalogue.set(key, pair);
    }
  }
  for (const [name, source] of modules) {
    for (const [, key] of source.matchAll(/\bt\('([^']+)'/g)) assert.ok(catalogue.has(key), `${name}: no text ${key}`);
  }
});

test('what a time line may have has a name', () => {
  const read = (name) => readFileSync(join(ROOT, name), 'utf8');
  const names = (source) => [...source.matchAll(/"([A-Z][A-Za-z]+)"/g)].map(([, name]) => name);
  const texts = modules.filter(([name]) => name.startsWith('texts/')).map(([, source]) => source).join('');
  const written = [...read('src/admin/timeline_api.c').matchAll(/\.event\s*=([^;]*?)(?:,\s*\.|,\s*OF_)/g)].flatMap(([, value]) => names(value).filter((name) => name !== 'Error'));
  // The audit log's, of a ticket, a row or a batch.
  const audited = ['TicketReprocessed', 'OutboxRetried', 'DeliveryDismissed', 'PayloadRevealed', 'ImportRetried', 'ImportCancelled', 'ImportReleased', 'ImportReportDownloaded'];
  assert.ok(written.length > 15, `${written}`);
  assert.deepEqual([...written, ...audited].filter((name) => !texts.includes(`'event.${name}'`)), []);
  const outcomes = names(/outcome_names\[[^;]*/.exec(read('src/delivery/settle.c'))[0]);
  assert.ok(outcomes.length > 3);
  assert.deepEqual([...outcomes, 'Stale'].filter((name) => !texts.includes(`'state.${name}'`)), []);
});

test('no text stands outside the catalogue', () => {
  for (const [name, source] of modules.filter(([name]) => !name.startsWith('texts/'))) {
    const outside = [...source.matchAll(/(?:textContent|title|placeholder|'aria-label'|label|words): '([^']*[a-z]{2,}[^']*)'/g)].map(([, words]) => words)
      .filter((words) => !/^nav\./.test(words) && words !== 'UTC');
    assert.deepEqual(outside, [], name);
  }
});

test('the page paints after one round trip: what it needs is named in its head', LIMIT, async () => {
  const html = readFileSync(join(CONSOLE, 'index.html'), 'utf8');
  const named = new Set([...html.matchAll(/(?:href|src)="console\/([^"]+\.js)"/g)].map(([, name]) => name));
  const reach = (name, seen = new Set()) => {
    if (seen.has(name)) return seen;
    seen.add(name);
    const source = readFileSync(join(CONSOLE, name), 'utf8');
    for (const [, from] of source.matchAll(/^import (?:[^'(]* from )?'([^']+)';/gm)) reach(join(name, '..', from), seen);
    return seen;
  };
  assert.deepEqual([...reach('app.js')].filter((name) => !named.has(name)), []);
});

test('one sign-in for a key or credentials; a refused one keeps what was written but for the secret', LIMIT, async () => {
  const page = await open(gateway, { hash: '#tickets', allowed: [401] });
  await page.locator('[data-gate] form').waitFor();
  await enterKey(page, 'wrong');
  await page.locator('#signin-form .form-error', { hasText: 'Correlation ID' }).waitFor();
  await page.locator('.segments label', { hasText: 'Client credentials' }).click();
  await page.locator('#signin-clientId').fill(gateway.clientId);
  await page.locator('#signin-secret').fill('wrong');
  await page.keyboard.press('Enter');
  await page.locator('#signin-form .form-error', { hasText: 'Correlation ID' }).waitFor();
  assert.equal(await page.locator('#signin-clientId').inputValue(), gateway.clientId);
  assert.equal(await page.locator('#signin-secret').inputValue(), '');
  await eventually('the focus', async () => (await page.evaluate(() => document.activeElement.id)) === 'signin-secret');
  await page.locator('#signin-secret').fill(gateway.secret);
  await page.keyboard.press('Enter');
  await page.locator('#account', { hasText: 'Browser' }).waitFor();
  assert.equal(await page.locator('#nav a[data-view=outbox]').count(), 0, 'what one may not see is not shown');

  // The other one beside it, and back; then out of all.
  await page.locator('#account').click();
  await page.locator('#account-other').click();
  await enterKey(page, gateway.key);
  await page.locator('#nav a[data-view=outbox]').waitFor();
  await page.locator('#account').click();
  await page.locator('#account-switch').click();
  await page.locator('#nav a[data-view=outbox]').waitFor({ state: 'detached' });
  await page.locator('#account').click();
  await page.locator('#account-out').click();
  await page.locator('#account', { hasText: 'Sign in' }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.equal(await page.evaluate(() => localStorage.length), 0, 'nothing is kept beyond the tabs');
  await page.finish();
});

test('another tab is signed in with it, and out with it', LIMIT, async () => {
  const first = await openSignedIn('#outbox', { server: demo, allowed: [401] });
  await first.locator('#account', { hasText: 'admin' }).waitFor();
  const second = await open(demo, { hash: '#outbox', allowed: [401] });
  await second.locator('#account', { hasText: 'admin' }).waitFor();
  assert.equal(await second.locator('[data-gate]').count(), 0);
  await second.locator('#account').click();
  await second.locator('#account-out').click();
  await first.locator('#account', { hasText: 'Sign in' }).waitFor();
  assert.equal(await first.evaluate(() => sessionStorage.length), 0);
  await second.finish();
  await first.finish();
});

test('says how to configure an admin key when there is none', LIMIT, async () => {
  const page = await open(bare, { allowed: [404], hash: '#outbox' });
  await page.locator('[data-gate=off]', { hasText: 'admin.key_file' }).waitFor();
  await page.finish();
});

test('a secret that no longer holds asks for the sign-in again, with the reason', LIMIT, async () => {
  const page = await openSignedIn('#overview', { allowed: [401], server: demo });
  await page.locator('#state[data-state]').waitFor();
  await page.evaluate(() => sessionStorage.setItem('dataflow.session', JSON.stringify({ as: 'admin', key: 'gone', client: null, me: { role: 'admin' } })));
  await page.goto(`${demo.url}#outbox`);
  await page.reload();
  await page.locator('#signin-form .form-error', { hasText: 'Correlation ID' }).waitFor();
  await enterKey(page, demo.key);
  await page.locator('tr[data-channel]').first().waitFor();
  await page.finish();
});

test('in Portuguese by choice, and back; the choice is all that is kept', LIMIT, async () => {
  const page = await openSignedIn('#overview');
  await page.locator('#account').click();
  await page.locator('#language').selectOption('pt');
  await page.locator('nav a', { hasText: 'Visão geral' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'pt-BR');
  assert.equal(await page.locator('#search-input').getAttribute('placeholder'), 'Documento, lote, entrega, rastreio…');
  assert.deepEqual(await page.evaluate(() => Object.keys(localStorage)), ['dataflow.language']);
  await page.locator('#account').click();
  await page.locator('#language').selectOption('en');
  await page.locator('nav a', { hasText: 'Overview' }).waitFor();
  await page.evaluate(() => localStorage.clear());
  await page.finish();
});

test('the theme is the system’s, or the person’s', LIMIT, async () => {
  const page = await open(demo, { scheme: 'light' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.locator('#account').click();
  await page.locator('#theme').selectOption('dark');
  assert.notEqual(await ground(), light);
  await page.reload();
  assert.notEqual(await ground(), light, 'after a reload too');
  await page.evaluate(() => localStorage.clear());
  await page.finish();
});

test('an administrator who may only look sees no buttons that change something', LIMIT, async () => {
  const page = await openSignedIn('#outbox/ticket-return', { server: demo });
  await page.getByRole('button', { name: 'Pause ticket-return' }).waitFor();
  await page.evaluate(() => {
    const session = JSON.parse(sessionStorage.getItem('dataflow.session'));
    sessionStorage.setItem('dataflow.session', JSON.stringify({ ...session, me: { admin: 'night', role: 'read' } }));
  });
  await page.reload();
  await page.locator('#account', { hasText: 'night' }).waitFor();
  await page.locator('#outbox-found', { hasText: 'rows' }).waitFor();
  assert.equal(await page.getByRole('button', { name: /Pause|Retry|Dismiss/ }).count(), 0);
  await page.finish();
});

test('times are local with UTC in the title, or UTC by choice', LIMIT, async () => {
  const page = await openSignedIn('#start', { server: demo });
  await page.goto(`${demo.url}#versions`);
  const time = page.locator('main time').first();
  await time.waitFor();
  assert.match(await time.getAttribute('title'), /^\d{4}-\d\d-\d\d [\d:.]+ · \d{4}-\d\d-\d\d [\d:.]+ UTC$/);
  await page.locator('#account').click();
  await page.locator('#zone').selectOption('utc');
  await page.locator('main time').first().waitFor();
  await eventually('only UTC', async () => /^\d{4}-\d\d-\d\d [\d:.]+ UTC$/.test(await page.locator('main time').first().getAttribute('title')));
  await page.evaluate(() => localStorage.clear());
  await page.finish();
});

test('the skip link goes to the page and leaves its address', LIMIT, async () => {
  const page = await openSignedIn('#tickets?status=Processed', { server: demo });
  await page.locator('#tickets-found').waitFor();
  await page.locator('.skip').focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'page');
  assert.match(page.url(), /#tickets\?status=Processed$/);
  await page.goto(`${demo.url}#nonsense`);
  await page.locator('#title', { hasText: 'No such page' }).waitFor();
  await page.finish();
});

test('another account that cannot be had is told of', LIMIT, async () => {
  const page = await openSignedIn('#outbox', { server: demo, allowed: [503] });
  await page.evaluate((client) => {
    const session = JSON.parse(sessionStorage.getItem('dataflow.session'));
    sessionStorage.setItem('dataflow.session', JSON.stringify({ ...session, client }));
  }, { id: demo.headers['X-Client-Id'], secret: demo.headers['X-Client-Secret'] });
  await page.reload();
  await page.route('**/whoami', (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', json: { title: 'Busy', detail: 'Try later.' } }));
  await page.locator('#account').click();
  await page.locator('#account-switch').click();
  await page.locator('#messages [role=alert]', { hasText: 'Try later.' }).waitFor();
  await page.finish();
});

test('what is no number, or half a time, is told beside its field and not taken for nothing', LIMIT, async () => {
  const page = await openSignedIn(`#clients/${gateway.clientId}`);
  const sent = [];
  page.on('request', (request) => { if (request.method() === 'PUT') sent.push(request.url()); });
  await page.locator('#policy-maxRecords').pressSequentially('1e');
  await page.locator('#policy [type=submit]').click();
  await page.locator('#policy-maxRecords-error', { hasText: 'cannot be read' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'policy-maxRecords');
  assert.deepEqual(sent, []);
  await page.goto(`${gateway.url}#tickets`);
  await page.locator('#tickets-from').focus();
  await page.keyboard.type('1');
  await page.locator('#tickets-form [type=submit]').click();
  await page.locator('#tickets-from-error', { hasText: 'cannot be read' }).waitFor();
  await page.finish();
});

test('can be used by keyboard, and every control has a name', LIMIT, async () => {
  const page = await openSignedIn('#overview', { server: demo });
  await page.locator('#state[data-state=ok]').waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search-input');
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button, a, input, select')]
    .filter((e) => !(e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label'))).map((e) => e.outerHTML));
  assert.deepEqual(nameless, []);
  await page.finish();
});

test('says so when the server is gone', LIMIT, async () => {
  const page = await open(bare);
  await page.locator('#state[data-state=ok]').waitFor();
  await page.route('**/*', (route) => route.abort());
  await page.locator('#state', { hasText: 'Unreachable' }).waitFor();
  await page.unroute('**/*');
  await page.locator('#state', { hasText: 'Ready' }).waitFor();
  await page.close(); // the failed loads stand in its console, as they should
});

for (const [scheme, device, width] of [['light', 'desk', 1280], ['dark', 'phone', 390]]) {
  test(`the frame, the sign-in and the settings are accessible: ${scheme}, ${device}`, LIMIT, async () => {
    const page = await open(demo, { scheme, width, hash: '#tickets', allowed: [401] });
    await page.locator('[data-gate] form').waitFor();
    await accessible(page, 'sign-in');
    await enterKey(page, demo.key);
    await page.locator('#account', { hasText: 'admin' }).waitFor();
    if (width < 800) {
      await page.locator('#menu-button').click();
      await page.locator('#nav a[data-view=outbox]').waitFor();
      await accessible(page, 'menu');
      await page.locator('#menu-button').click();
    }
    await page.locator('#account').click();
    await accessible(page, 'settings');
    await page.screenshot({ path: join(SHOTS, `settings-${device}.png`) });
    await page.finish();
  });
}
