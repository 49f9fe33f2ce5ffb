// Each page in a made-up language: letters that are neither of the catalogue nor marked as what a server or a person wrote are a text that was forgotten.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIMIT, ROOT, ask, eventually, gateway, openSignedIn } from './harness.mjs';
import { catalogue } from './console.mjs';
import { admin, clean, fault as break_, fresh, heal, processed } from './gateway.mjs';

const NAMES = /^,? ?(DataFlow|UTC|HTTP( \d+)?|[\d.,]+ (d|h|min|s|ms|µs|[KMGT]?i?B)( \d+ (h|min|s))?|< 1 ms|[45]xx.*|req\/s|\d\d:\d\d( [AP]M)?)$/;

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

// Pages, or [page, the button of a dialog].
async function check(places, options) {
  const all = {};
  for (const [hash, button] of places.map((place) => [].concat(place))) {
    const page = await openSignedIn(hash, { language: 'zz', allowed: [401, 403, 404], ...options });
    await page.locator('#title').waitFor();
    await page.waitForLoadState('networkidle');
    if (button) {
      await page.locator(button).click();
      await page.locator('dialog[open]').waitFor();
    }
    const found = await forgotten(page);
    if (found.length) all[[hash, button].join(' ')] = [...new Set(found)];
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
    '#webhooks', '#alerts', '#relays', '#integrations', '#clients', `#clients/${gateway.clientId}`, '#maintenance', '#retention', '#audit', '#versions', `#webhooks/${gateway.clientId}`,
    ['#overview', '#account'], ['#clients', '#client-new'], [`#clients/${gateway.clientId}`, '#client-use'], [`#clients/${gateway.clientId}`, '#policy-reset'], ['#alerts', '#alerts-silence'], ['#webhooks', '#webhooks-replay']]);
});

test('no text of a client’s pages is forgotten', LIMIT, async () => {
  const hooks = `${gateway.url}clients/${gateway.clientId}/webhooks`;
  const own = (path, method) => ask(`${hooks}${path}`, { method, headers: gateway.headers });
  await break_({ path: '/webhooks/texts', status: 503 });
  const { id } = await ask(hooks, { headers: gateway.headers, body: { url: `${gateway.sandbox}/webhooks/texts`, events: ['BatchCompleted'] } });
  await own(`/${id}/test`, 'POST');
  const delivery = await eventually('an attempt', async () => (await own(`/${id}/deliveries`, 'GET')).items.find((d) => d.status === 'Error'));
  const hook = `#webhooks/${gateway.clientId}/${id}`;
  await check(['#overview', '#start', '#imports', '#imports/new', '#tickets', '#tickets?status=Processed', '#events', '#webhooks', '#usage', hook, `${hook}/${delivery.id}`,
    ['#webhooks', '#webhook-new'], [hook, '#webhook-edit'], [hook, '#webhook-rotate'], [hook, '#webhook-replay-these']], { as: 'client' });
  await own(`/${id}`, 'DELETE');
  await heal();
});

const read = (path) => readFileSync(join(ROOT, path), 'utf8');

// Audit entries that are never about a document, so that no time line has them.
const OTHERS = /^(Client|Policy|Webhook|ImportMapping|TicketsReprocessed$|OutboxRetriedAll$|Delivery(Paused|Resumed)$|Breaker|Alert|Audit|ListExported|Key|Subject|Purge|RetentionRan|PayloadsMasked|Backup|Database|Restore|ServerStarted|Denied)/;

test('whatever time lines name has a text', () => {
  const code = read('src/admin/timeline_api.c');
  const own = [...code.matchAll(/\.event\s*=([^;]*?)(?:,\s*(?:\.\w+|OF_\w+)|\))/gs)].flatMap(([, names]) => [...names.matchAll(/(?:^|[?:])\s*"(\w+)"/g)].map(([, name]) => name));
  assert.ok(own.length > 15 && own.includes('Queued') && own.includes('ProcessingFailed'), own.join());
  const [, table] = /## What is written\n([\s\S]*?)\n\n[^|]/.exec(read('docs/audit.md').replace('written\n\n', 'written\n'));
  const documented = [...table.matchAll(/^\| (.*?) \|/gm)].flatMap(([, names]) => [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name));
  const folders = readdirSync(join(ROOT, 'src'), { recursive: true }).filter((name) => name.endsWith('.c'));
  const written = folders.flatMap((name) => [...read(join('src', name)).matchAll(/audit\w*\(([^;]*);/gs)].flatMap(([, given]) => [...given.matchAll(/"([A-Z]\w+)"/g)].map(([, action]) => action)));
  assert.ok(written.includes('OutboxRetried') && written.includes('ImportCancelled'), written.join());
  const audited = [...new Set([...documented, ...written])].filter((name) => !OTHERS.test(name));
  const lacking = [...own, ...audited].map((name) => `event.${name}`);
  const states = /outcome_names\[\w+\] = \{([^}]*)\}/.exec(read('src/delivery/settle.c'))[1];
  const statuses = /names\[\] = \{("Pending",[^}]*)\}/.exec(code)[1];
  const outcomes = [...[...`${states}, ${statuses}`.matchAll(/"(\w+)"/g)].map(([, name]) => name), 'Stale', 'ok', 'failed', 'denied', 'Received', 'Success'];
  lacking.push(...outcomes.map((name) => `state.${name}`));
  assert.deepEqual(lacking.filter((key) => !catalogue[key]), []);
});

test('each rule of alerts can be silenced', () => {
  const rules = [...read('src/alerts/rules.c').matchAll(/\[ALERT_\w+\] = \{"(\w+)"/g)].map(([, name]) => name).sort();
  const offered = /const RULES = \[([^\]]*)\]/.exec(read('console/pages/alerts.js'))[1].match(/\w+/g).sort();
  assert.deepEqual(offered, rules);
});
