// Texts of what a tenant does alone: webhooks, tickets, events, use and limits.
import { add } from '../kit/text.js';

add({
  'wh.text': ['The server calls your URL when an import or a ticket ends.', 'O servidor chama a sua URL quando uma importação ou um ticket termina.'],
  'wh.all': ['Notifications that could not be delivered, of all clients.', 'Notificações que não puderam ser entregues, de todos os clientes.'],
  'wh.of': ['Webhooks of {client}', 'Webhooks de {client}'], 'wh.new': ['New webhook', 'Novo webhook'], 'wh.created': ['Webhook created', 'Webhook criado'],
  'wh.url': ['URL', 'URL'], 'wh.urlHint': ['An address that takes POST requests, such as https://example.com/hooks.', 'Um endereço que aceite POST, como https://example.com/hooks.'],
  'wh.auto': ['Make a new secret now and then, by itself', 'Trocar o segredo de tempos em tempos, sozinho'],
  'wh.id': ['Webhook', 'Webhook'], 'wh.edit': ['Edit', 'Editar'],
  'wh.test': ['Send a test', 'Enviar um teste'], 'wh.tested': ['A test is on its way to {url}.', 'Um teste está a caminho de {url}.'],
  'wh.rotateText': ['A new secret is made. For 24 hours deliveries are signed with the old one too.', 'Um novo segredo é gerado. Por 24 horas as entregas são assinadas também com o antigo.'],
  'wh.fetch': ['Fetch the new secret', 'Buscar o novo segredo'], 'wh.fetchText': ['From then on deliveries are signed with it; for 24 hours with the old one too.', 'A partir daí as entregas são assinadas com ele; por 24 horas, também com o antigo.'],
  'wh.disable': ['Disable', 'Desativar'], 'wh.enable': ['Enable', 'Ativar'], 'wh.delete': ['Delete', 'Excluir'], 'wh.deleteText': ['The webhook, its deliveries and its failures are removed.', 'O webhook, suas entregas e suas falhas são removidos.'], 'wh.deleted': ['The webhook is deleted.', 'O webhook foi excluído.'],
  'wh.failing': ['Every delivery has failed, since', 'Todas as entregas falham, desde'], 'wh.disabledAt': ['Disabled', 'Desativado'], 'wh.oldSecret': ['Old secret valid until', 'Segredo antigo vale até'], 'wh.autoIs': ['New secret by itself', 'Troca o segredo sozinho'],
  'wh.since': ['Secret in use since', 'Segredo em uso desde'], 'wh.next': ['New secret waits to be fetched since', 'Novo segredo espera ser buscado desde'],
  'wh.deliveries': ['Deliveries', 'Entregas'], 'wh.delivery': ['Delivery', 'Entrega'], 'wh.nextAt': ['Next attempt', 'Próxima tentativa'],
  'wh.attempts': ['{n} attempt|{n} attempts', '{n} tentativa|{n} tentativas'], 'wh.noAnswer': ['no answer', 'sem resposta'], 'wh.payload': ['Payload', 'Conteúdo'],
  'wh.resend': ['Send again', 'Reenviar'], 'wh.replayDone': ['{event} is to be sent again.', '{event} será reenviado.'],
  'wh.replay': ['Replay failures', 'Reenviar falhas'], 'wh.replayText': ['What was given up in this period is sent again, oldest first.', 'O que foi abandonado neste período é reenviado, do mais antigo ao mais novo.'],
  'wh.replaySince': ['Period', 'Período'],
  'wh.replayed': ['{n} delivery is to be sent again.|{n} deliveries are to be sent again.', '{n} entrega será reenviada.|{n} entregas serão reenviadas.'], 'wh.remaining': ['{n} left: replay again.', '{n} a mais: reenvie de novo.'], 'wh.skipped': ['{n} of disabled webhooks left as they were.', '{n} de webhooks desativados sem mudança.'],
  'wh.replayOne': ['Replay', 'Reenviar'], 'wh.dismissOne': ['Dismiss', 'Dispensar'], 'wh.dismissDone': ['The failure is dismissed.', 'A falha foi dispensada.'],
  'wh.tries': ['Attempts', 'Tentativas'],

  'use.requests': ['Requests in the last minute', 'Requisições no último minuto'], 'use.uploads': ['Uploads at once', 'Envios simultâneos'], 'use.batches': ['Imports today', 'Importações hoje'], 'use.storage': ['Temporary storage', 'Armazenamento temporário'],
  'use.of': ['of {limit}', 'de {limit}'], 'use.none': ['no limit', 'sem limite'], 'use.anew': ['resets', 'recomeça'], 'use.label': ['{name}: {used} of {limit}', '{name}: {used} de {limit}'],
  'use.maintenance': ['Imports are refused from {from} to {to}: maintenance.', 'Importações são recusadas de {from} a {to}: manutenção.'],
  'use.lastDay': ['The last day', 'O último dia'], 'use.accepted': ['Accepted', 'Aceitos'], 'use.delivered': ['Delivered', 'Entregues'], 'use.failed': ['Failed', 'Falhas'], 'use.series': ['{name}: {n} in all, at most {most} in an hour.', '{name}: {n} ao todo, no máximo {most} por hora.'],

  'tk.text': ['One document with all its phases, or all tickets in a status.', 'Um documento com todas as fases, ou todos os tickets numa situação.'],
  'tk.entity': ['Business entity', 'Entidade de negócio'], 'tk.doc': ['Document', 'Documento'], 'tk.phase': ['phase {phase}', 'fase {phase}'],
  'tk.processing': ['Processing', 'Processamento'], 'tk.return': ['Return', 'Retorno'], 'tk.gateway': ['Gateway', 'Gateway'], 'tk.callback': ['Callback', 'Callback'], 'tk.received': ['Received', 'Recebido'],
  'tk.nothing': ['Nothing found. If the ticket comes, it appears here.', 'Nada encontrado. Se o ticket chegar, aparece aqui.'], 'tk.version': ['This is version {n} of its payload.', 'Esta é a versão {n} do conteúdo.'],
  'tk.corrected': ['Not tried again: send a corrected ticket.', 'Não será tentado de novo: envie um ticket corrigido.'], 'tk.notAgain': ['Not tried again automatically.', 'Não será tentado de novo sozinho.'], 'tk.waits': ['Waits for processing.', 'Espera o processamento.'], 'tk.waitsGateway': ['Waits for the gateway.', 'Espera o gateway.'], 'tk.waitsAnswer': ['Waits for the gateway’s answer.', 'Espera a resposta do gateway.'],
  'tk.again': ['again', 'de novo'], 'tk.company': ['Company', 'Empresa'], 'tk.branch': ['Branch', 'Filial'], 'tk.target': ['Target', 'Aplicação'], 'tk.ack': ['Functional ack', 'Ack funcional'],
  'tk.reprocess': ['Process again', 'Processar de novo'], 'tk.reprocessText': ['The ticket starts over from its stored payload: its return and gateway send go out again. Its history stays.', 'O ticket recomeça do conteúdo guardado: o retorno e o envio ao gateway saem de novo. O histórico fica.'], 'tk.starts': ['The ticket starts over.', 'O ticket recomeça.'],

  'ev.text': ['Events that you write are stored, then dispatched by the relay.', 'Os eventos que você grava são guardados e depois despachados pelo relay.'], 'ev.send': ['Send an event', 'Enviar um evento'], 'ev.type': ['Event type', 'Tipo do evento'], 'ev.payload': ['Payload (JSON)', 'Conteúdo (JSON)'], 'ev.aggregate': ['About (aggregate ID)', 'Sobre (ID do agregado)'],
  'ev.sent': ['The event is stored: {id}', 'O evento foi guardado: {id}'], 'ev.bad': ['This is no JSON: {why}', 'Isto não é JSON: {why}'], 'ev.find': ['Find an event', 'Encontrar um evento'], 'ev.findText': ['By its event or correlation ID.', 'Pelo ID do evento ou de correlação.'], 'ev.id': ['ID', 'ID'], 'ev.search': ['Find', 'Buscar'],
});
