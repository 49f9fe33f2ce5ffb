// Names of the tenants' and the administrators' pages.
import { add } from '../kit/text.js';

add({
  'nav.webhooks': ['Webhooks', 'Webhooks'], 'nav.usage': ['Use and limits', 'Uso e limites'], 'nav.events': ['Events', 'Eventos'], 'nav.clients': ['Clients', 'Clientes'],
  'nav.alerts': ['Alerts', 'Alertas'], 'nav.relays': ['Relays', 'Relays'], 'nav.integrations': ['Integrations', 'Integrações'], 'nav.maintenance': ['Maintenance', 'Manutenção'],
  'nav.retention': ['Retention and purge', 'Retenção e expurgo'], 'nav.audit': ['Audit', 'Auditoria'], 'nav.versions': ['Versions', 'Versões'],
});
