// The audit log: who did what to what, from where, with which outcome.
import '../texts/admin.js';
import { badge, folded, raw } from '../kit/dom.js';
import { list } from '../kit/table.js';
import { t } from '../kit/text.js';
import { stamp } from '../kit/time.js';
import { choice, col } from './whole.js';

export default {
  render(ctx) {
    ctx.heading({ title: t('nav.audit'), text: t('au.text') });
    return list(ctx, {
      id: 'audit', label: t('nav.audit'), path: 'admin/audit', csv: 'admin/audit.csv', key: (e) => e.id,
      filters: [{ name: 'actor', label: t('au.actor') }, { name: 'action', label: t('au.action') }, { name: 'target', label: t('au.target') }, { name: 'clientId', label: t('w.client') },
        choice(['ok', 'failed', 'denied'], 'outcome', t('au.outcome')),
        { name: 'from', type: 'datetime-local', label: t('au.from') }, { name: 'to', type: 'datetime-local', label: t('au.to') }],
      columns: [
        col('w.when', 'occurredAt', stamp), col('au.actor', 'actor', raw), { label: t('au.action'), main: true, wide: true, cell: (e) => [raw(e.action, 'span', { className: 'name' }), Object.keys(e.details ?? {}).length ? folded(t('w.details'), JSON.stringify(e.details, null, 2), `details ${e.id}`) : null] },
        { label: t('au.target'), cell: (e) => raw(e.target ?? '', 'code') }, col('au.outcome', 'outcome', badge), col('au.ip', 'ip', raw),
      ],
    }).ready;
  },
};
