'use strict';
const fs = require('node:fs');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { pipeline } = require('node:stream/promises');
const { Transport, isSuccess, isTransient } = require('./http.js');
const { TIMER_MAX, aborted, failureOf } = require('./exchange.js');
const { AbortError, ApiError, NetworkError, TimeoutError } = require('./errors.js');
const { fileOf, multipart, release } = require('./upload.js');
const { events } = require('./events.js');
const operations = require('./operations.js');

const DEFAULTS = { baseUrl: 'http://127.0.0.1:8080', retries: 3, retryBaseMs: 500, retryCapMs: 8000, maxRetryAfterMs: 60000, timeoutMs: 60000 };
const OVER = new Set(['Completed', 'CompletedWithErrors', 'Failed', 'Cancelled']);
const POLL_MS = 1000;
const POLL_CAP_MS = 10000;

/** Of a list: awaited it is the first page, iterated it is all items of all pages. Nothing is asked for before. */
class Pages {
  constructor(fetch, query) {
    this.fetch = fetch;
    this.query = { ...query };
  }

  then(done, failed) {
    return (this.first ??= this.fetch(this.query)).then(done, failed);
  }

  get [Symbol.toStringTag]() {
    return 'Pages';
  }

  catch(failed) {
    return this.then(undefined, failed);
  }

  finally(done) {
    return Promise.resolve(this).finally(done);
  }

  /** Page by page. */
  async *pages() {
    let query = this.query;
    for (let seen = 0; ;) {
      const page = await this.fetch(query);
      yield page;
      seen += page.items.length;
      if (page.next) query = { ...query, page: undefined, after: page.next };
      // A server that gives cursors gives none at the end.
      else if (page.next === null || query.after !== undefined || !page.items.length || !page.page) return;
      else if ((page.page - 1) * page.pageSize + page.items.length >= page.total && !page.totalIsEstimate) return;
      else query = { ...query, page: page.page + 1 };
    }
  }

  async *[Symbol.asyncIterator]() {
    for await (const page of this.pages()) yield* page.items;
  }
}

/** A file that the server sends: `stream` once, or one of the others. */
class Download {
  constructor(res, request) {
    this.stream = res;
    this.contentType = res.headers['content-type'] ?? null;
    Object.defineProperty(this, 'request', { value: request }); // not shown
  }

  async bytes() {
    const parts = [];
    for await (const part of this.read()) parts.push(part);
    return Buffer.concat(parts);
  }

  async text() {
    return (await this.bytes()).toString('utf8');
  }

  async json() {
    return JSON.parse(await this.text());
  }

  /** Written beside its name first: a file of that name is whole. */
  async save(path) {
    const part = `${path}.${randomUUID()}.part`;
    try {
      await pipeline(this.read(), fs.createWriteStream(part, { flags: 'wx' }));
      await fs.promises.rename(part, path);
    } catch (error) {
      this.stream.destroy();
      await fs.promises.rm(part, { force: true }).catch(() => {}); // the first error is the one to tell
      throw error;
    }
  }

  async *read() {
    try {
      for await (const part of this.stream) yield part;
    } catch (error) {
      throw failureOf(error, this.request);
    }
  }
}

/** A part of a path. Dots would lead out of it. */
function segment(value) {
  if (/^\.\.?$/.test(value)) throw new TypeError(`${value} is no part of a path`);
  return encodeURIComponent(value);
}

/** A function for a row of the table. */
function method(client, text) {
  const [verb, template, ...flags] = text.split(' ');
  const is = (flag) => flags.includes(flag);
  const own = template.startsWith('/clients/{clientId}');
  const names = [...template.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).slice(own ? 1 : 0);

  return (...args) => {
    const values = names.map((name) => {
      const value = args.shift();
      if (value === undefined || value === null || value === '') throw new TypeError(`${name} is missing`);
      return segment(value);
    });
    const query = is('?') ? args.shift() : undefined;
    const body = is('=') ? args.shift() : undefined;
    const options = args.shift() ?? {};
    if (args.length) throw new TypeError('too many arguments');
    if (own) {
      const clientId = options.clientId ?? client.clientId;
      if (!clientId) throw new TypeError('clientId is missing: give it to the client or in the options');
      values.unshift(segment(clientId));
    }
    const path = template.replace(/\{\w+\}/g, () => values.shift());
    // A key that a call does not take, and the server therefore does not look at, makes nothing safe to repeat.
    const request = { ...options, repeatable: is('repeat') || is('key'), method: verb, path, query, body: body === undefined ? null : Buffer.from(JSON.stringify(body)) };
    if (is('key')) request.idempotencyKey ||= randomUUID();
    if (is('page')) return new Pages((q) => client.transport.json({ ...request, query: q }), query);
    if (is('file')) {
      return client.transport.send({ ...request, headers: { accept: '*/*', ...options.headers }, read: (res) => new Download(res, request) });
    }
    if (is('events')) return watch(client, request);
    if (is('text')) return client.transport.json({ ...request, text: true, headers: { accept: 'text/plain', ...options.headers } });
    return client.transport.json(request);
  };
}

async function* watch(client, request) {
  const res = await client.transport.send({ ...request, headers: { accept: 'text/event-stream', ...request.headers } });
  try {
    if (!/^text\/event-stream/.test(res.headers['content-type'] ?? '')) throw new NetworkError('the server sends no events here');
    yield* events(res);
  } catch (error) {
    throw failureOf(error, request);
  } finally {
    res.destroy();
  }
}

/** POST /imports and POST /imports/preview. */
function uploader(client, path, keyed) {
  return async (source, fields = {}, options = {}) => {
    const { fileName, contentType, onProgress, ...rest } = options;
    const file = await fileOf(source);
    try {
      const body = multipart(file, fields, { fileName: fileName ?? fields.fileName, contentType, onProgress });
      const request = { ...rest, repeatable: true, method: 'POST', path, body, headers: { ...rest.headers, 'content-type': body.type } };
      if (keyed) request.idempotencyKey ||= randomUUID();
      return await client.transport.json(request);
    } finally {
      release(file.once); // an answer may have come before anything was read
    }
  };
}

/**
 * The batch when it is over, by the server's events; where they fail, and until they come again, by asking. A server
 * that is away is waited for, as long as `maxOutageMs`.
 */
function waiter(imports) {
  return async (batchId, options = {}) => {
    const { onProgress, timeout = Infinity, pollMs = POLL_MS, maxOutageMs = 300000, events: byEvents = true, signal: given, ...rest } = options;
    const stop = new AbortController();
    const onAbort = () => stop.abort(given.reason);
    if (given?.aborted) throw aborted(given);
    given?.addEventListener('abort', onAbort, { once: true });
    const timer = timeout < Infinity ? setTimeout(() => stop.abort(), Math.min(timeout, TIMER_MAX)) : undefined;
    const call = { ...rest, signal: stop.signal };
    let last;
    const tell = (batch) => {
      const text = JSON.stringify(batch);
      if (text !== last) onProgress?.(batch);
      last = text;
      return OVER.has(batch.status);
    };
    let wellAt = Date.now();
    try {
      for (let idle = 0; ; idle++) {
        let follows = false;
        try {
          if (byEvents) {
            for await (const { data } of imports.watch(batchId, { ...call, retries: 0 })) {
              follows = true;
              idle = 0;
              if (tell(data)) break;
            }
          }
        } catch (error) {
          if (!maybeLater(error, true)) throw error;
        }
        if (follows) wellAt = Date.now(); // the server was there until the events ended, however few there were
        try {
          const batch = await imports.get(batchId, call);
          wellAt = Date.now();
          if (tell(batch)) return batch;
        } catch (error) {
          if (!maybeLater(error, false) || Date.now() - wellAt > maxOutageMs) throw error;
        }
        await sleep(Math.min(pollMs * 1.5 ** Math.min(idle, 20), POLL_CAP_MS), undefined, { signal: stop.signal });
      }
    } catch (error) {
      if (given?.aborted) throw aborted(given);
      if (stop.signal.aborted) throw new TimeoutError(`import ${batchId} is not over after ${timeout} ms`);
      throw error;
    } finally {
      clearTimeout(timer);
      given?.removeEventListener('abort', onAbort);
    }
  };
}

/** Whether a call of wait() that failed is worth another. Without events there is still the other call, which tells. */
function maybeLater(error, ofEvents) {
  if (error instanceof AbortError) return false;
  if (error instanceof ApiError) return isTransient(error.status) || (ofEvents && ![401, 403].includes(error.status));
  return error instanceof NetworkError;
}

/** /integrations/{name}/{path}: what the other side answered, errors too. What the server itself refuses is thrown. */
function integration(client) {
  return async (name, path = '', options = {}) => {
    const { method: verb = 'GET', query, body, onUnavailable, headers, ...rest } = options;
    const isBytes = typeof body === 'string' || body instanceof Uint8Array;
    const request = {
      ...rest, repeatable: Boolean(rest.idempotencyKey), method: verb, query: { ...query, onUnavailable }, headers: { accept: '*/*', ...headers },
      path: `/integrations/${[name, ...String(path).split('/').filter(Boolean)].map(segment).join('/')}`,
      body: body === undefined ? null : Buffer.from(isBytes ? body : JSON.stringify(body)),
    };
    const read = async (res) => {
      const bytes = await new Download(res, request).bytes();
      return { status: res.statusCode, headers: res.headers, body: parsed(bytes, res.headers['content-type'] ?? '') };
    };
    return client.transport.send({ ...request, isAnswer: isPassedOn, read });
  };
}

/** Whether the other side answered. Its 408, 429 and 5xx never come through: those are the server's, or of a proxy before it. */
function isPassedOn(res) {
  const isProblem = /^application\/problem\+json\s*(;|$)/i.test(res.headers['content-type'] ?? '');
  return isSuccess(res) || (res.statusCode < 500 && !isTransient(res.statusCode) && !isProblem);
}

/** JSON as what it says, everything else as it is: also what is only called JSON. */
function parsed(bytes, type) {
  try {
    return /[/+]json\b/i.test(type) ? JSON.parse(bytes) : bytes;
  } catch {
    return bytes;
  }
}

class DataFlow {
  constructor(options = {}) {
    const settings = { ...DEFAULTS, ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) };
    this.clientId = settings.clientId;
    Object.defineProperty(this, 'transport', { value: new Transport(settings) }); // not shown by console.log: it has secrets
    const hands = {
      'imports.upload': uploader(this, '/imports', true),
      'imports.preview': uploader(this, '/imports/preview', false),
      'integrations.call': integration(this),
    };
    const put = (name, value) => {
      const path = name.split('.');
      const last = path.pop();
      path.reduce((group, step) => (group[step] ??= {}), this)[last] = value;
    };
    for (const [name, text] of Object.entries(operations)) if (!text.includes(' own')) put(name, method(this, text));
    for (const [name, value] of Object.entries(hands)) put(name, value);
    this.imports.wait = waiter(this.imports);
    this.admin.imports.wait = waiter(this.admin.imports);
  }

  /** Closes kept connections. Calls may still be made. */
  close() {
    this.transport.close();
  }
}

module.exports = { DataFlow };
