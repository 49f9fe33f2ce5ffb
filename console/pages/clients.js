// Clients: all of them, and one with its scopes, its use, its policy with every limit explained, and its secret.
import '../texts/admin.js';
import { change, get, path, post, Problem, put, remove } from '../kit/api.js';
import { badge, button, card, code, facts, h, linkButton, note, patch, raw, tags } from '../kit/dom.js';
import { ask, showSecret } from '../kit/dialog.js';
import { filled, form } from '../kit/form.js';
import { address, go } from '../kit/router.js';
import { may, signedIn } from '../kit/session.js';
import { t } from '../kit/text.js';
import { duration, instant, time } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';
import { lookAtUsage, usageOf } from './usage.js';
import { acts, col, whole } from './whole.js';

const SCOPES = ['interface', 'imports', 'callback', 'acks', 'events', 'integrations', 'interface-all'];
const POLICY = {
  size: ['maxFileSizeMb', 'maxRecords', 'maxBatchPerDay', 'tempStorageQuotaMb'],
  when: ['allowedStartHour', 'allowedEndHour', 'maintenanceWindow', 'largeThresholdMb', 'businessStartHour', 'businessEndHour', 'requireSchedulingForLarge', 'businessHoursOnly'],
  speed: ['requestsPerMinute', 'concurrentUploads', 'maxConcurrentBatches', 'batchSize'],
};

const urlOf = (id, ...parts) => path('admin', 'clients', id, ...parts);
const scopesField = (value) => ({ name: 'scopes', type: 'checks', label: t('cl.scopes'), value, options: SCOPES.map((name) => [name, [raw(name, 'code'), ' ', t(`cl.scope.${name}`)]]) });

// The console goes on as the client, with the secret that is at hand or was typed.
async function become(id, secret) {
  const given = { as: 'client', client: { id, secret } };
  const me = await get('whoami', {}, { who: given });
  location.hash = '#overview'; // before the session: this page is not the client's
  signedIn(given, me);
}

function showClientSecret(title, id, secret) {
  const curl = `curl -H 'X-Client-Id: ${id}' -H 'X-Client-Secret: ${secret}' ${new URL('whoami', document.baseURI)}`;
  return showSecret(title, [[t('signin.id'), id, 'secret-id'], [t('signin.secret'), secret, 'secret-value'], [t('cl.try'), curl, 'secret-curl']],
    [button(t('cl.use'), async (event) => { event.currentTarget.closest('dialog').close(); await become(id, secret); }, { id: 'secret-use' })]);
}

const useDialog = (client) => ask({
  id: 'use', title: t('cl.use'), text: t('cl.useText'), submit: t('cl.use'), fields: [{ name: 'secret', type: 'password', label: t('signin.secret'), hint: t('cl.useSecret', { id: client.clientId }), required: true }],
  action: async ({ secret }) => become(client.clientId, secret.trim()).catch((problem) => {
    if (problem.status !== 401) throw problem;
    throw new Problem(401, { errors: [{ field: 'secret', message: t('cl.wrong') }] });
  }),
});

async function create(then) {
  const made = await ask({
    id: 'create', title: t('cl.new'), submit: t('w.create'),
    fields: [{ name: 'name', label: t('cl.name'), required: true, maxLength: 200 }, { name: 'clientId', label: t('signin.id'), hint: t('w.secretHint'), optional: true }, scopesField(['interface', 'imports'])],
    action: async (values) => ({ ...await post('admin/clients', { name: '', ...filled(values) }), name: values.name }),
  });
  if (!made) return;
  await showClientSecret(t('cl.created', { name: made.name }), made.clientId, made.clientSecret);
  await then();
}

async function rotate(client, then) {
  const made = await ask({
    id: 'rotate', title: t('w.rotate'), text: t('cl.rotateText', { name: client.name }), submit: t('w.rotate'),
    fields: [{ name: 'grace', type: 'select', label: t('cl.grace'), options: [0, 300, 3600, 86400].map((s) => [s, duration(s)]) }],
    action: ({ grace }) => post(`${urlOf(client.clientId, 'rotate-secret')}?graceSeconds=${grace}`),
  });
  if (!made) return;
  await showClientSecret(t('cl.rotated', { name: client.name }), client.clientId, made.clientSecret);
  await then();
}

function buttons(client, then, brief) {
  const one = (words, action, props) => act(words, action, { 'aria-label': `${words}: ${client.name}`, ...props });
  const set = (status) => async () => {
    await change(urlOf(client.clientId), { status });
    await then();
  };
  return [
    one(t('cl.use'), () => useDialog(client), { id: brief ? null : 'client-use' }),
    ...(may('admin') ? [
      brief ? null : one(t('cl.edit'), () => ask({ id: 'scopes', title: t('cl.edit'), submit: t('w.save'), fields: [scopesField(client.scopes)], action: async (values) => { await change(urlOf(client.clientId), values); notice(t('w.saved')); await then(); } })),
      brief ? null : one(t('w.rotate'), () => rotate(client, then)),
      client.status === 'Active' ? one(t('cl.suspend'), () => ask({ id: 'suspend', title: t('cl.suspend'), text: t('cl.suspendText', { name: client.name }), submit: t('cl.suspend'), danger: true, action: set('Suspended') }))
        : one(t('cl.activate'), set('Active'))] : []),
  ];
}

function all(ctx) {
  const reload = () => ctx.again();
  ctx.heading({ title: t('nav.clients'), text: t('cl.text'), actions: [may('admin') ? act(t('cl.new'), () => create(reload), { className: 'primary', id: 'client-new' }) : null] });
  return whole(ctx, {
    id: 'clients', label: t('nav.clients'), path: 'admin/clients', key: (c) => c.clientId, words: (c) => `${c.name} ${c.clientId}`,
    columns: [
      { label: t('w.client'), main: true, by: 'name', cell: (c) => [h('a', { className: 'name', href: address(['clients', c.clientId]) }, raw(c.name)), raw(c.clientId, 'code', { className: 'note' })] },
      col('w.status', 'status', badge), col('cl.scopes', 'scopes', tags),
      { label: t('cl.seen'), by: 'lastSeenAt', cell: (c) => (c.lastSeenAt ? time(c.lastSeenAt) : t('never')) }, col('w.createdAt', 'createdAt'),
      acts((c) => h('div', { className: 'row-actions' }, buttons(c, reload, true))),
    ],
  });
}

// --- the policy ---

function policyField(policy, name) {
  const base = { name, label: t(`po.${name}`), value: policy[name] };
  if (/^require|Only$/.test(name)) return { ...base, type: 'check' };
  return { ...base, hint: t(`po.${name}.hint`), ...(name === 'maintenanceWindow' ? { maxLength: 100 } : { type: 'number', min: 0 }) };
}

function policyCard(client, policy) {
  const url = urlOf(client.clientId, 'policy');
  const parts = Object.entries(POLICY).map(([group, members]) => [group, members.map((name) => policyField(policy, name))]);
  const fields = parts.flatMap(([, list_]) => list_);
  const node = form({
    id: 'policy', label: t('cl.policy'), className: 'policy', words: may('admin') ? t('w.save') : null, fields,
    submit: async (values) => {
      await put(url, Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value === '' ? null : value])));
      notice(t('w.saved'));
    },
  });
  for (const [group, [first]] of parts) node.elements.namedItem(first.name).closest('form > div').before(h('h3', {}, t(`po.${group}`)));
  const reset = () => ask({ id: 'reset', title: t('cl.reset'), text: t('cl.resetText', { name: client.name }), submit: t('cl.reset'), danger: true, action: async () => { await remove(url); notice(t('w.saved')); } })
    .then((done) => { if (done) go(location.hash); });
  if (may('admin')) {
    const send = node.querySelector('[type=submit]');
    const actions = h('div', { className: 'actions' }, act(t('cl.reset'), reset, { id: 'policy-reset' }));
    send.before(actions);
    actions.append(send);
  }
  return card(t('cl.policy'), note(t('cl.policyText')), node);
}

async function one(ctx, id) {
  const about = h('div', { className: 'stacked' });
  ctx.root.append(about);
  const draw = ([client, usage]) => {
    ctx.heading({ title: raw(client.name), crumbs: [[t('nav.clients'), '#clients']], actions: buttons(client, () => ctx.again(), false) });
    patch(about, card(null, h('p', {}, badge(client.status), ' ', tags(client.scopes)), facts([[t('signin.id'), code(client.clientId)], [t('w.createdAt'), instant(client.createdAt)], [t('cl.seen'), client.lastSeenAt ? instant(client.lastSeenAt) : t('never')]]),
      h('p', { className: 'row-actions start' }, linkButton(t('nav.imports'), address('imports', { clientId: id })), linkButton(t('nav.webhooks'), address(['webhooks', id])), linkButton(t('nav.audit'), address('audit', { clientId: id })))), usageOf(usage));
  };
  await ctx.watch(5000, () => Promise.all([get(urlOf(id), {}, ctx), lookAtUsage(id, ctx)]), draw);
  const [client, policy] = await Promise.all([get(urlOf(id)), get(urlOf(id, 'policy'))]);
  if (!ctx.signal.aborted) ctx.root.append(policyCard(client, policy));
}

export default { render: (ctx) => (ctx.parts[0] ? one(ctx, ctx.parts[0]) : all(ctx)) };
