// Retention and purge: what was removed by itself, what would be removed by hand, and the purges there were.
import '../texts/admin.js';
import { get, path, post, Problem, remove } from '../kit/api.js';
import { badge, card, code, h, note, patch, raw, reason, tags } from '../kit/dom.js';
import { ask } from '../kit/dialog.js';
import { form } from '../kit/form.js';
import { may } from '../kit/session.js';
import { table } from '../kit/table.js';
import { number, t } from '../kit/text.js';
import { duration, instant, stamp, time } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';
import { acts, col } from './whole.js';

const KINDS = ['batchId', 'clientId', 'olderThanDays', 'phone', 'document', 'email']; // the last three are persons

const counts = (object) => {
  const pairs = Object.entries(object ?? {}).filter(([, n]) => typeof n === 'number' && n > 0);
  return pairs.length ? tags(pairs.map(([name, n]) => `${name} ${number(n)}`)) : t('re.nothing');
};
const requestOf = ({ kind, value }) => (KINDS.indexOf(kind) > 2 ? { subject: { [kind]: value } } : { [kind]: kind === 'olderThanDays' ? Number(value) : value });

// Errors are about the member of the request; the form has one field for all of them.
async function purge(request) {
  try {
    return await post('admin/purge', request, { timeout: 60000 });
  } catch (problem) {
    if (problem instanceof Problem && problem.errors.length) problem.errors = problem.errors.map(({ message }) => ({ field: 'value', message }));
    throw problem;
  }
}

function purgeCard(again) {
  const result = h('div', { id: 'purge-result', role: 'status' });
  const confirm = (asked) => ask({
    id: 'purge-sure', title: t('re.remove'), text: [t('re.removeText'), h('p', {}, t(`re.kind.${asked.kind}`), ': ', code(asked.value))], submit: t('re.remove'), danger: true,
    fields: [{ name: 'typed', label: t('re.typed', { value: asked.value }) }],
    action: async ({ typed }) => {
      if (typed !== asked.value) throw new Problem(400, { errors: [{ field: 'typed', message: t('re.mismatch') }] });
      const done = await purge(requestOf(asked));
      notice(t(done.state === 'Running' ? 're.job' : 're.done'));
      patch(result);
      await again();
    },
  });
  const node = form({
    id: 'purge', label: t('re.purge'), words: t('re.count'),
    fields: [{ name: 'kind', type: 'select', label: t('w.what'), options: KINDS.map((kind) => [kind, t(`re.kind.${kind}`)]) }, { name: 'value', label: t('re.value'), hint: t('re.valueHint'), required: true }],
    submit: async (asked) => {
      patch(result);
      const would = await purge({ ...requestOf(asked), dryRun: true });
      const some = Object.values(would.counts).some((n) => n > 0);
      patch(result, h('div', { className: 'banner' }, h('p', {}, t(some ? 're.would' : 're.wouldNothing')), some ? counts(would.counts) : null,
        Object.keys(would.skipped ?? {}).length ? [h('p', {}, t('re.skipped')), counts(would.skipped)] : null,
        some && may('admin') ? h('p', { className: 'row-actions' }, act(t('re.remove'), () => confirm(asked), { className: 'danger', id: 'purge-remove' })) : null));
    },
  });
  return card(t('re.purge'), node, result);
}

const jobs = (items, again) => card(t('re.jobs'), items.length ? table({
  label: t('re.jobs'), id: 'purges', rows: items, key: (j) => j.jobId, columns: [
    { label: t('w.what'), main: true, cell: (j) => [raw(j.kind, 'span', { className: 'name' }), ' ', code(j.target), reason(j.lastError)] }, col('w.state', 'state', badge),
    { label: t('re.removed'), wide: true, cell: (j) => counts(j.counts) }, col('w.by', 'createdBy', raw), col('w.when', 'createdAt'),
    may('admin') && acts((j) => (j.state === 'Running' && j.kind !== 'subject' ? act(t('w.stop'), async () => { await remove(path('admin', 'purge', j.jobId)); notice(t('re.stopped')); await again(); }) : null)),
  ],
}) : note(t('none')));

const runs = (items) => card(t('re.runs'), items.length ? table({
  label: t('re.runs'), id: 'runs', rows: items, key: (e) => e.id, columns: [{ label: t('w.when'), main: true, cell: (e) => stamp(e.occurredAt) }, { label: t('re.removed'), wide: true, cell: (e) => counts(e.details?.counts ?? e.details) }],
}) : note(t('none')));

// With `would`, what a run would remove now: it was counted on the button.
const kept = ({ kinds, nextRunAt }, would, look) => card(t('re.kept'), nextRunAt ? h('p', {}, t('re.next'), ': ', instant(nextRunAt)) : null, table({
  label: t('re.kept'), id: 'kept', rows: would?.kinds ?? kinds, key: (k) => k.kind, columns: [
    col('w.what', 'kind', code, { main: true }), col('al.for', 'days', (n) => (n ? duration(n * 86400) : t('re.ever')), { num: true }),
    would && { label: t('re.over'), num: true, cell: (k) => (k.overIsAtLeast ? '≥ ' : '') + number(k.over) },
  ],
}), h('p', { className: 'row-actions' }, act(t('re.look'), look, { id: 'kept-count' }), would ? time(would.countedAt) : null));

export default {
  render(ctx) {
    ctx.heading({ title: t('nav.retention'), text: t('re.text') });
    const body = h('div', { className: 'stacked' });
    let would;
    if (may('operate')) ctx.root.append(purgeCard(() => ctx.again()));
    ctx.root.append(body);
    return ctx.watch(3000, () => Promise.all([get('admin/purge', { pageSize: 20 }, ctx), get('admin/audit', { action: 'RetentionRan', pageSize: 10 }, ctx), get('admin/retention', {}, ctx)]),
      ([purges, log, now]) => patch(body, kept(now, would, async () => {
        would = await get('admin/retention', { count: true }, { timeout: 60000 });
        await ctx.again();
      }), jobs(purges.items, () => ctx.again()), runs(log.items)));
  },
};
