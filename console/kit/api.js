// Calls of the server, as whoever is signed in. What is no success is thrown as a Problem.
import { button, copy, h, raw } from './dom.js';
import { credentials, session } from './session.js';
import { locale, t } from './text.js';

export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail || body.title || t('api.answered', { status: String(status) }));
    Object.assign(this, { status, title: body.title, code: body.code, correlationId: body.correlationId, errors: body.errors || [] });
  }
}

// Of a call that can't be told there is nothing: it is not there, and the server is older than the page (a replica that waits for its upgrade).
export const isMissing = (problem) => problem instanceof Problem && [400, 404, 405].includes(problem.status);

export function path(...parts) {
  return parts.map((part) => encodeURIComponent(part)).join('/');
}

export function query(params) {
  const filled = Object.entries(params || {}).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  return filled.length ? `?${new URLSearchParams(filled)}` : '';
}

export function headers(who) {
  try {
    return new Headers({ 'Accept-Language': locale, ...credentials(who) });
  } catch {
    throw new Problem(401, { title: t('api.refused'), detail: t('api.badHeader') });
  }
}

// `who`: other credentials than the session's. `okay`: statuses that are answers too. `body`: JSON, or a FormData or Blob as it is.
export async function call(method, url, { body, who = session, okay = [], signal, timeout = 15000, response: whole = false } = {}) {
  const fields = headers(who);
  const plain = body === undefined || body instanceof FormData || body instanceof Blob;
  if (!plain) fields.set('Content-Type', 'application/json');
  let response;
  try {
    response = await fetch(url, {
      method, headers: fields, body: plain ? body : JSON.stringify(body), cache: 'no-store', credentials: 'omit',
      signal: AbortSignal.any([AbortSignal.timeout(timeout), ...(signal ? [signal] : [])]),
    });
    if (whole && response.ok) return response;
    const json = /[/+]json\b/.test(response.headers.get('Content-Type') || '');
    const data = json ? await response.json() : await response.text();
    if (!response.ok && !okay.includes(response.status)) throw new Problem(response.status, json ? data : {});
    return data;
  } catch (problem) {
    if (problem instanceof Problem) {
      if (problem.status === 401 && who === session && session.as) document.dispatchEvent(new CustomEvent('refused', { detail: problem }));
      throw problem;
    }
    if (signal?.aborted) throw new Problem(-1, { title: t('api.left'), detail: t('api.left') });
    throw new Problem(0, { title: t('server.unreachable'), detail: t('api.noAnswer') });
  }
}

export const get = (url, params, options) => call('GET', url + query(params), options);
export const post = (url, body, options) => call('POST', url, { ...options, body });
export const put = (url, body) => call('PUT', url, { body });
export const change = (url, body) => call('PATCH', url, { body });
export const remove = (url) => call('DELETE', url);

// Fetched as whoever is signed in, then given to the browser as a file.
export async function download(url, name) {
  const response = await call('GET', url, { response: true, timeout: 600000 });
  const link = h('a', { href: URL.createObjectURL(await response.blob()), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// A problem in words, with the reference that the log has.
export const describe = (problem) => [
  h('strong', {}, raw(problem.title || t('api.failed'))), raw(problem.message),
  problem.correlationId ? h('div', { className: 'reference' }, raw(problem.code), ` · ${t('api.reference')} `, raw(problem.correlationId)) : null,
];

// The call as a line for a shell, without secrets.
export function curl(method, url, body) {
  const secret = session.as === 'admin' ? ["-H 'X-Admin-Key: '\"$ADMIN_KEY\""] : [`-H 'X-Client-Id: ${session.client?.id ?? ''}'`, "-H 'X-Client-Secret: '\"$CLIENT_SECRET\""];
  const sent = body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`];
  return ['curl', ...(method === 'GET' ? [] : ['-X', method]), ...secret, ...sent, `'${new URL(url, document.baseURI)}'`].join(' ');
}

export const curlButton = (method, url, body) => button(t('doc.curl'), (event) => copy(curl(method, url, body), event.currentTarget), { id: 'curl' });
