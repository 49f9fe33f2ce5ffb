// The console's pages for webhooks: from a subscription with its secret to deliveries, what was given up and its replay; and
// what a client uses of its limits.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, ask, eventually, gateway, openSignedIn, text } from './harness.mjs';

const fault = (body) => ask(`${gateway.sandbox}/_faults`, { body });
const heal = (path) => ask(`${gateway.sandbox}/_faults?path=${encodeURIComponent(path)}`, { method: 'DELETE' });
const admin = (path, options = {}) => ask(`${gateway.url}${path}`, { method: 'GET', headers: { 'X-Admin-Key': gateway.key }, ...options });
const received = (path) => ask(`${gateway.sandbox}/_received?path=${path}`, { method: 'GET' });
const body = (page) => page.locator('#webhooks-body');

test('a subscription: its secret once, a test that arrives signed, rotated, disabled, deleted', LIMIT, async () => {
  const url = `${gateway.sandbox}/webhooks/console`;
  const page = await openSignedIn('#clients', { allowed: [400] });
  await page.getByRole('link', { name: 'Webhooks of Browser' }).click();
  await page.locator('#webhooks-note', { hasText: 'subscriptions' }).waitFor();
  await page.getByRole('button', { name: 'New subscription' }).click();
  await page.locator('#webhook-url').fill('ftp://nowhere');
  await page.locator('#webhook-form [type=submit]').click();
  await page.locator('#webhook-url-error', { hasText: /\S/ }).waitFor();
  await page.locator('#webhook-url').fill(url);
  await page.locator('#webhook-events label', { hasText: 'TicketFailed' }).click();
  await page.locator('#webhook-form [type=submit]').click();
  await page.locator('#secret-value', { hasText: /^whsec_\S{40}/ }).waitFor();
  const first = await text(page, '#secret-value');
  assert.equal(await page.locator('#secret-curl').isVisible(), false);
  await ask(`${gateway.sandbox}/_config`, { method: 'PUT', body: { webhookSecrets: { '/webhooks/console': first } } });
  await page.getByRole('button', { name: 'I have stored it' }).click();
  await eventually('it to be gone from the page', async () => (await text(page, '#secret-value')) === '');

  const row = body(page).locator('[data-subscription]', { hasText: url });
  await row.locator('.tag', { hasText: 'TicketFailed' }).waitFor();
  assert.equal(await row.locator('.tag').count(), 3);
  await row.getByRole('link').click();
  await page.getByRole('button', { name: 'Test', exact: true }).click();
  const delivery = body(page).locator('[data-delivery]', { hasText: 'Test' });
  await delivery.locator('td > .badge', { hasText: 'Sent' }).waitFor();
  await eventually('the receiver to have verified it', async () => (await received('/webhooks/console')).some((r) => r.verified === true));
  await delivery.locator('summary', { hasText: '1 attempt' }).click();
  await delivery.locator('.attempts', { hasText: 'HTTP 200' }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'webhooks-subscription.png'), fullPage: true });

  await page.getByRole('button', { name: 'Rotate secret' }).click();
  await page.locator('#webhook-rotate-form [type=submit]').click();
  await page.locator('#secret-value', { hasText: /^whsec_\S{40}/ }).waitFor();
  assert.notEqual(await text(page, '#secret-value'), first);
  await page.getByRole('button', { name: 'I have stored it' }).click();
  await page.locator('#webhooks-subscription', { hasText: /valid until\s*\d{4}-/ }).waitFor();

  await page.getByRole('button', { name: 'Disable' }).click();
  await page.locator('#webhooks-subscription .badge', { hasText: 'Disabled' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Test', exact: true }).count(), 0);
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.locator('#webhooks-subscription .badge', { hasText: 'Active' }).waitFor();

  await page.getByRole('button', { name: 'Delete' }).click();
  await page.locator('#webhook-delete-form [type=submit]').click();
  await page.locator('#webhooks-title', { hasText: gateway.clientId }).waitFor();
  await eventually('the list without it', async () => (await row.count()) === 0);
  await page.finish();
});

test('what was given up is shown with its reason, and replayed', LIMIT, async () => {
  const target = '/webhooks/dead';
  const made = await admin(`clients/${gateway.clientId}/webhooks`, { method: 'POST', body: { url: `${gateway.sandbox}${target}` } });
  const failures = async () => (await admin(`admin/webhook-failures?subscriptionId=${made.id}`)).items;
  await fault({ path: target, status: 503 });
  await admin(`clients/${gateway.clientId}/webhooks/${made.id}/test`, { method: 'POST' });
  await eventually('it to be given up', async () => (await failures()).length === 1);
  const page = await openSignedIn('#webhooks');
  const row = body(page).locator('[data-failure]', { hasText: 'dead' });
  await row.locator('.reason', { hasText: '503' }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'webhooks-failures.png'), fullPage: true });
  await heal(target);
  await row.getByRole('button', { name: 'Replay' }).click();
  await page.locator('#messages', { hasText: 'is to be sent again' }).waitFor();
  await row.locator('[data-label=Replayed] time').waitFor();
  await row.getByRole('link').click();
  await body(page).locator('[data-delivery] td > .badge', { hasText: 'Sent' }).waitFor();
  await page.locator('#webhooks-status').selectOption('Error');
  await eventually('the first one', async () => (await body(page).locator('[data-delivery]').count()) === 1);

  // All that is left, which is nothing.
  await page.goto(`${gateway.url}#webhooks`);
  await page.getByRole('button', { name: 'Replay all' }).click();
  await page.locator('#webhook-replay-form [type=submit]').click();
  await page.locator('#messages', { hasText: /\d+ deliver\w+ (is|are) to be sent again/ }).waitFor();
  await page.locator('#webhooks-client').fill(gateway.clientId);
  await page.keyboard.press('Enter');
  await body(page).locator(`[data-subscription="${made.id}"]`).waitFor();
  await admin(`clients/${gateway.clientId}/webhooks/${made.id}`, { method: 'DELETE' });
  await page.finish();
});

test('limits and use of a client', LIMIT, async () => {
  await admin(`admin/clients/${gateway.clientId}/policy`, { method: 'PUT', body: { maxBatchPerDay: 5000, tempStorageQuotaMb: 500 } });
  const page = await openSignedIn('#clients');
  await page.getByRole('link', { name: 'Usage of Browser' }).click();
  await page.locator('#usage-title', { hasText: gateway.clientId }).waitFor();
  const tile = (name) => page.locator(`[data-usage="${name}"]`);
  await tile('Batches today').filter({ hasText: /\d+of 5,000, anew in/ }).waitFor();
  await tile('Temporary storage').filter({ hasText: 'of 500 MiB' }).waitFor();
  assert.match(await tile('Requests in the last minute').textContent(), /\dno limit/);
  assert.equal(await page.locator('#usage meter').count(), 2);
  await page.screenshot({ path: join(SHOTS, 'usage.png'), fullPage: true });
  await admin(`admin/clients/${gateway.clientId}/policy`, { method: 'PUT', body: { maxBatchPerDay: null, tempStorageQuotaMb: null } });
  await page.finish();
});
