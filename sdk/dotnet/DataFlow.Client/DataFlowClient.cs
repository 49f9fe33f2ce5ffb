using System;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;

namespace DataFlow.Client
{
    /// <summary>A DataFlow server. One client serves a whole program: all of its members may be used by any number of threads at once.</summary>
    public sealed class DataFlowClient : IDisposable
    {
        internal const string Version = "0.1.0";
        private static readonly AsyncLocal<Scope?> Current = new AsyncLocal<Scope?>();
        private readonly HttpClient? _own;

        /// <summary>A client with connections of its own. In a program with dependency injection use <c>services.AddDataFlow(…)</c>.</summary>
        /// <param name="options">Where and who. Later changes to it have no effect.</param>
        public DataFlowClient(DataFlowClientOptions options)
        {
            var own = _own = new HttpClient(Handler()) { Timeout = Timeout.InfiniteTimeSpan };
            Pipeline = new Pipeline((options ?? throw new ArgumentNullException(nameof(options))).Checked(), () => own);
            (Imports, Webhooks, Mapping, Tickets, Counterparties, Acks, Events, Integrations, Server, Admin) = Groups(Pipeline);
        }

        /// <summary>A client that takes an <see cref="HttpClient"/> for each try, from <c>IHttpClientFactory</c> for instance. Its timeout should be
        /// infinite (the options have one) and its handler follow no redirects, which would carry the credentials elsewhere. If it logs headers, it should leave
        /// <c>X-Client-Secret</c> and <c>X-Admin-Key</c> out, as that of <c>AddDataFlow</c> does.</summary>
        /// <param name="options">Where and who. Later changes to it have no effect.</param>
        /// <param name="http">Gives an <see cref="HttpClient"/>; this class does not dispose of it.</param>
        public DataFlowClient(DataFlowClientOptions options, Func<HttpClient> http) : this(options, http, false) { }

        internal DataFlowClient(DataFlowClientOptions options, Func<HttpClient> http, bool keepsSecrets)
        {
            Pipeline = new Pipeline((options ?? throw new ArgumentNullException(nameof(options))).Checked(),
                http ?? throw new ArgumentNullException(nameof(http)), keepsSecrets);
            (Imports, Webhooks, Mapping, Tickets, Counterparties, Acks, Events, Integrations, Server, Admin) = Groups(Pipeline);
        }

        internal Pipeline Pipeline { get; }

        internal static string? CurrentCorrelationId => Current.Value?.CorrelationId;

        internal static string? CurrentLanguage => Current.Value?.Language;

        /// <summary>Bulk imports.</summary>
        public ImportsClient Imports { get; }
        /// <summary>Subscriptions to webhooks. To verify what they deliver see <see cref="WebhookVerifier"/>.</summary>
        public WebhooksClient Webhooks { get; }
        /// <summary>How the client's columns are read.</summary>
        public MappingClient Mapping { get; }
        /// <summary>Shipment tickets.</summary>
        public TicketsClient Tickets { get; }
        /// <summary>Counterparties.</summary>
        public CounterpartiesClient Counterparties { get; }
        /// <summary>Functional acks.</summary>
        public AcksClient Acks { get; }
        /// <summary>Events for the server's outbox.</summary>
        public EventsClient Events { get; }
        /// <summary>Calls to other systems through the server.</summary>
        public IntegrationsClient Integrations { get; }
        /// <summary>The server itself.</summary>
        public ServerClient Server { get; }
        /// <summary>For operators.</summary>
        public AdminClient Admin { get; }
        /// <summary>What the client has used of its limits.</summary>
        /// <param name="clientId">The client; its own by default.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("GET", "/clients/{clientId}/usage", "usage.get")]
        public Task<JsonAnswer> GetUsageAsync(string? clientId = null, CancellationToken cancellationToken = default) =>
            Pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/clients/{Pipeline.Client(clientId)}/usage"), cancellationToken);

        /// <summary>A figure of the client over time.</summary>
        /// <param name="metric">The figure.</param>
        /// <param name="channel">Only of this channel.</param>
        /// <param name="from">From this time.</param>
        /// <param name="to">To this time.</param>
        /// <param name="step">The seconds of a point.</param>
        /// <param name="clientId">The client; its own by default.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("GET", "/clients/{clientId}/series", "series.get")]
        public Task<JsonAnswer> GetSeriesAsync(string? metric = null, string? channel = null, DateTimeOffset? from = null, DateTimeOffset? to = null,
            string? step = null, string? clientId = null, CancellationToken cancellationToken = default) =>
            Pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/clients/{Pipeline.Client(clientId)}/series",
                new Query { { "metric", metric }, { "channel", channel }, { "from", from }, { "to", to }, { "step", step } }), cancellationToken);

        /// <summary>Finds a document of the client by any of its ids.</summary>
        /// <param name="q">The id.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("GET", "/search", "search.find")]
        public Task<JsonAnswer> SearchAsync(string q, CancellationToken cancellationToken = default) =>
            Pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/search", new Query { { "q", q } }), cancellationToken);

        /// <summary>Gives the calls of this flow of execution a correlation id or language, until the scope is disposed of.</summary>
        /// <param name="correlationId">Sent as <c>X-Correlation-Id</c>, and found again in logs, webhooks and traces.</param>
        /// <param name="language">Sent as <c>Accept-Language</c>.</param>
        public static IDisposable BeginScope(string? correlationId = null, string? language = null) => new Scope(correlationId, language);

        /// <summary>Closes the connections, if they are the client's own.</summary>
        public void Dispose() => _own?.Dispose();

        // .NET Framework has two connections for a host unless told otherwise, of which each batch that is waited for takes one.
        internal static HttpMessageHandler Handler() =>
            new HttpClientHandler { AllowAutoRedirect = false, UseCookies = false, MaxConnectionsPerServer = int.MaxValue };

        private static (ImportsClient, WebhooksClient, MappingClient, TicketsClient, CounterpartiesClient, AcksClient, EventsClient, IntegrationsClient,
            ServerClient, AdminClient) Groups(Pipeline p)
        {
            var imports = new ImportsClient(p);
            return (imports, new WebhooksClient(p), new MappingClient(p), new TicketsClient(p), new CounterpartiesClient(p), new AcksClient(p),
                new EventsClient(p), new IntegrationsClient(p), new ServerClient(p), new AdminClient(p, imports));
        }

        private sealed class Scope : IDisposable
        {
            private readonly Scope? _outer = Current.Value;

            public Scope(string? correlationId, string? language)
            {
                CorrelationId = correlationId ?? _outer?.CorrelationId;
                Language = language ?? _outer?.Language;
                Current.Value = this;
            }

            public string? CorrelationId { get; }

            public string? Language { get; }

            public void Dispose() => Current.Value = _outer;
        }
    }
}
