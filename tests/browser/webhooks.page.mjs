// Webhooks: a client alone, from a subscription with its secret to deliveries; the administrator with what was given up of all clients.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, ask, eventually, gateway, openSignedIn, text } from './harness.mjs';
import { saying } from './console.mjs';
import { fault } from './gateway.mjs';

const heal = (path) => ask(`${gateway.sandbox}/_faults?path=${encodeURIComponent(path)}`, { method: 'DELETE' });
const own = (path, options = {}) => ask(`${gateway.url}${path}`, { method: 'GET', headers: gateway.headers, ...options });
const operator = (path, options = {}) => ask(`${gateway.url}${path}`, { method: 'GET', headers: { 'X-Admin-Key': gateway.key }, ...options });
const received = (path) => ask(`${gateway.sandbox}/_received?path=${path}`, { method: 'GET' });
const stored = (page) => page.locator('#secret-dialog [type=submit]').click();

for (const [as, language] of [['client', 'en'], ['client', 'pt'], ['admin', 'en']]) {
  test(`a webhook as ${as}, ${language}: its secret once, edited, a test that arrives signed, rotated, disabled, deleted`, LIMIT, async () => {
    const say = saying(language);
    const target = `/webhooks/console-${as}-${language}`;
    const url = `${gateway.sandbox}${target}`;
    const allowed = [400];
    const page = await openSignedIn(as === 'client' ? '#webhooks' : `#clients/${gateway.clientId}`, { as, language, allowed });
    if (as === 'admin') await page.locator('.page').getByRole('link', { name: 'Webhooks', exact: true }).click();
    await page.locator('#webhook-new').click();
    await page.locator('#webhook-url').fill('ftp://nowhere');
    await page.locator('#webhook-form [type=submit]').click();
    await page.locator('#webhook-url-error', { hasText: /\S/ }).waitFor();
    await page.locator('#webhook-url').fill(url);
    await page.locator('#webhook-events label', { hasText: 'TicketFailed' }).click();
    await page.locator('#webhook-form [type=submit]').click();
    await page.locator('#secret-value', { hasText: /^whsec_\S{40}/ }).waitFor();
    const first = await text(page, '#secret-value');
    for (let i = 0; i < 3; i++) await page.keyboard.press('Escape');
    assert.equal(await text(page, '#secret-value'), first, 'it stays until it is acknowledged');
    await ask(`${gateway.sandbox}/_config`, { method: 'PUT', body: { webhookSecrets: { [target]: first } } });
    await stored(page);
    await eventually('it to be gone from the page', async () => !(await page.content()).includes(first));

    const row = page.locator('#webhooks tbody tr', { hasText: url });
    await row.locator('.tag', { hasText: 'TicketFailed' }).waitFor();
    assert.equal(await row.locator('.tag').count(), 3);
    await row.getByRole('link').click();
    await page.locator('#webhook-test').click();
    const delivery = page.locator('#deliveries-table tbody tr', { hasText: 'Test' });
    await delivery.locator('td > .badge', { hasText: say('state.Sent') }).waitFor();
    await eventually('the receiver to have verified it', async () => (await received(target)).some((r) => r.verified === true));
    await delivery.locator('summary', { hasText: language === 'pt' ? '1 tentativa' : '1 attempt' }).click();
    await delivery.locator('.attempts', { hasText: 'HTTP 200' }).waitFor();
    await accessible(page, 'a webhook');
    await page.screenshot({ path: join(SHOTS, `webhook-${as}.png`), fullPage: true });

    await page.locator('#webhook-edit').click();
    assert.equal(await page.locator('#webhook-url').inputValue(), url, 'as it is');
    await page.locator('#webhook-url').fill(`${url}?edited=1`);
    await page.locator('#webhook-events label', { hasText: 'BatchStarted' }).click();
    await page.locator('#webhook-form [type=submit]').click();
    await page.locator('#title', { hasText: 'edited=1' }).waitFor();
    await page.locator('#webhook-about .tag', { hasText: 'BatchStarted' }).waitFor();

    await page.locator('#webhook-rotate').click();
    await page.locator('#webhook-rotate-form [type=submit]').click();
    await page.locator('#secret-value', { hasText: /^whsec_\S{40}/ }).waitFor();
    assert.notEqual(await text(page, '#secret-value'), first);
    await stored(page);
    await page.locator('#webhook-about', { hasText: new RegExp(`${say('wh.oldSecret')}\\s*\\d{4}-`) }).waitFor();

    await page.getByRole('button', { name: say('wh.disable') }).click();
    await page.locator('#webhook-about .badge', { hasText: say('state.Disabled') }).waitFor();
    assert.equal(await page.locator('#webhook-test').count(), 0);
    await page.getByRole('button', { name: say('wh.enable'), exact: true }).click();
    await page.locator('#webhook-about .badge', { hasText: say('state.Enabled') }).waitFor();

    allowed.push(404); // a look that is under way finds it gone
    await page.getByRole('button', { name: say('wh.delete') }).click();
    await page.locator('#webhook-delete-form [type=submit]').click();
    await page.locator('#messages', { hasText: say('wh.deleted') }).waitFor();
    await page.locator('#webhook-new').waitFor();
    await eventually('the list without it', async () => (await row.count()) === 0);
    await page.finish();
  });
}

for (const as of ['client', 'admin']) {
  test(`a new secret that waits is fetched as ${as}, and shown until it is acknowledged`, LIMIT, async () => {
    const made = await own(`clients/${gateway.clientId}/webhooks`, { method: 'POST', body: { url: `${gateway.sandbox}/webhooks/waiting`, autoRotate: true } });
    const page = await openSignedIn(`#webhooks/${gateway.clientId}/${made.id}`, { as });
    await page.locator('#webhook-rotate').waitFor();
    assert.equal(await page.locator('#webhook-fetch').count(), 0, 'none waits');
    // Rotation takes a day at least; what the server says is told a little earlier.
    await page.route(`**/webhooks/${made.id}`, async (route) => {
      const answer = await (await route.fetch()).json();
      await route.fulfill({ json: { ...answer, nextSecretAt: answer.createdAt } });
    });
    await page.locator('#webhook-fetch').click();
    await page.locator('#webhook-fetch-form [type=submit]').click();
    await page.locator('#secret-value', { hasText: /^whsec_\S{40}/ }).waitFor();
    assert.equal(await text(page, '#secret-value'), made.secret, 'as the server has it');
    await page.keyboard.press('Escape');
    await page.locator('#secret-value').waitFor();
    await accessible(page, 'a secret that was fetched');
    await stored(page);
    await eventually('it to be gone from the page', async () => !(await page.content()).includes(made.secret));
    await page.finish(); // and looks no more
    await own(`clients/${gateway.clientId}/webhooks/${made.id}`, { method: 'DELETE' });
  });
}

test('what was given up is shown with its reason, in a file too, and replayed', LIMIT, async () => {
  const target = '/webhooks/dead';
  const made = await own(`clients/${gateway.clientId}/webhooks`, { method: 'POST', body: { url: `${gateway.sandbox}${target}` } });
  const failures = async () => (await operator(`admin/webhook-failures?subscriptionId=${made.id}`)).items;
  await fault({ path: target, status: 503 });
  await own(`clients/${gateway.clientId}/webhooks/${made.id}/test`, { method: 'POST' });
  await eventually('it to be given up', async () => (await failures()).length === 1);
  const page = await openSignedIn('#webhooks');
  const row = page.locator('#failures-table tbody tr', { hasText: 'dead' });
  await row.locator('.reason', { hasText: '503' }).waitFor();
  await accessible(page, 'what was given up');
  const [file] = await Promise.all([page.waitForEvent('download'), page.locator('#failures-csv').click()]);
  assert.equal(file.suggestedFilename(), 'failures.csv');
  const [head, ...lines] = readFileSync(await file.path(), 'utf8').trim().split('\r\n');
  assert.match(head, /^"id",/);
  assert.ok(lines.some((line) => line.includes(made.id) && line.includes(target)), lines.join('\n'));
  await page.screenshot({ path: join(SHOTS, 'webhooks-failures.png'), fullPage: true });
  await heal(target);
  await row.getByRole('button', { name: 'Replay' }).click();
  await page.locator('#messages', { hasText: 'is to be sent again' }).waitFor();
  await row.locator('[data-label=Replayed] time').waitFor();
  await row.getByRole('link').click();
  await page.locator('#deliveries-table tbody tr td > .badge', { hasText: 'Sent' }).waitFor();
  await page.locator('#deliveries-status').selectOption('Error');
  await eventually('the first one', async () => (await page.locator('#deliveries-table tbody tr').count()) === 1);

  // All that is left, which is nothing; then the subscriptions of the client that is filtered for.
  await page.goto(`${gateway.url}#webhooks`);
  await page.locator('#webhooks-replay').click();
  await page.locator('#webhook-replay-form [type=submit]').click();
  await page.locator('#messages', { hasText: /\d+ deliver\w+ (is|are) to be sent again/ }).waitFor();
  await page.locator('#failures-clientId').fill(gateway.clientId);
  await page.keyboard.press('Enter');
  await page.locator('#webhooks-of').click();
  await page.locator(`tr[data-key="${made.id}"]`).waitFor();
  await page.finish();
  await own(`clients/${gateway.clientId}/webhooks/${made.id}`, { method: 'DELETE' });
});

for (const language of ['en', 'pt']) test(`a failure that nobody wants any more is dismissed: ${language}`, LIMIT, async () => {
  const say = saying(language);
  const target = `/webhooks/dropped-${language}`;
  const made = await own(`clients/${gateway.clientId}/webhooks`, { method: 'POST', body: { url: `${gateway.sandbox}${target}` } });
  await fault({ path: target, status: 503 });
  await own(`clients/${gateway.clientId}/webhooks/${made.id}/test`, { method: 'POST' });
  const page = await openSignedIn('#webhooks?replayed=false', { language });
  const row = page.locator('#failures-table tbody tr', { hasText: target });
  await row.getByRole('button', { name: say('wh.dismissOne') }).click();
  await page.locator('#messages', { hasText: say('wh.dismissDone') }).waitFor();
  await eventually('no button for it', async () => (await row.getByRole('button').count()) === 0);
  await heal(target);
  await page.finish();
  await own(`clients/${gateway.clientId}/webhooks/${made.id}`, { method: 'DELETE' });
});
