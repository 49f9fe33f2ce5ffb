// A client's own events: write one to the server's outbox, find one again.
import '../texts/tenant.js';
import { post, Problem } from '../kit/api.js';
import { card, code } from '../kit/dom.js';
import { filled, form } from '../kit/form.js';
import { address, go } from '../kit/router.js';
import { t } from '../kit/text.js';
import { notice } from '../kit/toast.js';

function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Problem(400, { title: t('ev.payload'), errors: [{ field: 'payload', message: t('ev.bad', { why: error.message }) }] });
  }
}

export default {
  async render(ctx) {
    ctx.heading({ title: t('nav.events'), text: t('ev.text') });
    ctx.root.append(
      card(t('ev.send'), form({
        id: 'event', label: t('ev.send'), className: 'plain', words: t('ev.send'), fields: [{ name: 'eventType', label: t('ev.type'), required: true, maxLength: 200 },
          { name: 'aggregateId', label: t('ev.aggregate'), optional: true, maxLength: 200 }, { name: 'payload', type: 'textarea', label: t('ev.payload'), value: '{}' }],
        submit: async ({ payload, ...values }) => {
          const { eventId } = await post('events', { ...filled(values), payload: parse(payload) });
          notice([t('ev.sent', { id: '' }), code(eventId)]);
        },
      })),
      card(t('ev.find'), form({ id: 'find', label: t('ev.find'), role: 'search', fields: [{ name: 'q', label: t('ev.id'), hint: t('ev.findText') }], words: t('ev.search'), submit: async ({ q }) => { if (q) go(address('search', { q })); } })));
  },
};
