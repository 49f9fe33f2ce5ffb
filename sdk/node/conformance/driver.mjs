// The driver of the conformance tests; sdk/conformance/README.md has the protocol.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { AbortError, ApiError, DataFlow, NetworkError, TimeoutError, responseOf, version } from '@dataflow/sdk';
import { verifyStoredWebhook, verifyWebhook, WebhookError } from '@dataflow/sdk/webhooks';
import operations from '../lib/operations.js';

const clients = new Map();

function methodOf(request) {
  const client = clients.get(request.client);
  const found = request.call.split('.').reduce((at, step) => at?.[step], client);
  if (typeof found !== 'function') throw Object.assign(new Error(`no method ${request.call} or no client ${request.client}`), { kind: 'driver' });
  return found;
}

function optionsOf({ timeoutMs, ...options } = {}, more = {}) {
  return { ...options, ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }), ...more };
}

/** What a method of the table takes, in its order. */
function argumentsOf(request) {
  const { body, clientId, ...args } = request.args ?? {};
  const [, path, ...flags] = operations[request.call].split(' ');
  const own = path.startsWith('/clients/{clientId}');
  const all = own ? args : { ...args, clientId };
  const list = [...path.matchAll(/\{(\w+)\}/g)].slice(own ? 1 : 0).map(([, name]) => {
    const value = all[name];
    delete all[name];
    return value;
  });
  if (flags.includes('?')) list.push(all);
  if (flags.includes('=')) list.push(body);
  return [...list, optionsOf(request.options, own && clientId !== undefined ? { clientId } : {})];
}

async function call(request) {
  if (request.call === 'integrations.call') {
    const { name, path, ...rest } = request.args;
    const answer = await methodOf(request)(name, path, { ...rest, ...optionsOf(request.options) });
    return { ok: { status: answer.status, body: Buffer.isBuffer(answer.body) ? answer.body.toString() : answer.body } };
  }
  const answer = await methodOf(request)(...argumentsOf(request));
  if (typeof answer?.bytes === 'function') {
    const bytes = await answer.bytes();
    return { ok: { bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex'), text: bytes.subarray(0, 4096).toString() } };
  }
  return { ok: answer ?? null, ...responseMember(answer) };
}

function responseMember(answer) {
  const found = answer && typeof answer === 'object' && responseOf(answer);
  if (!found) return {};
  const { status, headers } = found;
  return { response: { status, etag: headers.etag ?? null, correlationId: headers['x-correlation-id'] ?? null, replayed: headers['idempotent-replayed'] === 'true' } };
}

async function iterate(request) {
  const items = [];
  for await (const item of methodOf(request)(...argumentsOf(request))) {
    items.push(item);
    if (items.length >= (request.limit ?? Infinity)) break;
  }
  return { ok: { items } };
}

async function upload(request) {
  const { path, text, stream } = request.source;
  const { fileName, ...fields } = request.args ?? {};
  const stop = new AbortController();
  const progress = { calls: 0, sent: 0, total: null };
  const before = process.memoryUsage.rss();
  let most = before;
  const onProgress = ({ sent, total }) => {
    progress.calls++;
    Object.assign(progress, { sent, total });
    if (progress.calls % 64 === 0) most = Math.max(most, process.memoryUsage.rss());
    if (request.abortAfterBytes !== undefined && sent >= request.abortAfterBytes) stop.abort();
  };
  const source = path ?? (stream === undefined ? Buffer.from(text) : createReadStream(stream));
  const answer = await methodOf(request)(source, fields, optionsOf(request.options, { fileName, onProgress, signal: stop.signal }));
  return { ok: { answer, progress, growthKb: Math.round((most - before) / 1024) }, ...responseMember(answer) };
}

async function wait(request) {
  let progress = 0;
  const answer = await methodOf(request)(request.args.batchId, { timeout: request.timeoutMs, events: request.events ?? true, onProgress: () => progress++ });
  return { ok: { answer, progress } };
}

function verify({ secrets, headers, body, toleranceSeconds, stored }) {
  try {
    const bytes = Buffer.from(body, 'base64');
    if (stored) verifyStoredWebhook(bytes, secrets);
    else verifyWebhook(bytes, headers, secrets, { toleranceSeconds });
    return { ok: true };
  } catch (error) {
    if (error instanceof WebhookError) return { ok: false };
    throw error;
  }
}

function hello() {
  const named = Object.entries(operations).map(([name, text]) => [text.split(' ').slice(0, 2).join(' '), name.split(' ')[0]]);
  return { ok: { sdk: 'node', version, operations: Object.fromEntries(named) } };
}

function client({ name, options }) {
  clients.get(name)?.close();
  clients.set(name, new DataFlow(options));
  return { ok: {} };
}

function errorOf(error) {
  const kind = error.kind ?? (error instanceof ApiError ? 'problem' : error instanceof TimeoutError ? 'timeout'
    : error instanceof NetworkError ? 'network' : error instanceof AbortError ? 'aborted' : error instanceof TypeError ? 'argument' : 'driver');
  const { status, code, title, detail, errors, correlationId, retryAfter, message } = error;
  if (kind === 'driver') process.stderr.write(`${error.stack}\n`);
  const type = error.name;
  return kind === 'problem' ? { kind, type, status, code, title, detail, errors, correlationId, retryAfter, message } : { kind, message };
}

const OPS = { hello, client, call, iterate, upload, wait, verify };
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const answer = (value) => process.stdout.write(JSON.stringify({ id: request.id, ...value }) + '\n');
  Promise.resolve().then(() => OPS[request.op](request)).then(answer, (error) => answer({ error: errorOf(error) }));
}
process.exit(0);
