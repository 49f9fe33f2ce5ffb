// The languages of the console. The pages are written in English; here is the Portuguese for it, and the
// choice between the two. {names} stand for figures and names, which are never translated.
'use strict';
const dfWords = (() => {
  const LANGUAGE = 'dataflow.language';
  const PT = {
    // The frame.
    'Skip to content': 'Ir para o conteúdo', Views: 'Páginas', Overview: 'Visão geral', Tickets: 'Tickets', Imports: 'Importações', Outboxes: 'Caixas de saída',
    Relays: 'Relays', Webhooks: 'Webhooks', Alerts: 'Alertas', Clients: 'Clientes', 'Admin key': 'Chave de administrador', Connecting: 'Conectando',
    'Search documents': 'Buscar documentos', 'Search by any id': 'Buscar por qualquer id', Search: 'Buscar', Cancel: 'Cancelar', Client: 'Cliente',
    Previous: 'Anterior', Next: 'Próxima', any: 'qualquer', Apply: 'Aplicar', 'None.': 'Nenhum.', Actions: 'Ações', Dismiss: 'Fechar',
    Português: 'English', 'Muda para o português': 'Switch to English',
    // The first page.
    Throughput: 'Vazão', 'requests/s': 'requisições/s', 'Measuring…': 'Medindo…', 'Latency p50': 'Latência p50', 'Latency p99': 'Latência p99',
    'Server errors': 'Erros do servidor', Commits: 'Commits', Memory: 'Memória', Uptime: 'No ar há', 'last minute': 'último minuto', 'a second': 'por segundo',
    resident: 'residente', Readiness: 'Prontidão', 'Asking the server…': 'Perguntando ao servidor…', 'Back end': 'Banco de dados', Version: 'Versão',
    Routes: 'Rotas', Route: 'Rota', 'No figures yet.': 'Ainda sem números.', Total: 'Total',
    'This table includes probes and this page’s own requests; the figures above do not.': 'Esta tabela inclui as sondas e as requisições desta página; os números acima, não.',
    Process: 'Processo', Processes: 'Processos', Shards: 'Partes', nobody: 'ninguém',
    'What needs a person': 'O que precisa de alguém', 'Nothing was given up, and nothing is down, paused or stuck.': 'Nada foi abandonado, e nada está fora do ar, pausado ou parado.',
    'With the admin key this page shows what was given up, what is down and what is stuck.': 'Com a chave de administrador esta página mostra o que foi abandonado, o que está fora do ar e o que está parado.',
    'Given up': 'Abandonado', Down: 'Fora do ar', Paused: 'Pausado', Waiting: 'Esperando', 'Import waits': 'Importação espera', 'Processing failed': 'Processamento falhou',
    '{count} of {channel}': '{count} de {channel}', 'Look and retry': 'Ver e reenviar', 'Look and reprocess': 'Ver e reprocessar',
    'Mend the cause, then retry.': 'Corrija a causa e depois reenvie.', 'What waits for it goes by itself when it answers again.': 'O que espera por ele segue sozinho quando ele voltar a responder.',
    'Nothing is sent until it is resumed.': 'Nada é enviado até que seja retomado.', 'Not tried again: correct them, or reprocess.': 'Não serão tentados de novo: corrija-os ou reprocesse.',
    '{count} wait': '{count} esperando', '{count} wait for {target}': '{count} esperam por {target}', 'Waits for {what}': 'Espera por {what}', Look: 'Ver', What: 'O quê', Where: 'Onde', Since: 'Desde', 'What to do': 'O que fazer',
    'the whole channel': 'o canal inteiro', 'of {client}': 'de {client}', 'by {who}': 'por {who}', 'In {channel}: look at the oldest rows.': 'Em {channel}: veja as linhas mais antigas.',
    'It goes on by itself when OmniFlow answers.': 'Continua sozinha quando o OmniFlow responder.', 'It goes on by itself when its turn comes.': 'Continua sozinha quando chegar a sua vez.',
    'Look whether a process with the role import runs, and who has the lock.': 'Veja se há um processo com o papel import e quem tem a trava.',
    // Figures and time lines.
    Documents: 'Documentos', Range: 'Período', 'last hour': 'última hora', 'last day': 'último dia', 'last week': 'última semana', 'last 90 days': 'últimos 90 dias',
    Accepted: 'Aceitos', Delivered: 'Entregues', Failed: 'Falhas', '{words}: {count} now, at most {most}.': '{words}: {count} agora, no máximo {most}.',
    '{words}: {count} in all, at most {most} in a step.': '{words}: {count} ao todo, no máximo {most} por intervalo.', 'What happened meanwhile': 'O que aconteceu no período',
    'With the admin key this page shows what was accepted, delivered and failed, and what waits.': 'Com a chave de administrador esta página mostra o que foi aceito, entregue e falhou, e o que espera.',
    BreakerOpened: 'Disjuntor aberto', BreakerClosed: 'Disjuntor fechado', AlertFired: 'Alerta disparado', AlertResolved: 'Alerta resolvido', ReplicaStarted: 'Réplica iniciada', ReplicaStopped: 'Réplica parada',
    'Time line': 'Linha do tempo', Count: 'Quantidade', By: 'Por', 'There is more than is shown.': 'Há mais do que é mostrado.',
    Replaced: 'Substituído', ProcessingFailed: 'Processamento falhou', Queued: 'Na fila', GivenUp: 'Abandonado', Dismissed: 'Dispensado',
    CallbackReceived: 'Callback recebido', Erased: 'Apagado', FirstChunkSent: 'Primeira parte enviada', LastChunkSent: 'Última parte enviada', FirstAck: 'Primeira confirmação', LastAck: 'Última confirmação',
    ChunksFailed: 'Partes com erro', RecordsFailed: 'Registros com erro', PeerAway: 'Destino fora do ar', GaveWay: 'Cedeu a vez',
    'waits for its target': 'espera pelo destino', 'waits for its time': 'espera pela hora', 'waits for a person': 'espera por alguém', 'waits for its schedule': 'espera a hora marcada', 'waits for its turn': 'espera a vez',
    'waits for a worker': 'espera um processo', 'waits for an ack': 'espera a confirmação',
    // Search.
    'What was found': 'O que foi encontrado', 'Nothing has this id.': 'Nada tem este id.', '{count} found.': '{count} encontrado(s).', 'There may be more.': 'Pode haver mais.',
    Kind: 'Tipo', Document: 'Documento', Status: 'Situação', Created: 'Criado', ticket: 'ticket', counterparty: 'parceiro', ack: 'ack funcional', return: 'retorno', import: 'importação', event: 'evento',
    webhookDelivery: 'entrega de webhook', integrationCall: 'chamada de integração', client: 'cliente',
    'Business document, ticket, batch, file name, event, delivery, correlation or trace id, or client.': 'Documento de negócio, ticket, lote, nome do arquivo, evento, entrega, id de correlação ou de rastreamento, ou cliente.',
    // Tickets.
    'All tickets': 'Todos os tickets', 'Tickets of all clients.': 'Tickets de todos os clientes.', 'Of all clients': 'De todos os clientes', 'Of one client': 'De um cliente',
    'One document with all its phases, or all tickets in a status.': 'Um documento com todas as fases, ou todos os tickets numa situação.',
    'Business entity': 'Entidade de negócio', Return: 'Retorno', Gateway: 'Gateway', Callback: 'Callback', Processing: 'Processamento', Received: 'Recebido', Phase: 'Fase',
    '{count} tickets': '{count} tickets', 'about {count} tickets': 'cerca de {count} tickets', 'Reprocess…': 'Reprocessar…', Reprocess: 'Reprocessar', 'Reprocess tickets': 'Reprocessar tickets', 'Reprocess the ticket': 'Reprocessar o ticket',
    'The ticket starts over from its stored payload: it is processed again, and its return and gateway send go out again. Its history stays.': 'O ticket recomeça a partir do conteúdo armazenado: é processado de novo, e o retorno e o envio ao gateway saem de novo. O histórico permanece.',
    'Counting…': 'Contando…', '{count} tickets match and start over.': '{count} tickets correspondem e recomeçam.', '{count} tickets start over.': '{count} tickets recomeçam.', 'The ticket starts over.': 'O ticket recomeça.', '{count} are left: reprocess again.': 'Restam {count}: reprocesse de novo.', 'More are left: reprocess again.': 'Restam mais: reprocesse de novo.', 'More than {count} tickets match; the oldest {count} start over.': 'Mais de {count} tickets correspondem; os {count} mais antigos recomeçam.',
    'Part of the error': 'Parte do erro', optional: 'opcional', 'Functional acks': 'Acks funcionais', Returns: 'Retornos', Attempts: 'Tentativas', Tries: 'Tentativas', 'Last error': 'Último erro', Channel: 'Canal', Outcome: 'Resultado', At: 'Em', Took: 'Levou', 'None yet.': 'Nenhuma ainda.',
    // Imports.
    'All imports': 'Todas as importações', 'Imports of all clients.': 'Importações de todos os clientes.', File: 'Arquivo', 'File name': 'Nome do arquivo', Records: 'Registros', Errors: 'Erros', Uploaded: 'Enviado', 'Waits for': 'Espera por', 'Locked by': 'Travado por', 'Release lock': 'Liberar trava', 'Cancel import': 'Cancelar importação', 'Retry failed': 'Reenviar os que falharam',
    '{count} imports': '{count} importações', 'Its lock is released.': 'A trava foi liberada.', 'The import is cancelled.': 'A importação foi cancelada.', 'The failed records will be sent again.': 'Os registros que falharam serão enviados de novo.', 'Failed records': 'Registros que falharam', Reason: 'Motivo', Record: 'Registro',
    // The older pages.
    Severity: 'Gravidade', Rule: 'Regra', Resolved: 'Resolvido', Fired: 'Disparado', 'Enter key': 'Informar chave', Activate: 'Ativar', Scopes: 'Escopos', Suspend: 'Suspender',
    'Metrics are for the administrator': 'As métricas são do administrador', 'From another machine the server shows its metrics only with the admin key.': 'De outra máquina o servidor só mostra as métricas com a chave de administrador.',
    'Rotate secret': 'Trocar segredo', 'Selected; copy it with the keyboard': 'Selecionado; copie com o teclado', Usage: 'Uso', Copied: 'Copiado', Skipped: 'Ignorados', History: 'Histórico', Ended: 'Terminado', Origin: 'Origem',
    'As sent': 'Como enviado', Decision: 'Decisão', 'Waits for its next turn while another client has the worker.': 'Espera a sua vez enquanto outro cliente ocupa o processador.', 'None on this page.': 'Nenhum nesta página.', Started: 'Iniciado',
    Phone: 'Telefone', 'Asked for by': 'Pedido por', Processed: 'Processados', Imported: 'Importados', Attempt: 'Tentativa', 'Circuit breakers': 'Disjuntores', 'Last attempt': 'Última tentativa', 'Oldest pending': 'Pendente mais antigo',
    'Deliveries that wait, that were sent, and that failed.': 'Entregas que esperam, que foram enviadas e que falharam.', 'Not permitted': 'Não permitidas', 'Last failure': 'Última falha', Reference: 'Referência',
    'This process has made no calls yet.': 'Este processo ainda não fez chamadas.', 'Slow rate': 'Taxa de lentidão', 'Failure rate': 'Taxa de falha', Destination: 'Destino', 'Next attempt': 'Próxima tentativa', 'woken by NOTIFY': 'acordado por NOTIFY',
    Oldest: 'Mais antigo', Retried: 'Reenviados', 'This process does not have the role relay.': 'Este processo não tem o papel relay.', Last: 'Último', To: 'Para', Relay: 'Relay', Dispatched: 'Despachados', Branch: 'Filial', 'Functional ack': 'Ack funcional',
    Company: 'Empresa', Event: 'Evento', Test: 'Testar', 'New subscription': 'Nova assinatura', Enable: 'Ativar', Disable: 'Desativar', Events: 'Eventos', 'Nothing was.': 'Nada foi.', 'This client has no subscriptions yet.': 'Este cliente ainda não tem assinaturas.',
    Replayed: 'Repetido', Replay: 'Repetir', Deliveries: 'Entregas', 'Replay all': 'Repetir tudo', 'Notifications to clients about their imports and tickets, and those that could not be delivered.': 'Avisos aos clientes sobre importações e tickets, e os que não puderam ser entregues.',
    'Rotates by itself': 'Troca sozinho', yes: 'sim', no: 'não', 'Secret in use since': 'Segredo em uso desde', 'New secret waits since': 'Novo segredo espera desde',
    'Old secret valid until': 'Segredo antigo vale até', 'Administration over HTTP is switched off on this server. To switch it on, put a key in a file and start the server with it:': 'A administração por HTTP está desligada neste servidor. Para ligá-la, ponha uma chave num arquivo e inicie o servidor com ela:',
    'Applications that may call this server, each with an identifier, a secret and scopes.': 'Aplicações que podem chamar este servidor, cada uma com identificador, segredo e escopos.', 'Cancel the import': 'Cancelar a importação', Change: 'Alterar', 'Change the scopes': 'Alterar os escopos',
    'Client ID': 'ID do cliente', 'Client secret': 'Segredo do cliente', Copy: 'Copiar', 'Copy it now: it is shown only this once and cannot be read again.': 'Copie agora: é mostrado só desta vez e não pode ser lido de novo.', Create: 'Criar', Delete: 'Excluir', 'Delete the subscription': 'Excluir a assinatura',
    'Deliveries that were given up and not replayed yet are sent again, with all their attempts, except those of disabled subscriptions.': 'Entregas abandonadas e ainda não repetidas são enviadas de novo, com todas as tentativas, exceto as de assinaturas desativadas.', 'Drop a file here, or choose one': 'Solte um arquivo aqui, ou escolha um',
    'Enter a client’s credentials': 'Informe as credenciais de um cliente', 'Enter credentials': 'Informar credenciais', 'Enter the admin key': 'Informe a chave de administrador', Forget: 'Esquecer', 'Given up in the last': 'Abandonadas na última', 'I have stored it': 'Já guardei',
    'It is kept only in this tab and forgotten when the tab is closed.': 'Fica só nesta aba e é esquecida quando ela é fechada.', 'Its deliveries are deleted with it, also those that wait or were given up. To stop them only for a while, disable it.': 'As entregas são excluídas com ela, também as que esperam ou foram abandonadas. Para pará-las só por um tempo, desative-a.',
    'Its file is removed, and nothing of it is sent. To import it later, upload it again.': 'O arquivo é removido e nada dele é enviado. Para importá-lo depois, envie-o de novo.', 'Keep it': 'Manter', 'Last seen': 'Visto por último', 'Limits and use': 'Limites e uso', Name: 'Nome', 'New client': 'Novo cliente',
    'No admin key is configured': 'Nenhuma chave de administrador está configurada', 'No client yet. Create the first one to call the server.': 'Nenhum cliente ainda. Crie o primeiro para chamar o servidor.', 'Retry failed records': 'Reenviar registros que falharam', Rotate: 'Trocar', 'Rotate the secret': 'Trocar o segredo', Secret: 'Segredo', Stop: 'Parar', 'Suspend client': 'Suspender cliente',
    'The failed records are sent again, unchanged. To correct errors in the file itself, correct the file and upload it again.': 'Os registros que falharam são enviados de novo, sem alteração. Para corrigir erros do próprio arquivo, corrija-o e envie-o de novo.', 'The old secret': 'O segredo antigo',
    'The subscription gets a new secret. For a while deliveries are signed with the old one too, so that there is time to give the receiver the new one.': 'A assinatura recebe um novo segredo. Por um tempo as entregas são assinadas também com o antigo, para dar tempo de passar o novo ao receptor.', 'Try again': 'Tentar de novo', 'Try it': 'Experimente', Upload: 'Enviar', 'Use client': 'Usar cliente', 'Use key': 'Usar chave',
    'for records without one': 'para registros sem origem', hour: 'hora', day: 'dia', week: 'semana', year: 'ano', 'stops working at once': 'deixa de valer já', 'works for 5 more minutes': 'vale por mais 5 minutos', 'works for 1 more hour': 'vale por mais 1 hora', 'works for 1 more day': 'vale por mais 1 dia',
    Ready: 'Pronto', 'Not ready': 'Não está pronto', Unreachable: 'Inacessível', 'Ready for requests.': 'Pronto para requisições.', 'Admin key set': 'Chave informada', 'Client {id}': 'Cliente {id}', 'Peak {rate} in the last minute': 'Pico de {rate} no último minuto', '{count} writes each': '{count} gravações em cada',
    'just now': 'agora mesmo', never: 'nunca', '{words} ago': 'há {words}', 'in {words}': 'em {words}', 'Page {page} of {pages}, {total}': 'Página {page} de {pages}, {total}', 'Waits for processing.': 'Espera o processamento.', 'Not tried again: send a corrected ticket.': 'Não será tentado de novo: envie um ticket corrigido.', 'Under way.': 'Em andamento.',
    'Not tried again automatically.': 'Não será tentado de novo sozinho.', 'Waits for the gateway’s answer.': 'Espera a resposta do gateway.', 'Waits for the gateway.': 'Espera o gateway.', Payload: 'Conteúdo', required: 'exigido', 'not required': 'não exigido',
    // Outboxes.
    Target: 'Destino', State: 'Estado', 'Error contains': 'Erro contém', 'Tried since': 'Tentado desde', Held: 'Retido', 'Retry these…': 'Reenviar estes…', Retry: 'Reenviar', 'Retry all': 'Reenviar tudo', Pause: 'Pausar', Resume: 'Retomar', 'Pause channel': 'Pausar canal', 'Resume channel': 'Retomar canal', Targets: 'Destinos',
    Dismiss: 'Dispensar', 'Dismiss {what}': 'Dispensar {what}', dismissed: 'dispensado', '{what} is dismissed: it counts as given up no longer.': '{what} foi dispensado: não conta mais como abandonado.', 'The failure is dismissed.': 'A falha foi dispensada.',
    'Retry rows of {channel}': 'Reenviar linhas de {channel}', '{count} rows of {channel} match this filter and will be sent again, with all their attempts.': '{count} linhas de {channel} correspondem a este filtro e serão enviadas de novo, com todas as tentativas.', 'No row matches this filter.': 'Nenhuma linha corresponde a este filtro.',
    '{count} rows are to be sent again.': '{count} linhas serão enviadas de novo.', '{count} are left: retry again.': 'Restam {count}: reenvie de novo.', '{what} is paused: nothing is sent until it is resumed.': '{what} está pausado: nada é enviado até que seja retomado.', '{what} goes on.': '{what} continua.', 'The channel is paused: nothing is sent until it is resumed.': 'O canal está pausado: nada é enviado até que seja retomado.', Arrived: 'Chegaram', 'waits for {target}': 'espera por {target}',
  };

  const chosen = () => sessionStorage.getItem(LANGUAGE) || (/^pt\b/i.test(navigator.language) ? 'pt' : 'en');
  const language = chosen();

  function t(words, values = {}) {
    const said = (language === 'pt' && Object.hasOwn(PT, words) && PT[words]) || words;
    return said.replace(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(values, name) ? String(values[name]) : whole));
  }

  // What stands in the document itself, before anything that a server says is in it.
  function translateDocument() {
    document.documentElement.lang = language === 'pt' ? 'pt-BR' : 'en';
    if (language !== 'pt') return;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const words = node.textContent.trim();
      const { parentElement: parent } = node;
      if (parent.closest('code, pre') || (parent.tagName === 'OPTION' && !parent.hasAttribute('value'))) continue; // such words are values
      if (Object.hasOwn(PT, words)) node.textContent = node.textContent.replace(words, () => PT[words]);
    }
    for (const name of ['aria-label', 'placeholder', 'title']) {
      for (const node of document.querySelectorAll(`[${name}]`)) {
        if (Object.hasOwn(PT, node.getAttribute(name))) node.setAttribute(name, PT[node.getAttribute(name)]);
      }
    }
  }

  function switchLanguage() {
    sessionStorage.setItem(LANGUAGE, language === 'pt' ? 'en' : 'pt');
    location.reload();
  }

  translateDocument();
  return { t, switchLanguage };
})();
