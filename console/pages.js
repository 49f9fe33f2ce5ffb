// The pages: where they are, who may see them (`admin`, `client` or `any`; with `scopes` of a client),
// and under which group of the navigation (`nav`).
import './texts/nav.js';

const page = (path, nav, who, load, more = {}) => ({ path, nav, who, load, title: `nav.${path}`, ...more });

export const groups = ['work', 'watch', 'manage'];

export default [
  page('overview', 'work', 'any', () => import('./pages/overview.js')),
  page('tickets', 'work', 'admin', () => import('./pages/tickets.js')),
  page('imports', 'work', 'admin', () => import('./pages/imports.js')),
  page('outbox', 'work', 'admin', () => import('./pages/outbox.js')),
  page('search', null, 'admin', () => import('./pages/search.js')),
  page('search', null, 'client', () => import('./pages/search.js')),
  page('routes', 'watch', 'admin', () => import('./pages/routes.js')),
  page('imports', 'work', 'client', () => import('./pages/uploads.js'), { scopes: ['imports'] }),
  page('tickets', 'work', 'client', () => import('./pages/mytickets.js'), { scopes: ['interface', 'interface-all'] }),
  page('events', 'work', 'client', () => import('./pages/events.js'), { scopes: ['events'] }),
  page('webhooks', 'work', 'client', () => import('./pages/webhooks.js')),
  page('usage', 'watch', 'client', () => import('./pages/usage.js')),
  page('webhooks', 'work', 'admin', () => import('./pages/webhooks.js')),
  page('alerts', 'watch', 'admin', () => import('./pages/alerts.js')),
  page('relays', 'watch', 'admin', () => import('./pages/system.js')),
  page('integrations', 'watch', 'admin', () => import('./pages/system.js')),
  page('clients', 'manage', 'admin', () => import('./pages/clients.js')),
  page('maintenance', 'manage', 'admin', () => import('./pages/system.js')),
  page('retention', 'manage', 'admin', () => import('./pages/retention.js')),
  page('audit', 'manage', 'admin', () => import('./pages/audit.js')),
  page('versions', 'manage', 'admin', () => import('./pages/system.js')),
  page('start', 'work', 'any', () => import('./pages/start.js')),
];
