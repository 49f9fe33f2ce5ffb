'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { randomBytes } = require('node:crypto');
const { Readable } = require('node:stream');
const { fileURLToPath } = require('node:url');

/**
 * What a file to upload is: `open` gives its bytes as an iterable, `length` is null if it is not known, `once` tells
 * that it can't be opened again.
 */
async function fileOf(source) {
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
  if (typeof Blob !== 'undefined' && source instanceof Blob) {
    return { open: () => Readable.fromWeb(source.stream()), length: source.size, name: source.name };
  }
  if (typeof source === 'function') return { open: source, length: null };
  if (source && (source[Symbol.asyncIterator] || typeof source.getReader === 'function')) {
    return { open: () => source, length: null, once: true, name: typeof source.path === 'string' ? path.basename(source.path) : undefined };
  }
  throw new TypeError('a file to upload is a path, a Buffer, a Blob, a stream, or a function that opens a stream');
}

function* slices(bytes) {
  for (let at = 0; at < bytes.length; at += 65536) yield bytes.subarray(at, at + 65536);
}

/**
 * A multipart body for Transport, which opens it for every try; the fields stand before the file. `begun`: it can't be
 * opened again; `failed`: what went wrong with the file, which no other try would mend.
 */
async function multipart(source, fields, { fileName, contentType, onProgress }) {
  const file = await fileOf(source);
  const boundary = `dataflow-${randomBytes(18).toString('hex')}`;
  const quote = (text) => String(text).replace(/[\r\n"]/g, (c) => encodeURIComponent(c));
  const parts = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null).map(([name, value]) =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${quote(name)}"\r\n\r\n${typeof value === 'object' ? JSON.stringify(value) : value}\r\n`);
  const head = Buffer.from(`${parts.join('')}--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quote(fileName ?? file.name ?? 'upload')}"\r\n` +
    `Content-Type: ${contentType ?? 'application/octet-stream'}\r\n\r\n`);
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  const body = { type: `multipart/form-data; boundary=${boundary}`, length: file.length === null ? null : head.length + file.length + tail.length, begun: false, failed: undefined };
  async function* content() {
    try {
      let sent = 0;
      let opened = await file.open();
      if (typeof opened.getReader === 'function' && !opened[Symbol.asyncIterator]) opened = Readable.fromWeb(opened);
      for await (const chunk of opened) {
        const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
        yield bytes;
        sent += bytes.length;
        onProgress?.({ sent, total: file.length });
      }
      if (file.length !== null && sent !== file.length) throw new Error('the file changed while it was sent');
    } catch (error) {
      body.failed = error;
      throw error;
    }
  }
  async function* whole() {
    yield head;
    for await (const bytes of content()) yield bytes; // unlike yield* it hands on no error of the connection
    yield tail;
  }
  body.open = () => {
    if (file.once) body.begun = true;
    return Readable.from(whole(), { objectMode: false, highWaterMark: 65536 });
  };
  return body;
}

module.exports = { multipart };
