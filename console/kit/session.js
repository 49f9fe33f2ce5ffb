// Who is signed in: an administrator by a key, or a client by its credentials. It is kept in this tab (sessionStorage) and handed to
// other tabs of this browser that ask for it (BroadcastChannel), never stored beyond them.
const STORE = 'dataflow.session';
const WAIT_MS = 150; // for another tab to answer
const channel = new BroadcastChannel('dataflow.session');

// `as` is who is spoken as; both may be known. `me` is what whoami said.
export const session = { as: null, key: null, client: null, me: null };

const kept = () => ({ as: session.as, key: session.key, client: session.client, me: session.me });
const changed = () => document.dispatchEvent(new Event('session'));

function take(data) {
  Object.assign(session, { as: null, key: null, client: null, me: null }, data);
  if (session.as) sessionStorage.setItem(STORE, JSON.stringify(kept()));
  else sessionStorage.removeItem(STORE);
}

channel.onmessage = ({ data }) => {
  if (data.ask && session.as) channel.postMessage({ answer: kept() });
  else if (data.answer && !session.as) {
    take(data.answer);
    changed();
  } else if (data.out && session.as) {
    take({});
    changed();
  }
};

export const isAdmin = () => session.as === 'admin';
export const isClient = () => session.as === 'client';
export const clientId = () => session.client?.id;
// Of an administrator: read < operate < admin. A client may do whatever its scopes say.
export const may = (role) => isAdmin() && ['read', 'operate', 'admin'].indexOf(session.me?.role ?? 'admin') >= ['read', 'operate', 'admin'].indexOf(role);
export const hasScope = (...scopes) => isClient() && scopes.some((scope) => session.me?.scopes?.includes(scope));

export function credentials(data = session) {
  if (data.as === 'admin') return { 'X-Admin-Key': data.key };
  return data.as === 'client' ? { 'X-Client-Id': data.client.id, 'X-Client-Secret': data.client.secret } : {};
}

// What this tab knows, or another one.
export async function resume() {
  const own = sessionStorage.getItem(STORE);
  if (own) {
    take(JSON.parse(own));
    return;
  }
  channel.postMessage({ ask: true });
  await new Promise((done) => {
    const timer = setTimeout(done, WAIT_MS);
    document.addEventListener('session', () => { clearTimeout(timer); done(); }, { once: true });
  });
}

// `given` is {as: 'admin', key} or {as: 'client', client: {id, secret}}; `me` is what whoami said to it.
export function signedIn(given, me) {
  take({ ...kept(), ...given, me });
  channel.postMessage({ answer: kept() });
  changed();
}

export function signOut({ everywhere = true } = {}) {
  take({});
  if (everywhere) channel.postMessage({ out: true });
  changed();
}
