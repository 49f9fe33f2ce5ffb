// Imports of all clients.
import '../texts/work.js';
import { badge, clip, h, note, raw, reason } from '../kit/dom.js';
import { address } from '../kit/router.js';
import { list } from '../kit/table.js';
import { has, number, t } from '../kit/text.js';
import { moment } from '../kit/time.js';
import { BATCHES, choice, col } from './whole.js';

function waitsFor(batch) {
  const wait = typeof batch.waitingFor === 'string' ? { code: batch.waitingFor, since: batch.waitingSince } : batch.waitingFor;
  if (!wait) return null;
  return [has(`wait.${wait.code}`) ? t(`wait.${wait.code}`) : raw(wait.code), wait.since ? note(t('wait.since'), ' ', moment(wait.since)) : null];
}

export default {
  async render(ctx) {
    if (ctx.parts[0]) return (await import('./batch.js')).default.render(ctx);
    ctx.heading({ title: t('nav.imports'), text: t('imports.text') });
    return list(ctx, {
      id: 'imports', label: t('nav.imports'), path: 'admin/imports', csv: 'admin/imports.csv', key: (b) => b.batchId, name: (b) => b.fileName, order: t('w.uploaded'), rowProps: (b) => ({ data: { batch: b.batchId } }),
      filters: [{ name: 'clientId', label: t('w.client') }, { name: 'fileName', label: t('w.file') }, choice(BATCHES),
        { name: 'from', type: 'datetime-local', label: t('tickets.from') }, { name: 'to', type: 'datetime-local', label: t('tickets.to') }],
      columns: [
        { label: t('w.file'), main: true, wide: true, cell: (b) => [h('a', { className: 'name', href: address(['imports', b.batchId]) }, raw(b.fileName)), raw(b.batchId, 'span', { className: 'note' }), reason(b.lastError)] },
        col('w.client', 'clientId', clip), col('w.status', 'status', badge), { label: t('imports.waitsFor'), cell: waitsFor },
        { label: t('w.records'), num: true, cell: (b) => (b.totalRecords === null ? number(b.processedRecords) : `${number(b.processedRecords)} / ${number(b.totalRecords)}`) },
        { label: t('w.errors'), num: true, cell: (b) => h('span', { className: b.errorCount ? 'some' : '' }, number(b.errorCount)) }, col('w.uploaded', 'createdAt'),
      ],
    }).ready;
  },
};
