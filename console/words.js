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
    'What needs a person': 'O que precisa de alguém', 'Nothing was given up, and nothing is down, paused or stuck.': 'Nada foi abandonado, e nada está fora do ar, pausado ou parado.',
    'With the admin key this page shows what was given up, what is down and what is stuck.': 'Com a chave de administrador esta página mostra o que foi abandonado, o que está fora do ar e o que está parado.',
    'Given up': 'Abandonado', Down: 'Fora do ar', Paused: 'Pausado', Waiting: 'Esperando', 'Import waits': 'Importação espera', 'Processing failed': 'Processamento falhou',
    '{count} of {channel}': '{count} de {channel}', 'Look and retry': 'Ver e reenviar', 'Look and reprocess': 'Ver e reprocessar',
    'Mend the cause, then retry.': 'Corrija a causa e depois reenvie.', 'What waits for it goes by itself when it answers again.': 'O que espera por ele segue sozinho quando ele voltar a responder.',
    'Nothing is sent until it is resumed.': 'Nada é enviado até que seja retomado.', 'Not tried again: correct them, or reprocess.': 'Não serão tentados de novo: corrija-os ou reprocesse.',
    '{count} wait': '{count} esperando', '{count} wait for {target}': '{count} esperam por {target}', 'Waits for {what}': 'Espera por {what}', Look: 'Ver', What: 'O quê', Where: 'Onde', Since: 'Desde', 'What to do': 'O que fazer',
    'the whole channel': 'o canal inteiro', 'of {client}': 'de {client}', 'by {who}': 'por {who}', 'In {channel}: look at the oldest rows.': 'Em {channel}: veja as linhas mais antigas.',
    'If it does not go on by itself, release its lock.': 'Se não continuar sozinha, libere a trava.',
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
    'Counting…': 'Contando…', '{count} tickets match and start over.': '{count} tickets correspondem e recomeçam.', '{count} tickets start over.': '{count} tickets recomeçam.', 'The ticket starts over.': 'O ticket recomeça.', '{count} are left: reprocess again.': 'Restam {count}: reprocesse de novo.',
    'Part of the error': 'Parte do erro', optional: 'opcional', 'Functional acks': 'Acks funcionais', Returns: 'Retornos', Attempts: 'Tentativas', Tries: 'Tentativas', 'Last error': 'Último erro', Channel: 'Canal', Outcome: 'Resultado', At: 'Em', Took: 'Levou', 'None yet.': 'Nenhuma ainda.',
    // Imports.
    'All imports': 'Todas as importações', 'Imports of all clients.': 'Importações de todos os clientes.', File: 'Arquivo', 'File name': 'Nome do arquivo', Records: 'Registros', Errors: 'Erros', Uploaded: 'Enviado', 'Waits for': 'Espera por', 'Locked by': 'Travado por', 'Release lock': 'Liberar trava', 'Cancel import': 'Cancelar importação', 'Retry failed': 'Reenviar os que falharam',
    '{count} imports': '{count} importações', 'Its lock is released.': 'A trava foi liberada.', 'The import is cancelled.': 'A importação foi cancelada.', 'The failed records will be sent again.': 'Os registros que falharam serão enviados de novo.', 'Failed records': 'Registros que falharam', Reason: 'Motivo', Record: 'Registro',
    // Outboxes.
    Target: 'Destino', State: 'Estado', 'Error contains': 'Erro contém', 'Tried since': 'Tentado desde', Held: 'Retido', 'Retry these…': 'Reenviar estes…', Retry: 'Reenviar', 'Retry all': 'Reenviar tudo', Pause: 'Pausar', Resume: 'Retomar', 'Pause channel': 'Pausar canal', 'Resume channel': 'Retomar canal', Targets: 'Destinos',
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
      if (Object.hasOwn(PT, words)) node.textContent = node.textContent.replace(words, PT[words]);
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
