// What a tenant sees of its own besides imports and webhooks: tickets, events, use and limits; and nothing of what is not its own.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, ask, eventually, gateway, openSignedIn, text } from './harness.mjs';
import { saying } from './console.mjs';
import { clean, fresh, post } from './gateway.mjs';

const operator = (path, body) => ask(`${gateway.url}admin/${path}`, { method: 'PUT', headers: { 'X-Admin-Key': gateway.key }, body });
const step = (page, name) => page.locator(`.timeline [data-step=${name}]`);

test('a tenant sees what its scopes allow, and no administration', LIMIT, async () => {
  const page = await openSignedIn('#imports', { as: 'client', allowed: [401] });
  await page.locator('#import-drop').waitFor();
  const links = await page.locator('#nav a').evaluateAll((nodes) => nodes.map((node) => node.dataset.view));
  for (const name of ['imports', 'tickets', 'events', 'webhooks', 'usage']) assert.ok(links.includes(name), name);
  for (const name of ['clients', 'audit', 'outbox', 'alerts', 'retention', 'relays', 'integrations']) assert.ok(!links.includes(name), name);
  await page.goto(`${gateway.url}#audit`);
  await page.locator('[data-gate=admin]').waitFor();
  assert.equal(await page.locator('#audit-table').count(), 0);
  await page.finish();
});

for (const language of ['en', 'pt']) test(`a search, and the ticket’s way to the callback: ${language}`, LIMIT, async () => {
  const say = saying(language);
  await clean();
  const doc = fresh();
  const page = await openSignedIn('#tickets', { as: 'client', language, allowed: [400] });
  // Half of a key is not enough, and the server says which half is missing.
  await page.locator('#tickets-businessEntity').fill('TCK');
  await page.locator('.page form[role=search] [type=submit]').click();
  await page.locator('#tickets-businessDocId-error', { hasText: /\S/ }).waitFor();
  await eventually('the focus', async () => (await page.evaluate(() => document.activeElement.id)) === 'tickets-businessDocId');

  await page.locator('#tickets-businessDocId').fill(doc);
  await page.keyboard.press('Enter');
  await page.locator('#tickets-found', { hasText: say('tk.nothing') }).waitFor();
  assert.equal(await text(page, '#tickets-businessDocId-error'), '');
  await post(doc);
  await step(page, 'processing').locator('.badge', { hasText: say('state.Processed') }).waitFor(); // the page looks again by itself
  await step(page, 'return').locator('.badge', { hasText: say('state.Sent') }).waitFor();
  await step(page, 'gateway').locator('.badge', { hasText: say('state.Sent') }).waitFor();
  await step(page, 'callback').locator('.badge', { hasText: say('state.Success') }).waitFor();
  for (const name of ['processing', 'return', 'gateway']) assert.match(await step(page, name).textContent(), language === 'pt' ? /1 tentativa/ : /1 attempt/);
  for (const name of ['received', 'return', 'gateway', 'callback']) assert.match(await step(page, name).locator('time').first().getAttribute('title'), /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC/);

  // Unfolded, it stays so while the page looks again.
  await page.locator('summary', { hasText: say('wh.payload') }).click();
  await page.locator('details[open] pre', { hasText: doc }).waitFor();
  await post(doc, { shipmentEvent: 'DLV' });
  await step(page, 'received').locator('.note', { hasText: language === 'pt' ? 'versão 2' : 'version 2' }).waitFor();
  await page.locator('details[open] pre', { hasText: 'DLV' }).waitFor();

  await page.getByRole('button', { name: say('tk.reprocess') }).click();
  await page.locator('#reprocess-form [type=submit]').click();
  await page.locator('#messages', { hasText: say('tk.starts') }).waitFor();
  await step(page, 'received').locator('.note', { hasText: language === 'pt' ? 'versão 3' : 'version 3' }).waitFor();
  await accessible(page, 'a ticket');
  await page.screenshot({ path: join(SHOTS, 'tenant-ticket.png'), fullPage: true });
  await page.finish();
});

test('tickets by status, page by page, with why they failed', LIMIT, async () => {
  const entity = fresh('OWN');
  await Promise.all(Array.from({ length: 23 }, () => post(`<b>${fresh()}</b>`, { businessEntity: entity, phaseCode: 6 }))); // whose weights are missing
  const page = await openSignedIn('#tickets', { as: 'client' });
  await page.locator('#tickets-businessEntity').fill(entity);
  await page.locator('#tickets-status').selectOption('Error');
  await page.locator('.page form[role=search] [type=submit]').click();
  const rows = page.locator('#tickets-table tbody tr');
  await page.locator('#tickets-found', { hasText: '23' }).waitFor();
  assert.equal(await rows.count(), 20);
  assert.equal(await rows.locator('.reason', { hasText: 'weights' }).count(), 20);
  await page.getByRole('link', { name: 'Next' }).click();
  await eventually('the second page', async () => (await rows.count()) === 3);
  await page.goBack();
  await eventually('the first page', async () => (await rows.count()) === 20);
  await rows.locator('a').first().click();
  await step(page, 'processing').locator('.reason', { hasText: 'weights' }).waitFor();
  assert.match(await step(page, 'processing').textContent(), /send a corrected ticket/);
  assert.match(await step(page, 'gateway').textContent(), /Pending.*Waits for processing/s);
  assert.equal(await page.locator('main b').count(), 0, 'a name is no markup');
  await page.finish();
});

for (const language of ['en', 'pt']) test(`an event is written and dispatched: ${language}`, LIMIT, async () => {
  const page = await openSignedIn('#events', { as: 'client', language, allowed: [400] });
  await page.locator('#event-eventType').fill('OrderPlaced');
  await page.locator('#event-payload').fill('{"order": 7');
  await page.locator('#event [type=submit]').click();
  await page.locator('#event-payload-error', { hasText: saying(language)('ev.bad') }).waitFor();
  await page.locator('#event-payload').fill('{"order": 7}');
  await page.locator('#event [type=submit]').click();
  const id = await page.locator('#messages code').textContent();
  assert.match(id, /^[0-9a-f-]{36}$/);
  await eventually('the relay', async () => JSON.stringify(await ask(`${gateway.sandbox}/_received?path=/gateway/events`, { method: 'GET' })).includes(id));
  await accessible(page, 'events');
  await page.finish();
});

test('a tenant exports its own tickets and imports, all that the filter matches', LIMIT, async () => {
  await clean();
  const docs = [fresh('CSV'), fresh('CSV')];
  for (const doc of docs) await post(doc);
  const page = await openSignedIn('#tickets?status=Processed', { as: 'client' });
  const exported = async (id) => {
    const [file] = await Promise.all([page.waitForEvent('download'), page.locator(`#${id}-csv`).click()]);
    assert.equal(file.suggestedFilename(), `${id}.csv`);
    return readFileSync(await file.path(), 'utf8').trim().split('\r\n');
  };
  await eventually('both are listed', async () => (await page.locator('#tickets-table tbody tr').count()) >= 2);
  const tickets = await exported('tickets');
  assert.match(tickets[0], /"businessDocId"/);
  for (const doc of docs) assert.ok(tickets.some((line) => line.includes(doc)), doc);
  await page.goto(`${gateway.url}#imports?status=Scheduled`);
  await page.locator('#imports-card').waitFor();
  assert.equal((await exported('imports')).filter((line) => line.startsWith('"') && /[0-9a-f]{8}-/.test(line)).length, await page.locator('#imports-table tbody tr').count());
  await page.finish();
});

test('use and limits, by the client itself and by the administrator', LIMIT, async () => {
  await operator(`clients/${gateway.clientId}/policy`, { maxBatchPerDay: 5000, tempStorageQuotaMb: 500 });
  for (const [as, hash] of [['client', '#usage'], ['admin', `#clients/${gateway.clientId}`]]) {
    const page = await openSignedIn(hash, { as });
    const tile = (name) => page.locator(`[data-usage="${name}"]`);
    await tile('batches').filter({ hasText: /\d+of 5,000, resets in/ }).waitFor();
    await tile('storage').filter({ hasText: 'of 500 MiB' }).waitFor();
    assert.match(await tile('requests').textContent(), /\dno limit/);
    assert.equal(await page.locator('.tile .meter').count(), 2);
    await page.locator('figure[data-metric=accepted] svg[aria-label^="Accepted: "]').waitFor();
    await accessible(page, 'use');
    await page.screenshot({ path: join(SHOTS, `usage-${as}.png`), fullPage: true });
    await page.finish();
  }
  await operator(`clients/${gateway.clientId}/policy`, { maxBatchPerDay: null, tempStorageQuotaMb: null });
});

for (const [language, width, scheme] of [['pt', 390, 'dark'], ['pt', 1280, 'light'], ['en', 390, 'light']]) {
  test(`the tenant’s pages fit and can be used by all: ${language}, ${width} px, ${scheme}`, LIMIT, async () => {
    const page = await openSignedIn('#imports', { as: 'client', language, width, scheme });
    for (const hash of ['#imports', '#imports/new', '#tickets', '#tickets?status=Processed', '#events', '#webhooks', '#usage']) {
      await page.goto(`${gateway.url}${hash}`);
      await page.waitForLoadState('networkidle');
      await page.locator('h1').waitFor();
      await accessible(page, hash);
    }
    await page.finish();
  });
}
