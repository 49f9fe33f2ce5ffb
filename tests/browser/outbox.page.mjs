// The outboxes: channels, rows, one row; trying again one by one and by filter, pausing, breakers; with a sandbox whose faults are what goes wrong.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, ask, bare, demo, enterKey, eventually, gateway, open, openSignedIn, text } from './harness.mjs';
import { admin, channelOf, clean, fault, fresh, heal, post, processed, settled } from './gateway.mjs';

const step = (page, name) => page.locator(`.timeline [data-step=${name}]`);
const idOf = async (doc) => (await admin(`tickets?businessDocId=${doc}`)).items[0].id;

test('what the gateway refuses is shown with its reason, and retried from the page', LIMIT, async () => {
  await clean();
  const doc = fresh();
  await fault({ path: '/gateway/tickets', status: 422 });
  await post(doc);
  const page = await openSignedIn(`#tickets/${await idOf(doc)}`);
  await step(page, 'gateway').locator('.badge', { hasText: /^Error$/ }).waitFor();
  await step(page, 'gateway').locator('.reason', { hasText: '422' }).waitFor();
  await step(page, 'return').locator('.badge', { hasText: 'Sent' }).waitFor();
  assert.match(await step(page, 'callback').textContent(), /Waits/);
  await page.screenshot({ path: join(SHOTS, 'ticket-error.png'), fullPage: true });

  await step(page, 'gateway').getByRole('link').click();
  await page.locator('#outbox-row .reason', { hasText: '422' }).waitFor();
  const attempts = page.locator('#attempts tbody tr');
  assert.equal(await attempts.count(), 1);
  assert.match(await attempts.textContent(), /Failed for good|Error.*422.*fault was set/s);
  await page.screenshot({ path: join(SHOTS, 'outbox-row.png'), fullPage: true });

  // Again in vain, then with success.
  const retry = page.locator('#actions').getByRole('button', { name: 'Retry' });
  await retry.click();
  await page.locator('#messages [role=status]', { hasText: 'to be sent again' }).waitFor();
  await eventually('a second attempt', async () => (await attempts.count()) === 2);
  await page.locator('#outbox-row .badge[data-state=bad]').waitFor();
  await heal();
  await retry.click();
  await page.locator('#outbox-row .badge', { hasText: 'Sent' }).waitFor();
  assert.equal(await retry.count(), 0);
  await page.goBack();
  await step(page, 'callback').locator('.badge', { hasText: 'Success' }).waitFor();
  await page.finish();
});

test('all that failed in a channel is retried after a question, the breaker is seen', LIMIT, async () => {
  await clean();
  const docs = Array.from({ length: 6 }, () => fresh());
  await fault({ path: '/gateway/returns', status: 422 });
  await Promise.all(docs.map((doc) => post(doc)));
  await eventually('all given up', async () => { // what is in Error may be due still
    const { items } = await admin('outbox/ticket-return?status=Error');
    return items.length === 6 && items.every((row) => row.nextAttemptAt === null);
  });
  const page = await openSignedIn('#outbox');
  const row = page.locator('tr[data-channel=ticket-return]');
  await row.getByRole('link', { name: '6 Error' }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'outbox-errors.png'), fullPage: true });
  await page.locator('#actions a').click();
  const breaker = page.locator(`tr[data-breaker*="${gateway.sandbox}"]`).first();
  await breaker.locator('.badge').waitFor();
  assert.match(await breaker.textContent(), /Closed|Open|Half open/);
  await page.goBack();

  await row.getByRole('link', { name: '6 Error' }).click();
  const rows = page.getByRole('region', { name: 'Rows of ticket-return' }).locator('tbody tr');
  await eventually('six rows', async () => (await rows.count()) === 6);
  await rows.first().locator('.reason', { hasText: '422' }).waitFor();
  assert.equal(await text(page, '#title'), 'ticket-return');

  // One by one: the others stay.
  await heal();
  await rows.first().getByRole('button', { name: 'Retry' }).click();
  await eventually('five rows', async () => (await rows.count()) === 5);

  await page.locator('.crumbs').getByRole('link', { name: 'Outboxes' }).click();
  await row.getByRole('button', { name: 'Retry all' }).click();
  await page.locator('#retry-text', { hasText: '5 rows of ticket-return will be sent again' }).waitFor();
  await page.locator('#retry-form [data-close]').click();
  assert.equal((await channelOf('ticket-return')).counts.Error, 5, 'asked, not told');
  await row.getByRole('button', { name: 'Retry all' }).click();
  await page.locator('#retry-submit:enabled').click();
  await page.locator('#messages', { hasText: '5 rows of ticket-return are to be sent again' }).waitFor();
  await row.getByRole('link', { name: '0 Error' }).waitFor();
  await eventually('all sent', () => settled('ticket-return'));
  await row.getByRole('button', { name: 'Retry all' }).waitFor({ state: 'detached' });
  await page.finish();
});

test('a row that was sent meanwhile is a conflict, told with code and reference', LIMIT, async () => {
  await clean();
  const doc = fresh();
  await fault({ path: '/gateway/returns', status: 400 });
  await post(doc);
  const page = await openSignedIn('#outbox/ticket-return?status=Error', { allowed: [409] });
  const button = page.getByRole('button', { name: `Retry ${doc}` });
  await button.waitFor();
  await page.route('**/retry', async (route) => { // somebody else is faster
    await heal();
    await admin('outbox/ticket-return/retry', { method: 'POST', body: { all: true } });
    await eventually('sent', () => settled('ticket-return'));
    await route.continue();
  });
  await button.click();
  await page.locator('#messages [role=alert] .reference', { hasText: /^Conflict · Correlation ID \S+$/ }).waitFor();
  await page.finish();
});

test('outboxes without an admin key, with one, and a row that is not there', LIMIT, async () => {
  const off = await open(bare, { allowed: [404], hash: '#outbox' });
  await off.locator('[data-gate=off]', { hasText: 'admin.key_file' }).waitFor();
  await off.finish();
  const page = await open(demo, { allowed: [401, 404], hash: '#outbox' });
  await page.locator('[data-gate=admin]').waitFor();
  await enterKey(page, demo.key);
  await page.locator('tr[data-channel=ticket-gateway]').waitFor();
  await page.goto(`${demo.url}#outbox/ticket-return/999`);
  await page.locator('#messages', { hasText: 'There is no row' }).waitFor();
  await page.locator('nav a[data-view=outbox]').click();
  await page.locator('tr[data-channel=ticket-return]').waitFor();
  assert.equal(await page.locator('#messages > *').count(), 0);
  await page.finish();
});

test('what was given up is retried by a filter after a preview, all that match or those that are ticked', LIMIT, async () => {
  await clean();
  const docs = [fresh('KEEP'), fresh('RETRY'), fresh('RETRY')];
  await fault({ path: '/gateway/returns', status: 422 });
  for (const doc of docs) await processed(doc);
  await eventually('three given up', async () => (await channelOf('ticket-return')).givenUp === 3);
  await heal();
  const page = await openSignedIn('#outbox/ticket-return?status=GivenUp', { allowed: [] });
  const rows = page.locator('#outbox-table tbody tr');
  await eventually('three rows', async () => (await rows.count()) === 3);
  assert.equal(await rows.locator('.badge', { hasText: 'Given up' }).count(), 3);

  // A filter that means none, then one that means some. It is in the address.
  await page.locator('#outbox-error').fill('HTTP 599');
  await page.keyboard.press('Enter');
  await page.locator('#outbox-list', { hasText: 'None.' }).waitFor();
  assert.match(page.url(), /error=HTTP\+599/);
  await page.locator('#outbox-error').fill('422');
  await page.keyboard.press('Enter');
  await eventually('three rows', async () => (await rows.count()) === 3);

  // One that is ticked goes alone.
  await page.getByRole('checkbox', { name: `Select ${docs[0]}` }).check();
  await page.locator('.selection', { hasText: '1 selected' }).waitFor();
  await page.locator('.selection').getByRole('button', { name: 'Retry…' }).click();
  await page.locator('#retry-text', { hasText: '1 row of ticket-return will be sent again' }).waitFor();
  assert.equal((await channelOf('ticket-return')).givenUp, 3, 'a preview changes nothing');
  await page.screenshot({ path: join(SHOTS, 'retry-preview.png') });
  await page.locator('#retry-submit').click();
  await page.locator('#messages', { hasText: '1 row of ticket-return is to be sent again' }).waitFor();
  await eventually('two rows', async () => (await rows.count()) === 2);

  await page.getByRole('checkbox', { name: 'Select this page' }).check();
  await page.locator('.selection', { hasText: '2 selected' }).waitFor();
  await page.locator('.selection').getByRole('button', { name: 'Retry…' }).click();
  await page.locator('#retry-submit:enabled').click();
  await page.locator('#messages', { hasText: '2 rows of ticket-return are to be sent again' }).waitFor();
  await eventually('all sent', async () => (await channelOf('ticket-return')).givenUp === 0);
  await page.finish();
});

const tick = async (page, docs) => { for (const doc of docs) await page.getByRole('checkbox', { name: `Select ${doc}` }).check(); };

test('of rows that are ticked those that were sent meanwhile are left out; after another problem none is lost', LIMIT, async () => {
  await clean();
  const docs = [fresh('TICK'), fresh('TICK')];
  await fault({ path: '/gateway/returns', status: 422 });
  for (const doc of docs) await processed(doc);
  await eventually('two given up', async () => (await channelOf('ticket-return')).givenUp === 2);
  await heal();
  const sent = fresh('TICK');
  await processed(sent);
  await eventually('sent', async () => (await channelOf('ticket-return')).counts.Pending === 0);
  const page = await openSignedIn('#outbox/ticket-return', { allowed: [409, 503] });
  await tick(page, [sent, ...docs]);
  await page.locator('.selection').getByRole('button', { name: 'Retry…' }).click();
  await page.locator('#retry-text', { hasText: '3 rows of ticket-return will be sent again' }).waitFor();
  let refused = false;
  await page.route('**/ticket-return/*/retry', (route) => {
    if (refused) return route.fallback();
    refused = true;
    return route.fulfill({ status: 503, contentType: 'application/problem+json', json: { title: 'Busy', detail: 'The server is busy.' } });
  });
  await page.locator('#retry-submit').click();
  await page.locator('#retry-form .form-error', { hasText: 'The server is busy' }).waitFor();
  await page.locator('#retry-submit').click();
  await page.locator('#retry-text', { hasText: '2 done; 1 could not be' }).waitFor();
  await eventually('none given up', async () => (await channelOf('ticket-return')).givenUp === 0);
  await page.finish();
});

test('a retry of all that match takes what was given up, and says that another filter by status does not count', LIMIT, async () => {
  const page = await openSignedIn('#outbox/ticket-return?status=GivenUp');
  const rows = (status) => Array.from({ length: 20 }, (_, n) => ({ id: String(n), reference: `R${n}`, status, givenUp: status === 'Error', attempts: 1, tries: 1, createdAt: '2026-11-15T03:16:05.123Z' }));
  const asked = [];
  await page.route('**/admin/outbox/ticket-return?*', (route) => route.fulfill({ json: { items: rows(route.request().url().includes('GivenUp') ? 'Error' : 'Pending'), total: 30, next: 'x' } }));
  await page.route('**/admin/outbox/ticket-return/retry', (route) => {
    asked.push(route.request().postDataJSON());
    return route.fulfill({ json: { matched: 30, dryRun: true } });
  });
  const all = async (verb) => {
    await page.reload();
    await page.getByRole('checkbox', { name: 'Select this page' }).check();
    await page.locator('#outbox-all').click();
    await page.locator('.selection').getByRole('button', { name: verb }).click();
  };
  await all('Retry…');
  await page.locator('#retry-text', { hasText: '30 rows' }).waitFor();
  assert.deepEqual(asked.pop(), { givenUp: true, dryRun: true });
  assert.ok(!(await text(page, '#retry-form')).includes('does not count'));
  await page.locator('#retry-form [data-close]').click();
  await page.goto(`${gateway.url}#outbox/ticket-return?status=Pending`);
  await all('Retry…');
  await page.locator('#retry-form', { hasText: 'The filter by status does not count here' }).locator('[data-close]').click();
  assert.deepEqual(asked.pop(), { status: 'Error', dryRun: true });
  await page.finish();
});

test('all that match are selected beyond the page, and dismissed after a preview', LIMIT, async () => {
  await clean();
  const docs = Array.from({ length: 23 }, () => fresh('MANY'));
  await fault({ path: '/gateway/returns', status: 422 });
  await Promise.all(docs.map((doc) => post(doc)));
  await eventually('all given up', async () => (await channelOf('ticket-return')).givenUp === 23);
  const page = await openSignedIn('#outbox/ticket-return?status=GivenUp');
  await page.locator('#outbox-found', { hasText: '23 rows' }).waitFor();
  await page.getByRole('checkbox', { name: 'Select this page' }).check();
  await page.locator('#outbox-all', { hasText: 'Select all 23 that match' }).click();
  await page.locator('.selection', { hasText: 'all 23 that match' }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'outbox-selected.png'), fullPage: true });
  await page.locator('.selection').getByRole('button', { name: 'Dismiss…' }).click();
  await page.locator('#dismiss-text', { hasText: '23 rows of ticket-return will be dismissed' }).waitFor();
  await accessible(page, 'preview');
  await page.locator('#dismiss-submit').click();
  await page.locator('#messages', { hasText: '23 rows of ticket-return are dismissed' }).waitFor();
  await eventually('none given up', async () => (await channelOf('ticket-return')).givenUp === 0);
  await heal();
  await page.finish();
});

test('newer rows are announced and do not jump in; pages go by a cursor', LIMIT, async () => {
  await clean();
  await Promise.all(Array.from({ length: 22 }, () => processed(fresh())));
  await eventually('all sent', () => settled('functional-ack'));
  const page = await openSignedIn('#outbox/functional-ack');
  const rows = page.locator('#outbox-table tbody tr');
  await eventually('a page', async () => (await rows.count()) === 20);
  const first = await rows.first().getAttribute('data-row');
  await processed(fresh('NEW'));
  await page.locator('#outbox-newer', { hasText: '1 newer row' }).waitFor();
  assert.equal(await rows.first().getAttribute('data-row'), first, 'nothing moved');
  await page.locator('#outbox-newer').click();
  await eventually('the newer row', async () => (await rows.first().getAttribute('data-row')) !== first);
  const seen = await rows.evaluateAll((all) => all.map((row) => row.dataset.row));
  await page.getByRole('link', { name: 'Next' }).click();
  await eventually('other rows', async () => !(seen.includes(await rows.first().getAttribute('data-row'))));
  assert.match(page.url(), /after=/);
  await page.goBack();
  await eventually('the first page', async () => seen.includes(await rows.first().getAttribute('data-row')));
  await page.finish();
});

test('a channel is paused and resumed', LIMIT, async () => {
  await clean();
  const page = await openSignedIn('#outbox/functional-ack');
  await page.getByRole('button', { name: 'Pause functional-ack' }).click();
  await page.locator('#messages', { hasText: 'functional-ack is paused' }).waitFor();
  await page.locator('#outbox-targets .banner', { hasText: 'paused' }).waitFor();
  assert.equal((await channelOf('functional-ack')).paused, true);
  await page.screenshot({ path: join(SHOTS, 'outbox-paused.png'), fullPage: true });
  await page.getByRole('button', { name: 'Resume functional-ack' }).click();
  await page.locator('#messages', { hasText: 'functional-ack goes on' }).waitFor();
  assert.equal((await channelOf('functional-ack')).paused, false);
  await page.finish();
});

test('an event that its relay gave up is seen and tried again', LIMIT, async () => {
  await fault({ path: '/gateway/events', status: 422 });
  const { eventId } = await ask(`${gateway.url}events`, {
    headers: gateway.headers, body: { eventType: 'OrderPlaced', aggregateType: 'Order', aggregateId: '42', correlationId: 'story-42', payload: { total: 1 } },
  });
  await eventually('the event to be given up', async () => (await channelOf('events')).counts.FAILED === 1);
  await heal();
  const page = await openSignedIn('#outbox/events?status=FAILED');
  await page.locator('#outbox-found', { hasText: '1 row' }).waitFor();
  await page.locator(`tr[data-row="${eventId}"] a`, { hasText: 'OrderPlaced Order 42' }).click();
  await page.locator('#outbox-row .reason', { hasText: '422' }).waitFor();
  assert.match(await text(page, '#outbox-row'), /Correlation IDstory-42/);
  await page.locator('#actions [data-verb=retry]').click();
  await page.locator('#outbox-row .badge', { hasText: 'Dispatched' }).waitFor();
  await page.goto(`${gateway.url}#outbox`);
  await page.locator('tr[data-channel=events]').getByRole('link', { name: '1 Dispatched' }).waitFor();
  assert.deepEqual((await channelOf('events')).counts, { PENDING: 0, PROCESSED: 1, FAILED: 0 });
  await page.finish();
});

test('by keyboard: the focus stays where it was, or goes to the heading', LIMIT, async () => {
  await post(fresh());
  const page = await openSignedIn('#outbox');
  await page.locator('tr[data-channel=ticket-return] a.name').focus();
  await page.keyboard.press('Enter');
  await eventually('the heading', async () => (await page.evaluate(() => document.activeElement.id)) === 'title');
  await page.locator('#outbox-status').focus();
  await page.locator('#outbox-status').selectOption('Sent');
  await eventually('the address', () => /status=Sent/.test(page.url()));
  await page.locator('#outbox-found').waitFor();
  await eventually('the filter', async () => (await page.evaluate(() => document.activeElement.id)) === 'outbox-status');
  await page.finish();
});

for (const [scheme, device, width, height] of [['light', 'desktop', 1280, 860], ['dark', 'phone', 390, 844], ['light', 'tablet', 760, 900]]) {
  test(`outboxes are accessible and fit: ${scheme}, ${device}`, LIMIT, async () => {
    await clean();
    const doc = fresh();
    await fault({ path: '/gateway/returns', status: 400 });
    await processed(doc);
    await eventually('it failed', async () => (await channelOf('ticket-return')).givenUp === 1);
    const page = await openSignedIn('#outbox', { scheme, width, height });
    const look = async (what, sign) => {
      await page.locator(sign).first().waitFor();
      await page.screenshot({ path: join(SHOTS, `${what}-${scheme}-${device}.png`), fullPage: true });
      await accessible(page, what);
    };
    await look('outbox', 'tr[data-channel]');
    await page.goto(`${gateway.url}#outbox/ticket-return`);
    await look('outbox-rows', '#outbox-table tbody tr');
    await page.locator('#outbox-table tbody a').first().click();
    await look('outbox-one', '#outbox-row');
    await page.finish();
  });
}
