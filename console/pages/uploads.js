// A client's own imports: the place for a new file, all of them, one of them.
import '../texts/importer.js';
import { badge, bytes, card, DASH, h, raw, reason } from '../kit/dom.js';
import { address } from '../kit/router.js';
import { list } from '../kit/table.js';
import { named, number, t } from '../kit/text.js';
import { local, time } from '../kit/time.js';
import batch from './batch.js';
import importer, { dropZone } from './importer.js';
import { addCsv, BATCHES, choice, col } from './whole.js';

function records(row) {
  if (row.status === 'Scheduled') return [t('imp.begins'), ' ', time(row.scheduledFor)];
  if (row.totalRecords === null) return row.processedRecords ? number(row.processedRecords) : DASH;
  return t('imp.of', { done: row.processedRecords, total: row.totalRecords });
}

export const batchColumns = () => [
  {
    label: t('w.file'), main: true, wide: true, cell: (row) => [h('a', { className: 'name', href: address(['imports', row.batchId]) }, raw(row.fileName)),
      h('span', { className: 'note' }, `${named('imp.format', row.fileType)}, ${bytes(row.fileSizeBytes)}`), row.status === 'Failed' ? reason(row.lastError) : null],
  },
  col('w.status', 'status', badge),
  { label: t('w.records'), num: true, cell: records },
  { label: t('w.errors'), num: true, cell: (row) => h('span', { className: row.errorCount ? 'some' : '' }, number(row.errorCount)) },
  col('w.uploaded', 'createdAt'),
  col('imp.ended', 'completedAt'),
];

function maintenance(window) {
  if (!window) return '';
  return t(window.active ? 'imp.maintenanceNow' : 'imp.maintenance', { from: local(window.from), to: local(window.to) });
}

export default {
  async render(ctx) {
    if (ctx.parts[0] === 'new') return importer.render(ctx);
    if (ctx.parts[0]) return batch.render(ctx);
    const banner = h('p', { className: 'banner', id: 'imports-maintenance', hidden: true });
    ctx.root.append(banner, card(t('imp.new'), dropZone()));
    const status = ctx.query.get('status');
    const shown = list(ctx, {
      id: 'imports', label: t('imp.history'), path: 'imports', columns: batchColumns(), key: (row) => row.batchId, order: t('w.uploaded'), rowProps: (row) => ({ data: { batch: row.batchId } }),
      filters: [choice(BATCHES)],
      empty: t(status ? 'imp.noneIn' : 'imp.none'),
      then: (answer) => {
        banner.textContent = maintenance(answer.maintenance);
        banner.hidden = !answer.maintenance;
      },
    });
    addCsv(ctx, 'imports', 'imports', shown);
    return shown.ready;
  },
};
