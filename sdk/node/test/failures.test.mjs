// What goes wrong around a call: it ends with the right error, takes the process nowhere and leaves nothing open.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AbortError, ApiError, DataFlow, NetworkError, NotFoundError, ServerError, TimeoutError } from '@dataflow/sdk';
import { FakeServer } from '@dataflow/sdk/testing';

let fake;
let client;
let directory;
const closing = [];

before(() => { directory = mkdtempSync(join(tmpdir(), 'dataflow-failures-')); });
after(() => rmSync(directory, { recursive: true }));
beforeEach(async () => {
  fake = await FakeServer.start();
  client = new DataFlow(fake.options);
});
afterEach(async () => {
  client.close();
  await fake.close();
  for (const close of closing.splice(0)) close();
});
const it = (name, body) => test(name, { timeout: 30000 }, body);

/** A server that answers with bytes of the test's own; how many connections it had. */
async function raw(serve) {
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    seen.connections++;
    serve(socket);
  });
  const seen = { connections: 0, server };
  await once(server.listen(0, '127.0.0.1'), 'listening');
  closing.push(() => server.close());
  seen.baseUrl = `http://127.0.0.1:${server.address().port}`;
  return seen;
}

function connected(baseUrl, options = {}) {
  const own = new DataFlow({ baseUrl, clientId: 'test', retryBaseMs: 1, ...options });
  closing.push(() => own.close());
  return own;
}

async function soon(isSo, what) {
  for (const end = Date.now() + 5000; !isSo(); await sleep(10)) assert.ok(Date.now() < end, what);
}

const answer = (status, type, body, more = '') => `HTTP/1.1 ${status} X\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n${more}\r\n${body}`;

/** Files of the directory that this process has open. */
const openFiles = () => readdirSync('/proc/self/fd').filter((fd) => {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).startsWith(directory);
  } catch {
    return false;
  }
});

function file(name, bytes) {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
}

/** Answers an upload's head after a while, without its body. */
function refuseLate(ms, status, headers = {}) {
  fake.server.removeAllListeners('checkContinue');
  fake.server.on('checkContinue', (req, res) => {
    fake.requests.push(req);
    setTimeout(() => (status ? res.writeHead(status, headers).end() : res.writeContinue()), ms);
  });
}

// --- sources

it('a stream that fails before the server wants it is what the call throws', async () => {
  refuseLate(200);
  await assert.rejects(client.imports.upload(createReadStream(join(directory, 'none'))), { code: 'ENOENT' });
  const failed = new PassThrough();
  failed.destroy(new RangeError('at once'));
  await assert.rejects(client.imports.upload(failed), RangeError);
});

it('a stream that fails between tries ends the wait', async () => {
  refuseLate(0, 503, { 'retry-after': '20' });
  const source = new PassThrough();
  setTimeout(() => source.destroy(new RangeError('meanwhile')), 200);
  const begun = Date.now();
  await assert.rejects(client.imports.upload(source), RangeError);
  assert.ok(Date.now() - begun < 5000);
  assert.equal(fake.requests.length, 1);
});

it('a function may give a stream that has failed, or no file at all', async () => {
  const failed = () => {
    const stream = new PassThrough();
    stream.destroy(new RangeError('at once'));
    return stream;
  };
  await assert.rejects(client.imports.upload(failed), RangeError);
  await assert.rejects(client.imports.upload(async () => failed()), RangeError);
  await assert.rejects(client.imports.upload(() => undefined), TypeError);
  await assert.rejects(client.imports.upload(() => [{}]), TypeError);
  await assert.rejects(client.imports.upload(() => { throw new RangeError('of the function'); }), RangeError);
  assert.equal(fake.imports.size, 0);
});

it('a stream whose upload is refused is closed', async () => {
  const path = file('refused.csv', 'phone\n');
  fake.reply('POST /imports', { status: 401 });
  let isCancelled = false;
  let isReturned = false;
  for (let n = 0; n < 5; n++) await assert.rejects(client.imports.upload(createReadStream(path)), { status: 401 });
  await assert.rejects(client.imports.upload(new ReadableStream({ cancel() { isCancelled = true; } })), { status: 401 });
  await assert.rejects(client.imports.upload({ [Symbol.asyncIterator]() { return this; }, next: async () => ({}), return() { isReturned = true; } }), { status: 401 });
  if (process.platform === 'linux') await soon(() => openFiles().length === 0, 'open files');
  assert.ok(isCancelled && isReturned);
});

it('a request that is handed on can be answered after a refusal', async () => {
  fake.reply('POST /imports', { status: 401 });
  const server = http.createServer((req, res) => client.imports.upload(req).catch((error) => res.writeHead(error.status).end()));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  closing.push(() => server.close());
  const req = http.request({ port: server.address().port, method: 'POST', host: '127.0.0.1' });
  req.on('error', () => {});
  req.write('phone\n');
  const [res] = await once(req, 'response');
  assert.equal(res.statusCode, 401);
  req.destroy();
});

for (const [what, open] of [
  ['a path', () => file('abort.csv', Buffer.alloc(32 << 20, 'x'))],
  ['a Buffer', () => Buffer.alloc(32 << 20, 'x')],
  ['a Blob', () => new Blob([Buffer.alloc(32 << 20, 'x')])],
  ['a stream', () => createReadStream(file('abort.csv', Buffer.alloc(32 << 20, 'x')))],
  ['a stream that stands still', () => {
    const stream = new PassThrough();
    stream.write(Buffer.alloc(1 << 20));
    return stream;
  }],
  ['a web stream that stands still', () => new ReadableStream({ start(to) { to.enqueue(Buffer.alloc(1 << 20)); } })],
  ['an iterable', () => (async function* () { for (;;) yield Buffer.alloc(65536); })()],
  ['a function', () => () => createReadStream(file('abort.csv', Buffer.alloc(32 << 20, 'x')))],
]) {
  it(`an upload of ${what} is aborted in the middle`, async () => {
    let taken;
    let isOver = false;
    let isCut = false;
    fake.server.removeAllListeners('checkContinue');
    fake.server.on('checkContinue', (req, res) => {
      taken = req.on('error', () => {}).on('close', () => { isCut = !req.complete; }).on('data', () => isOver || req.pause());
      res.writeContinue();
    });
    const stop = new AbortController();
    const source = open();
    const onProgress = ({ sent }) => { if (sent >= 65536) setTimeout(() => stop.abort('enough'), 20); };
    await assert.rejects(client.imports.upload(source, {}, { signal: stop.signal, onProgress }), (e) => e instanceof AbortError && e.cause === 'enough');
    isOver = true;
    taken.resume();
    await soon(() => isCut, 'the connection');
    if (source instanceof Readable) await soon(() => source.destroyed, 'the stream');
    if (process.platform === 'linux') await soon(() => openFiles().length === 0, 'open files');
  });
}

// --- connections and time

/** A port that takes no more connections: it is listened on, and nobody accepts. */
async function fullPort() {
  const child = spawn(process.execPath, ['-e', `require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
    require('fs').writeSync(1, String(this.address().port));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60000);
  })`], { stdio: ['ignore', 'pipe', 'inherit'] });
  closing.push(() => child.kill('SIGKILL'));
  const port = Number((await once(child.stdout, 'data'))[0]);
  for (let isFull = false; !isFull;) {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {});
    closing.push(() => socket.destroy());
    isFull = !await Promise.race([once(socket, 'connect'), sleep(300)]);
  }
  return port;
}

/** An agent that counts its connections. */
class Counting extends http.Agent {
  count = 0;

  createConnection(...args) {
    this.count++;
    return super.createConnection(...args);
  }
}

it('a host that does not answer is given up, and may be tried again by every call', async () => {
  const agent = new Counting();
  const own = connected(`http://127.0.0.1:${await fullPort()}`, { agent, timeoutMs: 150, retries: 2 });
  const begun = Date.now();
  await assert.rejects(own.acks.send({}), (e) => e instanceof TimeoutError && /no connection for 150 ms/.test(e.message));
  assert.ok(Date.now() - begun < 5000);
  assert.equal(agent.count, 3);
  await assert.rejects(own.imports.upload(Readable.from(['x']), {}, { timeout: 1200 }), TimeoutError);
  assert.equal(agent.count, 6, 'a stream is not begun before there is a connection');
});

it('a handshake that stands still is given up', async () => {
  const server = await raw(() => {});
  const own = connected(server.baseUrl.replace('http:', 'https:'), { timeoutMs: 150, retries: 1 });
  await assert.rejects(own.acks.send({}), TimeoutError);
  assert.equal(server.connections, 2);
});

it('what was sent and not answered is not sent again, if it may not be', async () => {
  const server = await raw(() => {});
  await assert.rejects(connected(server.baseUrl, { timeoutMs: 100 }).acks.send({}), TimeoutError);
  assert.equal(server.connections, 1);
});

it('an answer that stops in its middle is a TimeoutError', async () => {
  const server = await raw((socket) => socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"items":[')));
  const own = connected(server.baseUrl, { timeoutMs: 100, retries: 1 });
  await assert.rejects(own.server.whoami(), TimeoutError);
  assert.equal(server.connections, 2);
  await assert.rejects((await own.imports.errorsCsv('b')).bytes(), TimeoutError);
  await assert.rejects((await own.imports.errorsCsv('b')).save(join(directory, 'stalled.csv')), TimeoutError);
  await assert.rejects(own.integrations.call('payment'), TimeoutError);
  await assert.rejects(async () => { for await (const part of (await own.imports.errorsCsv('b')).stream) void part; }, TimeoutError);
  const late = await own.imports.errorsCsv('b');
  await sleep(250);
  await assert.rejects(late.text(), TimeoutError, 'also when it is read later');
  await assert.rejects(own.server.whoami({ signal: AbortSignal.timeout(30) }), AbortError);
});

it('a problem that stops in its middle is an ApiError all the same', async () => {
  const server = await raw((socket) => socket.once('data', () => socket.write('HTTP/1.1 404 X\r\nContent-Type: application/problem+json\r\nContent-Length: 100\r\n\r\n{"code":')));
  await assert.rejects(connected(server.baseUrl, { timeoutMs: 100 }).server.whoami(), NotFoundError);
});

it('who reads slowly is not timed out', async () => {
  fake.reply('GET /imports/{batchId}/errors.csv', { body: Buffer.alloc(4 << 20, 'x') });
  const own = new DataFlow({ ...fake.options, timeoutMs: 100 });
  closing.push(() => own.close());
  const { stream } = await own.imports.errorsCsv('b');
  let size = 0;
  for await (const part of stream) {
    if (size === 0) await sleep(350);
    size += part.length;
  }
  assert.equal(size, 4 << 20);
});

it('a file that cannot be written is the error of the file, and the connection is let go', async () => {
  fake.reply('GET /imports/{batchId}/errors.csv', { body: Buffer.alloc(4 << 20, 'x') });
  const download = await client.imports.errorsCsv('b');
  await assert.rejects(download.save(join(directory, 'none/errors.csv')), { code: 'ENOENT' });
  assert.ok(download.stream.destroyed);
});

it('a time that is longer than a timer can be is no time at all', async () => {
  fake.finishes = false;
  const { batchId } = await client.imports.upload(Buffer.from('phone\n'));
  setTimeout(() => fake.finish(batchId), 100);
  assert.equal((await client.imports.wait(batchId, { timeout: 2 ** 32 })).status, 'Completed');
  assert.equal((await client.server.whoami({ timeout: Infinity })).clientId, 'test');
  await assert.rejects(client.server.whoami({ timeout: -1 }), TypeError);
  const patient = new DataFlow({ ...fake.options, maxRetryAfterMs: Infinity });
  closing.push(() => patient.close());
  fake.reply('GET /whoami', { status: 503, headers: { 'retry-after': '9999999' } });
  await assert.rejects(patient.server.whoami({ signal: AbortSignal.timeout(100) }), AbortError);
  assert.equal(fake.requests.filter(({ operation }) => operation === 'GET /whoami').length, 2);
});

it('a wait bears with a server that goes away after a long silence', async () => {
  let tries = 0;
  const batch = (status) => JSON.stringify({ batchId: 'b', status });
  const server = await raw((socket) => socket.once('data', (bytes) => {
    if (!/\/events /.test(bytes)) return socket.end(++tries < 3 ? answer(503, 'text/plain', '') : answer(200, 'application/json', batch('Completed')));
    if (tries) return socket.end(answer(503, 'text/plain', ''));
    socket.write(`HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nevent: progress\ndata: ${batch('Running')}\n\n`);
    return setTimeout(() => socket.end(), 600);
  }));
  const own = connected(server.baseUrl, { retries: 0 });
  assert.equal((await own.imports.wait('b', { pollMs: 10, maxOutageMs: 400 })).status, 'Completed');
  assert.equal(tries, 3);
});

it('listeners of a signal are gone when its calls are over', async () => {
  const { signal } = new AbortController();
  let count = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...args) => { count++; addEventListener.apply(signal, args); };
  signal.removeEventListener = (...args) => { count--; removeEventListener.apply(signal, args); };
  fake.reply('GET /whoami', { status: 503 }, 2);
  await client.server.whoami({ signal });
  await client.imports.upload(Buffer.from('phone\n'), {}, { signal });
  await soon(() => count === 0, 'listeners');
});

// --- answers

for (const [what, body] of [
  ['no objects among its errors', '{"code":"X","errors":[null,7,"x"]}'],
  ['members of strange types', '{"code":"X","title":{"toString":1},"detail":[{"toString":1}],"errors":[null],"correlationId":7}'],
]) {
  it(`a problem with ${what} is thrown`, async () => {
    const server = await raw((socket) => socket.once('data', () => socket.end(answer(400, 'application/problem+json', body))));
    const error = await connected(server.baseUrl).server.whoami().catch((e) => e);
    assert.ok(error instanceof ApiError, String(error));
    assert.deepEqual([error.status, error.code, error.errors, error.correlationId], [400, 'X', [], null]);
  });
}

it('errors that name no field are kept', async () => {
  fake.reply('GET /whoami', { status: 400, body: { code: 'X', errors: [{ field: { toString: 1 } }, { field: 'a', message: 'b' }] } });
  const error = await client.server.whoami().catch((e) => e);
  assert.equal(error.errors.length, 2);
  assert.match(error.message, /a: b/);
});

for (const [status, tries] of [[408, 3], [429, 3], [500, 3], [502, 3], [503, 3], [504, 3], [501, 1], [505, 1], [404, 1], [304, 1]]) {
  it(`${status} is tried ${tries} times`, async () => {
    fake.reply('GET /whoami', { status });
    await assert.rejects(client.server.whoami({ retries: 2 }), { status });
    assert.equal(fake.requests.length, tries);
  });
}

it('only 429 is tried again by a call that may not be repeated', async () => {
  for (const [status, tries] of [[503, 1], [429, 2]]) {
    fake.requests.length = 0;
    fake.reply('POST /api/functional-ack', { status }, tries);
    await assert.rejects(client.acks.send({}, { retries: 1 }), { status });
    assert.equal(fake.requests.length, tries);
  }
});

it('a key makes repeatable what takes one', async () => {
  const tries = async (operation, call) => {
    fake.requests.length = 0;
    fake.reply(operation, { status: 503, body: { code: 'X' } }, 2);
    await call({ idempotencyKey: 'k' }).catch(() => {});
    const { length } = fake.requests;
    fake.replies.length = 0;
    return length;
  };
  assert.equal(await tries('POST /api/functional-ack', (options) => client.acks.send({}, options)), 1);
  assert.equal(await tries('POST /admin/keys/rotate', (options) => client.admin.keys.rotate(options)), 1);
  assert.equal(await tries('POST /events', (options) => client.events.publish({}, options)), 3);
  assert.equal(await tries('POST /imports', (options) => client.imports.upload(Buffer.from('phone\n'), {}, options)), 3);
  assert.equal(await tries('POST /integrations/{name}', (options) => client.integrations.call('payment', '', { method: 'POST', ...options })), 3);
  assert.equal(await tries('POST /integrations/{name}', () => client.integrations.call('payment', '', { method: 'POST' })), 1);
});

for (const [what, status, type, body, expected] of [
  ['JSON', 422, 'application/json', '{"why":1}', { why: 1 }],
  ['text', 404, 'text/plain', 'not here', Buffer.from('not here')],
  ['what is only called JSON', 200, 'application/json', '<html>', Buffer.from('<html>')],
  ['nothing', 302, 'text/plain', '', Buffer.alloc(0)],
  ['a page', 410, 'text/html; charset=utf-8', '<h1>', Buffer.from('<h1>')],
]) {
  it(`an integration's answer is returned: ${what}`, async () => {
    fake.reply('GET /integrations/{name}/{path}', { status, headers: { 'content-type': type, etag: '"7"' }, body });
    const got = await client.integrations.call('payment', 'charges/1');
    assert.deepEqual([got.status, got.headers.etag, got.body], [status, '"7"', expected]);
    assert.equal(fake.requests.length, 1);
  });
}

it('what a proxy says of an integration is tried again, and thrown', async () => {
  for (const status of [408, 429, 502, 503]) {
    fake.requests.length = 0;
    fake.reply('GET /integrations/{name}', { status, headers: { 'content-type': 'text/html' }, body: '<h1>' }, 2);
    await assert.rejects(client.integrations.call('payment', '', { retries: 1 }), { status, code: null });
    assert.equal(fake.requests.length, 2);
  }
});

it('what the server itself says of an integration is thrown', async () => {
  fake.reply('POST /integrations/{name}', { status: 503, headers: { 'content-type': 'application/problem+json; charset=utf-8' }, body: { code: 'PaymentServiceUnavailable' } });
  await assert.rejects(client.integrations.call('payment', '', { method: 'POST' }), (e) => e instanceof ServerError && e.code === 'PaymentServiceUnavailable');
});

it('the fake server knows paths of several parts behind an integration', async () => {
  fake.reply('PUT /integrations/{name}/{path}', ({ params }) => ({ body: params }));
  const { body } = await client.integrations.call('payment', 'charges/a b/refunds', { method: 'PUT' });
  assert.deepEqual(body, { name: 'payment', path: 'charges/a b/refunds' });
});

it('events without an end are given up', async () => {
  const server = await raw((socket) => socket.once('data', () => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n');
    const line = `data: ${'x'.repeat(1 << 20)}\n`;
    const write = () => { while (socket.writable && socket.write(line)); };
    socket.on('drain', write);
    write();
  }));
  await assert.rejects(async () => { for await (const event of connected(server.baseUrl).imports.watch('b')) void event; }, (e) => e instanceof NetworkError && /too long/.test(e.message));
});
