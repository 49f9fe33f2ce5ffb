// Tickets and imports of all clients, the search box, the page of a document with its time line.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, eventually, gateway, open, openSignedIn, text } from './harness.mjs';
import { admin, clean, fault, fresh, post, processed, ticketOf } from './gateway.mjs';

const step = (page, name) => page.locator(`.timeline [data-step=${name}]`);

test('the search box of every page finds a document by any of its ids', LIMIT, async () => {
  await clean();
  const doc = fresh('SEARCH');
  const id = await processed(doc);
  const page = await openSignedIn('#outbox', { allowed: [] });
  await page.keyboard.press('/');
  await page.keyboard.type(doc);
  await page.keyboard.press('Enter');
  const row = page.locator(`tr[data-found="ticket ${id}"]`);
  await row.waitFor();
  assert.match(await row.textContent(), new RegExp(`TCK ${doc}, phase 15.*${gateway.clientId}`));
  await page.locator('#found tr[data-found^="return "]').waitFor();
  await page.locator('#found tr[data-found^="ack "]').waitFor();
  await accessible(page, 'search');
  await page.screenshot({ path: join(SHOTS, 'search.png'), fullPage: true });
  await row.getByRole('link').click();
  await page.locator('#title', { hasText: doc }).waitFor();
  await step(page, 'processing').locator('.badge', { hasText: 'Processed' }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'ticket-whole.png'), fullPage: true });

  // The same from another page, for what is not there.
  await page.locator('#search-input').fill('nobody has this');
  await page.keyboard.press('Enter');
  await page.locator('#note', { hasText: 'Nothing has this id' }).waitFor();
  assert.equal(await page.locator('#found tbody tr').count(), 0);
  await page.finish();
});

test('the search asks for a sign-in', LIMIT, async () => {
  const page = await open(gateway, { hash: '#search?q=abc', allowed: [401] });
  await page.locator('[data-gate] form').waitFor();
  await page.finish();
});

test('a ticket’s whole life: its steps, its time line with the functional ack, its payload, copied as curl without the key', LIMIT, async () => {
  await clean();
  const doc = fresh('LIFE');
  const id = await processed(doc);
  const page = await openSignedIn(`#tickets/${id}`);
  await step(page, 'callback').locator('.badge', { hasText: 'Success' }).waitFor();
  for (const name of ['processing', 'return', 'gateway']) assert.match(await step(page, name).textContent(), /1 attempt/);
  for (const name of ['received', 'return', 'gateway', 'callback']) {
    const time = step(page, name).locator('time').first();
    assert.match(await time.textContent(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}/);
    assert.match(await time.getAttribute('title'), /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC$/);
  }
  await page.locator('#timeline [data-event=Received]').waitFor();
  await page.locator('#timeline [data-event=Attempt]', { hasText: 'functional-ack' }).waitFor();
  assert.match(await page.locator('#timeline [data-event=Attempt]', { hasText: `ticket-gateway ${id}` }).first().textContent(), /HTTP 200/);

  // Unfolded, it stays so while the page looks again.
  await page.locator('summary', { hasText: 'Payload' }).click();
  await page.locator('#payload', { hasText: doc }).waitFor();
  await post(doc, { shipmentEvent: 'DLV' });
  await step(page, 'received').locator('.note', { hasText: 'version 2' }).waitFor();
  await page.locator('#payload', { hasText: 'DLV' }).waitFor();

  await page.evaluate(() => { navigator.clipboard.writeText = async (words) => { window.copied = words; }; });
  await page.locator('#curl').click();
  const copied = await page.evaluate(() => window.copied);
  assert.match(copied, new RegExp(`^curl .*admin/tickets/${id}'$`));
  assert.ok(!copied.includes(gateway.key));
  await page.screenshot({ path: join(SHOTS, 'timeline.png'), fullPage: true });
  await page.goto(`${gateway.url}#outbox/ticket-gateway/${id}`);
  await page.locator('#timeline [data-event=Processed]').first().waitFor();
  await page.finish();
});

test('tickets by status, page by page, with why they failed', LIMIT, async () => {
  const entity = fresh('BAD');
  await Promise.all(Array.from({ length: 23 }, () => post(`<b>${fresh()}</b>`, { businessEntity: entity, phaseCode: 6 }))); // whose weights are missing
  const page = await openSignedIn('#tickets');
  await page.locator('#tickets-businessEntity').fill(entity);
  await page.keyboard.press('Enter');
  await page.locator('#tickets-status').selectOption('Error');
  await page.locator('#tickets-found', { hasText: '23 rows' }).waitFor();
  const rows = page.locator('#tickets-table tbody tr');
  // The address changed twice, and the first list had 23 rows too.
  await eventually('the first page with its reasons', async () => (await rows.locator('.reason', { hasText: 'weights' }).count()) === 20);
  assert.equal(await rows.count(), 20);
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

test('a bad filter is told beside its field', LIMIT, async () => {
  const page = await openSignedIn('#tickets?status=Nonsense', { allowed: [400] });
  await page.locator('#tickets-status-error', { hasText: /\S/ }).waitFor();
  await page.finish();
});

test('a ticket is reprocessed, alone and with others after a preview', LIMIT, async () => {
  await clean();
  const entity = fresh('E');
  const ids = [await processed(fresh('T'), { businessEntity: entity }), await processed(fresh('T'), { businessEntity: entity })];
  const page = await openSignedIn(`#tickets/${ids[0]}`);
  await page.locator('#tickets-reprocess').click();
  await page.locator('#reprocess-text', { hasText: entity }).waitFor();
  await page.locator('#reprocess-form [data-close]').click();
  assert.equal((await ticketOf(ids[0])).payloadVersion, 1, 'asked, not told');
  await page.locator('#tickets-reprocess').click();
  await page.locator('#reprocess-form [type=submit]').click();
  await page.locator('#messages', { hasText: 'starts over' }).waitFor();
  await step(page, 'received').locator('.note', { hasText: 'version 2' }).waitFor();
  await eventually('processed again', async () => (await ticketOf(ids[0])).status === 'Processed');

  await page.goto(`${gateway.url}#tickets`);
  await page.locator('#tickets-businessEntity').fill(entity);
  await page.locator('#tickets-status').selectOption('Processed');
  await page.locator('#tickets-found', { hasText: /^2 rows$/ }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'tickets-all.png'), fullPage: true });
  await page.getByRole('checkbox', { name: 'Select this page' }).check();
  await page.locator('.selection').getByRole('button', { name: 'Reprocess…' }).click();
  await page.locator('#reprocess-text', { hasText: '2 tickets match' }).waitFor();
  await page.locator('#reprocess-submit').click();
  await page.locator('#messages', { hasText: '2 tickets start over' }).waitFor();
  assert.deepEqual(await Promise.all(ids.map(async (id) => (await ticketOf(id)).payloadVersion)), [3, 2]);
  await page.finish();
});

test('a ticket that is gone stops no others', LIMIT, async () => {
  await clean();
  const entity = fresh('E');
  const ids = [await processed(fresh('T'), { businessEntity: entity }), await processed(fresh('T'), { businessEntity: entity })];
  const page = await openSignedIn(`#tickets?businessEntity=${entity}`, { allowed: [410] });
  await page.route(`**/admin/tickets/${ids[1]}/reprocess`, (route) => route.fulfill({ status: 410, contentType: 'application/problem+json', json: { title: 'Erased', detail: 'Its content was erased.' } }));
  await page.getByRole('checkbox', { name: 'Select this page' }).check();
  await page.locator('.selection').getByRole('button', { name: 'Reprocess…' }).click();
  await page.locator('#reprocess-submit:enabled').click();
  await page.locator('#reprocess-text', { hasText: '1 done; 1 could not be' }).waitFor();
  assert.equal((await ticketOf(ids[0])).payloadVersion, 2);
  await page.finish();
});

test('all tickets that match are reprocessed by the filter, narrowed by a part of the error', LIMIT, async () => {
  await clean();
  const entity = fresh('E');
  for (let n = 0; n < 22; n++) await post(fresh('T'), { businessEntity: entity });
  await eventually('all processed', async () => (await admin(`tickets?businessEntity=${entity}&status=Processed`)).total === 22);
  const page = await openSignedIn(`#tickets?businessEntity=${entity}&status=Processed`);
  await page.getByRole('checkbox', { name: 'Select this page' }).check();
  await page.locator('#tickets-all').click();
  await page.locator('.selection').getByRole('button', { name: 'Reprocess…' }).click();
  await page.locator('#reprocess-text', { hasText: '22 tickets match' }).waitFor();
  await page.locator('#reprocess-error').fill('no error says this');
  await page.locator('#reprocess-text', { hasText: '0 tickets match' }).waitFor();
  assert.equal(await page.locator('#reprocess-submit').isDisabled(), true);
  await page.locator('#reprocess-error').fill('');
  await page.locator('#reprocess-text', { hasText: '22 tickets match' }).waitFor();
  await page.locator('#reprocess-submit').click();
  await page.locator('#messages', { hasText: '22 tickets start over' }).waitFor();
  await page.finish();
});

test('one preview of a reprocess is asked at a time, and the last one counts', LIMIT, async () => {
  await clean();
  const entity = fresh('E');
  await Promise.all(Array.from({ length: 21 }, () => post(fresh('T'), { businessEntity: entity })));
  const page = await openSignedIn(`#tickets?businessEntity=${entity}`);
  const held = [];
  const asked = [];
  await page.route('**/admin/tickets/reprocess', async (route) => {
    asked.push(route.request().postDataJSON().error);
    await new Promise((go) => { held.push(go); });
    await route.fulfill({ json: { matched: asked.length === 1 ? 7 : 10001, reprocessed: 0, left: 0 } });
  });
  await page.getByRole('checkbox', { name: 'Select this page' }).check();
  await page.locator('#tickets-all').click();
  await page.locator('.selection').getByRole('button', { name: 'Reprocess…' }).click();
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
  const page = await openSignedIn(`#imports?fileName=${name}`);
  const row = page.locator(`tr[data-batch="${batchId}"]`);
  await row.locator('.badge', { hasText: 'Completed' }).waitFor();
  assert.match(await row.textContent(), new RegExp(gateway.clientId));
  await row.getByRole('link').click();
  await page.locator('#title', { hasText: name }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'import-whole.png'), fullPage: true });
  await page.finish();
});

test('a failure that is tried again by itself looks unlike one that waits for a person', LIMIT, async () => {
  await clean();
  const page = await openSignedIn('#outbox');
  const row = { id: '1', reference: 'A', status: 'Error', attempts: 1, tries: 1, createdAt: '2026-11-15T03:16:05.123Z', lastError: 'HTTP 503', heldFor: null, dismissedAt: null, targetUrl: null };
  await page.route('**/admin/outbox/ticket-return?*', (route) => route.fulfill({
    json: { items: [{ ...row, nextAttemptAt: '2099-01-01T00:00:00Z', willRetry: true, givenUp: false }, { ...row, id: '2', nextAttemptAt: null, willRetry: false, givenUp: true }], total: 2, next: null },
  }));
  await page.goto(`${gateway.url}#outbox/ticket-return`);
  await page.locator('tr[data-row="1"] .badge[data-state=retry]', { hasText: 'will retry' }).waitFor();
  await page.locator('tr[data-row="2"] .badge[data-state=bad]', { hasText: 'Given up' }).waitFor();
  await page.finish();
});

const failing = { id: '7', businessEntity: 'TCK', businessDocId: 'A', phaseCode: 15, status: 'Processed', callbackStatus: 'Pending', createdAt: '2026-11-15T03:16:05.123Z',
  returnStatus: 'Error', returnNextAttemptAt: '2099-01-01T00:00:00Z', gatewaySendStatus: 'Error', gatewaySendNextAttemptAt: '2099-01-01T00:00:00Z' };

for (const [as, path, hash] of [['admin', 'admin/tickets', '#tickets'], ['client', 'api/tickets', '#tickets?status=Processed']]) {
  test(`in the tickets of ${as === 'admin' ? 'all' : 'a client'}, too, what is tried again looks unlike what is not`, LIMIT, async () => {
    const page = await openSignedIn('#overview', { as });
    await page.route(`**/${path}?*`, (route) => route.fulfill({ json: { items: [failing, { ...failing, id: '8', businessDocId: 'B', returnNextAttemptAt: null }], total: 100001, next: null } }));
    await page.goto(`${gateway.url}${hash}`);
    const again = (nth) => page.locator('#tickets-table tbody tr').nth(nth).locator('.badge[data-state=retry]').count();
    await eventually('two that are tried again', async () => (await again(0)) === 2);
    assert.equal(await again(1), 1);
    if (as === 'admin') {
      await page.locator('#tickets-csv').click();
      await page.locator('#messages', { hasText: 'the first 100,000 rows only' }).waitFor();
    }
    await page.finish();
  });
}

for (const [scheme, device, width] of [['light', 'desk', 1280], ['dark', 'phone', 390]]) {
  test(`tickets, imports and search are accessible and fit: ${scheme}, ${device}`, LIMIT, async () => {
    await clean();
    await fault({ path: '/gateway/returns', status: 400 });
    const id = await processed(fresh());
    await eventually('it failed', async () => (await ticketOf(id)).returnStatus === 'Error');
    const page = await openSignedIn('#tickets', { width, height: 860, scheme });
    for (const [name, hash, sign] of [['tickets', '#tickets', '#tickets-table'], ['ticket', `#tickets/${id}`, '#timeline [data-event]'], ['imports', '#imports', '#imports-list'], ['search', '#search?q=TCK', '#note'],
      ['outbox-filter', '#outbox/ticket-return?error=4', '#outbox-table']]) {
      await page.goto(`${gateway.url}${hash}`);
      await page.locator(sign).first().waitFor();
      await page.waitForLoadState('networkidle');
      await page.screenshot({ path: join(SHOTS, `operators-${name}-${device}.png`), fullPage: true });
      await accessible(page, name);
    }
    await clean();
    await page.finish();
  });
}
