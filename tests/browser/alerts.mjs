// Alerts: the line on the start page, with the key and without, and their page; and maintenance on the start page.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, ask, bare, gateway, open, openSignedIn, text } from './harness.mjs';

const admin = (method, path, body) => ask(`${gateway.url}${path}`, { method, headers: { 'X-Admin-Key': gateway.key }, body });

test('an alert that fires is told on the start page, and is found on its own until it is over and after', LIMIT, async () => {
  const hooks = `clients/${gateway.clientId}/webhooks`;
  await ask(`${gateway.sandbox}/_faults`, { body: { path: '/webhooks/gone', status: 410 } });
  const { id } = await admin('POST', hooks, { url: `${gateway.sandbox}/webhooks/gone` });
  await admin('POST', `${hooks}/${id}/test`);

  const page = await openSignedIn('');
  const banner = page.locator('#overview-alerts .banner', { hasText: /alerts? fires?\. .*everity error: .*410 Gone/ });
  await banner.waitFor();
  await page.screenshot({ path: join(SHOTS, 'overview-alerts.png'), fullPage: true });
  const stranger = await open(gateway);
  await stranger.locator('#overview-alerts .banner', { hasText: /^\d+ alerts? fires?\. +Alerts$/ }).waitFor();
  await stranger.finish();
  await banner.getByRole('link').click();
  const row = page.locator('tr[data-alert]', { hasText: id });
  await row.locator('.badge', { hasText: 'firing' }).waitFor();
  await page.locator('#alerts-nowhere', { hasText: 'Nobody is told: neither alerts.pagerduty_routing_key nor alerts.teams_url is set.' }).waitFor();
  assert.match(await row.textContent(), /WebhookFailing/);

  await admin('DELETE', `${hooks}/${id}`);
  await row.waitFor({ state: 'detached' });
  await page.locator('#alerts-status').selectOption('resolved');
  await row.locator('.badge', { hasText: 'resolved' }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'alerts.png'), fullPage: true });
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(overflow <= 0, `${overflow} pixels too wide`);
  await page.locator('nav a', { hasText: 'Overview' }).click();
  await banner.waitFor({ state: 'detached' });
  await page.finish();
});

test('the start page tells of maintenance beforehand, and of no alert where none fires', LIMIT, async () => {
  const page = await open(bare);
  await page.locator('#overview-maintenance', { hasText: 'no files will be accepted from 2099-11-20 02:00:00.000 UTC to 2099-11-20 04:00:00.000 UTC' }).waitFor();
  assert.equal(await text(page, '#overview-alerts'), '');
  await page.finish();
});
