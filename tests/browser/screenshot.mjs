// The picture of the console in the README: a server with some traffic and a ticket that failed.
//
//   node tests/browser/screenshot.mjs        writes docs/console.png
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, ROOT, ask, eventually, gateway, openSignedIn, text } from './harness.mjs';

test('docs/console.png', LIMIT, async () => {
  const ticket = (n) => ask(`${gateway.url}api/tickets`, {
    headers: gateway.headers,
    body: {
      businessEntity: 'TCK', businessDocId: `T_${n}`, phaseCode: 15, companyCode: '01', branchCode: '0050', destinationCode: 'SANTOS',
      shipmentEvent: 'RCD', targetApplicationCode: 'ASB',
    },
  });
  for (let n = 0; n < 40; n++) await ticket(1000 + n);
  const page = await openSignedIn('#overview', { width: 1280, height: 900 });
  let on = true;
  const read = async () => {
    while (on) {
      await fetch(`${gateway.url}api/tickets?businessEntity=TCK&businessDocId=T_1000`, { headers: gateway.headers }).then((r) => r.arrayBuffer());
      await new Promise((next) => setTimeout(next, 10 + 20 * Math.random()));
    }
  };
  const readers = [read(), read(), read()];
  await eventually('throughput', async () => Number.parseFloat((await text(page, '#rate')).replace(',', '')) > 5);
  for (let n = 0; n < 60; n++) {
    await ticket(2000 + n);
    await new Promise((next) => setTimeout(next, 400));
  }
  await page.screenshot({ path: join(ROOT, 'docs/console.png') });
  on = false;
  await Promise.all(readers);
  await page.finish();
});
