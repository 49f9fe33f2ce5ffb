// Each page in a made-up language: letters that are neither of the catalogue nor marked as what a server or a person wrote are a text that was forgotten.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMIT, ask, gateway, openSignedIn } from './harness.mjs';
import { admin, clean, fault as break_, fresh, heal, processed } from './gateway.mjs';

const NAMES = /^,? ?(DataFlow|UTC|HTTP( \d+)?|[\d.,]+ (d|h|min|s|ms|µs|[KMGT]?i?B)( \d+ (h|min|s))?|< 1 ms|4xx.*|\d\d:\d\d( [AP]M)?)$/;

const forgotten = (page) => page.evaluate((names) => {
  const found = [];
  const isName = (words) => new RegExp(names).test(words);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (parent.closest('[translate=no], script, style, noscript, code, pre, kbd, time:not([data-live])') || !parent.checkVisibility()) continue;
    const rest = node.data.replace(/⟦[^⟧]*⟧/g, '').trim();
    if (/\p{L}{2,}/u.test(rest) && !isName(rest)) found.push(rest);
  }
  for (const name of ['aria-label', 'placeholder']) {
    for (const node of document.querySelectorAll(`[${name}]`)) {
      const words = node.getAttribute(name);
      if (/\p{L}{2,}/u.test(words) && !words.includes('⟦') && !isName(words) && node.translate) found.push(`${name}: ${words}`);
    }
  }
  return found;
}, NAMES.source);

async function check(hashes, options) {
  const all = {};
  for (const hash of hashes) {
    const page = await openSignedIn(hash, { language: 'zz', allowed: [401, 403, 404], ...options });
    await page.locator('#title').waitFor();
    await page.waitForLoadState('networkidle');
    const found = await forgotten(page);
    if (found.length) all[hash] = [...new Set(found)];
    await page.finish();
  }
  assert.deepEqual(all, {});
}

test('no text of an administrator’s pages is forgotten', LIMIT, async () => {
  await clean();
  await break_({ path: '/gateway/returns', status: 422 });
  const id = await processed(fresh());
  await heal();
  const form = new FormData();
  form.append('file', new Blob(['Telefone\n11 98765-4321\n1\n']), 'texts.csv');
  const { batchId } = await fetch(`${gateway.url}imports`, { method: 'POST', headers: gateway.headers, body: form }).then((answer) => answer.json());
  const [{ id: row }] = (await admin('outbox/ticket-return?pageSize=1')).items;
  await check(['#overview', '#tickets', `#tickets/${id}`, '#imports', `#imports/${batchId}`, '#outbox', '#outbox/ticket-return', `#outbox/ticket-return/${row}`, '#search?q=TCK', '#routes', '#start',
    '#webhooks', '#alerts', '#relays', '#integrations', '#clients', `#clients/${gateway.clientId}`, '#maintenance', '#retention', '#audit', '#versions']);
});

test('no text of a client’s pages is forgotten', LIMIT, async () => {
  await ask(`${gateway.url}clients/${gateway.clientId}/webhooks`, { headers: gateway.headers, body: { url: `${gateway.sandbox}/webhooks/texts`, events: ['BatchCompleted'] } });
  await check(['#overview', '#start', '#imports', '#tickets', '#tickets?status=Processed', '#events', '#webhooks', '#usage'], { as: 'client' });
});
