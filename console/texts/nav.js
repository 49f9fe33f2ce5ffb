// Names of the tenants' and the administrators' pages, and words that several of them use.
import { add } from '../kit/text.js';

add({
  'nav.webhooks': ['Webhooks', 'Webhooks'], 'nav.usage': ['Use and limits', 'Uso e limites'], 'nav.events': ['Events', 'Eventos'], 'nav.clients': ['Clients', 'Clientes'],
  'nav.alerts': ['Alerts', 'Alertas'], 'nav.relays': ['Relays', 'Relays'], 'nav.integrations': ['Integrations', 'Integrações'], 'nav.maintenance': ['Maintenance', 'Manutenção'],
  'nav.retention': ['Retention and purge', 'Retenção e expurgo'], 'nav.audit': ['Audit', 'Auditoria'], 'nav.versions': ['Versions', 'Versões'],
  'w.stop': ['Stop', 'Parar'], 'w.status': ['Status', 'Situação'], 'w.client': ['Client', 'Cliente'], 'w.reason': ['Reason', 'Motivo'], 'w.create': ['Create', 'Criar'],
  'w.state': ['State', 'Estado'], 'w.createdAt': ['Created', 'Criado'], 'w.secretHint': ['Leave it empty and one is made.', 'Deixe vazio e um será gerado.'],
  'w.save': ['Save', 'Salvar'], 'w.saved': ['Saved.', 'Salvo.'], 'w.rotate': ['New secret', 'Novo segredo'], 'w.event': ['Event', 'Evento'], 'w.http': ['Answer', 'Resposta'],
  'w.failures': ['Given up', 'Abandonados'], 'w.replayedAt': ['Replayed', 'Reenviado'], 'w.destination': ['Destination', 'Destino'], 'w.version': ['Version', 'Versão'], 'w.uptime': ['Up for', 'No ar há'], 'w.database': ['Database', 'Banco de dados'], 'w.since': ['Since', 'Desde'], 'w.to': ['To', 'Para'], 'w.target': ['Target', 'Destino'], 'w.took': ['took {time}', 'levou {time}'], 'w.file': ['File', 'Arquivo'], 'w.records': ['Records', 'Registros'], 'w.errors': ['Errors', 'Erros'], 'w.uploaded': ['Uploaded', 'Enviado'], 'w.attempt': ['Attempt', 'Tentativa'], 'w.what': ['What', 'O quê'],
  'w.by': ['By', 'Por'], 'w.filter': ['Filter', 'Filtro'], 'w.first': ['The first {n}.', 'Os primeiros {n}.'], 'w.details': ['Details', 'Detalhes'], 'w.when': ['When', 'Quando'],

  // What time lines name besides the documents' own states: outcomes, and who touched it (texts of the other events: work.js).
  'state.ok': ['ok', 'ok'], 'state.failed': ['failed', 'falhou'], 'state.denied': ['denied', 'negado'],
  'event.Delivered': ['Delivered', 'Entregue'], 'event.TicketReprocessed': ['Reprocessed', 'Reprocessado'], 'event.TicketReassigned': ['Client changed', 'Cliente mudado'], 'event.CounterpartyReassigned': ['Client changed', 'Cliente mudado'],
  'event.OutboxRetried': ['Retried', 'Reenviado'], 'event.DeliveryDismissed': ['Dismissed', 'Dispensado'], 'event.PayloadRevealed': ['Payload revealed', 'Conteúdo revelado'],
  'event.ImportCancelled': ['Cancelled', 'Cancelada'], 'event.ImportRetried': ['Retried', 'Repetida'], 'event.ImportReleased': ['Lock released', 'Trava liberada'], 'event.ImportReportDownloaded': ['Report downloaded', 'Relatório baixado'],
});
