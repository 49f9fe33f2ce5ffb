'use strict';
/* Every call: its name here, and "METHOD /path" with what follows the path's own arguments:
 *   ?       an object of query parameters
 *   =       a body (an object, sent as JSON)
 * and what is special about it:
 *   page    a list; its answer can be iterated over all pages
 *   repeat  a POST or PATCH that may be sent again: the same content changes nothing the second time
 *   key     takes an Idempotency-Key; one is made when the caller gives none, so that it may be sent again
 *   text    answers with text
 *   file    answers with a file, which is streamed
 *   events  answers with server-sent events
 *   own     written by hand elsewhere, and listed here for the check against /openapi.json
 * {clientId} of /clients/{clientId}/… is no argument: it is the client's own, or options.clientId. */
module.exports = {
  'server.health': 'GET /healthz',
  'server.ready': 'GET /readyz',
  'server.metrics': 'GET /metrics text',
  'server.openapi': 'GET /openapi.json',
  'server.whoami': 'GET /whoami',

  'imports.upload': 'POST /imports own key',
  'imports.preview': 'POST /imports/preview own repeat',
  'imports.list': 'GET /imports ? page',
  'imports.get': 'GET /imports/{batchId}',
  'imports.cancel': 'DELETE /imports/{batchId}',
  'imports.retry': 'POST /imports/{batchId}/retry =',
  'imports.ack': 'POST /imports/{batchId}/acks = repeat',
  'imports.items': 'GET /imports/{batchId}/items ? page',
  'imports.reasons': 'GET /imports/{batchId}/reasons',
  'imports.errorsXlsx': 'GET /imports/{batchId}/errors.xlsx file',
  'imports.errorsCsv': 'GET /imports/{batchId}/errors.csv file',
  'imports.errorsJson': 'GET /imports/{batchId}/errors.json file',
  'imports.watch': 'GET /imports/{batchId}/events events',

  'mapping.get': 'GET /clients/{clientId}/mapping',
  'mapping.put': 'PUT /clients/{clientId}/mapping =',
  'mapping.delete': 'DELETE /clients/{clientId}/mapping',

  'webhooks.list': 'GET /clients/{clientId}/webhooks ? page',
  'webhooks.create': 'POST /clients/{clientId}/webhooks =',
  'webhooks.get': 'GET /clients/{clientId}/webhooks/{id}',
  'webhooks.update': 'PATCH /clients/{clientId}/webhooks/{id} = repeat',
  'webhooks.delete': 'DELETE /clients/{clientId}/webhooks/{id}',
  'webhooks.rotateSecret': 'POST /clients/{clientId}/webhooks/{id}/rotate-secret ? =',
  'webhooks.secret': 'GET /clients/{clientId}/webhooks/{id}/secret',
  'webhooks.test': 'POST /clients/{clientId}/webhooks/{id}/test',
  'webhooks.deliveries': 'GET /clients/{clientId}/webhooks/{id}/deliveries ? page',
  'webhooks.delivery': 'GET /clients/{clientId}/webhooks/{id}/deliveries/{deliveryId}',
  'webhooks.resend': 'POST /clients/{clientId}/webhooks/{id}/deliveries/{deliveryId}/resend',
  'webhooks.replay': 'POST /clients/{clientId}/webhooks/{id}/replay ?',

  'tickets.submit': 'POST /api/tickets = repeat',
  'tickets.find': 'GET /api/tickets ?',
  'tickets.list': 'GET /api/tickets ? page',
  'tickets.reprocess': 'POST /api/tickets/{id}/reprocess',
  'tickets.callback': 'POST /api/tickets/callback = repeat',

  'counterparties.submit': 'POST /api/counterparties = repeat',
  'counterparties.get': 'GET /api/counterparties ?',
  'counterparties.list': 'GET /api/counterparties ? page',
  'counterparties.settle': 'PATCH /api/counterparties ? =',

  'acks.send': 'POST /api/functional-ack =',
  'acks.list': 'GET /api/functional-ack ? page',

  'events.publish': 'POST /events = key',

  'usage.get': 'GET /clients/{clientId}/usage',
  'series.get': 'GET /clients/{clientId}/series ?',
  'search.find': 'GET /search ?',

  'admin.clients.list': 'GET /admin/clients ? page',
  'admin.clients.create': 'POST /admin/clients =',
  'admin.clients.get': 'GET /admin/clients/{clientId}',
  'admin.clients.update': 'PATCH /admin/clients/{clientId} = repeat',
  'admin.clients.rotateSecret': 'POST /admin/clients/{clientId}/rotate-secret ?',
  'admin.clients.getPolicy': 'GET /admin/clients/{clientId}/policy',
  'admin.clients.putPolicy': 'PUT /admin/clients/{clientId}/policy =',
  'admin.clients.updatePolicy': 'PATCH /admin/clients/{clientId}/policy = repeat',
  'admin.clients.resetPolicy': 'DELETE /admin/clients/{clientId}/policy',
  'admin.clients.usage': 'GET /admin/clients/{clientId}/usage',

  'admin.imports.list': 'GET /admin/imports ? page',
  'admin.imports.export': 'GET /admin/imports.csv ? file',
  'admin.imports.get': 'GET /admin/imports/{batchId}',
  'admin.imports.cancel': 'DELETE /admin/imports/{batchId}',
  'admin.imports.retry': 'POST /admin/imports/{batchId}/retry =',
  'admin.imports.release': 'POST /admin/imports/{batchId}/release',
  'admin.imports.items': 'GET /admin/imports/{batchId}/items ? page',
  'admin.imports.reasons': 'GET /admin/imports/{batchId}/reasons',
  'admin.imports.errorsXlsx': 'GET /admin/imports/{batchId}/errors.xlsx file',
  'admin.imports.errorsCsv': 'GET /admin/imports/{batchId}/errors.csv file',
  'admin.imports.errorsJson': 'GET /admin/imports/{batchId}/errors.json file',
  'admin.imports.watch': 'GET /admin/imports/{batchId}/events events',

  'admin.tickets.list': 'GET /admin/tickets ? page',
  'admin.tickets.export': 'GET /admin/tickets.csv ? file',
  'admin.tickets.causes': 'GET /admin/tickets/causes ?',
  'admin.tickets.get': 'GET /admin/tickets/{id} ?',
  'admin.tickets.reassign': 'PATCH /admin/tickets/{id} = repeat',
  'admin.tickets.reprocess': 'POST /admin/tickets/{id}/reprocess',
  'admin.tickets.reprocessMany': 'POST /admin/tickets/reprocess =',
  'admin.tickets.dismiss': 'POST /admin/tickets/{id}/dismiss',

  'admin.counterparties.reassign': 'PATCH /admin/counterparties/{id} = repeat',

  'admin.outbox.summary': 'GET /admin/outbox',
  'admin.outbox.retryAll': 'POST /admin/outbox/retry =',
  'admin.outbox.dismissAll': 'POST /admin/outbox/dismiss =',
  'admin.outbox.list': 'GET /admin/outbox/{channel} ? page',
  'admin.outbox.export': 'GET /admin/outbox/{channel}.csv ? file',
  'admin.outbox.causes': 'GET /admin/outbox/{channel}/causes ?',
  'admin.outbox.get': 'GET /admin/outbox/{channel}/{id} ?',
  'admin.outbox.retry': 'POST /admin/outbox/{channel}/{id}/retry',
  'admin.outbox.dismiss': 'POST /admin/outbox/{channel}/{id}/dismiss',
  'admin.outbox.retryMany': 'POST /admin/outbox/{channel}/retry =',
  'admin.outbox.dismissMany': 'POST /admin/outbox/{channel}/dismiss =',
  'admin.outbox.pause': 'POST /admin/outbox/{channel}/pause = repeat',
  'admin.outbox.resume': 'POST /admin/outbox/{channel}/resume = repeat',

  'admin.webhookFailures.list': 'GET /admin/webhook-failures ? page',
  'admin.webhookFailures.replay': 'POST /admin/webhook-failures/{id}/replay',
  'admin.webhookFailures.replayMany': 'POST /admin/webhook-failures/replay ?',
  'admin.webhookFailures.dismiss': 'POST /admin/webhook-failures/{id}/dismiss',

  'admin.alerts.list': 'GET /admin/alerts ? page',
  'admin.alerts.test': 'POST /admin/alerts/test',
  'admin.alerts.acknowledge': 'POST /admin/alerts/{id}/acknowledge = repeat',
  'admin.alerts.unacknowledge': 'DELETE /admin/alerts/{id}/acknowledge',
  'admin.silences.list': 'GET /admin/alert-silences ? page',
  'admin.silences.create': 'POST /admin/alert-silences =',
  'admin.silences.delete': 'DELETE /admin/alert-silences/{id}',

  'admin.audit.list': 'GET /admin/audit ? page',
  'admin.audit.export': 'GET /admin/audit.csv ? file',
  'admin.keys.list': 'GET /admin/keys',
  'admin.keys.rotate': 'POST /admin/keys/rotate',
  'admin.purges.list': 'GET /admin/purge ? page',
  'admin.purges.start': 'POST /admin/purge =',
  'admin.purges.get': 'GET /admin/purge/{id}',
  'admin.purges.cancel': 'DELETE /admin/purge/{id}',
  'admin.retention.get': 'GET /admin/retention ?',
  'admin.subjects.find': 'GET /admin/subjects ?',
  'admin.subjects.lookUp': 'POST /admin/subjects/find = repeat',

  'admin.breakers.list': 'GET /admin/circuit-breakers',
  'admin.breakers.reset': 'POST /admin/circuit-breakers/{name}/reset',
  'admin.relays.list': 'GET /admin/relays',
  'admin.owners.get': 'GET /admin/owners',
  'admin.attention.get': 'GET /admin/attention',
  'admin.flow.get': 'GET /admin/flow ?',
  'admin.maintenanceWindows.list': 'GET /admin/maintenance-windows',
  'admin.search.find': 'GET /admin/search ?',
  'admin.series.get': 'GET /admin/series ?',
  'admin.timeline.get': 'GET /admin/timeline/{kind}/{id}',
};

// One method for them all: integrations.call(name, path, {method, …}).
for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
  for (const path of ['/integrations/{name}', '/integrations/{name}/{path}']) {
    module.exports[`integrations.call ${method}${path.endsWith('{path}') ? '/path' : ''}`] = `${method} ${path} own`;
  }
}
