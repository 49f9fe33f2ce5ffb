'use strict';
const http = require('node:http');
const https = require('node:https');
const { setTimeout: sleep } = require('node:timers/promises');
const { pipeline } = require('node:stream');
const { AbortError, ApiError, NetworkError, TimeoutError } = require('./errors.js');
const { version } = require('../package.json');

const CONTINUE_MS = 1000; // for the server to say that it wants the body; a proxy may not know of it
const PROBLEM_MAX = 1 << 20;
const IDEMPOTENT = new Set(['GET', 'HEAD', 'PUT', 'DELETE']);
// Nothing was sent when these came.
const NEVER_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN']);

const responses = new WeakMap();

/** Status and headers that an answer came with; undefined for anything else. */
const responseOf = (answer) => responses.get(answer);

/** Sends requests, and sends them again where that is safe. */
class Transport {
  constructor(options) {
    this.base = new URL(options.baseUrl);
    if (!/^https?:$/.test(this.base.protocol)) throw new TypeError(`baseUrl must be http or https: ${options.baseUrl}`);
    this.prefix = this.base.pathname.replace(/\/+$/, '') + '/v1';
    this.module = this.base.protocol === 'https:' ? https : http;
    this.options = options;
    this.agent = options.agent ?? new this.module.Agent({ keepAlive: true });
    // A kept connection may be closed by the server just when it is used. What may not be sent twice has one of its own.
    this.single = options.agent ?? new this.module.Agent({ keepAlive: false });
    this.headers = { 'user-agent': `dataflow-sdk-node/${version}`, accept: 'application/json', ...options.headers };
    if (options.clientId !== undefined) this.headers['x-client-id'] = options.clientId;
    if (options.clientSecret !== undefined) this.headers['x-client-secret'] = options.clientSecret;
    if (options.adminKey !== undefined) this.headers['x-admin-key'] = options.adminKey;
  }

  close() {
    if (!this.options.agent) [this.agent, this.single].forEach((agent) => agent.destroy());
  }

  /**
   * What `read` makes of an answer with 2xx, else the answer, its body not read yet. Any other status is thrown.
   * request: method, path, query, headers, body (null, a Buffer, or an object as of upload.js), repeatable, read, and of
   * the caller signal, timeout, retries, idempotencyKey, ifMatch, correlationId, language, headers.
   */
  async send(request) {
    const { signal, body, read = (res) => res } = request;
    const retries = request.retries ?? this.options.retries;
    const repeatable = request.repeatable || IDEMPOTENT.has(request.method) || request.idempotencyKey !== undefined;
    for (let n = 0; ; n++) {
      let failure;
      try {
        return await read(await this.try({ ...request, agent: repeatable ? this.agent : this.single }));
      } catch (error) {
        failure = error;
      }
      const again = failure instanceof ApiError
        ? failure.status === 429 || (repeatable && (failure.status >= 500 || failure.status === 408))
        : failure instanceof NetworkError && (repeatable || failure.neverSent);
      if (!again || n >= retries || body?.begun) throw failure;
      const { retryBaseMs, retryCapMs, maxRetryAfterMs } = this.options;
      const told = (failure.retryAfter ?? 0) * 1000;
      if (told > maxRetryAfterMs) throw failure;
      const wait = told + Math.random() * Math.min(retryCapMs, retryBaseMs * 2 ** n);
      await sleep(wait, undefined, { signal }).catch(() => { throw aborted(signal); });
    }
  }

  /** One try. */
  try(request) {
    const { method, body, signal, agent } = request;
    const timeout = request.timeout ?? this.options.timeoutMs;
    if (signal?.aborted) return Promise.reject(aborted(signal));
    const headers = { ...this.headers };
    for (const [name, value] of Object.entries({
      ...request.headers, 'idempotency-key': request.idempotencyKey, 'if-match': request.ifMatch,
      'x-correlation-id': request.correlationId, 'accept-language': request.language,
    })) if (value !== undefined) headers[name.toLowerCase()] = value;
    if (body) {
      headers['content-type'] ??= 'application/json';
      if (body.length !== null) headers['content-length'] = body.length;
      if (body.open) headers.expect = '100-continue';
    } else if (method !== 'GET') {
      headers['content-length'] = 0;
    }

    return new Promise((resolve, reject) => {
      let answered = false;
      let timer;
      const { protocol, hostname, port } = this.base;
      const req = this.module.request({
        protocol, hostname: hostname.replace(/^\[|\]$/g, ''), port, method, headers, agent, path: this.prefix + request.path + query(request.query),
      });
      const onAbort = () => req.destroy(aborted(signal));
      signal?.addEventListener('abort', onAbort, { once: true });
      req.setTimeout(timeout, () => req.destroy(new TimeoutError(`${method} ${request.path}: nothing moved for ${timeout} ms`)));
      req.on('close', () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      });
      req.on('error', (error) => reject(body?.failed ?? this.failure(error, request)));
      req.on('response', (res) => {
        answered = true;
        res.on('close', () => { if (!req.writableFinished) req.destroy(); }); // the rest of a body that is not wanted
        if (res.statusCode >= 200 && res.statusCode < 300) return resolve(res);
        collect(res, PROBLEM_MAX).then(
          (text) => reject(ApiError.from(res.statusCode, res.headers, text)),
          () => reject(ApiError.from(res.statusCode, res.headers, '')));
      });

      if (!body || Buffer.isBuffer(body)) return void req.end(body);
      const begin = () => {
        clearTimeout(timer);
        if (answered || req.destroyed || timer === null) return;
        timer = null;
        pipeline(body.open(), req, (error) => {
          // An answer may come before the end of the body, which then is no error.
          if (error && !answered) reject(body.failed ?? this.failure(error, request));
        });
      };
      req.on('continue', begin);
      timer = setTimeout(begin, CONTINUE_MS);
      req.flushHeaders();
    });
  }

  failure(error, { method, path, signal }) {
    if (error instanceof NetworkError || error instanceof AbortError) return error;
    if (signal?.aborted) return aborted(signal);
    const failure = new NetworkError(`${method} ${path}: ${error.message || error.code}`, { cause: error });
    failure.neverSent = NEVER_SENT.has(error.code) || /^ERR_TLS|^CERT_|SELF_SIGNED|UNABLE_TO/.test(error.code ?? '');
    return failure;
  }

  /** The answer as JSON (or text), undefined if it has no body. A connection lost in it is as one lost before. */
  json(request) {
    const read = async (res) => {
      let text;
      try {
        text = await collect(res, Infinity);
        const answer = text === '' ? undefined : request.text ? text : JSON.parse(text);
        if (answer && typeof answer === 'object') responses.set(answer, { status: res.statusCode, headers: res.headers });
        return answer;
      } catch (error) {
        throw this.failure(text === undefined ? error : new Error('the answer is not JSON', { cause: error }), request);
      }
    };
    return this.send({ ...request, read });
  }
}

function aborted(signal) {
  return new AbortError('the call was aborted', { cause: signal?.reason });
}

async function collect(stream, max) {
  const parts = [];
  let size = 0;
  for await (const part of stream) {
    size += part.length;
    if (size > max) break;
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

function query(parameters) {
  const pairs = Object.entries(parameters ?? {}).filter(([, value]) => value !== undefined && value !== null);
  if (!pairs.length) return '';
  return '?' + new URLSearchParams(pairs.map(([name, value]) => [name, value instanceof Date ? value.toISOString() : String(value)]));
}

module.exports = { Transport, aborted, responseOf };
