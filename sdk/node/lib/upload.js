'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { IncomingMessage } = require('node:http');
const { randomBytes } = require('node:crypto');
const { Readable } = require('node:stream');
const { isUint8Array } = require('node:util').types;
const { fileURLToPath } = require('node:url');

/**
 * What a file to upload is: `open` gives its bytes as an iterable, `length` is null if it is not known, `once` is the
 * source if it can't be opened again. `fail` is told what went wrong with it, which no other try would mend: `broken` is a
 * signal with it.
 */
async function fileOf(source) {
  const breaks = new AbortController();
  const fail = (error) => breaks.abort(error ?? new Error('the file cannot be read'));
  return { ...await contentOf(source, fail), fail, broken: breaks.signal };
}

async function contentOf(source, fail) {
  if (source instanceof URL) source = fileURLToPath(source);
  if (typeof source === 'string') {
    const { size } = await fs.promises.stat(source);
    // Not more than what was announced, should the file grow meanwhile.
    return { open: () => (size ? fs.createReadStream(source, { end: size - 1 }) : []), length: size, name: path.basename(source) };
  }
  if (source instanceof ArrayBuffer) source = new Uint8Array(source);
  if (ArrayBuffer.isView(source)) {
    const bytes = Buffer.from(source.buffer, source.byteOffset, source.byteLength);
    return { open: () => slices(bytes), length: bytes.length };
  }
  if (typeof Blob !== 'undefined' && source instanceof Blob) return { open: () => source.stream(), length: source.size, name: source.name };
  if (typeof source === 'function') return { open: source, length: null };
  if (source && (source[Symbol.asyncIterator] || typeof source.getReader === 'function')) {
    listen(source, fail); // it may fail before it is read
    return { open: () => source, length: null, once: source, name: typeof source.path === 'string' ? path.basename(source.path) : undefined };
  }
  throw new TypeError('a file to upload is a path, a Buffer, a Blob, a stream, or a function that opens a stream');
}

function* slices(bytes) {
  for (let at = 0; at < bytes.length; at += 65536) yield bytes.subarray(at, at + 65536);
}

/** A stream that fails while nobody listens would end the process. */
function listen(source, fail) {
  if (typeof source?.on === 'function') source.on('error', fail);
}

/** Lets go of a source that is not read to its end. */
async function release(source) {
  // A request that the caller's own server is to answer: without its connection it could not.
  if (source instanceof IncomingMessage && source.method) return;
  try {
    if (typeof source?.destroy === 'function') source.destroy();
    else if (typeof source?.cancel === 'function') await source.cancel();
    else await source?.return?.();
  } catch {
    // Nobody waits for it any more.
  }
}

/** One reading of a file. It may be stopped while it waits for bytes that do not come. */
class Reading {
  constructor(file, onProgress) {
    this.file = file;
    this.onProgress = onProgress;
    this.isOver = false;
  }

  async *[Symbol.asyncIterator]() {
    try {
      let size = 0;
      for await (const chunk of await this.open()) {
        const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
        if (!isUint8Array(bytes)) throw new TypeError('a file is made of bytes or text');
        yield bytes;
        this.onProgress(size += bytes.length);
      }
      if (this.file.length !== null && size !== this.file.length) throw new Error('the file changed while it was sent');
    } catch (error) {
      if (!this.isOver) this.file.fail(error);
      throw error;
    }
  }

  async open() {
    const { file } = this;
    const given = file.open();
    if (!file.once) listen(given, (error) => this.isOver || file.fail(error));
    const opened = await given;
    if (opened !== given && !file.once) listen(opened, (error) => this.isOver || file.fail(error));
    // Node's own can be destroyed while they are read.
    this.opened = opened instanceof ReadableStream ? Readable.fromWeb(opened) : opened;
    if (this.isOver) release(this.opened);
    return this.opened;
  }

  stop() {
    this.isOver = true;
    release(this.opened);
  }
}

/**
 * A multipart body for Transport, the fields before the file. For every try `open` gives its bytes as `stream`, and `stop`
 * to let go of the file after. `begun`: it can't be opened again; `broken`: as of the file.
 */
function multipart(file, fields, { fileName, contentType, onProgress }) {
  const boundary = `dataflow-${randomBytes(18).toString('hex')}`;
  const quote = (text) => String(text).replace(/[\r\n"]/g, (c) => encodeURIComponent(c));
  const parts = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null).map(([name, value]) =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${quote(name)}"\r\n\r\n${typeof value === 'object' ? JSON.stringify(value) : value}\r\n`);
  const head = Buffer.from(`${parts.join('')}--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quote(fileName ?? file.name ?? 'upload')}"\r\n` +
    `Content-Type: ${contentType ?? 'application/octet-stream'}\r\n\r\n`);
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  const length = file.length === null ? null : head.length + file.length + tail.length;
  const body = { type: `multipart/form-data; boundary=${boundary}`, length, begun: false, broken: file.broken };

  async function* whole(reading) {
    yield head;
    for await (const bytes of reading) yield bytes; // unlike yield* it hands on no error of the connection
    yield tail;
  }
  body.open = () => {
    if (file.once) body.begun = true;
    const reading = new Reading(file, (sent) => onProgress?.({ sent, total: file.length }));
    return { stream: Readable.from(whole(reading), { objectMode: false, highWaterMark: 65536 }), stop: () => reading.stop() };
  };
  return body;
}

module.exports = { fileOf, multipart, release };
