// What needs the server's newer calls: alerts acknowledged and silenced, maintenance windows, one delivery of a webhook sent again, its
// failures replayed by the client.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, ask, eventually, gateway, openSignedIn } from './harness.mjs';
import { saying } from './console.mjs';
import { fault, heal } from './gateway.mjs';

const operator = (method, path, body) => ask(`${gateway.url}${path}`, { method, headers: { 'X-Admin-Key': gateway.key }, body });
const own = (method, path, body) => ask(`${gateway.url}${path}`, { method, headers: gateway.headers, body });
const received = (path) => ask(`${gateway.sandbox}/_received?path=${path}`, { method: 'GET' });

for (const language of ['en', 'pt']) test(`an alert has a way to what it is about, is acknowledged with a note, taken back, silenced, and the silence ended: ${language}`, LIMIT, async () => {
  const say = saying(language);
  const hooks = `clients/${gateway.clientId}/webhooks`;
  await fault({ path: '/webhooks/quiet', status: 410 });
  const { id } = await operator('POST', hooks, { url: `${gateway.sandbox}/webhooks/quiet` });
  await operator('POST', `${hooks}/${id}/test`);
  const page = await openSignedIn('#alerts?status=firing', { language, allowed: [400] });
  const row = page.locator('#alerts-table tbody tr', { hasText: id });
  await row.getByRole('button', { name: say('al.ack') }).click();
  await page.locator('#acknowledge-note').fill('I call them');
  await page.locator('#acknowledge-form [type=submit]').click();
  await row.filter({ hasText: new RegExp(`${say('al.acked')} admin.*I call them`) }).waitFor();
  assert.match(await row.getByRole('link', { name: say('al.see') }).getAttribute('href'), /^#/);
  await row.getByRole('button', { name: say('al.unack') }).click();
  await row.getByRole('button', { name: say('al.ack') }).waitFor();

  // The one that an address names is in sight, and marked.
  const alert = await row.getAttribute('data-key');
  await page.goto(`${gateway.url}#alerts/${alert}`);
  await page.locator(`tr[data-wanted][data-key="${alert}"]`).waitFor();
  assert.ok(await row.evaluate((node) => { const { top, bottom } = node.getBoundingClientRect(); return bottom > 0 && top < innerHeight; }));
  await accessible(page, 'an alert that is asked for');

  await row.getByRole('button', { name: say('al.silence') }).click();
  assert.equal(await page.locator('#silence-rule').inputValue(), 'WebhookFailing');
  await page.locator('#silence-form [type=submit]').click();
  await page.locator('#silence-reason-error', { hasText: /\S/ }).waitFor();
  await page.locator('#silence-reason').fill('They migrate tonight');
  await page.locator('#silence-hours').selectOption('24');
  await page.locator('#silence-form [type=submit]').click();
  const silence = page.locator('#silences tbody tr', { hasText: 'They migrate tonight' });
  await silence.filter({ hasText: '23 h' }).waitFor();
  await accessible(page, 'alerts with a silence');
  await page.screenshot({ path: join(SHOTS, 'silences.png'), fullPage: true });
  await silence.getByRole('button', { name: say('al.end') }).click();
  await silence.waitFor({ state: 'detached' });
  await operator('DELETE', `${hooks}/${id}`);
  await heal();
  await page.finish();
});

test('maintenance windows of the server and of a client', LIMIT, async () => {
  await operator('PUT', `admin/clients/${gateway.clientId}/policy`, { maintenanceWindow: 'Sun 02:00-04:00' });
  const page = await openSignedIn('#maintenance');
  const row = page.locator('#windows tbody tr', { hasText: gateway.clientId });
  await row.filter({ hasText: 'Sun 02:00-04:00' }).waitFor();
  assert.match(await row.textContent(), /\(in \d/);
  await accessible(page, 'maintenance windows');
  await row.getByRole('link').click();
  await page.locator('#policy-maintenanceWindow').waitFor();
  await operator('PUT', `admin/clients/${gateway.clientId}/policy`, { maintenanceWindow: null });
  await page.finish();
});

for (const as of ['client', 'admin']) {
  test(`one delivery with payload and answers, sent again; failures replayed: as ${as}`, LIMIT, async () => {
    const target = `/webhooks/again-${as}`;
    const hook = `clients/${gateway.clientId}/webhooks`;
    const { id } = await own('POST', hook, { url: `${gateway.sandbox}${target}` });
    await fault({ path: target, status: 503 });
    await own('POST', `${hook}/${id}/test`);
    const page = await openSignedIn(`#webhooks/${gateway.clientId}/${id}`, { as });
    await page.locator('#deliveries-table tbody tr td > .badge', { hasText: 'Error' }).waitFor();
    await page.locator('#deliveries-table tbody tr a.name').click();
    await page.locator('#delivery-payload', { hasText: '"event":"Test"' }).waitFor();
    await page.locator('.attempts', { hasText: 'HTTP 503' }).waitFor();
    await accessible(page, 'a delivery');
    await page.screenshot({ path: join(SHOTS, `delivery-${as}.png`), fullPage: true });
    await heal();
    const before = page.url();
    await page.locator('#delivery-resend').click();
    await page.locator('#messages', { hasText: 'is to be sent again' }).waitFor();
    assert.notEqual(page.url(), before, 'the new delivery has a page of its own');
    await page.locator('.page .badge', { hasText: 'Sent' }).first().waitFor();
    await eventually('the receiver', async () => (await received(target)).length >= 1);

    await page.goto(`${gateway.url}#webhooks/${gateway.clientId}/${id}`);
    await page.locator('#webhook-replay-these').click();
    await page.locator('#webhook-replay-form [type=submit]').click();
    await page.locator('#messages', { hasText: /\d+ deliver\w+ (is|are) to be sent again/ }).waitFor();
    await page.finish();
    await own('DELETE', `${hook}/${id}`);
  });
}

for (const language of ['en', 'pt']) test(`how long what is over is kept, and what a run would remove now: ${language}`, LIMIT, async () => {
  const say = saying(language);
  const page = await openSignedIn('#retention', { language, allowed: [503] });
  const row = (kind) => page.locator(`#kept tr[data-key=${kind}]`);
  await row('batches').filter({ hasText: '30 d' }).waitFor();
  await row('tickets').filter({ hasText: say('re.ever') }).waitFor();
  await page.locator('#page', { hasText: say('re.next') }).waitFor();
  assert.equal(await page.locator('#kept th').count(), 2, 'nothing is counted unless asked');
  await page.locator('#kept-count').click();
  await page.locator('#kept th', { hasText: say('re.over') }).waitFor();
  assert.equal((await row('batches').locator('td').last().textContent()).trim(), '0');
  await accessible(page, 'what a run would remove');

  // More than is counted, and somebody who counts already.
  let answers = (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', headers: { 'Retry-After': '1' }, body: JSON.stringify({ status: 503, title: 'Busy', code: 'Busy', detail: 'somebody else' }) });
  await page.route('**/admin/retention?count=true', (route) => answers(route));
  await page.locator('#kept-count').click();
  await page.locator('#messages', { hasText: 'somebody else' }).waitFor();
  answers = async (route) => {
    const answer = await (await route.fetch()).json();
    Object.assign(answer.kinds.find(({ kind }) => kind === 'events'), { over: 100000, overIsAtLeast: true });
    await route.fulfill({ json: answer });
  };
  await page.locator('#kept-count').click();
  await row('events').filter({ hasText: /≥ 100[.,]000/ }).waitFor();
  await page.screenshot({ path: join(SHOTS, `retention-${language}.png`), fullPage: true });
  await page.finish();
});

test('a relay is paused and resumed', LIMIT, async () => {
  const page = await openSignedIn('#relays');
  const row = page.locator('#relays tr[data-key=events]');
  await row.getByRole('button', { name: 'Pause' }).click();
  await page.locator('#messages', { hasText: 'events is paused' }).waitFor();
  await row.locator('.badge', { hasText: 'paused' }).waitFor();
  await accessible(page, 'a relay that is paused');
  await row.getByRole('button', { name: 'Resume' }).click();
  await row.locator('.badge', { hasText: 'running' }).waitFor();
  await page.finish();
});

test('lists that come whole are sorted by their heads, filtered as one types, and given as a file', LIMIT, async () => {
  const name = `=Sorted ${Date.now()}`;
  for (const letter of ['b', 'c', 'a']) await operator('POST', 'admin/clients', { name: `${name}-${letter}` });
  const page = await openSignedIn('#clients');
  await page.locator('#clients-name').fill(name.toLowerCase());
  const rows = page.locator('#clients tbody .name');
  const shows = (order) => eventually(`the order ${order}`, async () => (await rows.allTextContents()).map((one) => one.at(-1)).join('') === order);
  const head = page.locator('#clients th').first();
  await eventually('three clients', async () => (await rows.count()) === 3);
  assert.match(page.url(), /name=/, 'the filter is in the address');
  await head.getByRole('button').click();
  await shows('abc');
  assert.equal(await head.getAttribute('aria-sort'), 'ascending');
  await head.getByRole('button').click();
  await shows('cba');
  await operator('POST', 'admin/clients', { name: `${name}-d` });
  await shows('dcba'); // the page looked again, and is sorted as before
  assert.equal(await head.getAttribute('aria-sort'), 'descending');
  const [file] = await Promise.all([page.waitForEvent('download'), page.locator('#clients-csv').click()]);
  const lines = readFileSync(await file.path(), 'utf8').trim().split('\r\n');
  assert.equal(lines.length, 5);
  assert.match(lines[0], /"clientId"/);
  assert.ok(lines[1].includes(`"'=Sorted`), 'no formula');
  await accessible(page, 'clients that are sorted');

  await page.goto(`${gateway.url}#integrations`);
  const breaker = page.locator('#breakers th').first();
  await breaker.getByRole('button').click();
  await eventually('breakers by name', async () => {
    const names = await page.locator('#breakers tbody .name').allTextContents();
    return await breaker.getAttribute('aria-sort') === 'ascending' && names.join() === [...names].sort().join();
  });
  await page.finish();
});

test('what moves does not where the system asks for less motion', LIMIT, async () => {
  const page = await openSignedIn('#clients');
  await page.locator('#client-new').waitFor();
  const moving = () => page.evaluate(() => [...document.querySelectorAll('*')].filter((node) => {
    const { transitionDuration, animationName } = getComputedStyle(node);
    return /[1-9]/.test(transitionDuration) || animationName !== 'none';
  }).length);
  assert.ok(await moving() > 0);
  await page.emulateMedia({ reducedMotion: 'reduce' });
  assert.equal(await moving(), 0);
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).scrollBehavior), 'auto');
  await page.finish();
});
