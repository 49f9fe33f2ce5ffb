// What the search box found: a document of any kind, by any of its ids.
import '../texts/work.js';
import { get } from '../kit/api.js';
import { $, badge, card, clip, DASH, h, note, raw } from '../kit/dom.js';
import { address } from '../kit/router.js';
import { isAdmin } from '../kit/session.js';
import { table } from '../kit/table.js';
import { named, t } from '../kit/text.js';
import { time } from '../kit/time.js';
import { placeOf } from './document.js';

// A client sees its own documents, where it has pages for them.
function place(item) {
  if (isAdmin()) return placeOf(item.kind, item.id);
  if (item.kind === 'import') return address(['imports', item.id]);
  const ticket = item.kind === 'ticket' && /^(\S+) (.+), phase \d+$/.exec(item.title);
  return ticket ? address('tickets', { businessEntity: ticket[1], businessDocId: ticket[2] }) : null;
}

export default {
  async render(ctx) {
    const q = ctx.query.get('q') || '';
    ctx.heading({ title: t('search.title'), text: t('search.searching') });
    $('search-input').value = q;
    const found = await get(isAdmin() ? 'admin/search' : 'search', { q }, { signal: ctx.signal });
    const n = found.items.length;
    ctx.heading({ title: t('search.title'), text: n === 0 ? t('search.nothing') : [t('search.found', { n }), found.complete ? '' : ` ${t('search.more')}`] });
    ctx.root.append(card(null, n ? table({
      label: t('search.title'), id: 'found', rows: found.items, key: (item) => `${item.kind} ${item.id}`, rowProps: (item) => ({ data: { found: `${item.kind} ${item.id}` } }),
      columns: [
        { label: t('search.kind'), cell: (item) => named('kind', item.kind) },
        { label: t('tk.doc'), main: true, wide: true, cell: (item) => [place(item) ? h('a', { className: 'name', href: place(item) }, raw(item.title)) : raw(item.title, 'span', { className: 'name' }), raw(item.id, 'span', { className: 'note' })] },
        { label: t('w.status'), cell: (item) => (item.status ? badge(item.status) : DASH) }, { label: t('w.client'), cell: (item) => clip(item.clientId) }, { label: t('w.createdAt'), cell: (item) => time(item.createdAt) },
      ],
    }) : note(t('search.help'))));
    // One result is what was looked for: Enter again opens it.
    ctx.root.querySelector('tbody a')?.focus();
  },
};
