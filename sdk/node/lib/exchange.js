'use strict';
const { pipeline } = require('node:stream');
const { AbortError, NetworkError, TimeoutError } = require('./errors.js');

const CONTINUE_MS = 1000; // for the server to say that it wants the body; a proxy may not know of it
const TIMER_MAX = 2 ** 31 - 1; // a longer timer is over at once

/**
 * One try of a request: from the connection to the head of the answer, and the watch over what comes after it. A failure
 * before the connection is there has `neverSent`.
 */
class Exchange {
  constructor(request, timeout) {
    if (!(timeout >= 0)) throw new TypeError(`timeout must be milliseconds: ${timeout}`);
    this.request = request;
    this.timeout = Math.min(timeout, TIMER_MAX);
    this.isConnected = false;
    this.onAbort = () => this.stop(aborted(request.signal));
    this.onBroken = () => { if (!this.res) this.stop(request.body.broken.reason); };
    this.onConnect = () => this.connected();
    this.onSilence = () => this.silence();
  }

  /** The answer, of whatever status, its body not read yet. */
  run(req) {
    this.req = req;
    return new Promise((resolve, reject) => {
      this.reject = reject;
      const { body, signal } = this.request;
      signal?.addEventListener('abort', this.onAbort, { once: true });
      body?.broken?.addEventListener('abort', this.onBroken, { once: true });
      req.on('error', (error) => this.fail(error));
      req.on('close', () => this.closed());
      req.on('continue', () => this.begin());
      req.once('socket', (socket) => this.connect(socket));
      req.on('response', (res) => resolve(this.answered(res)));
      if (body?.open) req.flushHeaders();
      else req.end(body);
    });
  }

  /** The socket's own timer starts only when it is connected, so until then there is one here. */
  connect(socket) {
    this.socket = socket;
    if (!socket.connecting && !socket.secureConnecting) return this.connected(); // a kept one
    if (this.timeout) this.timer = setTimeout(() => this.stop(this.timedOut('no connection')), this.timeout);
    return void socket.once(socket.encrypted ? 'secureConnect' : 'connect', this.onConnect);
  }

  connected() {
    this.isConnected = true;
    clearTimeout(this.timer);
    this.socket.on('timeout', this.onSilence).setTimeout?.(this.timeout); // an agent's own kind of socket may have none
    if (this.request.body?.open) this.timer = setTimeout(() => this.begin(), CONTINUE_MS);
  }

  /** Sends the body. */
  begin() {
    clearTimeout(this.timer);
    if (this.content || this.res || this.req.destroyed) return;
    this.content = this.request.body.open();
    pipeline(this.content.stream, this.req, (error) => {
      // An answer may come before the end of the body, which then is no error.
      if (error && !this.res) this.fail(error);
    });
  }

  answered(res) {
    this.res = res;
    clearTimeout(this.timer);
    res.on('error', () => {}); // kept in res.errored, for whoever reads it later
    res.on('close', () => { if (!this.req.writableFinished) this.req.destroy(); }); // the rest of a body that is not wanted
    return res;
  }

  silence() {
    const { res } = this;
    // While something that came is not taken, it is the caller who is slow.
    if (res?.readableDidRead && (res.complete || res.readableLength)) this.socket.setTimeout(this.timeout);
    else this.stop(this.timedOut('nothing moved'));
  }

  timedOut(what) {
    const { method, path } = this.request;
    return new TimeoutError(`${method} ${path}: ${what} for ${this.timeout} ms`);
  }

  /** Ends the try with an error, which who reads the answer gets, if there is one. */
  stop(error) {
    if (this.res) return void this.res.destroy(error);
    this.fail(error);
    this.req.destroy();
  }

  fail(error) {
    const failure = failureOf(error, this.request);
    if (failure instanceof NetworkError) failure.neverSent = !this.isConnected;
    this.reject(failure);
  }

  closed() {
    const { body, signal } = this.request;
    clearTimeout(this.timer);
    signal?.removeEventListener('abort', this.onAbort);
    body?.broken?.removeEventListener('abort', this.onBroken);
    // An agent may give the socket to another request.
    this.socket?.removeListener('connect', this.onConnect).removeListener('secureConnect', this.onConnect).removeListener('timeout', this.onSilence);
    this.content?.stop();
    if (!this.res) this.fail(new Error('the connection was closed'));
  }
}

/** What ended a call from outside: the caller's signal, or a file that can't be read; undefined if nothing did. */
function stopped({ signal, body }) {
  if (signal?.aborted) return aborted(signal);
  return body?.broken?.aborted ? body.broken.reason : undefined;
}

function aborted(signal) {
  return new AbortError('the call was aborted', { cause: signal?.reason });
}

/** An error of Node as one of ours. */
function failureOf(error, request) {
  if (error instanceof NetworkError || error instanceof AbortError) return error;
  return stopped(request) ?? new NetworkError(`${request.method} ${request.path}: ${error.message || error.code}`, { cause: error });
}

module.exports = { Exchange, TIMER_MAX, aborted, failureOf, stopped };
