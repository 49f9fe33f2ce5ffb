// The figures on the first page and the time line on a document's page, in both languages.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, SHOTS, ask, eventually, gateway, openSignedIn } from './harness.mjs';

const fresh = (prefix) => `${prefix}_${randomUUID().slice(0, 8)}`;
const admin = (path) => ask(`${gateway.url}admin/${path}`, { method: 'GET', headers: { 'X-Admin-Key': gateway.key } });

async function processed(doc) {
  const { id } = await ask(`${gateway.url}api/tickets`, {
    headers: gateway.headers,
    body: {
      businessEntity: 'TCK', businessDocId: doc, companyCode: '0050', branchCode: '1', destinationCode: 'D7', phaseCode: 15, shipmentEvent: 'RCD',
      functionalAckIsRequired: true, targetApplicationCode: 'ASB',
    },
  });
  await eventually(`${doc} to arrive`, async () => (await admin(`timeline/ticket/${id}`)).entries.some((e) => e.subject === 'ticket-gateway' && e.outcome === 'Sent'));
  return id;
}

test('the first page draws the figures, with what happened and a text for those who do not see', LIMIT, async () => {
  await processed(fresh('FIGURE'));
  await eventually('the figures', async () => (await admin('series?metric=accepted')).points.some((p) => p.value > 0));
  const page = await openSignedIn('#overview', { allowed: [] });
  const accepted = page.locator('figure[data-metric="accepted"]');
  await accepted.waitFor();
  assert.ok(Number(await accepted.getAttribute('data-figure')) > 0);
  assert.equal(await page.locator('#series-body figure').count(), 4);
  assert.match(await accepted.locator('svg').getAttribute('aria-label'), /^Accepted: [\d,]+ in all, at most/);
  assert.ok((await accepted.locator('path.bars').getAttribute('d')).startsWith('M'));
  await page.locator('#series-body li[data-mark]').first().waitFor();
  assert.ok(await accepted.locator('line.tick').count() > 0);
  await page.locator('#series-range').selectOption('week');
  await eventually('the figures of a week', async () => /in all/.test(await accepted.locator('svg').getAttribute('aria-label')));
  await page.screenshot({ path: join(SHOTS, 'series.png'), fullPage: true });
  await page.locator('#language-button').click();
  await page.locator('figure[data-metric="accepted"] figcaption', { hasText: 'Aceitos' }).waitFor();
  await page.finish();
});

test('a document’s page unfolds its time line', LIMIT, async () => {
  const doc = fresh('LINE');
  const id = await processed(doc);
  const page = await openSignedIn(`#alltickets?id=${id}`, { allowed: [] });
  await page.locator('#timeline summary').click();
  await page.locator('#timeline tr[data-event="Received"]').waitFor();
  const sent = page.locator('#timeline tr[data-event="Attempt"]', { hasText: `ticket-gateway ${id}` });
  assert.match(await sent.first().textContent(), /200/);
  await page.screenshot({ path: join(SHOTS, 'timeline.png'), fullPage: true });
  await page.goto(`${gateway.url}#outbox?${new URLSearchParams({ channel: 'ticket-gateway', id })}`);
  await page.reload();
  await page.locator('#timeline summary').click();
  await page.locator('#timeline tr[data-event="Processed"]').waitFor();
  await page.finish();
});
