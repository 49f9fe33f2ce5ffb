// Texts that every page may use: the frame, lists, dialogs, times, states.
import { add } from '../kit/text.js';

add({
  skip: ['Skip to content', 'Ir para o conteúdo'], menu: ['Menu', 'Menu'], pages: ['Pages', 'Páginas'],
  close: ['Close', 'Fechar'], cancel: ['Cancel', 'Cancelar'], apply: ['Apply', 'Aplicar'], copy: ['Copy', 'Copiar'], copied: ['Copied', 'Copiado'], 'doc.curl': ['Copy as curl', 'Copiar como curl'],
  selected: ['Selected: copy it with the keyboard', 'Selecionado: copie com o teclado'], optional: ['optional', 'opcional'], none: ['None.', 'Nenhum.'], any: ['any', 'qualquer'],
  yes: ['yes', 'sim'], no: ['no', 'não'], actions: ['Actions', 'Ações'], counting: ['Counting…', 'Contando…'], never: ['never', 'nunca'],

  'group.work': ['Work', 'Trabalho'], 'group.watch': ['Watch', 'Observar'], 'group.manage': ['Manage', 'Administrar'],
  'nav.overview': ['Overview', 'Visão geral'], 'nav.tickets': ['Tickets', 'Tickets'], 'nav.imports': ['Imports', 'Importações'], 'nav.outbox': ['Outboxes', 'Caixas de saída'],
  'nav.routes': ['HTTP routes', 'Rotas HTTP'], 'nav.start': ['First steps', 'Primeiros passos'], 'nav.search': ['Search', 'Busca'],

  'account.signIn': ['Sign in', 'Entrar'], 'account.open': ['(account and settings)', '(conta e preferências)'], 'account.title': ['Account and settings', 'Conta e preferências'],
  'account.admin': ['administrator', 'administrador'], 'account.asAdmin': ['You are signed in as administrator', 'Você entrou como administrador'], 'account.asClient': ['You are signed in as client', 'Você entrou como cliente'],
  'account.toAdmin': ['Back to administrator', 'Voltar a administrador'], 'account.toClient': ['Switch to client', 'Mudar para o cliente'], 'account.other': ['Sign in otherwise', 'Entrar de outra forma'], 'account.signOut': ['Sign out', 'Sair'],
  'account.kept': ['Language, theme and time zone are kept in this browser.', 'Idioma, tema e fuso horário ficam neste navegador.'],
  'role.read': ['may look', 'pode ver'], 'role.operate': ['may operate', 'pode operar'], 'role.admin': ['may do everything', 'pode tudo'],
  language: ['Language', 'Idioma'], theme: ['Theme', 'Tema'], 'theme.auto': ['as the system', 'como o sistema'], 'theme.light': ['light', 'claro'], 'theme.dark': ['dark', 'escuro'],
  zone: ['Times', 'Horários'], 'zone.local': ['local time', 'hora local'],
  'signin.as': ['Sign in with', 'Entrar com'], 'signin.admin': ['Admin key', 'Chave de administrador'], 'signin.client': ['Client credentials', 'Credenciais de cliente'], 'signin.keyHint': ['The value of admin.key on the server.', 'O valor de admin.key no servidor.'], 'signin.id': ['Client ID', 'ID do cliente'], 'signin.secret': ['Secret', 'Segredo'],
  'signin.kept': ['Kept in the open tabs of this browser only, and forgotten when they are closed.', 'Fica só nas abas abertas deste navegador e é esquecido quando elas são fechadas.'],
  'off.title': ['No admin key is configured', 'Nenhuma chave de administrador está configurada'],
  'off.text': ['Administration over HTTP is switched off on this server. To switch it on, put a key in a file and start the server with it:', 'A administração por HTTP está desligada neste servidor. Para ligá-la, ponha uma chave num arquivo e inicie o servidor com ela:'],
  'off.cli': ['On the server’s own machine no key is needed:', 'Na própria máquina do servidor não é preciso chave:'],
  'gate.nothing': ['No such page', 'Página inexistente'], 'gate.noPage': ['The console has no page with this address.', 'O console não tem página com este endereço.'],
  'gate.denied': ['Your role or scopes do not allow this page.', 'Seu papel ou seus escopos não permitem esta página.'], 'gate.other': ['This page needs another sign-in than yours.', 'Esta página precisa de outro acesso que não o seu.'],
  'older.text': ['The server that answered is older than this page. Try again when all replicas are upgraded.', 'O servidor que respondeu é mais antigo que esta página. Tente de novo quando todas as réplicas forem atualizadas.'],

  'server.ready': ['Ready', 'Pronto'], 'server.notReady': ['Not ready', 'Não está pronto'], 'server.unreachable': ['Unreachable', 'Inacessível'], 'server.degraded': ['Needs a look', 'Precisa de atenção'], 'server.critical': ['Needs you', 'Precisa de você'],
  'api.answered': ['The server answered {status}.', 'O servidor respondeu {status}.'], 'api.refused': ['Refused', 'Recusado'], 'api.badHeader': ['It has characters that an HTTP header cannot carry.', 'Há caracteres que um cabeçalho HTTP não aceita.'], 'api.noAnswer': ['The server does not answer.', 'O servidor não responde.'], 'api.failed': ['Failed', 'Falhou'], 'api.left': ['Left', 'Abandonada'], 'api.reference': ['Correlation ID', 'ID de correlação'],
  'search.label': ['Search by any id', 'Buscar por qualquer id'], 'search.hint': ['Document, batch, delivery, trace…', 'Documento, lote, entrega, rastreio…'],

  'secret.once': ['Copy it now: it is shown only this once and cannot be read again.', 'Copie agora: é mostrado só desta vez e não pode ser lido de novo.'], 'secret.stored': ['I have stored it', 'Já guardei'],
  'form.bad': ['This cannot be read: correct it, or leave it empty.', 'Não dá para ler isto: corrija ou deixe vazio.'], 'work.progress': ['{n} of {of} done', '{n} de {of} feitos'],

  'list.total': ['1 row|{n} rows', '1 linha|{n} linhas'], 'list.about': ['about {n} rows', 'cerca de {n} linhas'], 'list.first': ['First page', 'Primeira página'], 'list.next': ['Next', 'Próxima'], 'list.pages': ['Pages of the list', 'Páginas da lista'],
  'list.newer': ['1 newer row: show it|{n} newer rows: show them', '1 linha nova: mostrar|{n} linhas novas: mostrar'], 'list.csv': ['Export CSV', 'Exportar CSV'], 'list.cut': ['The file has the first {n} rows only: narrow the filter for the others.', 'O arquivo tem só as primeiras {n} linhas: restrinja o filtro para ver as outras.'], 'list.clear': ['Clear', 'Limpar'],
  'list.selection': ['Selected rows', 'Linhas selecionadas'], 'list.none': ['Nothing selected', 'Nada selecionado'], 'list.selected': ['1 selected|{n} selected', '1 selecionada|{n} selecionadas'], 'list.matching': ['all {n} that match', 'todas as {n} que correspondem'], 'list.aboutMatching': ['all that match, about {n}', 'todas as que correspondem, cerca de {n}'],
  'list.takeAll': ['Select all {n} that match', 'Selecionar todas as {n} que correspondem'], 'list.unselect': ['Clear selection', 'Limpar seleção'], 'list.select': ['Select', 'Selecionar'], 'list.selectRow': ['Select {what}', 'Selecionar {what}'], 'list.selectPage': ['Select this page', 'Selecionar esta página'],
  'causes.title': ['Failures by cause: one cause|Failures by cause: {n} causes', 'Falhas por causa: uma causa|Falhas por causa: {n} causas'], 'causes.retried': ['tried again by itself', 'tentado de novo sozinho'], 'causes.person': ['waits for a person', 'espera por alguém'],

  'wait.since': ['since', 'desde'], 'time.in': ['in {words}', 'em {words}'], 'time.now': ['just now', 'agora mesmo'], 'time.ago': ['{words} ago', 'há {words}'],

  'state.Awaiting': ['Awaiting', 'Aguardando'], 'state.Processing': ['Processing', 'Processando'], 'state.Processed': ['Processed', 'Processado'], 'state.Error': ['Error', 'Erro'], 'state.Retrying': ['Error, will retry', 'Erro, tentará de novo'],
  'state.Pending': ['Pending', 'Pendente'], 'state.Sending': ['Sending', 'Enviando'], 'state.Sent': ['Sent', 'Enviado'], 'state.Success': ['Success', 'Sucesso'], 'state.Received': ['Received', 'Recebido'], 'state.GivenUp': ['Given up', 'Abandonado'],
  'state.PENDING': ['Pending', 'Pendente'], 'state.PROCESSED': ['Dispatched', 'Despachado'], 'state.FAILED': ['Failed', 'Falhou'], 'state.Scheduled': ['Scheduled', 'Agendada'], 'state.Completed': ['Completed', 'Concluída'], 'state.CompletedWithErrors': ['Completed with errors', 'Concluída com erros'],
  'state.Failed': ['Failed', 'Falhou'], 'state.Cancelled': ['Cancelled', 'Cancelada'], 'state.Active': ['Active', 'Ativo'], 'state.Suspended': ['Suspended', 'Suspenso'], 'state.Retry': ['Will retry', 'Tentará de novo'], 'state.Deferred': ['Put off', 'Adiado'], 'state.Stale': ['Overtaken', 'Superado'], 'state.Permanent': ['Failed for good', 'Falhou de vez'],
  'state.OPEN': ['Open', 'Aberto'], 'state.CLOSED': ['Closed', 'Fechado'], 'state.HALF_OPEN': ['Half open', 'Meio aberto'], 'state.up': ['up', 'no ar'], 'state.down': ['down', 'fora do ar'], 'state.paused': ['paused', 'pausado'], 'state.firing': ['firing', 'disparado'], 'state.resolved': ['resolved', 'resolvido'],
  'state.critical': ['critical', 'crítico'], 'state.warning': ['warning', 'aviso'], 'state.dismissed': ['dismissed', 'dispensado'], 'state.Disabled': ['Disabled', 'Desativado'], 'state.Enabled': ['Enabled', 'Ativo'], 'state.running': ['running', 'em execução'], 'state.not running': ['not running', 'parado'], 'state.standing by': ['standing by', 'de prontidão'],
});
