using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;

namespace DataFlow.Client
{
    /// <summary>Shipment tickets. A body is flat or the sending system's envelope: any object that System.Text.Json can write, or JSON.</summary>
    public sealed class TicketsClient
    {
        private readonly Pipeline _pipeline;

        internal TicketsClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Sends a ticket. The same again changes nothing; another payload under the same keys replaces it and starts over.</summary>
        [Operation("POST", "/api/tickets", "tickets.submit")]
        public Task<Stored> SubmitAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Stored>(new Call(HttpMethod.Post, $"/api/tickets").WithJson(body).Repeatable(), cancellationToken);

        /// <summary>The phases of a ticket, each with its four states.</summary>
        [Operation("GET", "/api/tickets", "tickets.find")]
        public async Task<IReadOnlyList<Ticket>> FindAsync(string businessEntity, string businessDocId, int? phaseCode = null,
            CancellationToken cancellationToken = default) =>
            (await _pipeline.JsonAsync<Page<Ticket>>(new Call(HttpMethod.Get, $"/api/tickets", new Query { { "businessEntity", businessEntity },
                { "businessDocId", businessDocId }, { "phaseCode", phaseCode } }), cancellationToken).ConfigureAwait(false)).Items;

        /// <summary>Tickets in a state, newest first.</summary>
        [Operation("GET", "/api/tickets", "tickets.list")]
        public AsyncPageable<Ticket> List(string status, string? businessEntity = null, int? phaseCode = null, string? order = null,
            CancellationToken cancellationToken = default) =>
            new AsyncPageable<Ticket>(_pipeline, $"/api/tickets", new Query { { "status", status }, { "businessEntity", businessEntity },
                { "phaseCode", phaseCode }, { "order", order } }, cancellationToken);

        /// <summary>Starts a ticket over from its stored payload.</summary>
        [Operation("POST", "/api/tickets/{id}/reprocess", "tickets.reprocess")]
        public Task<Stored> ReprocessAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Stored>(new Call(HttpMethod.Post, $"/api/tickets/{id}/reprocess"), cancellationToken);

        /// <summary>Tells what the other side made of a ticket (scope <c>callback</c>). The same again changes nothing.</summary>
        [Operation("POST", "/api/tickets/callback", "tickets.callback")]
        public Task<JsonAnswer> CallBackAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/api/tickets/callback").WithJson(body).Repeatable(), cancellationToken);
    }

    /// <summary>Counterparties. A body is flat or the sending system's envelope: any object that System.Text.Json can write, or JSON.</summary>
    public sealed class CounterpartiesClient
    {
        private readonly Pipeline _pipeline;

        internal CounterpartiesClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Sends a counterparty. What is stored under its <c>businessDocId</c> is replaced.</summary>
        [Operation("POST", "/api/counterparties", "counterparties.submit")]
        public Task<Stored> SubmitAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Stored>(new Call(HttpMethod.Post, $"/api/counterparties").WithJson(body).Repeatable(), cancellationToken);

        /// <summary>A counterparty with its addresses, fiscal references and ETag (<see cref="Document.Response"/>).</summary>
        [Operation("GET", "/api/counterparties", "counterparties.get")]
        public Task<Counterparty> GetAsync(string businessDocId, string? businessEntity = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Counterparty>(new Call(HttpMethod.Get, $"/api/counterparties",
                new Query { { "businessDocId", businessDocId }, { "businessEntity", businessEntity } }), cancellationToken);

        /// <summary>Counterparties, newest first; at least one filter is given.</summary>
        [Operation("GET", "/api/counterparties", "counterparties.list")]
        public AsyncPageable<Counterparty> List(string? businessEntity = null, string? entityType = null, string? counterpartyId = null,
            string? fiscalNumber = null, string? status = null, string? order = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<Counterparty>(_pipeline, $"/api/counterparties", new Query { { "businessEntity", businessEntity }, { "entityType", entityType },
                { "counterpartyId", counterpartyId }, { "fiscalNumber", fiscalNumber }, { "status", status }, { "order", order } }, cancellationToken);

        /// <summary>Tells that a counterparty was taken, or why not (scope <c>interface-all</c>): <c>status</c> and perhaps <c>message</c>.</summary>
        /// <param name="businessDocId">Which one.</param>
        /// <param name="body">The outcome.</param>
        /// <param name="ifMatch">The <see cref="ResponseInfo.ETag"/> of what was taken; if a newer payload came meanwhile, this is refused.</param>
        /// <param name="businessEntity">The business entity.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("PATCH", "/api/counterparties", "counterparties.settle")]
        public Task<Counterparty> SettleAsync(string businessDocId, object body, string? ifMatch, string? businessEntity = null,
            CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Counterparty>(new Call(Call.Patch, $"/api/counterparties",
                new Query { { "businessDocId", businessDocId }, { "businessEntity", businessEntity } }) { IfMatch = ifMatch }.WithJson(body), cancellationToken);
    }

    /// <summary>Functional acks.</summary>
    public sealed class AcksClient
    {
        private readonly Pipeline _pipeline;

        internal AcksClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Queues an ack: a whole one, or the members from which it is built. Each call sends another, so it is never repeated by itself.</summary>
        [Operation("POST", "/api/functional-ack", "acks.send")]
        public Task<Stored> SendAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Stored>(new Call(HttpMethod.Post, $"/api/functional-ack").WithJson(body), cancellationToken);

        /// <summary>A document's acks, newest first.</summary>
        [Operation("GET", "/api/functional-ack", "acks.list")]
        public AsyncPageable<FunctionalAck> List(string businessDocId, CancellationToken cancellationToken = default) =>
            new AsyncPageable<FunctionalAck>(_pipeline, $"/api/functional-ack", new Query { { "businessDocId", businessDocId } }, cancellationToken);
    }

    /// <summary>Events for the server's outbox (scope <c>events</c>).</summary>
    public sealed class EventsClient
    {
        private readonly Pipeline _pipeline;

        internal EventsClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Stores an event, which the server will send.</summary>
        /// <param name="body">The event.</param>
        /// <param name="idempotencyKey">Known to the server for a call once; one is made by default.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("POST", "/events", "events.publish")]
        public Task<EventAccepted> PublishAsync(OutboxEvent body, string? idempotencyKey = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<EventAccepted>(Events(Sent(body), idempotencyKey), cancellationToken);

        /// <summary>Stores up to 1000 events in one transaction.</summary>
        /// <param name="body">The events, in their order.</param>
        /// <param name="idempotencyKey">Known to the server for a call once; one is made by default.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        public Task<EventsAccepted> PublishAsync(IEnumerable<OutboxEvent> body, string? idempotencyKey = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<EventsAccepted>(Events((body ?? throw new ArgumentNullException(nameof(body))).Select(Sent).ToArray(), idempotencyKey),
                cancellationToken);

        private static Call Events(object body, string? key) =>
            new Call(HttpMethod.Post, $"/events") { IdempotencyKey = key ?? Guid.NewGuid().ToString("D") }.WithJson(body);

        /// <summary>The event with its payload in the caller's own words: what consumers get is for the caller to say, not for our options.</summary>
        private static object Sent(OutboxEvent body) => body == null ? throw new ArgumentNullException(nameof(body))
            : new { body.EventType, Payload = Json.Own(body.Payload), body.AggregateType, body.AggregateId, body.CorrelationId, body.EventId };
    }

    /// <summary>Calls to other systems through the server, which adds their credentials, retries and breaks the circuit (scope <c>integrations</c>).</summary>
    public sealed class IntegrationsClient
    {
        private readonly Pipeline _pipeline;

        internal IntegrationsClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Passes a call on. Whatever the other system answers is returned; what DataFlow itself refuses is thrown.</summary>
        /// <param name="name">The integration's name.</param>
        /// <param name="method">The method.</param>
        /// <param name="path">The path behind the integration's own; null for none.</param>
        /// <param name="query">Query parameters.</param>
        /// <param name="body">The body: bytes, or anything that System.Text.Json can write, as it does by default.</param>
        /// <param name="contentType">The body's type; by default <c>application/octet-stream</c> for bytes, else <c>application/json</c>.</param>
        /// <param name="idempotencyKey">Passed on. With it the call may be repeated, whatever its method is.</param>
        /// <param name="onUnavailable"><c>enqueue</c>: if the other system is away the call is kept and delivered later, and the answer is 202.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        /// <returns>The other system's answer with its whole body, which is in memory; to be disposed of.</returns>
        [Operation("GET", "/integrations/{name}", "integrations.call"), Operation("POST", "/integrations/{name}", "integrations.call"),
         Operation("PUT", "/integrations/{name}", "integrations.call"), Operation("PATCH", "/integrations/{name}", "integrations.call"),
         Operation("DELETE", "/integrations/{name}", "integrations.call"), Operation("GET", "/integrations/{name}/{path}", "integrations.call"),
         Operation("POST", "/integrations/{name}/{path}", "integrations.call"), Operation("PUT", "/integrations/{name}/{path}", "integrations.call"),
         Operation("PATCH", "/integrations/{name}/{path}", "integrations.call"), Operation("DELETE", "/integrations/{name}/{path}", "integrations.call")]
        public Task<HttpResponseMessage> CallAsync(string name, HttpMethod method, string? path = null, IEnumerable<KeyValuePair<string, string>>? query = null,
            object? body = null, string? contentType = null, string? idempotencyKey = null, string? onUnavailable = null,
            CancellationToken cancellationToken = default)
        {
            var parameters = new Query();
            foreach (var one in query ?? Enumerable.Empty<KeyValuePair<string, string>>())
                parameters.Add(one.Key, one.Value);
            parameters.Add("onUnavailable", onUnavailable);
            var call = new Call(method, $"/integrations/{name}", parameters) { IdempotencyKey = idempotencyKey, Accept = "*/*" };
            if (path != null)
                call.Path += "/" + string.Join("/", path.TrimStart('/').Split('/').Select(Call.Segment));
            if (body is byte[] bytes)
                call.WithBytes(bytes, contentType ?? "application/octet-stream");
            else if (body != null)
                call.WithBytes(Json.OwnBytes(body), contentType ?? "application/json");
            return _pipeline.PassedOnAsync(call, cancellationToken);
        }
    }

    /// <summary>How the client's columns are read.</summary>
    public sealed class MappingClient
    {
        private readonly Pipeline _pipeline;

        internal MappingClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>The mapping; <see cref="NotFoundException"/> if there is none.</summary>
        [Operation("GET", "/clients/{clientId}/mapping", "mapping.get")]
        public Task<Mapping> GetAsync(string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Mapping>(new Call(HttpMethod.Get, $"/clients/{_pipeline.Client(clientId)}/mapping"), cancellationToken);

        /// <summary>Keeps a mapping for later uploads: canonical names by column or path; null or "" keeps a column from being mapped.</summary>
        [Operation("PUT", "/clients/{clientId}/mapping", "mapping.put")]
        public Task<Mapping> PutAsync(IDictionary<string, string?> columns, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Mapping>(new Call(HttpMethod.Put, $"/clients/{_pipeline.Client(clientId)}/mapping")
                .WithJson(new Dictionary<string, object> { ["mapping"] = columns }), cancellationToken);

        /// <summary>Forgets it.</summary>
        [Operation("DELETE", "/clients/{clientId}/mapping", "mapping.delete")]
        public Task DeleteAsync(string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.NothingAsync(new Call(HttpMethod.Delete, $"/clients/{_pipeline.Client(clientId)}/mapping"), cancellationToken);
    }

    /// <summary>The server itself.</summary>
    public sealed class ServerClient
    {
        private readonly Pipeline _pipeline;

        internal ServerClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Whether the process lives, and its version.</summary>
        [Operation("GET", "/healthz", "server.health")]
        public Task<JsonAnswer> GetHealthAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/healthz") { IsAnonymous = true }, cancellationToken);

        /// <summary>Whether it can work; if not, <see cref="ServerException"/> says why.</summary>
        [Operation("GET", "/readyz", "server.ready")]
        public Task<JsonAnswer> GetReadinessAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/readyz") { IsAnonymous = true }, cancellationToken);

        /// <summary>Metrics in the text format of Prometheus.</summary>
        [Operation("GET", "/metrics", "server.metrics")]
        public Task<string> GetMetricsAsync(CancellationToken cancellationToken = default) =>
            _pipeline.TextAsync(new Call(HttpMethod.Get, $"/metrics").Accepting("text/plain"), cancellationToken);

        /// <summary>The server's OpenAPI document.</summary>
        [Operation("GET", "/openapi.json", "server.openapi")]
        public Task<JsonAnswer> GetOpenApiAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/openapi.json") { IsAnonymous = true }, cancellationToken);

        /// <summary>Who the credentials belong to.</summary>
        [Operation("GET", "/whoami", "server.whoami")]
        public Task<WhoAmI> WhoAmIAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<WhoAmI>(new Call(HttpMethod.Get, $"/whoami"), cancellationToken);
    }
}
