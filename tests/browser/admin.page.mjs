// What needs the server's newer calls: alerts acknowledged and silenced, maintenance windows, one delivery of a webhook sent again, its
// failures replayed by the client.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, ask, eventually, gateway, openSignedIn } from './harness.mjs';
import { fault, heal } from './gateway.mjs';

const operator = (method, path, body) => ask(`${gateway.url}${path}`, { method, headers: { 'X-Admin-Key': gateway.key }, body });
const own = (method, path, body) => ask(`${gateway.url}${path}`, { method, headers: gateway.headers, body });
const received = (path) => ask(`${gateway.sandbox}/_received?path=${path}`, { method: 'GET' });

test('an alert has a way to what it is about, is acknowledged with a note, taken back, silenced, and the silence ended', LIMIT, async () => {
  const hooks = `clients/${gateway.clientId}/webhooks`;
  await fault({ path: '/webhooks/quiet', status: 410 });
  const { id } = await operator('POST', hooks, { url: `${gateway.sandbox}/webhooks/quiet` });
  await operator('POST', `${hooks}/${id}/test`);
  const page = await openSignedIn('#alerts?status=firing', { allowed: [400] });
  const row = page.locator('tr[data-alert]', { hasText: id });
  await row.getByRole('button', { name: 'Acknowledge' }).click();
  await page.locator('#acknowledge-note').fill('I call them');
  await page.locator('#acknowledge-form [type=submit]').click();
  await row.filter({ hasText: /acknowledged by admin.*I call them/ }).waitFor();
  assert.match(await row.getByRole('link', { name: 'See' }).getAttribute('href'), /^#/);
  await row.getByRole('button', { name: 'Take back' }).click();
  await row.getByRole('button', { name: 'Acknowledge' }).waitFor();

  await row.getByRole('button', { name: 'Silence' }).click();
  assert.equal(await page.locator('#silence-rule').inputValue(), 'WebhookFailing');
  await page.locator('#silence-form [type=submit]').click();
  await page.locator('#silence-reason-error', { hasText: /\S/ }).waitFor();
  await page.locator('#silence-reason').fill('They migrate tonight');
  await page.locator('#silence-hours').selectOption('24');
  await page.locator('#silence-form [type=submit]').click();
  const silence = page.locator('tr[data-silence]', { hasText: 'They migrate tonight' });
  await silence.filter({ hasText: 'in 23 h' }).waitFor();
  await accessible(page, 'alerts with a silence');
  await page.screenshot({ path: join(SHOTS, 'silences.png'), fullPage: true });
  await silence.getByRole('button', { name: 'End it' }).click();
  await silence.waitFor({ state: 'detached' });
  await operator('DELETE', `${hooks}/${id}`);
  await heal();
  await page.finish();
});

test('maintenance windows of the server and of a client', LIMIT, async () => {
  await operator('PUT', `admin/clients/${gateway.clientId}/policy`, { maintenanceWindow: 'Sun 02:00-04:00' });
  const page = await openSignedIn('#maintenance');
  const row = page.locator(`tr[data-whose="${gateway.clientId}"]`);
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
    await page.locator('[data-delivery] td > .badge', { hasText: 'Error' }).waitFor();
    await page.locator('[data-delivery] a.name').click();
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
