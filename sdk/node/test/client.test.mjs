// The client by itself, against servers of these tests. What a real server does is in sdk/conformance.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inspect, promisify } from 'node:util';
import * as sdk from '@dataflow/sdk';
import { FakeServer } from '@dataflow/sdk/testing';
import operations from '../lib/operations.js';
import { events } from '../lib/events.js';

const { AbortError, ApiError, DataFlow, NetworkError, TimeoutError, ValidationError } = sdk;
let fake;
let client;
let directory;

before(() => { directory = mkdtempSync(join(tmpdir(), 'dataflow-sdk-')); });
after(() => rmSync(directory, { recursive: true }));
beforeEach(async () => {
  fake = await FakeServer.start();
  client = new DataFlow(fake.options);
});
afterEach(async () => {
  client.close();
  await fake.close();
});
const it = (name, body) => test(name, { timeout: 30000 }, body);

/** A server that answers with bytes of the test's own. */
async function raw(serve) {
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    serve(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { baseUrl: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

it('both kinds of modules have the same names', async () => {
  const required = createRequire(import.meta.url);
  for (const entry of ['@dataflow/sdk', '@dataflow/sdk/webhooks', '@dataflow/sdk/testing']) {
    const names = (module) => Object.keys(module).filter((name) => name !== 'default').sort();
    assert.deepEqual(names(await import(entry)), names(required(entry)));
  }
  assert.equal(required('@dataflow/sdk').DataFlow, DataFlow);
});

it('every call of the table sends its method and path', async () => {
  const names = Object.entries(operations).filter(([, text]) => !text.includes(' own') && !text.includes(' events'));
  assert.ok(names.length > 100);
  for (const [name, text] of names) {
    const [verb, path, ...flags] = text.split(' ');
    const operation = `${verb} ${path}`;
    fake.reply(operation, { body: flags.includes('text') ? 'text' : { items: [], ok: true } }, 1);
    const method = name.split('.').reduce((at, step) => at[step], client);
    const own = path.startsWith('/clients/{clientId}');
    const args = [...path.matchAll(/\{\w+\}/g)].slice(own ? 1 : 0).map((_, n) => `a/${n}`);
    if (flags.includes('?')) args.push({ q: 'a&b', none: undefined, when: new Date(0) });
    if (flags.includes('=')) args.push({ body: name });
    const answer = await method(...args, { correlationId: 'c-1' });
    if (answer?.stream) await answer.bytes();
    const seen = fake.requests.pop();
    assert.equal(seen.operation, operation, name);
    assert.deepEqual(Object.values(seen.params).slice(own ? 1 : 0), args.filter((one) => typeof one === 'string'), name);
    if (own) assert.equal(seen.params.clientId, 'test');
    assert.equal(seen.headers['x-correlation-id'], 'c-1');
    if (flags.includes('?')) assert.deepEqual(seen.query, { q: 'a&b', when: '1970-01-01T00:00:00.000Z' }, name);
    if (flags.includes('=')) assert.deepEqual(seen.body, { body: name });
    assert.equal('idempotency-key' in seen.headers, flags.includes('key'), name);
    assert.match(seen.headers['user-agent'], /^dataflow-sdk-node\/\d/);
  }
});

it('arguments that are missing or too many are told at once', async () => {
  assert.throws(() => client.imports.get(), TypeError);
  assert.throws(() => client.imports.get(''), /batchId/);
  assert.throws(() => client.imports.get('a', {}, {}), /too many/);
  assert.throws(() => client.imports.get('..'), /path/);
  await assert.rejects(client.integrations.call('payment', 'a/../b'), /path/);
  assert.throws(() => new DataFlow().usage.get(), /clientId/);
  assert.throws(() => new DataFlow({ baseUrl: 'ftp://x' }), /http/);
  await assert.rejects(client.imports.upload(42), TypeError);
  assert.equal(fake.requests.length, 0);
});

it('secrets are not shown when a client is printed', () => {
  const own = new DataFlow({ clientId: 'a', clientSecret: 'hidden-1', adminKey: 'hidden-2' });
  assert.doesNotMatch(inspect(own, { depth: 9 }) + JSON.stringify(own), /hidden/);
});

it('a base address may have a path, and an answer has its headers', async () => {
  const server = http.createServer((req, res) => res.setHeader('etag', '"7"').setHeader('content-type', 'application/json').end(JSON.stringify({ path: req.url })));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const own = new DataFlow({ baseUrl: `http://127.0.0.1:${server.address().port}/flow/` });
  const answer = await own.server.health();
  assert.equal(answer.path, '/flow/v1/healthz');
  assert.equal(sdk.responseOf(answer).headers.etag, '"7"');
  assert.equal(sdk.responseOf({}), undefined);
  own.close();
  server.close();
});

it('certificates are verified, and a private authority is given by an agent', async () => {
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost', '-keyout', join(directory, 'key.pem'), '-out', join(directory, 'cert.pem')], { stdio: 'ignore' });
  const [key, cert] = ['key.pem', 'cert.pem'].map((name) => readFileSync(join(directory, name)));
  const server = https.createServer({ key, cert }, (req, res) => res.setHeader('content-type', 'application/json').end('{"status":"ok"}'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const baseUrl = `https://localhost:${server.address().port}`;
  const agent = new https.Agent({ ca: cert });
  assert.deepEqual(await new DataFlow({ baseUrl, agent }).server.health(), { status: 'ok' });
  await assert.rejects(new DataFlow({ baseUrl, retries: 0 }).server.health(), (e) => e instanceof NetworkError && /self.signed/.test(e.message));
  agent.destroy();
  server.close();
});

it('a problem document is an error with its members', async () => {
  fake.reply('POST /api/tickets', { status: 400, headers: { 'x-correlation-id': 'c9' }, body: { code: 'ValidationFailed', detail: 'two', errors: [{ field: 'a', message: 'b' }] } });
  const error = await client.tickets.submit({}).catch((e) => e);
  assert.ok(error instanceof ValidationError && error instanceof ApiError && error instanceof Error);
  assert.deepEqual([error.name, error.status, error.code, error.errors.length, error.correlationId, error.retryAfter], ['ValidationError', 400, 'ValidationFailed', 1, 'c9', null]);
  assert.match(error.message, /400 ValidationFailed: two: a: b/);
});

for (const [what, reply, code] of [
  ['text', { status: 404, body: 'not here' }, null],
  ['broken JSON', { status: 404, headers: { 'content-type': 'application/json' }, body: '{"code":' }, null],
  ['a JSON text', { status: 404, headers: { 'content-type': 'application/json' }, body: '"x"' }, null],
  ['strange members', { status: 404, body: { code: 'X', errors: 'none' } }, 'X'],
  ['a redirect', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }, null],
]) {
  it(`an error with ${what} is an ApiError all the same`, async () => {
    fake.reply('GET /whoami', reply);
    const error = await client.server.whoami().catch((e) => e);
    assert.ok(error instanceof ApiError, String(error));
    assert.deepEqual([error.status, error.code, error.errors], [reply.status, code, []]);
  });
}

it('an answer that is not JSON is a NetworkError', async () => {
  fake.reply('GET /whoami', { body: '<html>' });
  await assert.rejects(client.server.whoami(), (e) => e instanceof NetworkError && /not JSON/.test(e.message));
});

const in90Seconds = () => new Date(Date.now() + 90000).toUTCString();
for (const [what, value, seconds] of [['seconds', '7', 7], ['a date', in90Seconds, 90], ['a date that is over', new Date(0).toUTCString(), 0], ['a word', 'soon', null], ['less than 0', '-3', null]]) {
  it(`Retry-After: ${what}`, async () => {
    fake.reply('GET /whoami', () => ({ status: 429, headers: { 'retry-after': typeof value === 'function' ? value() : value } }));
    const own = new DataFlow({ ...fake.options, retries: 0 });
    const error = await own.server.whoami().catch((e) => e);
    if (seconds === null) assert.equal(error.retryAfter, null);
    else assert.ok(Math.abs(error.retryAfter - seconds) <= 2, error.retryAfter);
    own.close();
  });
}

it('waits are random up to a bound that grows, and Retry-After is added', async () => {
  const waits = [];
  const { random } = Math;
  Math.random = () => 0.999;
  try {
    fake.reply('GET /whoami', () => { waits.push(Date.now()); return { status: 500 }; }, 3);
    fake.reply('GET /whoami', () => { waits.push(Date.now()); return { status: 503, headers: { 'retry-after': '1' } }; }, 1);
    const own = new DataFlow({ ...fake.options, retries: 4, retryBaseMs: 40, retryCapMs: 100 });
    await own.server.whoami();
    waits.push(Date.now());
    own.close();
  } finally {
    Math.random = random;
  }
  const between = waits.slice(1).map((at, n) => at - waits[n]);
  [40, 80, 100, 1100].forEach((wanted, n) => assert.ok(between[n] >= wanted - 3 && between[n] < wanted + 400, between.join()));
});

it('a Retry-After that is too long is thrown', async () => {
  fake.reply('GET /whoami', { status: 503, headers: { 'retry-after': '3600' } });
  await assert.rejects(client.server.whoami(), { status: 503, retryAfter: 3600 });
  assert.equal(fake.requests.length, 1);
});

it('the key of an upload is the same on every try, and another on every call', async () => {
  fake.reply('POST /imports', { status: 500 }, 2);
  await client.imports.upload(Buffer.from('phone\n'), {}, { fileName: 'a.csv' });
  await client.imports.upload(Buffer.from('phone\n'), {}, { fileName: 'a.csv' });
  const keys = fake.requests.map((request) => request.headers['idempotency-key']);
  assert.equal(keys.length, 4);
  assert.equal(new Set(keys.slice(0, 3)).size, 1);
  assert.notEqual(keys[0], keys[3]);
});

it('an answer that is cut off is lost: a call that may be repeated is', async () => {
  let requests = 0;
  const server = await raw((socket) => socket.once('data', () => {
    requests++;
    socket.end(`HTTP/1.1 202 OK\r\nContent-Type: application/json\r\nContent-Length: ${requests < 3 ? 100 : 15}\r\nConnection: close\r\n\r\n{"eventId":"e"}`);
  }));
  const own = new DataFlow({ baseUrl: server.baseUrl, retryBaseMs: 1 });
  assert.deepEqual(await own.events.publish({ eventType: 'X', payload: 1 }), { eventId: 'e' });
  assert.equal(requests, 3);
  requests = 0;
  await assert.rejects(own.admin.keys.rotate(), NetworkError);
  assert.equal(requests, 1);
  own.close();
  server.close();
});

it('a call is aborted before, while and between tries', async () => {
  await assert.rejects(client.server.whoami({ signal: AbortSignal.abort('why') }), (e) => e instanceof AbortError && e.cause === 'why');
  assert.equal(fake.requests.length, 0);
  fake.reply('GET /whoami', () => new Promise(() => {}), 1);
  await assert.rejects(client.server.whoami({ signal: AbortSignal.timeout(50) }), AbortError);
  fake.reply('GET /whoami', { status: 503, headers: { 'retry-after': '30' } });
  await assert.rejects(client.server.whoami({ signal: AbortSignal.timeout(100) }), AbortError);
});

it('a try that stands still is a TimeoutError', async () => {
  fake.reply('GET /whoami', () => new Promise(() => {}));
  const own = new DataFlow({ ...fake.options, timeoutMs: 60, retries: 1 });
  await assert.rejects(own.server.whoami(), TimeoutError);
  assert.equal(fake.requests.length, 2);
  own.close();
});

it('what may not be repeated has a connection of its own', async () => {
  const ports = [];
  fake.server.on('request', (req) => ports.push(req.socket.remotePort));
  fake.reply('POST /admin/keys/rotate', { body: {} });
  await client.server.whoami();
  await client.server.whoami();
  await client.admin.keys.rotate();
  await client.admin.keys.rotate();
  assert.equal(new Set(ports).size, 3);
});

// --- uploads

for (const [what, source, name] of [
  ['a path', () => file('a.csv', 'phone\n1\n'), 'a.csv'],
  ['a URL', () => pathToFileURL(file('b ü.csv', 'phone\n1\n')), 'b ü.csv'],
  ['a Buffer', () => Buffer.from('phone\n1\n'), 'upload'],
  ['a typed array', () => new Uint8Array(new TextEncoder().encode('phone\n1\n')), 'upload'],
  ['a Blob', () => new Blob(['phone\n', '1\n']), 'upload'],
  ['a stream', () => Readable.from(['phone\n', Buffer.from('1\n')]), 'upload'],
  ['a web stream', () => new Blob(['phone\n1\n']).stream(), 'upload'],
  ['an iterable', () => (async function* () { yield 'phone\n'; yield '1\n'; })(), 'upload'],
  ['a function', () => () => Readable.from(['phone\n1\n']), 'upload'],
  ['an empty file', () => file('empty.csv', ''), 'empty.csv'],
]) {
  it(`${what} is uploaded`, async () => {
    const progress = [];
    await client.imports.upload(source(), { originDefault: 'Loja "1"', metadata: { a: 'é' }, sheet: undefined }, { onProgress: (p) => progress.push(p) });
    const { body } = fake.requests[0];
    assert.equal(body.file.toString(), what === 'an empty file' ? '' : 'phone\n1\n');
    assert.equal(body.fileName, name);
    assert.equal(body.originDefault, 'Loja "1"');
    assert.deepEqual(JSON.parse(body.metadata), { a: 'é' });
    assert.ok(!('sheet' in body));
    if (body.file.length) assert.equal(progress.at(-1).sent, 8);
  });
}
function file(name, text) {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

it('the name of a file cannot end its header', async () => {
  await client.imports.upload(Buffer.from('x'), {}, { fileName: 'a"\r\nX-Evil: 1.csv' });
  assert.equal(fake.requests[0].body.fileName, 'a"\r\nX-Evil: 1.csv');
  assert.ok(!('X-Evil' in fake.requests[0].body));
});

it('a file that is not there, and a stream that fails, are what the call throws', async () => {
  await assert.rejects(client.imports.upload(join(directory, 'none.csv')), { code: 'ENOENT' });
  const failing = (async function* () { yield 'phone\n'; throw new RangeError('of the stream'); })();
  await assert.rejects(client.imports.upload(failing), RangeError);
  await assert.rejects(client.imports.upload(directory), { code: 'EISDIR' });
  assert.ok(fake.requests.length <= 2, 'they are not tried again');
  assert.equal(fake.imports.size, 0);
});

it('a file that shrinks while it is sent is no whole upload', async () => {
  const path = file('shrinks.csv', 'x'.repeat(1 << 20));
  fake.server.removeAllListeners('checkContinue');
  fake.server.on('checkContinue', (req, res) => {
    writeFileSync(path, 'x');
    res.writeContinue();
    req.resume();
  });
  await assert.rejects(client.imports.upload(path, {}, { retries: 0 }), /changed|lost|hang up|reset/);
});

it('a connection that is lost in the middle of the body is tried again', async () => {
  let cut = 2;
  fake.server.removeAllListeners('checkContinue');
  fake.server.on('checkContinue', (req, res) => {
    if (cut-- <= 0) return fake.serve(req, res, () => res.writeContinue()).catch(() => {});
    res.writeContinue();
    return req.once('data', () => setTimeout(() => req.socket.resetAndDestroy(), 20));
  });
  await client.imports.upload(Buffer.alloc(8 << 20, 'x'));
  assert.equal(cut, -1);
  assert.equal(fake.requests[0].body.file.length, 8 << 20);
  cut = 1;
  await assert.rejects(client.imports.upload(Readable.from([Buffer.alloc(8 << 20)])), NetworkError);
  cut = 0;
  const careless = { onProgress() { throw new RangeError('of the callback'); } };
  await assert.rejects(client.imports.upload(Buffer.from('x'), {}, careless), RangeError);
});

it('a refusal comes before the body, and a stream is then sent to the next try', async () => {
  fake.reply('POST /imports', { status: 503 }, 1);
  let opened = 0;
  const stream = (async function* () { opened++; yield 'phone\n'; })();
  await client.imports.upload(stream);
  assert.equal(opened, 1);
  assert.equal(fake.requests[1].body.file.toString(), 'phone\n');
});

it('a server that knows nothing of 100-continue gets the body after a second', async () => {
  fake.server.removeAllListeners('checkContinue');
  fake.server.on('checkContinue', (req, res) => fake.serve(req, res).catch(() => {}));
  await client.imports.upload(Buffer.from('phone\n'));
  assert.equal(fake.requests[0].body.file.toString(), 'phone\n');
});

it('an answer before the end of the body is the answer', async () => {
  fake.server.removeAllListeners('checkContinue');
  fake.server.on('checkContinue', (req, res) => {
    res.writeContinue();
    req.once('data', () => res.writeHead(409, { 'content-type': 'application/problem+json', connection: 'close' }).end('{"code":"TooMuch"}'));
  });
  const endless = (async function* () { for (;;) yield Buffer.alloc(65536); })();
  await assert.rejects(client.imports.upload(endless), { status: 409, code: 'TooMuch' });
});

it('memory does not grow with the file', async () => {
  const program = `
    import { DataFlow } from '@dataflow/sdk';
    const client = new DataFlow({ baseUrl: process.argv[1], retries: 0 });
    let most = 0;
    const chunk = Buffer.alloc(65536, 'x');
    const bytes = Number(process.argv[2]);
    await client.imports.upload(async function* () {
      for (let sent = 0; sent < bytes; sent += chunk.length) yield chunk;
    }, {}, { onProgress: ({ sent }) => { if (sent % (16 << 20) === 0) most = Math.max(most, process.memoryUsage.rss()); } });
    console.log(most >> 20);
    client.close();`;
  fake.server.removeAllListeners('checkContinue');
  fake.server.on('checkContinue', (req, res) => {
    res.writeContinue();
    req.on('data', () => {}).on('end', () => res.writeHead(202, { 'content-type': 'application/json' }).end('{}'));
  });
  const used = await Promise.all([64 << 20, 768 << 20].map((bytes) => run(program, fake.baseUrl, bytes)));
  assert.ok(Number(used[1]) - Number(used[0]) < 48, used.join());
});
async function run(program, ...args) {
  const done = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, ...args.map(String)], { cwd: new URL('..', import.meta.url) });
  return done.stdout;
}

// --- lists, files, events

it('pages are followed by cursor where the server gives one', async () => {
  const pages = { undefined: { items: [1, 2], next: 'b' }, b: { items: [3], next: 'c' }, c: { items: [], next: null } };
  fake.reply('GET /admin/audit', ({ query }) => ({ body: pages[query.after] }));
  const found = [];
  for await (const item of client.admin.audit.list({ actor: 'x' })) found.push(item);
  assert.deepEqual(found, [1, 2, 3]);
  assert.deepEqual(fake.requests.map(({ query }) => query), [{ actor: 'x' }, { actor: 'x', after: 'b' }, { actor: 'x', after: 'c' }]);
});

it('else by number, from the page that was asked for', async () => {
  fake.reply('GET /imports', ({ query }) => {
    const page = Number(query.page ?? 1);
    return { body: { items: [page * 2 - 1, page * 2].filter((n) => n <= 5), page, pageSize: 2, total: 5 } };
  });
  const list = client.imports.list({ pageSize: 2 });
  assert.deepEqual((await list).items, [1, 2]);
  const found = [];
  for await (const item of list) found.push(item);
  assert.deepEqual(found, [1, 2, 3, 4, 5]);
  const later = [];
  for await (const page of client.imports.list({ page: 2 }).pages()) later.push(page.page);
  assert.deepEqual(later, [2, 3]);
  await assert.rejects(Promise.resolve(new DataFlow({ baseUrl: 'http://127.0.0.1:1', retries: 0 }).imports.list()), NetworkError);
});

it('a file is saved whole or not at all', async () => {
  fake.reply('GET /imports/{batchId}/errors.csv', { body: 'phone\n1\n' }, 1);
  const path = join(directory, 'errors.csv');
  await (await client.imports.errorsCsv('b')).save(path);
  assert.equal(readFileSync(path, 'utf8'), 'phone\n1\n');
  const server = await raw((socket) => socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')));
  const own = new DataFlow({ baseUrl: server.baseUrl });
  await assert.rejects((await own.imports.errorsCsv('b')).save(join(directory, 'half.csv')), NetworkError);
  await assert.rejects((await own.imports.errorsCsv('b')).text(), NetworkError);
  assert.deepEqual(readdirSync(directory).filter((name) => name.startsWith('half')), []);
  own.close();
  server.close();
});

it('events are read however they are cut', async () => {
  const text = ': hello\r\nevent: progress\r\ndata: {"a":\r\ndata: "é"}\r\nid: 7\r\n\r\n\n\rdata:1\r\revent: completed\ndata: {"b":2}\n\ndata: lost';
  const bytes = Buffer.from(text);
  for (const size of [1, 2, 3, 7, 1000]) {
    const parts = [];
    for (let at = 0; at < bytes.length; at += size) parts.push(bytes.subarray(at, at + size));
    const found = [];
    for await (const one of events(Readable.from(parts))) found.push(one);
    assert.deepEqual(found, [{ event: 'progress', data: { a: 'é' } }, { event: 'message', data: 1 }, { event: 'completed', data: { b: 2 } }], `${size}`);
  }
});

it('a wait tells progress, and ends with the batch', async () => {
  fake.finishes = false;
  const { batchId } = await client.imports.upload(Buffer.from('phone\n'));
  const told = [];
  const waiting = client.imports.wait(batchId, { onProgress: (batch) => told.push(batch.status) });
  setTimeout(() => fake.finish(batchId, { status: 'Failed', lastError: 'x' }), 100);
  assert.equal((await waiting).lastError, 'x');
  assert.deepEqual(told, ['Pending', 'Failed']);
});

it('without events a wait asks', async () => {
  fake.finishes = false;
  fake.reply('GET /imports/{batchId}/events', { status: 404 });
  const { batchId } = await client.imports.upload(Buffer.from('phone\n'));
  setTimeout(() => fake.finish(batchId), 100);
  assert.equal((await client.imports.wait(batchId, { pollMs: 20 })).status, 'Completed');
});

it('a wait ends by its time, by its signal, and when the server stays away', async () => {
  fake.finishes = false;
  const { batchId } = await client.imports.upload(Buffer.from('phone\n'));
  await assert.rejects(client.imports.wait(batchId, { timeout: 80 }), TimeoutError);
  await assert.rejects(client.imports.wait(batchId, { signal: AbortSignal.timeout(80) }), AbortError);
  await assert.rejects(client.imports.wait(batchId, { signal: AbortSignal.abort() }), AbortError);
  const away = new DataFlow({ baseUrl: 'http://127.0.0.1:1', retries: 0 });
  await assert.rejects(away.imports.wait(batchId, { pollMs: 10, maxOutageMs: 100 }), NetworkError);
});

it('a program ends when its calls have ended', () => {
  const program = "const { DataFlow } = require('@dataflow/sdk'); new DataFlow({ baseUrl: 'http://127.0.0.1:1', retries: 1 }).server.health().catch((e) => console.log(e.name));";
  const out = execFileSync(process.execPath, ['-e', program], { cwd: new URL('..', import.meta.url), timeout: 20000 });
  assert.equal(out.toString(), 'NetworkError\n');
});
