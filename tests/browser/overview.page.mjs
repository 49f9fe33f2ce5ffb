// The first page, the HTTP routes and the first steps.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, accessible, bare, demo, eventually, gateway, open, openSignedIn, text, traffic } from './harness.mjs';
import { admin, clean, fresh, heal, post, processed, ticketOf } from './gateway.mjs';

test('shows readiness, each check, the back end and the version, also to those who are not signed in', LIMIT, async () => {
  const page = await open(demo);
  await page.locator('#state[data-state=ok]').waitFor();
  assert.equal(await text(page, '#state'), 'Ready');
  await eventually('the version', async () => /^\d+\.\d+\.\d+$/.test(await text(page, '#version')));
  await page.locator('#backend', { hasText: 'SQLite' }).waitFor();
  assert.deepEqual(await page.locator('#checks .badge').allTextContents(), ['database', 'schema', 'disk', 'locks']);
  await eventually('uptime', async () => /\d+ (s|min|h)/.test(await text(page, '#uptime')));
  await page.locator('[data-gate=more] button').waitFor();
  await accessible(page, 'overview, not signed in');
  await page.finish();
});

test('tells of maintenance that is to come', LIMIT, async () => {
  const page = await open(bare);
  await page.locator('.banner', { hasText: 'Maintenance: no files will be accepted from' }).waitFor();
  assert.match(await page.locator('.banner time').first().getAttribute('datetime'), /^2099-11-20T02:00/);
  await page.finish();
});

test('draws the figures, with what happened and a text for those who do not see', LIMIT, async () => {
  await processed(fresh('FIGURE'));
  await eventually('the figures', async () => (await admin('series?metric=accepted')).points.some((p) => p.value > 0));
  const page = await openSignedIn('#overview', { allowed: [] });
  const accepted = page.locator('figure[data-metric="accepted"]');
  await accepted.waitFor();
  assert.ok(Number(await accepted.getAttribute('data-figure')) > 0);
  assert.equal(await page.locator('#series figure').count(), 4);
  assert.match(await accepted.locator('svg').getAttribute('aria-label'), /^Accepted: [\d,]+ in all, at most/);
  assert.ok((await accepted.locator('path.bars').getAttribute('d')).startsWith('M'));
  await page.locator('#series li[data-mark]').first().waitFor();
  assert.ok(await accepted.locator('line.tick').count() > 0);
  await page.locator('#window').selectOption('week');
  await eventually('the figures of a week', async () => /in all/.test(await accepted.locator('svg').getAttribute('aria-label')));
  await page.screenshot({ path: join(SHOTS, 'series.png'), fullPage: true });
  await page.finish();
  const pt = await openSignedIn('#overview', { language: 'pt' });
  await pt.locator('figure[data-metric="accepted"] figcaption', { hasText: 'Aceitos' }).waitFor();
  await pt.screenshot({ path: join(SHOTS, 'overview-pt.png'), fullPage: true });
  await pt.finish();
});

test('throughput, latency and routes follow the requests, without those of the console itself', LIMIT, async () => {
  const page = await openSignedIn('#routes', { server: demo });
  await eventually('a first figure', async () => (await text(page, '#rate')) !== '–');
  const stop = traffic(demo, 'imports?pageSize=1');
  await eventually('throughput', async () => Number.parseFloat((await text(page, '#rate')).replace(',', '')) > 5);
  await eventually('latency', async () => /(µs|ms|s)$/.test(await text(page, '#p99')));
  await page.locator('#routes tbody tr', { hasText: '/imports' }).first().waitFor();
  await eventually('a line in the chart', async () => /L/.test((await page.locator('#chart .stroke').getAttribute('d')) || ''));
  await eventually('4xx', async () => /4xx [1-9]/.test(await text(page, '#errors-note')));
  await eventually('memory', async () => /iB$/.test(await text(page, '#memory')));
  await page.screenshot({ path: join(SHOTS, 'routes.png'), fullPage: true });
  await stop();
  await eventually('rest', async () => (await text(page, '#rate')) === '0');
  const cut = await page.locator('.scroll').evaluate((e) => e.scrollWidth - e.clientWidth);
  assert.ok(cut <= 0, `${cut} pixels of the routes are out of sight`);
  await page.finish();
});

test('first steps: a client, a ticket that arrives, a file, and a sandbox that breaks and recovers', LIMIT, async () => {
  await clean();
  const page = await openSignedIn('#start', { as: 'client', allowed: [] });
  await page.locator('#send-ticket').click();
  await page.locator('#sample-ticket [data-step=callback] .badge', { hasText: 'Success' }).waitFor();
  await page.locator('#send-file').click();
  await page.locator('#sample-file .badge', { hasText: 'Completed' }).waitFor();

  await page.locator('#sandbox-switch').click();
  await page.locator('#sandbox-state', { hasText: 'answers 503' }).waitFor();
  await page.locator('#send-ticket').click();
  await page.locator('#sample-ticket [data-step=gateway] .reason', { hasText: '503' }).waitFor();
  await page.screenshot({ path: join(SHOTS, 'start-broken.png'), fullPage: true });
  await page.locator('#sandbox-switch').click();
  await page.locator('#sandbox-state', { hasText: 'The gateway answers.' }).waitFor();
  await eventually('the focus', async () => (await page.evaluate(() => document.activeElement.id)) === 'sandbox-switch');
  await page.finish();
  await clean();
});

test('first steps of an administrator: a client is made and used here', LIMIT, async () => {
  const page = await openSignedIn('#start', { allowed: [404, 403] });
  await page.locator('#make-client').click();
  await page.locator('#send-ticket').click();
  await page.locator('#sample-ticket [data-step=processing] .badge', { hasText: 'Processed' }).waitFor();
  await page.locator('#sample-ticket a').first().click();
  await page.locator('#title', { hasText: 'SAMPLE-' }).waitFor();
  await page.finish();
});

test('a client sees which of its imports need it', LIMIT, async () => {
  const name = `${fresh('needs')}.csv`;
  const form = new FormData();
  form.append('file', new Blob(['Telefone\n11 98765-4321\n1\n']), name);
  assert.equal((await fetch(`${gateway.url}imports`, { method: 'POST', headers: gateway.headers, body: form })).status, 202);
  await eventually('the import to end', async () => (await admin(`imports?fileName=${name}`)).items[0].status === 'CompletedWithErrors');
  const page = await openSignedIn('#overview', { as: 'client' });
  const item = page.locator('.needs li', { hasText: `${name}: 1 record was not imported` });
  await item.getByRole('link').click();
  await page.locator('#title', { hasText: name }).waitFor();
  await page.finish();
});

for (const [scheme, device, width] of [['light', 'desk', 1280], ['dark', 'phone', 390]]) {
  test(`overview, routes and first steps are accessible and fit: ${scheme}, ${device}`, LIMIT, async () => {
    await heal();
    for (const [as, hash, sign] of [['admin', '#overview', '#series figure'], ['client', '#overview', '#series figure'], ['admin', '#routes', '#routes tbody tr'], ['client', '#start', '#sandbox-switch'], ['admin', '#start', '#make-client']]) {
      const page = await openSignedIn(hash, { as, scheme, width });
      await page.locator(sign).first().waitFor();
      await page.screenshot({ path: join(SHOTS, `${hash.slice(1)}-${as}-${device}.png`), fullPage: true });
      await accessible(page, `${hash} ${as}`);
      await page.finish();
    }
  });
}

test('a client sees that its tickets could not be processed, and what became of a switch that failed', LIMIT, async () => {
  const doc = fresh('WRONG');
  const { id } = await post(doc, { phaseCode: 6 }); // whose weights are missing
  await eventually('in error', async () => (await ticketOf(id)).status === 'Error');
  const page = await openSignedIn('#overview', { as: 'client', allowed: [503] });
  const item = page.locator('.needs li', { hasText: 'could not be processed' });
  await item.waitFor();
  await item.getByRole('link').click();
  await page.locator('#tickets-table', { hasText: doc }).waitFor();
  assert.match(page.url(), /#tickets\?status=Error$/);

  await page.goto(`${gateway.url}#start`);
  await page.route('**/_faults', (route) => (route.request().method() === 'GET' ? route.fallback() : route.fulfill({ status: 503, contentType: 'application/problem+json', json: { title: 'Busy', detail: 'Try later.' } })));
  await page.locator('#sandbox-switch').click();
  await page.locator('#messages [role=alert]', { hasText: 'Try later.' }).waitFor();
  assert.equal(await page.locator('#sandbox-switch').getAttribute('aria-checked'), 'false');
  await page.finish();
});
