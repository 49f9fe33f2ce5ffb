'use strict';
const http = require('node:http');
const { once } = require('node:events');
const { createHash, createHmac, randomUUID } = require('node:crypto');
const operations = require('./lib/operations.js');

const BODY_MAX = 64 << 20;
const OVER = ['Completed', 'CompletedWithErrors', 'Failed', 'Cancelled'];
// The most exact path first: /api/tickets/callback is none of /api/tickets/{id}. {path}, of an integration, may have several parts.
const ROUTES = [...new Set(Object.values(operations).map((text) => text.split(' ').slice(0, 2).join(' ')))]
  .sort((a, b) => a.split('{').length - b.split('{').length || b.length - a.length)
  .map((operation) => {
    const [method, path] = operation.split(' ');
    const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    return { operation, method, names, pattern: new RegExp(`^${path.replace(/\./g, '\\.').replace('{path}', '(.+)').replace(/\{\w+\}/g, '([^/]+)')}$`) };
  });

/**
 * A server in the test's own process that answers as DataFlow would, for programs that use the SDK. It knows imports,
 * documents and events; for everything else, and for failures, give it replies.
 */
class FakeServer {
  static async start() {
    const fake = new FakeServer();
    await once(fake.server.listen(0, '127.0.0.1'), 'listening');
    fake.baseUrl = `http://127.0.0.1:${fake.server.address().port}`;
    fake.options = { baseUrl: fake.baseUrl, clientId: 'test', clientSecret: 'test', adminKey: 'test', retryBaseMs: 1 };
    return fake;
  }

  constructor() {
    this.requests = [];
    this.imports = new Map();
    this.replies = [];
    this.finishes = true;
    this.server = http.createServer((req, res) => this.serve(req, res).catch((error) => res.destroy(error)));
    this.server.on('checkContinue', (req, res) => this.serve(req, res, () => res.writeContinue()).catch((error) => res.destroy(error)));
  }

  close() {
    this.server.closeAllConnections?.();
    return new Promise((resolve) => this.server.close(resolve));
  }

  /** The next `times` requests of an operation (`POST /imports`) get this answer, or what a function of the request gives. */
  reply(operation, answer, times = Infinity) {
    if (!ROUTES.some((route) => route.operation === operation)) throw new TypeError(`no such operation: ${operation}`);
    this.replies.push({ operation, answer, times });
    return this;
  }

  /** Ends an import, with what it came to. With `fake.finishes = false` none ends by itself. */
  finish(batchId, outcome = {}) {
    const batch = this.imports.get(batchId);
    if (!batch) throw new TypeError(`no such import: ${batchId}`);
    Object.assign(batch, { status: 'Completed', completedAt: new Date().toISOString() }, outcome);
    for (const watcher of batch.watchers.splice(0)) watcher.end(event('completed', batch));
  }

  async serve(req, res, wantBody = () => {}) {
    const url = new URL(req.url, 'http://x');
    const path = url.pathname.replace(/^\/v1(?=\/)/, '');
    const route = ROUTES.find(({ method, pattern }) => method === req.method && pattern.test(path));
    const params = Object.fromEntries((route?.pattern.exec(path)?.slice(1) ?? []).map((value, n) => [route.names[n], decodeURIComponent(value)]));
    const request = { method: req.method, path, operation: route?.operation ?? null, params, query: Object.fromEntries(url.searchParams), headers: req.headers };
    const planned = this.replies.find((reply) => reply.operation === request.operation && reply.times > 0);
    if (planned) planned.times--;
    // As the server does: a refusal comes before the body.
    if (!(planned && typeof planned.answer !== 'function' && planned.answer.status >= 400)) {
      wantBody();
      const bytes = await read(req);
      const type = req.headers['content-type'] ?? '';
      request.body = type.startsWith('multipart/') ? form(bytes, type) : /json/.test(type) && bytes.length ? JSON.parse(bytes) : bytes;
    }
    this.requests.push(request);
    const answer = planned ? (typeof planned.answer === 'function' ? await planned.answer(request) : planned.answer) : this.answer(request, res);
    if (answer) send(res, answer);
  }

  answer({ operation, method, path, params, body }, res) {
    const batch = this.imports.get(params.batchId);
    switch (operation) {
      case 'GET /healthz': return { body: { status: 'ok', version: '0', uptimeSeconds: 1 } };
      case 'GET /whoami': return { body: { clientId: 'test', name: 'Test', status: 'Active', scopes: ['interface', 'imports'] } };
      case 'POST /imports': return this.accept(body);
      case 'GET /imports': return page([...this.imports.values()].reverse());
      case 'POST /api/tickets': case 'POST /api/counterparties':
        return { body: { id: this.requests.length, ...body, status: operation.endsWith('tickets') ? 'Awaiting' : 'Received', created: true } };
      case 'POST /events': return { status: 202, body: { eventId: randomUUID(), status: 'PENDING', correlationId: randomUUID() } };
    }
    if (batch && operation === 'GET /imports/{batchId}') return { body: batch };
    if (batch && operation === 'GET /imports/{batchId}/items') return page([]);
    if (batch && operation === 'GET /imports/{batchId}/events') return this.watch(batch, res);
    if (batch && operation === 'DELETE /imports/{batchId}') {
      this.finish(batch.batchId, { status: 'Cancelled' });
      return { status: 204 };
    }
    return problem(404, 'NotFound', `the fake server has no answer for ${operation ?? `${method} ${path}`}; give it one by reply()`);
  }

  accept({ file, fileName, ...fields }) {
    const now = new Date().toISOString();
    const batch = {
      batchId: randomUUID(), status: 'Pending', fileName, createdAt: now, startedAt: null, completedAt: null, totalRecords: null, processedRecords: 0,
      errorCount: 0, fileSizeBytes: file.length, checksum: createHash('sha256').update(file).digest('hex'), ...fields,
    };
    Object.defineProperty(batch, 'watchers', { value: [] }); // not shown
    this.imports.set(batch.batchId, batch);
    if (this.finishes) setImmediate(() => OVER.includes(batch.status) || this.finish(batch.batchId));
    return { status: 202, body: { batchId: batch.batchId, status: 'Pending', policyDecision: 'Immediate', message: 'accepted' } };
  }

  watch(batch, res) {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    if (OVER.includes(batch.status)) return void res.end(event('completed', batch));
    res.write(event('progress', batch));
    batch.watchers.push(res);
    return undefined;
  }
}

const event = (name, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
const page = (items) => ({ body: { items, page: 1, pageSize: Math.max(items.length, 20), total: items.length } });
const problem = (status, code, detail) => ({ status, headers: { 'content-type': 'application/problem+json' }, body: { type: 'about:blank', title: code, status, code, detail } });

function send(res, { status = 200, headers = {}, body }) {
  const isText = typeof body === 'string' || Buffer.isBuffer(body);
  const type = status >= 400 ? 'application/problem+json' : 'application/json';
  res.writeHead(status, { ...(body === undefined ? {} : { 'content-type': isText ? 'text/plain' : type }), 'x-correlation-id': randomUUID(), ...headers });
  res.end(body === undefined || isText ? body : JSON.stringify(body));
}

async function read(req) {
  const parts = [];
  let size = 0;
  for await (const part of req) {
    size += part.length;
    if (size > BODY_MAX) throw new Error('a body too large for the fake server');
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** The parts of a form by their names; `file` is a Buffer. */
function form(bytes, type) {
  const fields = {};
  const mark = Buffer.from(`--${/boundary="?([^";]+)/.exec(type)[1]}`);
  for (let at = bytes.indexOf(mark), end; (end = bytes.indexOf(mark, at + 1)) > 0; at = end) {
    const head = bytes.indexOf('\r\n\r\n', at);
    const [, name, , fileName] = /name="([^"]*)"(; filename="([^"]*)")?/.exec(bytes.subarray(at, head).toString());
    const value = bytes.subarray(head + 4, end - 2);
    fields[name] = name === 'file' ? value : value.toString();
    if (fileName !== undefined) fields.fileName = decodeURIComponent(fileName.replace(/%(?!22|0D|0A)/g, '%25'));
  }
  return fields;
}

/** Body and headers of a delivery, signed as the server signs it. */
function signWebhook(payload, secret, { id = randomUUID(), timestamp = Math.floor(Date.now() / 1000) } = {}) {
  const hmac = (key, text) => createHmac('sha256', key).update(text);
  const unsigned = JSON.stringify(payload);
  const body = `${unsigned.slice(0, -1)},"signature":"${hmac(secret, unsigned).digest('hex')}"}`;
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret;
  return {
    body,
    headers: {
      'content-type': 'application/json', 'webhook-id': id, 'webhook-timestamp': String(timestamp),
      'webhook-signature': `v1,${hmac(key, `${id}.${timestamp}.${body}`).digest('base64')}`,
      'x-dataflow-timestamp': String(timestamp), 'x-dataflow-signature': `v1=${hmac(secret, `${timestamp}.${body}`).digest('hex')}`,
    },
  };
}

module.exports = { FakeServer, signWebhook };
