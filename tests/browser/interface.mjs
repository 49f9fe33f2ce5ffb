// The console's pages for the interface: tickets and their way, outboxes and trying again, breakers;
// with a server that sends to a sandbox, whose faults are what goes wrong.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, ask, bare, demo, enterKey, eventually, gateway, open, openSignedIn, text } from './harness.mjs';

const freshDoc = () => `TCK_${randomUUID().slice(0, 8)}`;

const ticket = (doc, fields) => ({
  businessEntity: 'TCK', businessDocId: doc, companyCode: '0050', branchCode: '1', destinationCode: 'D7', phaseCode: 15, shipmentEvent: 'RCD',
  functionalAckIsRequired: true, targetApplicationCode: 'ASB', ...fields,
});

const post = (doc, fields) => ask(`${gateway.url}api/tickets`, { headers: gateway.headers, body: ticket(doc, fields) });
const fault = (body) => ask(`${gateway.sandbox}/_faults`, { body });
const heal = () => ask(`${gateway.sandbox}/_faults`, { method: 'DELETE' });
const admin = (path, options = {}) => ask(`${gateway.url}admin/${path}`, { method: 'GET', headers: { 'X-Admin-Key': gateway.key }, ...options });
const outbox = async (channel) => (await admin('outbox')).channels.find((c) => c.channel === channel).counts;

const settled = async (channel) => {
  const counts = await outbox(channel);
  return counts.Error + counts.Sending + counts.Pending === 0;
};

// Everything that was in Error goes out, so that a test begins with nothing that failed.
async function clean() {
  await heal();
  for (const channel of ['functional-ack', 'ticket-return', 'ticket-gateway']) {
    await eventually(`${channel} to be clean`, async () => {
      await admin(`outbox/${channel}/retry`, { method: 'POST', body: {} });
      return settled(channel);
    });
  }
}

const step = (page, name) => page.locator(`.timeline [data-step=${name}]`);
const address = (doc) => `#tickets?businessEntity=TCK&businessDocId=${doc}`;

test('a client’s credentials, a search, and the ticket’s way to the callback', LIMIT, async () => {
  const doc = freshDoc();
  const page = await open(gateway, { allowed: [400, 401], hash: '#tickets' });
  await page.locator('[data-gate=client] button').click();
  await page.locator('#client-id').fill(gateway.clientId);
  await page.locator('#client-secret').fill('wrong');
  await page.locator('#client-form [type=submit]').click();
  await page.locator('#client-form .form-error', { hasText: 'Correlation ID' }).waitFor();
  await page.locator('#client-id').fill(gateway.clientId);
  await page.locator('#client-secret').fill(gateway.secret);
  await page.locator('#client-form [type=submit]').click();
  await page.locator('#client-button', { hasText: `Client ${gateway.clientId}` }).waitFor();

  // Half of a key is not enough, and the server says which half is missing.
  await page.locator('#tickets-entity').fill('TCK');
  await page.locator('#tickets-form [type=submit]').click();
  await page.locator('#tickets-doc-error', { hasText: 'required' }).waitFor();
  await eventually('the focus', async () => (await page.evaluate(() => document.activeElement.id)) === 'tickets-doc');

  await page.locator('#tickets-doc').fill(doc);
  await page.keyboard.press('Enter');
  await page.locator('#tickets-found', { hasText: 'Nothing found' }).waitFor();
  assert.equal(await text(page, '#tickets-doc-error'), '');
  await post(doc);
  await step(page, 'processing').locator('.badge', { hasText: 'Processed' }).waitFor(); // the page looks again by itself
  await step(page, 'return').locator('.badge', { hasText: 'Sent' }).waitFor();
  await step(page, 'gateway').locator('.badge', { hasText: 'Sent' }).waitFor();
  await step(page, 'callback').locator('.badge', { hasText: 'Success' }).waitFor();
  for (const name of ['processing', 'return', 'gateway']) assert.match(await step(page, name).textContent(), /1 attempt/);
  for (const name of ['received', 'return', 'gateway', 'callback']) assert.match(await step(page, name).textContent(), /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC/);

  // Unfolded, it stays so while the page looks again.
  await page.locator('summary', { hasText: 'Payload' }).click();
  await page.locator('details pre', { hasText: doc }).waitFor();
  await post(doc, { shipmentEvent: 'DLV' });
  await step(page, 'received').locator('.note', { hasText: 'version 2' }).waitFor();
  await page.locator('details pre', { hasText: 'DLV' }).waitFor();

  assert.equal(await page.evaluate(() => localStorage.length), 0, 'nothing is kept beyond the tab');
  await page.locator('#client-button').click();
  await page.locator('#client-forget').click();
  await page.locator('[data-gate=client]').waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.finish();
});

test('tickets by status, page by page, with why they failed', LIMIT, async () => {
  const docs = Array.from({ length: 23 }, () => `<b>${freshDoc()}</b>`);
  await Promise.all(docs.map((doc) => post(doc, { businessEntity: 'BAD', phaseCode: 6 }))); // whose weights are missing
  const page = await openSignedIn('#tickets');
  await page.locator('#tickets-entity').fill('BAD');
  await page.locator('#tickets-status').selectOption('Error');
  await page.locator('#tickets-form [type=submit]').click();
  await page.locator('#tickets-found', { hasText: '23 tickets' }).waitFor();
  assert.equal(await page.locator('#tickets-result tbody tr').count(), 20);
  assert.equal(await page.locator('#tickets-result tbody .reason', { hasText: 'weights' }).count(), 20);
  await page.getByRole('link', { name: 'Next' }).click();
  await eventually('the second page', async () => (await page.locator('#tickets-result tbody tr').count()) === 3);
  await page.goBack();
  await eventually('the first page', async () => (await page.locator('#tickets-result tbody tr').count()) === 20);
  await page.locator('#tickets-result tbody a').first().click();
  await step(page, 'processing').locator('.reason', { hasText: 'weights' }).waitFor();
  assert.match(await step(page, 'processing').textContent(), /send a corrected ticket/);
  assert.match(await step(page, 'gateway').textContent(), /Pending.*Waits for processing/s);
  assert.equal(await page.locator('#tickets-result b').count(), 0, 'a name is no markup');
  await page.finish();
});

test('what the gateway refuses is shown with its reason, and retried from the page', LIMIT, async () => {
  await clean();
  const doc = freshDoc();
  await fault({ path: '/gateway/tickets', status: 422 });
  await post(doc);
  const page = await openSignedIn(address(doc));
  await step(page, 'gateway').locator('.badge', { hasText: 'Error' }).waitFor();
  await step(page, 'gateway').locator('.reason', { hasText: '422' }).waitFor();
  await step(page, 'return').locator('.badge', { hasText: 'Sent' }).waitFor();
  assert.match(await step(page, 'callback').textContent(), /Waits/);
  await page.screenshot({ path: join(SHOTS, 'ticket-error.png'), fullPage: true });

  await step(page, 'gateway').getByRole('link').click();
  await page.locator('#outbox-row .reason', { hasText: '422' }).waitFor();
  const attempts = page.getByRole('region', { name: 'Attempts' }).locator('tbody tr');
  assert.equal(await attempts.count(), 1);
  assert.match(await attempts.textContent(), /Error.*422.*fault was set/s);
  await page.screenshot({ path: join(SHOTS, 'outbox-row.png'), fullPage: true });

  // Again in vain, then with success.
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.locator('#messages [role=status]', { hasText: 'to be sent again' }).waitFor();
  await eventually('a second attempt', async () => (await attempts.count()) === 2);
  await page.locator('#outbox-row .badge', { hasText: 'Error' }).waitFor();
  await heal();
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.locator('#outbox-row .badge', { hasText: 'Sent' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Retry' }).count(), 0);
  await page.goBack();
  await step(page, 'callback').locator('.badge', { hasText: 'Success' }).waitFor();
  await page.finish();
});

test('all that failed in a channel is retried after a question, the breaker is seen', LIMIT, async () => {
  await clean();
  const docs = Array.from({ length: 6 }, freshDoc);
  await fault({ path: '/gateway/returns', status: 422 });
  await Promise.all(docs.map((doc) => post(doc)));
  await eventually('all given up', async () => { // what is in Error may be due still
    const { items } = await admin('outbox/ticket-return?status=Error');
    return items.length === 6 && items.every((row) => row.nextAttemptAt === null);
  });
  const page = await openSignedIn('#outbox');
  const row = page.locator('tr[data-channel=ticket-return]');
  await row.getByRole('link', { name: '6 Error' }).waitFor();
  const breaker = page.locator(`tr[data-breaker*="${gateway.sandbox}"]`).first();
  await breaker.locator('.badge').waitFor();
  assert.match(await breaker.textContent(), /CLOSED|OPEN|HALF_OPEN/);
  await page.screenshot({ path: join(SHOTS, 'outbox-errors.png'), fullPage: true });

  await row.getByRole('link', { name: '6 Error' }).click();
  const rows = page.getByRole('region', { name: 'Rows of ticket-return' }).locator('tbody tr');
  await eventually('six rows', async () => (await rows.count()) === 6);
  await rows.first().locator('.reason', { hasText: '422' }).waitFor();
  assert.equal(await text(page, '#outbox-title'), 'ticket-return');

  // One by one: the others stay.
  await heal();
  await rows.first().getByRole('button', { name: 'Retry' }).click();
  await eventually('five rows', async () => (await rows.count()) === 5);

  await page.getByRole('link', { name: 'Outboxes' }).first().click();
  await row.getByRole('button', { name: 'Retry all' }).click();
  await page.locator('#retry-text', { hasText: 'All 5 rows' }).waitFor();
  await page.locator('#retry-form [data-close]').click();
  assert.equal((await outbox('ticket-return')).Error, 5, 'asked, not told');
  await row.getByRole('button', { name: 'Retry all' }).click();
  await page.locator('#retry-form [type=submit]').click();
  await page.locator('#messages', { hasText: '5 rows of ticket-return are to be sent again' }).waitFor();
  await row.getByRole('link', { name: '0 Error' }).waitFor();
  await eventually('all sent', () => settled('ticket-return'));
  assert.equal(await row.getByRole('button').count(), 0);
  await page.finish();
});

test('a row that was sent meanwhile is a conflict, told with code and reference', LIMIT, async () => {
  await clean();
  const doc = freshDoc();
  await fault({ path: '/gateway/returns', status: 400 });
  await post(doc);
  const page = await openSignedIn('#outbox?channel=ticket-return&status=Error', { allowed: [409] });
  const button = page.getByRole('button', { name: `Retry ${doc}` });
  await button.waitFor();
  await page.route('**/retry', async (route) => { // somebody else is faster
    await heal();
    await admin('outbox/ticket-return/retry', { method: 'POST', body: {} });
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
  await page.locator('[data-gate=admin] button').click();
  await enterKey(page, demo.key);
  await page.locator('tr[data-channel=ticket-gateway]').waitFor();
  await page.goto(`${demo.url}#outbox?channel=ticket-return&id=999`);
  await page.locator('#messages', { hasText: 'There is no row' }).waitFor();
  await page.locator('nav a[data-view=clients]').click();
  await page.locator('tr[data-client=demo]').waitFor();
  assert.equal(await page.locator('#messages > *').count(), 0);
  await page.finish();
});

test('an event that its relay gave up is seen, tried again, and the relay has it dispatched', LIMIT, async () => {
  await fault({ path: '/gateway/events', status: 422 });
  const { eventId } = await ask(`${gateway.url}events`, {
    headers: gateway.headers, body: { eventType: 'OrderPlaced', aggregateType: 'Order', aggregateId: '42', correlationId: 'story-42', payload: { total: 1 } },
  });
  await eventually('the event to be given up', async () => (await outbox('events')).FAILED === 1);
  await heal();
  const page = await openSignedIn('#relays');
  const relay = page.locator('tr[data-relay=events]');
  await relay.locator('.badge', { hasText: 'running' }).waitFor();
  assert.match(await relay.textContent(), new RegExp(`http${gateway.sandbox}/gateway/events`));
  await page.screenshot({ path: join(SHOTS, 'relays.png'), fullPage: true });
  await page.locator('#relays-body a').click();
  await page.locator('#outbox-note', { hasText: '1 row in FAILED' }).waitFor();
  await page.locator(`tr[data-row="${eventId}"] a`, { hasText: 'OrderPlaced Order 42' }).click();
  await page.locator('#outbox-row .reason', { hasText: '422' }).waitFor();
  assert.match(await text(page, '#outbox-row'), /Correlation IDstory-42/);
  await page.locator('#outbox-actions button[data-keep^=retry]').click();
  await page.locator('#outbox-row .badge', { hasText: 'PROCESSED' }).waitFor();
  await page.goto(`${gateway.url}#outbox`);
  await page.locator('tr[data-channel=events] a', { hasText: /^1$/ }).waitFor();
  assert.deepEqual(await outbox('events'), { PENDING: 0, PROCESSED: 1, FAILED: 0 });
  await page.finish();
});

test('by keyboard: the focus stays where it was, or goes to the heading', LIMIT, async () => {
  await post(freshDoc());
  const page = await openSignedIn('#outbox');
  await page.locator('tr[data-channel=ticket-return] a.name').focus();
  await page.keyboard.press('Enter');
  await eventually('the heading', async () => (await page.evaluate(() => document.activeElement.id)) === 'outbox-title');
  await page.locator('#outbox-status').focus();
  await page.locator('#outbox-status').selectOption('Sent');
  await page.locator('#outbox-note', { hasText: 'in Sent' }).waitFor();
  await eventually('the filter', async () => (await page.evaluate(() => document.activeElement.id)) === 'outbox-status');
  const nameless = await page.evaluate(() => [...document.querySelectorAll('button, a, input, select')]
    .filter((e) => !(e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label'))).map((e) => e.outerHTML));
  assert.deepEqual(nameless, []);
  await page.finish();
});

for (const [scheme, device, width, height] of [['light', 'desktop', 1280, 860], ['dark', 'phone', 390, 844], ['light', 'tablet', 760, 900]]) {
  test(`tickets and outboxes look right: ${scheme}, ${device}`, LIMIT, async () => {
    await clean();
    const doc = freshDoc();
    await fault({ path: '/gateway/returns', status: 400 });
    await post(doc);
    const page = await openSignedIn(address(doc), { scheme, width, height });
    const fits = async (what) => {
      await page.screenshot({ path: join(SHOTS, `${what}-${scheme}-${device}.png`), fullPage: true });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(overflow <= 0, `${what}: ${overflow} pixels too wide`);
    };
    await step(page, 'return').locator('.reason').waitFor();
    await step(page, 'callback').locator('.badge', { hasText: 'Success' }).waitFor();
    await fits('ticket');
    await page.goto(`${gateway.url}#tickets?status=Processed`);
    await page.locator(`tr[data-doc="${doc}"]`).waitFor();
    await fits('tickets');
    await page.goto(`${gateway.url}#outbox`);
    await page.locator('tr[data-breaker]').first().waitFor();
    await fits('outbox');
    await page.goto(`${gateway.url}#relays`);
    await page.locator('tr[data-relay]').first().waitFor();
    await fits('relays');
    await page.goto(`${gateway.url}#outbox?channel=ticket-return`);
    await page.locator('#outbox-body tbody tr').first().waitFor();
    await fits('outbox-rows');
    await page.locator('#outbox-body tbody a').first().click();
    await page.locator('#outbox-row').waitFor();
    await fits('outbox-row');
    await page.finish();
  });
}
