'use strict';
const http = require('node:http');
const https = require('node:https');
const { AbortError, ApiError, NetworkError } = require('./errors.js');
const { Exchange, TIMER_MAX, failureOf, stopped } = require('./exchange.js');
const { version } = require('../package.json');

const PROBLEM_MAX = 1 << 20;
const IDEMPOTENT = new Set(['GET', 'HEAD', 'PUT', 'DELETE']);

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
   * What `read` makes of an answer with 2xx (or that `isAnswer` takes for one), else the answer, its body not read yet. Any
   * other is thrown.
   * request: method, path, query, headers, body (null, a Buffer, or an object as of upload.js), repeatable, read, isAnswer,
   * and of the caller signal, timeout, retries, idempotencyKey, ifMatch, correlationId, language, headers.
   */
  async send(request) {
    const { signal, body, read = (res) => res, isAnswer = isSuccess } = request;
    const retries = request.retries ?? this.options.retries;
    const repeatable = request.repeatable || IDEMPOTENT.has(request.method);
    const agent = repeatable ? this.agent : this.single;
    for (let n = 0; ; n++) {
      let failure;
      try {
        const res = await this.try({ ...request, agent });
        if (isAnswer(res)) return await read(res);
        failure = await problemOf(res);
      } catch (error) {
        failure = error;
      }
      if (!isWorthAnother(failure, repeatable) || n >= retries || body?.begun) throw failure;
      const { retryBaseMs, retryCapMs, maxRetryAfterMs } = this.options;
      const told = (failure.retryAfter ?? 0) * 1000;
      if (told > maxRetryAfterMs) throw failure;
      await pause(told + Math.random() * Math.min(retryCapMs, retryBaseMs * 2 ** n), [signal, body?.broken]);
    }
  }

  /** One try: the answer, of whatever status. */
  async try(request) {
    const why = stopped(request);
    if (why) throw why;
    const exchange = new Exchange(request, request.timeout ?? this.options.timeoutMs);
    const { protocol, hostname, port } = this.base;
    return exchange.run(this.module.request({
      protocol, hostname: hostname.replace(/^\[|\]$/g, ''), port, method: request.method, agent: request.agent,
      headers: this.headersOf(request), path: this.prefix + request.path + query(request.query),
    }));
  }

  headersOf({ method, body, headers: given, idempotencyKey, ifMatch, correlationId, language }) {
    const headers = { ...this.headers };
    for (const [name, value] of Object.entries({
      ...given, 'idempotency-key': idempotencyKey, 'if-match': ifMatch, 'x-correlation-id': correlationId, 'accept-language': language,
    })) if (value !== undefined) headers[name.toLowerCase()] = value;
    if (body) {
      headers['content-type'] ??= 'application/json';
      if (body.length !== null) headers['content-length'] = body.length;
      if (body.open) headers.expect = '100-continue';
    } else if (method !== 'GET') {
      headers['content-length'] = 0;
    }
    return headers;
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
        throw failureOf(text === undefined ? error : new Error('the answer is not JSON', { cause: error }), request);
      }
    };
    return this.send({ ...request, read });
  }
}

const isSuccess = (res) => res.statusCode >= 200 && res.statusCode < 300;

/** Whether the same request may get another answer later. */
const isTransient = (status) => status === 408 || status === 429 || (status >= 500 && status !== 501 && status !== 505);

/** Whether it is certain that a call was not carried out, or it may be carried out twice; and another try may help. */
function isWorthAnother(failure, repeatable) {
  if (failure instanceof ApiError) return failure.status === 429 || (repeatable && isTransient(failure.status));
  return failure instanceof NetworkError && (repeatable || failure.neverSent === true);
}

async function problemOf(res) {
  const text = await collect(res, PROBLEM_MAX).catch((error) => {
    if (error instanceof AbortError) throw error;
    return ''; // it was cut off: the status has to do
  });
  return ApiError.from(res.statusCode, res.headers, text);
}

/** Waits, but no longer than until one of the signals. */
function pause(ms, signals) {
  const all = signals.filter(Boolean);
  if (all.some((signal) => signal.aborted)) return undefined;
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      for (const signal of all) signal.removeEventListener('abort', over);
      resolve();
    };
    const timer = setTimeout(over, Math.min(ms, TIMER_MAX));
    for (const signal of all) signal.addEventListener('abort', over);
  });
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

module.exports = { Transport, isSuccess, isTransient, responseOf };
