// Alerts: what fires and what did, with the way to what it is about; acknowledged, silenced.
import '../texts/admin.js';
import { get, isMissing, path, post, remove } from '../kit/api.js';
import { badge, card, folded, h, linkButton, note, patch, raw } from '../kit/dom.js';
import { ask } from '../kit/dialog.js';
import { filled } from '../kit/form.js';
import { may } from '../kit/session.js';
import { list, table } from '../kit/table.js';
import { t } from '../kit/text.js';
import { duration, instant, time } from '../kit/time.js';
import { act, notice } from '../kit/toast.js';
import { acts, addCsv, choice, col } from './whole.js';

const RULES = ['BatchStuck', 'WebhookFailing', 'ErrorRate', 'DeliveryStuck', 'DeliveryGivenUp', 'ClientSecretOld', 'WebhookSecretWaits', 'Test'];

const silenceFields = (alert) => [
  { name: 'rule', type: 'select', label: t('al.rule'), value: alert?.rule ?? '', options: [...new Set(['', ...RULES, alert?.rule ?? ''])].map((name) => [name, name || t('any')]) },
  { name: 'clientId', label: t('w.client'), value: alert?.details?.clientId ?? '', optional: true }, { name: 'target', label: t('w.target'), value: alert?.details?.target ?? '', optional: true },
  { name: 'hours', type: 'select', label: t('al.for'), value: '8', options: [1, 8, 24, 168, 720].map((n) => [n, duration(n * 3600)]) }, { name: 'reason', label: t('w.reason'), required: true, maxLength: 500 },
];

const silence = (alert, then) => ask({
  id: 'silence', title: t('al.silence'), text: t('al.silenceText'), submit: t('al.silence'), fields: silenceFields(alert),
  action: async ({ hours, ...values }) => {
    await post('admin/alert-silences', { ...filled(values), until: new Date(Date.now() + hours * 3600000).toISOString() });
    await then();
  },
});

const acknowledge = (alert, then) => ask({
  id: 'acknowledge', title: t('al.ack'), text: [raw(alert.summary, 'p'), t('al.ackText')], submit: t('al.ack'), fields: [{ name: 'note', label: t('al.note'), optional: true, maxLength: 500 }],
  action: async (values) => { await post(path('admin', 'alerts', alert.id, 'acknowledge'), filled(values)); await then(); },
});

const details = (alert) => Object.entries(alert.details ?? {}).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${value}`).join('\n');

function actions(alert, then) {
  const operate = may('operate');
  const label = (words) => ({ 'aria-label': `${words}: ${alert.rule} ${alert.subject}` });
  return h('div', { className: 'row-actions' }, alert.link ? linkButton(t('al.see'), alert.link, label(t('al.see'))) : null,
    operate && alert.status === 'firing' ? [alert.acknowledgedAt ? act(t('al.unack'), async () => { await remove(path('admin', 'alerts', alert.id, 'acknowledge')); await then(); }, label(t('al.unack'))) : act(t('al.ack'), () => acknowledge(alert, then), label(t('al.ack'))),
      act(t('al.silence'), () => silence(alert, then), label(t('al.silence')))] : null);
}

function silencesCard(items, then) {
  if (!items.length) return null;
  return card(t('al.silences'), table({
    label: t('al.silences'), rows: items, key: (s) => s.id, id: 'silences', columns: [
      { label: t('w.what'), main: true, cell: (s) => raw([s.rule, s.clientId, s.target].filter(Boolean).join(' · '), 'span', { className: 'name' }) }, col('w.reason', 'reason', raw),
      col('al.until', 'until', instant), col('w.by', 'createdBy', raw),
      may('operate') && acts((s) => act(t('al.end'), async () => { await remove(path('admin', 'alert-silences', s.id)); await then(); }, { 'aria-label': `${t('al.end')}: ${s.reason}` })),
    ],
  }));
}

export default {
  async render(ctx) {
    const silences = h('div', {});
    const nowhere = h('p', { className: 'banner', id: 'alerts-nowhere', hidden: true }, t('al.nowhere'));
    let shown = null;
    const quietOnes = async () => {
      const answer = await get('admin/alert-silences', {}, ctx).catch((problem) => { if (isMissing(problem)) return { items: [] }; throw problem; });
      patch(silences, silencesCard(answer.items, again));
    };
    const again = async () => { await Promise.all([shown.reload(), quietOnes()]); };
    ctx.heading({ title: t('nav.alerts'), text: t('al.text'), actions: may('operate') ? [act(t('al.silence'), () => silence(null, again), { id: 'alerts-silence' }), act(t('al.test'), async () => { await post('admin/alerts/test'); notice(t('al.tested')); await again(); }, { id: 'alerts-test' })] : [] });
    ctx.root.append(nowhere);
    shown = list(ctx, {
      id: 'alerts', label: t('nav.alerts'), path: 'admin/alerts', key: (a) => a.id, order: t('al.fired'), every: 2000, rowProps: (a) => ({ data: a.id === ctx.parts[0] ? { wanted: '' } : {} }),
      filters: [choice(['firing', 'resolved'])],
      then: (answer) => { nowhere.hidden = answer.sinks?.length !== 0; },
      columns: [
        { label: t('w.what'), main: true, wide: true, cell: (a) => [raw(a.summary, 'span', { className: 'name' }), a.acknowledgedAt ? note(t('al.acked', { who: a.acknowledgedBy }), ' ', time(a.acknowledgedAt), a.acknowledgedNote ? [': ', raw(a.acknowledgedNote)] : null) : null, folded(t('w.details'), details(a), `details ${a.id}`)] },
        { label: t('al.rule'), cell: (a) => [raw(a.rule), h('br'), raw(a.subject, 'code', { className: 'note' })] }, { label: t('w.status'), cell: (a) => [badge(a.status), a.silenced ? note(t('al.silenced')) : null] }, col('al.severity', 'severity', badge),
        col('al.fired', 'firedAt'), col('al.resolved', 'resolvedAt'), acts((a) => actions(a, again)),
      ],
    });
    addCsv(ctx, 'alerts', 'admin/alerts', shown);
    ctx.root.append(silences);
    // The one that is asked for (#alerts/ID).
    await Promise.all([shown.ready, quietOnes()]);
    ctx.root.querySelector('[data-wanted]')?.scrollIntoView({ block: 'center' });
  },
};
