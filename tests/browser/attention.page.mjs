// With the calls for attention, causes, payloads and exports: what needs you on the first page, and what a row waits for.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, eventually, gateway, openSignedIn, text } from './harness.mjs';
import { admin, channelOf, clean, fault, fresh, heal, post, processed, settled } from './gateway.mjs';

test('what was given up is on the first page, with its cause; it is retried from there after a question', LIMIT, async () => {
  await clean();
  await fault({ path: '/gateway/returns', status: 422 });
  for (let n = 0; n < 3; n++) await processed(fresh());
  await eventually('three given up', async () => (await channelOf('ticket-return')).givenUp === 3);
  await heal();
  const page = await openSignedIn('#overview');
  const item = page.locator('.needs li[data-kind=GivenUp]', { hasText: 'ticket-return' }); // a webhook of an earlier test may stand there still
  await item.waitFor();
  assert.match(await item.textContent(), /ticket-return: 3 given up.*\/gateway\/returns.*HTTP 422/s);
  await page.locator('#state[data-state=bad]', { hasText: 'Needs you' }).waitFor();
  await accessible(page, 'what needs you');
  await page.screenshot({ path: join(SHOTS, 'needs.png'), fullPage: true });
  await item.getByRole('link', { name: /Look/ }).click();
  await eventually('three rows', async () => (await page.locator('#outbox-table tbody tr').count()) === 3);
  assert.match(page.url(), /#outbox\/ticket-return\?status=GivenUp/);
  await page.goBack();
  await item.locator('[data-help=retry]').click();
  await page.locator('#retry-text', { hasText: '3 rows of ticket-return will be sent again' }).waitFor();
  assert.doesNotMatch(await text(page, '#retry-form'), /tried again by themselves/, 'only what was given up is taken');
  await page.locator('#retry-form [data-close]').click();
  assert.equal((await channelOf('ticket-return')).givenUp, 3, 'asked, not told');
  await item.locator('[data-help=retry]').click();
  await page.locator('#retry-submit:enabled').click();
  await page.locator('#messages', { hasText: '3 rows of ticket-return are to be sent again' }).waitFor();
  await eventually('all sent', async () => (await channelOf('ticket-return')).givenUp === 0);
  await item.waitFor({ state: 'detached' });
  await page.locator('#state[data-state=ok]').waitFor();
  await page.finish();
});

test('what is paused is on the first page, and goes on from there', LIMIT, async () => {
  await clean();
  await admin('outbox/functional-ack/pause', { method: 'POST', body: {} });
  const page = await openSignedIn('#overview');
  const item = page.locator('.needs li', { hasText: 'functional-ack is paused' });
  await item.locator('[data-help=resume]').click();
  await item.waitFor({ state: 'detached' });
  assert.equal((await channelOf('functional-ack')).paused, false);
  await page.finish();
});

test('in Portuguese the first page says what needs you', LIMIT, async () => {
  await clean();
  const page = await openSignedIn('#overview', { language: 'pt' });
  await page.locator('#overview-needs h2', { hasText: 'O que precisa de você' }).waitFor();
  await page.locator('#needs', { hasText: 'Nada precisa de você' }).waitFor();
  await page.locator('#state', { hasText: 'Pronto' }).waitFor();
  await page.finish();
});

test('failures are grouped by cause, and a cause is a filter', LIMIT, async () => {
  await clean();
  await fault({ path: '/gateway/returns', status: 422 });
  for (let n = 0; n < 3; n++) await processed(fresh());
  await eventually('given up', async () => (await channelOf('ticket-return')).givenUp === 3);
  await heal();
  await fault({ path: '/gateway/returns', status: 400 });
  await processed(fresh());
  await eventually('given up', async () => (await channelOf('ticket-return')).givenUp === 4);
  await heal();
  const page = await openSignedIn('#outbox/ticket-return');
  const causes = page.locator('.causes li');
  await eventually('two causes', async () => (await causes.count()) === 2);
  const first = causes.filter({ hasText: '422' });
  assert.match(await first.textContent(), /^3/);
  assert.match(await first.textContent(), /waits for a person/);
  await first.getByRole('link').click();
  await page.locator('#outbox-found', { hasText: '3 rows' }).waitFor();
  assert.equal(await page.locator('#outbox-table tbody tr').count(), 3);
  await accessible(page, 'causes');
  await page.screenshot({ path: join(SHOTS, 'causes.png'), fullPage: true });
  await clean();
  await page.finish();
});

test('the rows that a filter shows are exported as CSV', LIMIT, async () => {
  const doc = fresh('CSV');
  await processed(doc);
  await eventually('sent', () => settled('ticket-return'));
  const page = await openSignedIn('#outbox/ticket-return?status=Sent');
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#outbox-csv').click()]);
  const csv = readFileSync(await download.path(), 'utf8');
  assert.match(csv, new RegExp(doc));
  await page.goto(`${gateway.url}#tickets?businessDocId=${doc}`);
  const [tickets] = await Promise.all([page.waitForEvent('download'), page.locator('#tickets-csv').click()]);
  assert.match(readFileSync(await tickets.path(), 'utf8'), new RegExp(doc));
  await page.finish();
});

test('a payload is masked until it is revealed, and the audit log has that it was', LIMIT, async () => {
  await clean();
  const doc = fresh('MASK');
  const id = await processed(doc, { phone: '+5511987654321' });
  const page = await openSignedIn(`#tickets/${id}`);
  await page.locator('summary', { hasText: 'Payload' }).click();
  await page.locator('#payload', { hasText: doc }).waitFor();
  assert.ok(!(await text(page, '#payload')).includes('98765'));
  const before = (await admin('audit?action=PayloadRevealed')).total;
  await page.locator('#reveal').click();
  await page.locator('details', { hasText: 'the audit log has that you did' }).waitFor();
  assert.ok((await text(page, '#payload')).includes('+5511987654321'));
  assert.equal((await admin('audit?action=PayloadRevealed')).total, before + 1);
  await page.finish();
});

test('a row says why it waits', LIMIT, async () => {
  await clean();
  await fault({ path: '/gateway/returns', status: 503 });
  for (let n = 0; n < 6; n++) await post(fresh());
  const row = await eventually('a row that waits', async () => (await admin('outbox/ticket-return?status=Error')).items[0]);
  const page = await openSignedIn(`#outbox/ticket-return/${row.id}`);
  await page.locator('#waiting', { hasText: /does not answer|next attempt/ }).waitFor();
  await page.route(`**/ticket-return/${row.id}`, async (route) => {
    const shown = await (await route.fetch()).json();
    await route.fulfill({ json: { ...shown, waitingFor: { code: 'TargetAway', detail: 'https://peer is unreachable since 03:16 UTC, next probe in 8 s', since: '2026-11-15T03:16:05.123Z', next: null } } });
  });
  await page.locator('#waiting', { hasText: 'does not answer' }).waitFor();
  assert.doesNotMatch(await text(page, '#waiting'), /UTC|unreachable/, 'said once, in local time');
  await page.screenshot({ path: join(SHOTS, 'waiting.png'), fullPage: true });
  await clean();
  await page.finish();
});

test('a client searches its own documents', LIMIT, async () => {
  const doc = fresh('OWN');
  await processed(doc);
  const page = await openSignedIn(`#search?q=${doc}`, { as: 'client' });
  await page.locator('#found a', { hasText: doc }).first().click();
  await page.locator('.timeline [data-step=processing]').waitFor();
  await page.finish();
});

test('the flow is a picture with what waits and failed beside each step, for an hour, a day and a week', LIMIT, async () => {
  await processed(fresh());
  const page = await openSignedIn('#overview');
  for (const name of ['accepted', 'processed', 'delivered']) {
    const step = page.locator(`#flow [data-step=${name}]`);
    await step.waitFor();
    assert.match(await step.textContent(), /per minute.*waiting · .*failed/s);
    assert.match(await step.locator('svg').getAttribute('aria-label'), /per minute, .* waiting, .* failed/);
  }
  for (const window of ['day', 'week']) {
    const [asked] = await Promise.all([page.waitForRequest((request) => request.url().includes(`admin/flow?window=${window}`)), page.locator('#window').selectOption(window)]);
    assert.ok(asked);
  }
  await accessible(page, 'flow');
  await page.screenshot({ path: join(SHOTS, 'flow.png'), fullPage: true });
  await page.finish();
});

test('the server sorts a list by creation, and the order is in the address', LIMIT, async () => {
  for (let n = 0; n < 3; n++) await processed(fresh());
  const page = await openSignedIn('#tickets');
  const times = () => page.locator('#tickets-table tbody time').evaluateAll((all) => all.map((node) => node.dateTime));
  await eventually('rows', async () => (await times()).length > 2);
  assert.deepEqual(await times(), (await times()).sort().reverse());
  await page.locator('th[aria-sort=descending] a').click();
  await page.locator('th[aria-sort=ascending]').waitFor();
  assert.match(page.url(), /order=oldest/);
  await eventually('the oldest first', async () => (await times()).join() === (await times()).sort().join());
  await page.finish();
});

test('each kind of what needs you has its words, its button and its way', LIMIT, async () => {
  const at = { severity: 'critical', since: '2026-11-15T03:16:05.123Z', cause: 'a cause' };
  const items = [
    { ...at, kind: 'StuckBatch', title: 'leads.csv is stuck', target: 'batch-1', id: 'alert-1', clientId: 'store', actions: ['acknowledge', 'release'], link: '#imports/batch-1' },
    { ...at, kind: 'Webhook', title: 'deliveries fail', target: 'sub-1', id: 'alert-2', clientId: 'store', actions: ['acknowledge'], link: '#webhooks/sub-1' },
    { ...at, kind: 'Breaker', title: 'payment is unreachable', id: 'integration:payment', actions: ['reset'], link: '#integrations', next: '2099-01-01T00:00:00Z' },
    { ...at, kind: 'Disk', title: '3 per cent of the disk is free', actions: [], link: '#system' },
    { ...at, kind: 'Oldest', channel: 'ticket-return', title: '9 documents wait', count: 9, actions: ['retry'], link: '#outbox/ticket-return?status=Pending' },
    { ...at, kind: 'Tickets', title: '2 tickets could not be processed', count: 2, actions: ['retry', 'dismiss'], link: '#tickets?status=Error' },
  ];
  const page = await openSignedIn('#outbox');
  const asked = [];
  await page.route('**/admin/attention', (route) => route.fulfill({ json: { items, status: 'critical', checkedAt: at.since } }));
  await page.route(/release$|reset$|acknowledge$/, (route) => { asked.push(new URL(route.request().url()).pathname); return route.fulfill({ json: {} }); });
  await page.goto(`${gateway.url}#overview`);
  await page.locator('.needs li').nth(5).waitFor();
  const item = (kind) => page.locator(`.needs li[data-kind=${kind}]`);
  assert.match(await item('StuckBatch').textContent(), /leads\.csv is stuck.*a cause.*client store/s);
  await item('StuckBatch').locator('[data-help=release]').click();
  await page.locator('#help-form [type=submit]').click();
  await page.locator('#help-dialog').waitFor({ state: 'detached' });
  await item('Breaker').locator('[data-help=reset]').click();
  await page.locator('#messages', { hasText: 'The circuit is closed: integration:payment' }).waitFor();
  await item('Webhook').locator('[data-help=acknowledge]').click();
  await page.locator('#messages', { hasText: 'Acknowledged: deliveries fail' }).waitFor();
  assert.deepEqual(asked, ['/admin/imports/batch-1/release', '/admin/circuit-breakers/integration%3Apayment/reset', '/admin/alerts/alert-2/acknowledge']);
  assert.equal(await item('Webhook').getByRole('link').getAttribute('href'), '#webhooks/store/sub-1');
  assert.equal(await item('Tickets').locator('[data-help=dismiss]').count(), 0, 'there is no such call');
  assert.equal(await item('Oldest').locator('[data-help=retry]').count(), 0, 'what waits did not fail');
  await item('Tickets').locator('[data-help=retry]').click();
  await page.locator('#reprocess-text', { hasText: 'start over' }).waitFor();
  await page.locator('#reprocess-form [data-close]').click();
  await item('Disk').getByRole('link').click();
  await page.locator('#title', { hasText: 'Versions' }).waitFor();
  await page.finish();
});
