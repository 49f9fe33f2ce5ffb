// The pictures in docs/console.md and the README: a server with some traffic, documents that were given up, and a file.
//
//   node tests/browser/screenshot.mjs        writes docs/console*.png
import { join } from 'node:path';
import { test } from 'node:test';
import { LIMIT, ROOT, eventually, openSignedIn } from './harness.mjs';
import { admin, channelOf, fault, heal, post } from './gateway.mjs';

const shot = (page, name) => page.screenshot({ path: join(ROOT, 'docs', name), clip: { x: 0, y: 0, width: 1280, height: 740 } });

test('docs/console*.png', LIMIT, async () => {
  const ticket = (n) => post(`T_${n}`, { companyCode: '01', branchCode: '0050', destinationCode: 'SANTOS' });
  for (let n = 0; n < 120; n++) await ticket(1000 + n);
  await fault({ path: '/gateway/returns', status: 422 });
  for (let n = 0; n < 7; n++) await ticket(2000 + n);
  await eventually('given up', async () => (await channelOf('ticket-return')).givenUp === 7);
  await heal();
  await fault({ path: '/gateway/acks', status: 503 });
  for (let n = 0; n < 12; n++) await ticket(3000 + n);
  await eventually('a target that is away', async () => (await channelOf('functional-ack')).targets.some((target) => target.state === 'down'));
  await new Promise((next) => setTimeout(next, 4000));
  const sizes = { width: 1280, height: 800 };

  const page = await openSignedIn('#overview', sizes);
  await page.locator('.needs li').first().waitFor();
  await page.locator('#series figure').first().waitFor();
  await shot(page, 'console.png');

  await page.locator('#nav a[data-view=outbox]').click();
  await page.locator('tr[data-channel=ticket-return] a.name').click();
  await page.locator('.causes li').first().waitFor();
  await shot(page, 'console-outbox.png');

  const { id } = (await admin('tickets?businessDocId=T_2003')).items[0];
  await page.goto(`${page.url().split('#')[0]}#tickets/${id}`);
  await page.locator('#timeline [data-event=GivenUp]').waitFor();
  await shot(page, 'console-ticket.png');
  await page.finish();

  const client = await openSignedIn('#imports', { ...sizes, as: 'client', scheme: 'dark' });
  const rows = Array.from({ length: 40 }, (_, n) => `11 9${String(8765000 + n * 7).padStart(8, '0')};Ana ${n};Santos;${n % 9 ? 'ana@example.com' : ''}`);
  await client.locator('input[type=file]').setInputFiles({ name: 'leads.csv', mimeType: 'text/csv', buffer: Buffer.from(`Fone do cliente;Nome;Cidade;Contato\n${rows.join('\n')}\n123;Rui;Recife;\n`) });
  await client.waitForTimeout(2500);
  await shot(client, 'console-import.png');
  await heal();
  await client.finish();
});
