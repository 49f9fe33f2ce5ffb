// The console's pages for operators: what needs a person, the search box, retry by filter with a preview, pause and
// resume, tickets of all clients and reprocessing them; in both languages.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, ask, eventually, gateway, open, openSignedIn, text } from './harness.mjs';

const fresh = (prefix) => `${prefix}_${randomUUID().slice(0, 8)}`;
const admin = (path, options = {}) => ask(`${gateway.url}admin/${path}`, { method: 'GET', headers: { 'X-Admin-Key': gateway.key }, ...options });
const fault = (body) => ask(`${gateway.sandbox}/_faults`, { body });
const heal = () => ask(`${gateway.sandbox}/_faults`, { method: 'DELETE' });
const channelOf = async (name) => (await admin('outbox')).channels.find((c) => c.channel === name);

const post = (doc, fields) => ask(`${gateway.url}api/tickets`, {
  headers: gateway.headers,
  body: {
    businessEntity: 'TCK', businessDocId: doc, companyCode: '0050', branchCode: '1', destinationCode: 'D7', phaseCode: 15, shipmentEvent: 'RCD',
    functionalAckIsRequired: true, targetApplicationCode: 'ASB', ...fields,
  },
});

const ticketOf = async (id) => admin(`tickets/${id}`);

async function processed(doc, fields) {
  const { id } = await post(doc, fields);
  await eventually(`${doc} to be processed`, async () => (await ticketOf(id)).status === 'Processed');
  return id;
}

// Nothing is left in Error that another test would see.
async function clean() {
  await heal();
  await eventually('all that failed to go out', async () => {
    await admin('outbox/retry', { method: 'POST', body: { all: true } });
    const { channels } = await admin('outbox');
    return channels.filter((c) => c.channel.startsWith('ticket-') || c.channel === 'functional-ack').every((c) => c.waiting + c.givenUp === 0);
  });
}

test('the search box of every page finds a document by any of its ids', LIMIT, async () => {
  await clean();
  const doc = fresh('SEARCH');
  const id = await processed(doc);
  const page = await openSignedIn('#alerts', { allowed: [] });
  await page.locator('#search-input').fill(doc);
  await page.keyboard.press('Enter');
  const row = page.locator(`tr[data-found="ticket ${id}"]`);
  await row.waitFor();
  assert.match(await row.textContent(), new RegExp(`TCK ${doc}, phase 15.*${gateway.clientId}`));
  await page.locator('#search-body tr[data-found^="return "]').waitFor();
  await page.locator('#search-body tr[data-found^="ack "]').waitFor();
  await page.screenshot({ path: join(SHOTS, 'search.png'), fullPage: true });
  await row.getByRole('link').click();
  await page.locator('#alltickets-title', { hasText: doc }).waitFor();
  await page.locator('.timeline [data-step=processing] .badge', { hasText: 'Processed' }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'ticket-whole.png'), fullPage: true });

  // The same from another page, for what is not there.
  await page.locator('#search-input').fill('nobody has this');
  await page.keyboard.press('Enter');
  await page.locator('#search-note', { hasText: 'Nothing has this id' }).waitFor();
  assert.equal(await page.locator('#search-body tbody tr').count(), 0);
  await page.finish();
});

test('the search asks for the admin key', LIMIT, async () => {
  const page = await open(gateway, { hash: '#search?q=abc', allowed: [401] });
  await page.locator('[data-gate=admin]').waitFor();
  await page.finish();
});

test('what was given up is on the first page, and is retried by a filter after a preview', LIMIT, async () => {
  await clean();
  const docs = [fresh('KEEP'), fresh('RETRY'), fresh('RETRY')];
  await fault({ path: '/gateway/returns', status: 422 });
  for (const doc of docs) await processed(doc);
  await eventually('three given up', async () => (await channelOf('ticket-return')).givenUp === 3);
  await heal();

  const page = await openSignedIn('#overview');
  const line = page.locator('tr[data-stuck^="given-up ticket-return"]');
  await line.waitFor();
  assert.match(await line.textContent(), /Given up3 of ticket-return.*\/gateway\/returns.*Mend the cause, then retry/);
  await page.screenshot({ path: join(SHOTS, 'stuck.png'), fullPage: true });
  await line.getByRole('link', { name: /Look and retry/ }).click();
  const rows = page.locator('#outbox-rows tbody tr');
  await eventually('three rows', async () => (await rows.count()) === 3);
  assert.match(page.url(), /status=GivenUp&target=/);

  // A filter that means none, then one that means some.
  await page.locator('#outbox-error').fill('HTTP 599');
  await page.keyboard.press('Enter');
  await page.locator('#outbox-rows', { hasText: 'None.' }).waitFor();
  await page.locator('#outbox-retry-these').click();
  await page.locator('#retry-text', { hasText: 'No row matches' }).waitFor();
  assert.equal(await page.locator('#retry-submit').isDisabled(), true);
  await page.locator('#retry-form [data-close]').click();

  await page.locator('#outbox-error').fill('422');
  await page.keyboard.press('Enter');
  await eventually('three rows', async () => (await rows.count()) === 3);
  await page.locator('#outbox-retry-these').click();
  await page.locator('#retry-text', { hasText: '3 rows of ticket-return match' }).waitFor();
  assert.equal((await channelOf('ticket-return')).givenUp, 3, 'a preview changes nothing');
  await page.screenshot({ path: join(SHOTS, 'retry-preview.png') });
  await page.locator('#retry-submit').click();
  await page.locator('#messages', { hasText: '3 rows of ticket-return are to be sent again' }).waitFor();
  await eventually('all sent', async () => (await channelOf('ticket-return')).givenUp === 0);
  await page.goto(`${gateway.url}#overview`);
  await line.waitFor({ state: 'detached' });
  await page.finish();
});

test('a channel is paused and resumed, and the first page tells', LIMIT, async () => {
  await clean();
  const page = await openSignedIn('#outbox?channel=functional-ack');
  await page.getByRole('button', { name: 'Pause functional-ack' }).click();
  await page.locator('#messages', { hasText: 'functional-ack is paused' }).waitFor();
  await page.locator('#outbox-targets .banner', { hasText: 'paused' }).waitFor();
  assert.equal((await channelOf('functional-ack')).paused, true);
  await page.screenshot({ path: join(SHOTS, 'outbox-paused.png'), fullPage: true });
  await page.goto(`${gateway.url}#overview`);
  const line = page.locator('tr[data-stuck^="paused functional-ack"]');
  await line.waitFor();
  assert.match(await line.textContent(), /by admin/);
  await line.getByRole('button', { name: 'Resume functional-ack' }).click();
  await line.waitFor({ state: 'detached' });
  assert.equal((await channelOf('functional-ack')).paused, false);
  await page.finish();
});

test('a ticket is reprocessed, alone and with others after a preview', LIMIT, async () => {
  await clean();
  const entity = fresh('E');
  const ids = [await processed(fresh('T'), { businessEntity: entity }), await processed(fresh('T'), { businessEntity: entity })];
  const page = await openSignedIn(`#alltickets?id=${ids[0]}`);
  await page.locator('#alltickets-reprocess').click();
  await page.locator('#reprocess-text', { hasText: entity }).waitFor();
  await page.locator('#reprocess-form [data-close]').click();
  assert.equal((await ticketOf(ids[0])).payloadVersion, 1, 'asked, not told');
  await page.locator('#alltickets-reprocess').click();
  await page.locator('#reprocess-submit').click();
  await page.locator('#messages', { hasText: 'starts over' }).waitFor();
  await page.locator('.timeline [data-step=received] .note', { hasText: 'version 2' }).waitFor();
  await eventually('processed again', async () => (await ticketOf(ids[0])).status === 'Processed');

  await page.goto(`${gateway.url}#alltickets`);
  await page.locator('#alltickets-entity').fill(entity);
  await page.locator('#alltickets-status').selectOption('Processed');
  await page.locator('#alltickets-form [type=submit]').click();
  await page.locator('#alltickets-note', { hasText: /^2 tickets$/ }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'tickets-all.png'), fullPage: true });
  await page.locator('#alltickets-reprocess').click();
  await page.locator('#reprocess-text', { hasText: '2 tickets match' }).waitFor();
  await page.locator('#reprocess-error').fill('no error says this');
  await page.locator('#reprocess-text', { hasText: '0 tickets match' }).waitFor();
  assert.equal(await page.locator('#reprocess-submit').isDisabled(), true);
  await page.locator('#reprocess-error').fill('');
  await page.locator('#reprocess-text', { hasText: '2 tickets match' }).waitFor();
  await page.locator('#reprocess-submit').click();
  await page.locator('#messages', { hasText: '2 tickets start over' }).waitFor();
  assert.deepEqual(await Promise.all(ids.map(async (id) => (await ticketOf(id)).payloadVersion)), [3, 2]);
  await page.finish();
});

test('one preview of a reprocess is asked at a time, and the last one counts', LIMIT, async () => {
  await clean();
  const entity = fresh('E');
  await processed(fresh('T'), { businessEntity: entity });
  const page = await openSignedIn(`#alltickets?businessEntity=${entity}`);
  const held = [];
  const asked = [];
  await page.route('**/admin/tickets/reprocess', async (route) => {
    asked.push(route.request().postDataJSON().error);
    await new Promise((go) => { held.push(go); });
    await route.fulfill({ json: { matched: asked.length === 1 ? 7 : 10001, reprocessed: 0, left: 0 } });
  });
  await page.locator('#alltickets-reprocess').click();
  await eventually('the first preview', () => held.length === 1);
  for (const written of ['a', 'ab', 'abc']) {
    await page.locator('#reprocess-error').fill(written);
    await page.waitForTimeout(600); // longer than the page waits for the next key
  }
  assert.deepEqual(asked, [undefined], 'the others wait for its answer');
  held[0]();
  await eventually('the second preview', () => held.length === 2);
  assert.deepEqual(asked, [undefined, 'abc']);
  assert.equal(await text(page, '#reprocess-text'), 'Counting…', 'an answer for another filter is not shown');
  held[1]();
  await page.locator('#reprocess-text', { hasText: 'More than 10,000 tickets match' }).waitFor();
  assert.equal(await page.locator('#reprocess-submit').isDisabled(), false);
  await page.finish();
});

test('imports of all clients, found and looked at', LIMIT, async () => {
  const name = `${fresh('leads')}.json`;
  const form = new FormData();
  form.append('file', new Blob([JSON.stringify([{ PhoneNumber: '+5511987654321', Origin: 'site' }, { PhoneNumber: 'none' }])]), name);
  const answer = await fetch(`${gateway.url}imports`, { method: 'POST', headers: gateway.headers, body: form });
  assert.equal(answer.status, 202);
  const { batchId } = await answer.json();
  const page = await openSignedIn(`#allimports?fileName=${name}`);
  const row = page.locator(`tr[data-batch="${batchId}"]`);
  await row.locator('.badge', { hasText: 'Completed' }).waitFor();
  assert.match(await row.textContent(), new RegExp(gateway.clientId));
  await row.getByRole('link').click();
  await page.locator('#allimports-batch').waitFor();
  await page.locator('#allimports-body .reason').first().waitFor();
  await page.screenshot({ path: join(SHOTS, 'import-whole.png'), fullPage: true });
  await page.finish();
});

test('in Portuguese, and back', LIMIT, async () => {
  const page = await openSignedIn('#outbox');
  await page.locator('#language-button').click();
  await page.locator('nav a', { hasText: 'Visão geral' }).waitFor();
  await page.locator('#search-input[placeholder="Buscar por qualquer id"]').waitFor();
  await page.goto(`${gateway.url}#overview`);
  await page.locator('#overview-stuck h2', { hasText: 'O que precisa de alguém' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'pt-BR');
  assert.equal(await page.evaluate(() => localStorage.length), 0, 'nothing is kept beyond the tab');
  await page.locator('#stuck-body[data-lines]').waitFor();
  await page.screenshot({ path: join(SHOTS, 'overview-pt.png'), fullPage: true });
  await page.locator('#language-button', { hasText: 'English' }).click();
  await page.locator('nav a', { hasText: 'Overview' }).waitFor();
  assert.equal(await text(page, '#overview-stuck h2'), 'What needs a person');
  await page.finish();
});

for (const [device, width] of [['desk', 1280], ['phone', 390]]) {
  test(`the operators’ pages fit: ${device}`, LIMIT, async () => {
    const page = await openSignedIn('#overview', { width, height: 860, scheme: device === 'phone' ? 'dark' : 'light' });
    for (const [name, hash] of [['overview', '#overview'], ['search', '#search?q=TCK'], ['alltickets', '#alltickets'], ['allimports', '#allimports'],
      ['outbox-filter', '#outbox?channel=ticket-return&error=5']]) {
      await page.goto(`${gateway.url}${hash}`);
      await page.locator(`section:not([hidden])`).waitFor();
      await page.waitForLoadState('networkidle');
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${name} is ${wide} px too wide`);
      await page.screenshot({ path: join(SHOTS, `operators-${name}-${device}.png`), fullPage: true });
    }
    await page.finish();
  });
}
