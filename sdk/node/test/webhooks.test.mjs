import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { signWebhook } from '@dataflow/sdk/testing';
import { verifyStoredWebhook, verifyWebhook, WebhookError } from '@dataflow/sdk/webhooks';

const secret = 'whsec_c2VjcmV0LW9mLWEtdGVzdC1vbmx5';
const other = 'whsec_YW5vdGhlci1zZWNyZXQtb2YtYS10ZXN0';
const payload = { event: 'BatchCompleted', clientId: 'a', batchId: 'b', status: 'Completed', note: 'é 🙂' };
const { body, headers } = signWebhook(payload, secret);
const own = (...names) => Object.fromEntries(names.map((name) => [name, headers[name]]));
const first = own('x-dataflow-timestamp', 'x-dataflow-signature');
const second = own('webhook-id', 'webhook-timestamp', 'webhook-signature');

test('a vector made by hand', () => {
  const t = '1700000000';
  const text = '{"event":"Test"}';
  const signature = createHmac('sha256', 'plain-secret-of-16').update(`${t}.${text}`).digest('hex');
  const event = verifyWebhook(text, { 'X-DataFlow-Timestamp': t, 'X-DataFlow-Signature': `v1=${signature}` }, 'plain-secret-of-16', { now: 1700000300 });
  assert.deepEqual(event, { event: 'Test' });
});

for (const [what, ...args] of [
  ['both schemes', body, headers, secret],
  ['bytes', Buffer.from(body), headers, secret],
  ['the first scheme', body, first, [secret]],
  ['the second scheme', body, second, [secret]],
  ['a secret that is being replaced', body, headers, [other, secret]],
  ['two signatures, the second right', body, { ...first, 'x-dataflow-signature': `v1=${'0'.repeat(64)}, ${headers['x-dataflow-signature']}` }, secret],
  ['two signatures of the second scheme', body, { ...second, 'webhook-signature': `v1,AAAA ${headers['webhook-signature']}` }, secret],
  ['one scheme wrong, one right', body, { ...second, 'x-dataflow-timestamp': headers['x-dataflow-timestamp'], 'x-dataflow-signature': 'v1=00' }, secret],
  ['names in any case', body, { 'Webhook-Id': headers['webhook-id'], 'WEBHOOK-TIMESTAMP': headers['webhook-timestamp'], 'Webhook-Signature': headers['webhook-signature'] }, secret],
  ['a Headers object', body, new Headers(headers), secret],
]) test(`taken: ${what}`, () => assert.equal(verifyWebhook(...args).batchId, 'b'));

const stale = signWebhook(payload, secret, { timestamp: Math.floor(Date.now() / 1000) - 301 });
for (const [what, ...args] of [
  ['another secret', body, headers, other],
  ['another body', body.replace('Completed', 'completed'), headers, secret],
  ['no headers', body, {}, secret],
  ['another id', body, { ...second, 'webhook-id': 'x' }, secret],
  ['an old one', stale.body, stale.headers, secret],
  ['one from the future', body, headers, secret, { now: Date.now() / 1000 - 400 }],
  ['a timestamp of another kind', body, { ...first, 'x-dataflow-timestamp': '1e9' }, secret],
  ['a timestamp that was changed', body, { ...first, 'x-dataflow-timestamp': String(Number(first['x-dataflow-timestamp']) - 1) }, secret],
  ['another version', body, { ...first, 'x-dataflow-signature': first['x-dataflow-signature'].replace('v1', 'v2') }, secret],
  ['an empty signature', body, { ...first, 'x-dataflow-signature': 'v1=' }, secret],
  ['a cut signature', body, { ...first, 'x-dataflow-signature': first['x-dataflow-signature'].slice(0, -2) }, secret],
]) test(`refused: ${what}`, () => assert.throws(() => verifyWebhook(...args), WebhookError));

test('a parsed body or no secret is a mistake of the program', () => {
  assert.throws(() => verifyWebhook(payload, headers, secret), TypeError);
  for (const secrets of [undefined, '', [], [undefined]]) assert.throws(() => verifyWebhook(body, headers, secrets), TypeError);
});

test('a stored body', () => {
  assert.equal(verifyStoredWebhook(body, [other, secret]).batchId, 'b');
  for (const bad of [body.replace('Completed', 'completed'), '{}', body + ',"signature":"00"}', '']) assert.throws(() => verifyStoredWebhook(bad, secret), WebhookError);
  assert.throws(() => verifyStoredWebhook(body, other), WebhookError);
});

test('it is small and loads nothing else', () => {
  const text = readFileSync(new URL('../webhooks.js', import.meta.url), 'utf8');
  assert.ok(Buffer.byteLength(text) < 5000, `${text.length} bytes`);
  assert.deepEqual([...text.matchAll(/require\('([^']+)'\)/g)].map((match) => match[1]), ['node:crypto']);
});
