'use strict';
const { createHmac, timingSafeEqual } = require('node:crypto');

/** Why a delivery was refused. */
class WebhookError extends Error {
  constructor(message) {
    super(message);
    this.name = 'WebhookError';
  }
}

const hmac = (key, ...parts) => parts.reduce((hash, part) => hash.update(part), createHmac('sha256', key)).digest();
// Standard Webhooks: the bytes behind whsec_; a secret without it is itself the key.
const keyOf = (secret) => (secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret);
const same = (given, expected) => given.length === expected.length && timingSafeEqual(given, expected);

function header(headers, name) {
  const value = typeof headers.get === 'function' ? headers.get(name)
    : headers[name] ?? headers[Object.keys(headers).find((key) => key.toLowerCase() === name)];
  return Array.isArray(value) ? value.join(',') : value ?? '';
}

function bytesOf(body) {
  if (typeof body === 'string') return Buffer.from(body);
  if (body instanceof Uint8Array) return body;
  throw new TypeError('body must be the bytes or the text as they came, not parsed');
}

function listOf(secrets) {
  const list = [secrets].flat();
  if (!list.length || !list.every((secret) => typeof secret === 'string' && secret)) throw new TypeError('secrets must be one or more texts');
  return list;
}

function fresh(timestamp, { toleranceSeconds = 300, now = Date.now() / 1000 }) {
  return /^\d{1,12}$/.test(timestamp) && Math.abs(now - Number(timestamp)) <= toleranceSeconds;
}

/**
 * The event of a delivery, if one of its two signatures (X-DataFlow-Signature, webhook-signature) was made with one of
 * the secrets not long ago; else throws a WebhookError. `body` as it came, before anything parsed it.
 */
function verifyWebhook(body, headers, secrets, options = {}) {
  const bytes = bytesOf(body);
  const keys = listOf(secrets);
  const id = header(headers, 'webhook-id');
  const schemes = [
    [header(headers, 'x-dataflow-timestamp'), header(headers, 'x-dataflow-signature'), 'v1=', 'hex', (secret, t) => hmac(secret, `${t}.`, bytes)],
    [header(headers, 'webhook-timestamp'), header(headers, 'webhook-signature'), 'v1,', 'base64', (secret, t) => hmac(keyOf(secret), `${id}.${t}.`, bytes)],
  ].filter(([, signature]) => signature);
  if (!schemes.length) throw new WebhookError('there is no signature');
  const recent = schemes.filter(([timestamp]) => fresh(timestamp, options));
  if (!recent.length) throw new WebhookError('the timestamp is missing or too far from now');
  for (const [timestamp, signature, version, encoding, sign] of recent) {
    // More than a few would only cost time. A comma parts values of the first kind and stands within those of the second.
    const given = signature.split(version === 'v1=' ? /[,\s]+/ : /\s+/).slice(0, 10).filter((one) => one.startsWith(version))
      .map((one) => Buffer.from(one.slice(3), encoding));
    for (const secret of keys) {
      const expected = sign(secret, timestamp);
      if (given.some((one) => same(one, expected))) return JSON.parse(Buffer.from(bytes).toString('utf8'));
    }
  }
  throw new WebhookError('no signature matches');
}

/** The same of a body that was kept without its headers, by its member `signature`. It tells nothing about when. */
function verifyStoredWebhook(body, secrets) {
  const text = Buffer.from(bytesOf(body)).toString('latin1'); // a character a byte
  const at = text.lastIndexOf(',"signature":"');
  const given = at < 0 ? null : /^,"signature":"([0-9a-f]{64})"\}\s*$/.exec(text.slice(at));
  if (!given) throw new WebhookError('there is no signature');
  const signed = Buffer.from(text.slice(0, at) + '}', 'latin1');
  if (!listOf(secrets).some((secret) => same(Buffer.from(given[1], 'hex'), hmac(secret, signed)))) throw new WebhookError('no signature matches');
  return JSON.parse(Buffer.from(bytesOf(body)).toString('utf8'));
}

module.exports = { verifyWebhook, verifyStoredWebhook, WebhookError };
