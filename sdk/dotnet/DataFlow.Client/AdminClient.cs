using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Http;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace DataFlow.Client
{
    /// <summary>For operators, with <see cref="DataFlowClientOptions.AdminKey"/>. Answers without a type of their own are <see cref="JsonAnswer"/>,
    /// with the members that the server's <c>/openapi.json</c> tells; a body is any object that System.Text.Json can write, a dictionary or JSON.</summary>
    public sealed class AdminClient
    {
        private readonly Pipeline _pipeline;

        internal AdminClient(Pipeline pipeline, ImportsClient imports)
        {
            _pipeline = pipeline;
            Clients = new AdminClientsClient(pipeline);
            Imports = new AdminImportsClient(pipeline, imports);
            Tickets = new AdminTicketsClient(pipeline);
            Outbox = new AdminOutboxClient(pipeline);
            WebhookFailures = new AdminWebhookFailuresClient(pipeline);
            Alerts = new AdminAlertsClient(pipeline);
            Silences = new AdminSilencesClient(pipeline);
            Audit = new AdminAuditClient(pipeline);
            Keys = new AdminKeysClient(pipeline);
            Purges = new AdminPurgesClient(pipeline);
            Subjects = new AdminSubjectsClient(pipeline);
            Breakers = new AdminBreakersClient(pipeline);
        }

        /// <summary>Clients, their secrets and policies.</summary>
        public AdminClientsClient Clients { get; }
        /// <summary>Batches of all clients.</summary>
        public AdminImportsClient Imports { get; }
        /// <summary>Tickets of all clients.</summary>
        public AdminTicketsClient Tickets { get; }
        /// <summary>What waits to be delivered, what failed, and the channels themselves.</summary>
        public AdminOutboxClient Outbox { get; }
        /// <summary>Webhook deliveries that were given up.</summary>
        public AdminWebhookFailuresClient WebhookFailures { get; }
        /// <summary>Alerts.</summary>
        public AdminAlertsClient Alerts { get; }
        /// <summary>Alerts that are recorded and not sent.</summary>
        public AdminSilencesClient Silences { get; }
        /// <summary>Who did what.</summary>
        public AdminAuditClient Audit { get; }
        /// <summary>Keys that close what is stored.</summary>
        public AdminKeysClient Keys { get; }
        /// <summary>Erasing what is stored.</summary>
        public AdminPurgesClient Purges { get; }
        /// <summary>What is stored about a person.</summary>
        public AdminSubjectsClient Subjects { get; }
        /// <summary>Circuit breakers.</summary>
        public AdminBreakersClient Breakers { get; }
        /// <summary>How long what is over is kept; <c>count</c> also says what a run would remove now.</summary>
        [Operation("GET", "/admin/retention", "admin.retention.get")]
        public Task<JsonAnswer> GetRetentionAsync(bool? count = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/retention", new Query { { "count", count } }), cancellationToken);

        /// <summary>The relays of outbox tables.</summary>
        [Operation("GET", "/admin/relays", "admin.relays.list")]
        public Task<JsonAnswer> ListRelaysAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/relays"), cancellationToken);

        /// <summary>Replicas and the work that they have taken.</summary>
        [Operation("GET", "/admin/owners", "admin.owners.get")]
        public Task<JsonAnswer> GetOwnersAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/owners"), cancellationToken);

        /// <summary>What needs a person, worst first.</summary>
        [Operation("GET", "/admin/attention", "admin.attention.get")]
        public Task<JsonAnswer> GetAttentionAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/attention"), cancellationToken);

        /// <summary>How documents move: steps from accepted to delivered, of an <c>hour</c>, <c>day</c> or <c>week</c>.</summary>
        [Operation("GET", "/admin/flow", "admin.flow.get")]
        public Task<JsonAnswer> GetFlowAsync(string? window = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/flow", new Query { { "window", window } }), cancellationToken);

        /// <summary>When uploads are refused: the server's windows and the clients' own.</summary>
        [Operation("GET", "/admin/maintenance-windows", "admin.maintenanceWindows.list")]
        public Task<JsonAnswer> ListMaintenanceWindowsAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/maintenance-windows"), cancellationToken);

        /// <summary>Finds a document of any kind and client by any of its ids.</summary>
        [Operation("GET", "/admin/search", "admin.search.find")]
        public Task<JsonAnswer> SearchAsync(string q, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/search", new Query { { "q", q } }), cancellationToken);

        /// <summary>A figure that the server keeps, over time.</summary>
        [Operation("GET", "/admin/series", "admin.series.get")]
        public Task<JsonAnswer> GetSeriesAsync(string? metric = null, string? clientId = null, string? channel = null,
            DateTimeOffset? from = null, DateTimeOffset? to = null, string? step = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/series", new Query { { "metric", metric }, { "clientId", clientId },
                { "channel", channel }, { "from", from }, { "to", to }, { "step", step } }), cancellationToken);

        /// <summary>What happened to a document, from its acceptance to the last answer of a peer.</summary>
        [Operation("GET", "/admin/timeline/{kind}/{id}", "admin.timeline.get")]
        public Task<JsonAnswer> GetTimelineAsync(string kind, string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/timeline/{kind}/{id}"), cancellationToken);

        /// <summary>Gives a counterparty to the client in <c>clientId</c>.</summary>
        [Operation("PATCH", "/admin/counterparties/{id}", "admin.counterparties.reassign")]
        public Task<JsonAnswer> ReassignCounterpartyAsync(string id, object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(Call.Patch, $"/admin/counterparties/{id}").WithJson(body).Repeatable(), cancellationToken);
    }

    /// <summary>Clients, their secrets and policies.</summary>
    public sealed class AdminClientsClient
    {
        private readonly Pipeline _pipeline;

        internal AdminClientsClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>The clients.</summary>
        [Operation("GET", "/admin/clients", "admin.clients.list")]
        public AsyncPageable<JsonElement> List(string? order = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<JsonElement>(_pipeline, $"/admin/clients", new Query { { "order", order } }, cancellationToken);

        /// <summary>Makes a client: <c>name</c>, and perhaps <c>clientId</c> and <c>scopes</c>. Its secret is shown this once.</summary>
        [Operation("POST", "/admin/clients", "admin.clients.create")]
        public Task<ClientSecret> CreateAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<ClientSecret>(new Call(HttpMethod.Post, $"/admin/clients").WithJson(body), cancellationToken);

        /// <summary>A client.</summary>
        [Operation("GET", "/admin/clients/{clientId}", "admin.clients.get")]
        public Task<JsonAnswer> GetAsync(string clientId, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/clients/{clientId}"), cancellationToken);

        /// <summary>Changes <c>status</c> or <c>scopes</c>.</summary>
        [Operation("PATCH", "/admin/clients/{clientId}", "admin.clients.update")]
        public Task<JsonAnswer> UpdateAsync(string clientId, object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(Call.Patch, $"/admin/clients/{clientId}").WithJson(body).Repeatable(), cancellationToken);

        /// <summary>A new secret; the old one stays valid for the grace.</summary>
        [Operation("POST", "/admin/clients/{clientId}/rotate-secret", "admin.clients.rotateSecret")]
        public Task<ClientSecret> RotateSecretAsync(string clientId, int? graceSeconds = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<ClientSecret>(new Call(HttpMethod.Post, $"/admin/clients/{clientId}/rotate-secret", new Query { { "graceSeconds",
                graceSeconds } }), cancellationToken);

        /// <summary>A client's policy.</summary>
        [Operation("GET", "/admin/clients/{clientId}/policy", "admin.clients.getPolicy")]
        public Task<JsonAnswer> GetPolicyAsync(string clientId, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/clients/{clientId}/policy"), cancellationToken);

        /// <summary>Changes the policy; what is absent stays, null (in a dictionary or JSON) is no limit.</summary>
        [Operation("PUT", "/admin/clients/{clientId}/policy", "admin.clients.putPolicy")]
        public Task<JsonAnswer> PutPolicyAsync(string clientId, object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Put, $"/admin/clients/{clientId}/policy").WithJson(body), cancellationToken);

        /// <summary>The same as <c>PutPolicyAsync</c>.</summary>
        [Operation("PATCH", "/admin/clients/{clientId}/policy", "admin.clients.updatePolicy")]
        public Task<JsonAnswer> UpdatePolicyAsync(string clientId, object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(Call.Patch, $"/admin/clients/{clientId}/policy").WithJson(body).Repeatable(), cancellationToken);

        /// <summary>Back to the server's defaults.</summary>
        [Operation("DELETE", "/admin/clients/{clientId}/policy", "admin.clients.resetPolicy")]
        public Task ResetPolicyAsync(string clientId, CancellationToken cancellationToken = default) =>
            _pipeline.NothingAsync(new Call(HttpMethod.Delete, $"/admin/clients/{clientId}/policy"), cancellationToken);

        /// <summary>What a client has used of its limits.</summary>
        [Operation("GET", "/admin/clients/{clientId}/usage", "admin.clients.usage")]
        public Task<JsonAnswer> GetUsageAsync(string clientId, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/clients/{clientId}/usage"), cancellationToken);
    }

    /// <summary>Batches of all clients.</summary>
    public sealed class AdminImportsClient
    {
        private readonly Pipeline _pipeline;
        private readonly ImportsClient _imports;

        internal AdminImportsClient(Pipeline pipeline, ImportsClient imports)
        {
            _pipeline = pipeline;
            _imports = imports;
        }

        /// <summary>Batches, newest first.</summary>
        [Operation("GET", "/admin/imports", "admin.imports.list")]
        public AsyncPageable<Batch> List(string? clientId = null, string? status = null, DateTimeOffset? from = null, DateTimeOffset? to = null,
            string? fileName = null, string? order = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<Batch>(_pipeline, $"/admin/imports", new Query { { "clientId", clientId }, { "status", status }, { "from", from },
                { "to", to }, { "fileName", fileName }, { "order", order } }, cancellationToken);

        /// <summary>The list as CSV, to be read and disposed of.</summary>
        [Operation("GET", "/admin/imports.csv", "admin.imports.export")]
        public Task<Stream> ExportAsync(string? clientId = null, string? status = null, DateTimeOffset? from = null, DateTimeOffset? to = null,
            string? fileName = null, string? after = null, string? order = null, int? limit = null,
            CancellationToken cancellationToken = default) =>
            _pipeline.StreamAsync(new Call(HttpMethod.Get, $"/admin/imports.csv", new Query { { "clientId", clientId }, { "status", status },
                { "from", from }, { "to", to }, { "fileName", fileName }, { "after", after }, { "order", order }, { "limit",
                limit } }).Accepting("text/csv"), cancellationToken);

        /// <summary>A batch.</summary>
        [Operation("GET", "/admin/imports/{batchId}", "admin.imports.get")]
        public Task<Batch> GetAsync(string batchId, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Batch>(new Call(HttpMethod.Get, $"/admin/imports/{batchId}"), cancellationToken);

        /// <summary>Cancels a batch that has not begun.</summary>
        [Operation("DELETE", "/admin/imports/{batchId}", "admin.imports.cancel")]
        public Task CancelAsync(string batchId, CancellationToken cancellationToken = default) =>
            _pipeline.NothingAsync(new Call(HttpMethod.Delete, $"/admin/imports/{batchId}"), cancellationToken);

        /// <summary>Another attempt at the failed items, with mended values if given.</summary>
        [Operation("POST", "/admin/imports/{batchId}/retry", "admin.imports.retry")]
        public Task<ImportRetry> RetryAsync(string batchId, IEnumerable<MendedItem>? items = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<ImportRetry>(new Call(HttpMethod.Post,
                $"/admin/imports/{batchId}/retry").WithJson(items == null ? null : new { items }), cancellationToken);

        /// <summary>Takes the batch's lock from a worker that is stuck.</summary>
        [Operation("POST", "/admin/imports/{batchId}/release", "admin.imports.release")]
        public Task<JsonAnswer> ReleaseAsync(string batchId, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/imports/{batchId}/release"), cancellationToken);

        /// <summary>A batch's records.</summary>
        [Operation("GET", "/admin/imports/{batchId}/items", "admin.imports.items")]
        public AsyncPageable<BatchItem> ListItems(string batchId, string? status = null, string? reason = null,
            CancellationToken cancellationToken = default) =>
            new AsyncPageable<BatchItem>(_pipeline, $"/admin/imports/{batchId}/items", new Query { { "status", status }, { "reason", reason } },
                cancellationToken);

        /// <summary>Why records failed, with counts.</summary>
        [Operation("GET", "/admin/imports/{batchId}/reasons", "admin.imports.reasons")]
        public Task<Page<BatchReason>> GetReasonsAsync(string batchId, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Page<BatchReason>>(new Call(HttpMethod.Get, $"/admin/imports/{batchId}/reasons"), cancellationToken);

        /// <summary>The failed records with their reasons, to be read and disposed of.</summary>
        [Operation("GET", "/admin/imports/{batchId}/errors.xlsx", "admin.imports.errorsXlsx"), Operation("GET",
            "/admin/imports/{batchId}/errors.csv", "admin.imports.errorsCsv"),
         Operation("GET", "/admin/imports/{batchId}/errors.json", "admin.imports.errorsJson")]
        public Task<Stream> OpenErrorReportAsync(string batchId, ReportFormat format = ReportFormat.Xlsx,
            CancellationToken cancellationToken = default) =>
            _pipeline.StreamAsync(ImportsClient.Report(true, batchId, format), cancellationToken);

        /// <summary>A batch after each change until it is over; see <see cref="ImportsClient.WatchAsync(string, bool, CancellationToken)"/>.</summary>
        [Operation("GET", "/admin/imports/{batchId}/events", "admin.imports.watch")]
        public IAsyncEnumerable<Batch> WatchAsync(string batchId, bool useEvents = true, CancellationToken cancellationToken = default) =>
            _imports.WatchAsync(new Call(HttpMethod.Get, $"/admin/imports/{batchId}/events") { Accept = "text/event-stream" }, useEvents,
                token => GetAsync(batchId, token), cancellationToken);

        /// <summary>Waits until a batch is over; see <see cref="ImportsClient.WaitAsync"/>.</summary>
        public Task<Batch> WaitAsync(string batchId, IProgress<Batch>? progress = null, bool useEvents = true,
            CancellationToken cancellationToken = default) =>
            _imports.LastAsync(WatchAsync(batchId, useEvents, cancellationToken), token => GetAsync(batchId, token), progress,
                cancellationToken);
    }

    /// <summary>Tickets of all clients.</summary>
    public sealed class AdminTicketsClient
    {
        private readonly Pipeline _pipeline;

        internal AdminTicketsClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Tickets, newest first.</summary>
        [Operation("GET", "/admin/tickets", "admin.tickets.list")]
        public AsyncPageable<Ticket> List(string? clientId = null, string? businessEntity = null, string? businessDocId = null,
            int? phaseCode = null, string? status = null, string? returnStatus = null, string? gatewayStatus = null, string? error = null,
            DateTimeOffset? from = null, DateTimeOffset? to = null, string? order = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<Ticket>(_pipeline, $"/admin/tickets", new Query { { "clientId", clientId }, { "businessEntity", businessEntity },
                { "businessDocId", businessDocId }, { "phaseCode", phaseCode }, { "status", status }, { "returnStatus", returnStatus },
                { "gatewayStatus", gatewayStatus }, { "error", error }, { "from", from }, { "to", to }, { "order", order } }, cancellationToken);

        /// <summary>The list as CSV, to be read and disposed of.</summary>
        [Operation("GET", "/admin/tickets.csv", "admin.tickets.export")]
        public Task<Stream> ExportAsync(string? clientId = null, string? businessEntity = null, string? businessDocId = null,
            int? phaseCode = null, string? status = null, string? returnStatus = null, string? gatewayStatus = null, string? error = null,
            DateTimeOffset? from = null, DateTimeOffset? to = null, string? after = null, string? order = null, int? limit = null,
            CancellationToken cancellationToken = default) =>
            _pipeline.StreamAsync(new Call(HttpMethod.Get, $"/admin/tickets.csv", new Query { { "clientId", clientId }, { "businessEntity",
                businessEntity }, { "businessDocId", businessDocId }, { "phaseCode", phaseCode }, { "status", status }, { "returnStatus",
                returnStatus }, { "gatewayStatus", gatewayStatus }, { "error", error }, { "from", from }, { "to", to }, { "after", after },
                { "order", order }, { "limit", limit } }).Accepting("text/csv"), cancellationToken);

        /// <summary>Failures by cause.</summary>
        [Operation("GET", "/admin/tickets/causes", "admin.tickets.causes")]
        public Task<JsonAnswer> GetCausesAsync(string? clientId = null, string? businessEntity = null, string? businessDocId = null,
            int? phaseCode = null, string? status = null, string? returnStatus = null, string? gatewayStatus = null, string? error = null,
            DateTimeOffset? from = null, DateTimeOffset? to = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/tickets/causes", new Query { { "clientId", clientId },
                { "businessEntity", businessEntity }, { "businessDocId", businessDocId }, { "phaseCode", phaseCode }, { "status", status },
                { "returnStatus", returnStatus }, { "gatewayStatus", gatewayStatus }, { "error", error }, { "from", from }, { "to", to } }),
                cancellationToken);

        /// <summary>A ticket with its history. <paramref name="reveal"/> shows the payload unmasked, which is audited.</summary>
        [Operation("GET", "/admin/tickets/{id}", "admin.tickets.get")]
        public Task<Ticket> GetAsync(string id, bool? reveal = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Ticket>(new Call(HttpMethod.Get, $"/admin/tickets/{id}", new Query { { "reveal", reveal } }), cancellationToken);

        /// <summary>Gives it to the client in <c>clientId</c>.</summary>
        [Operation("PATCH", "/admin/tickets/{id}", "admin.tickets.reassign")]
        public Task<JsonAnswer> ReassignAsync(string id, object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(Call.Patch, $"/admin/tickets/{id}").WithJson(body).Repeatable(), cancellationToken);

        /// <summary>Starts it over from its stored payload.</summary>
        [Operation("POST", "/admin/tickets/{id}/reprocess", "admin.tickets.reprocess")]
        public Task<Stored> ReprocessAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Stored>(new Call(HttpMethod.Post, $"/admin/tickets/{id}/reprocess"), cancellationToken);

        /// <summary>The same for all that a filter matches.</summary>
        [Operation("POST", "/admin/tickets/reprocess", "admin.tickets.reprocessMany")]
        public Task<JsonAnswer> ReprocessManyAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/tickets/reprocess").WithJson(body), cancellationToken);

        /// <summary>Nobody needs to look at it any more.</summary>
        [Operation("POST", "/admin/tickets/{id}/dismiss", "admin.tickets.dismiss")]
        public Task<JsonAnswer> DismissAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/tickets/{id}/dismiss"), cancellationToken);
    }

    /// <summary>What waits to be delivered, what failed, and the channels themselves.</summary>
    public sealed class AdminOutboxClient
    {
        private readonly Pipeline _pipeline;

        internal AdminOutboxClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>All channels and targets.</summary>
        [Operation("GET", "/admin/outbox", "admin.outbox.summary")]
        public Task<JsonAnswer> GetSummaryAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/outbox"), cancellationToken);

        /// <summary>Tries again what a filter matches, in all channels or the one in <c>channel</c>.</summary>
        [Operation("POST", "/admin/outbox/retry", "admin.outbox.retryAll")]
        public Task<JsonAnswer> RetryAllAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/outbox/retry").WithJson(body), cancellationToken);

        /// <summary>Dismisses what a filter matches.</summary>
        [Operation("POST", "/admin/outbox/dismiss", "admin.outbox.dismissAll")]
        public Task<JsonAnswer> DismissAllAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/outbox/dismiss").WithJson(body), cancellationToken);

        /// <summary>A channel's rows.</summary>
        [Operation("GET", "/admin/outbox/{channel}", "admin.outbox.list")]
        public AsyncPageable<JsonElement> List(string channel, string? status = null, string? target = null, string? error = null,
            DateTimeOffset? since = null, DateTimeOffset? until = null, string? order = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<JsonElement>(_pipeline, $"/admin/outbox/{channel}", new Query { { "status", status }, { "target", target },
                { "error", error }, { "since", since }, { "until", until }, { "order", order } }, cancellationToken);

        /// <summary>The list as CSV, to be read and disposed of.</summary>
        [Operation("GET", "/admin/outbox/{channel}.csv", "admin.outbox.export")]
        public Task<Stream> ExportAsync(string channel, string? status = null, string? target = null, string? error = null,
            DateTimeOffset? since = null, DateTimeOffset? until = null, string? after = null, string? order = null, int? limit = null,
            CancellationToken cancellationToken = default) =>
            _pipeline.StreamAsync(new Call(HttpMethod.Get, $"/admin/outbox/{channel}.csv", new Query { { "status", status }, { "target", target },
                { "error", error }, { "since", since }, { "until", until }, { "after", after }, { "order", order }, { "limit",
                limit } }).Accepting("text/csv"), cancellationToken);

        /// <summary>Failures by cause.</summary>
        [Operation("GET", "/admin/outbox/{channel}/causes", "admin.outbox.causes")]
        public Task<JsonAnswer> GetCausesAsync(string channel, string? status = null, string? target = null, string? error = null,
            DateTimeOffset? since = null, DateTimeOffset? until = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/outbox/{channel}/causes", new Query { { "status", status },
                { "target", target }, { "error", error }, { "since", since }, { "until", until } }), cancellationToken);

        /// <summary>A row with its attempts. <paramref name="reveal"/> shows the payload unmasked, which is audited.</summary>
        [Operation("GET", "/admin/outbox/{channel}/{id}", "admin.outbox.get")]
        public Task<JsonAnswer> GetAsync(string channel, string id, bool? reveal = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/outbox/{channel}/{id}", new Query { { "reveal", reveal } }),
                cancellationToken);

        /// <summary>Tries a row again.</summary>
        [Operation("POST", "/admin/outbox/{channel}/{id}/retry", "admin.outbox.retry")]
        public Task<JsonAnswer> RetryAsync(string channel, string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/outbox/{channel}/{id}/retry"), cancellationToken);

        /// <summary>Nobody needs to look at a row any more.</summary>
        [Operation("POST", "/admin/outbox/{channel}/{id}/dismiss", "admin.outbox.dismiss")]
        public Task<JsonAnswer> DismissAsync(string channel, string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/outbox/{channel}/{id}/dismiss"), cancellationToken);

        /// <summary>Tries again what a filter matches.</summary>
        [Operation("POST", "/admin/outbox/{channel}/retry", "admin.outbox.retryMany")]
        public Task<JsonAnswer> RetryManyAsync(string channel, object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/outbox/{channel}/retry").WithJson(body), cancellationToken);

        /// <summary>Dismisses what a filter matches.</summary>
        [Operation("POST", "/admin/outbox/{channel}/dismiss", "admin.outbox.dismissMany")]
        public Task<JsonAnswer> DismissManyAsync(string channel, object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/outbox/{channel}/dismiss").WithJson(body), cancellationToken);

        /// <summary>Holds a channel, or the target in <c>target</c>.</summary>
        [Operation("POST", "/admin/outbox/{channel}/pause", "admin.outbox.pause")]
        public Task<JsonAnswer> PauseAsync(string channel, object? body = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/outbox/{channel}/pause").WithJson(body).Repeatable(),
                cancellationToken);

        /// <summary>Lets it go on.</summary>
        [Operation("POST", "/admin/outbox/{channel}/resume", "admin.outbox.resume")]
        public Task<JsonAnswer> ResumeAsync(string channel, object? body = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/outbox/{channel}/resume").WithJson(body).Repeatable(),
                cancellationToken);
    }

    /// <summary>Webhook deliveries that were given up.</summary>
    public sealed class AdminWebhookFailuresClient
    {
        private readonly Pipeline _pipeline;

        internal AdminWebhookFailuresClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>The deliveries.</summary>
        [Operation("GET", "/admin/webhook-failures", "admin.webhookFailures.list")]
        public AsyncPageable<JsonElement> List(string? clientId = null, string? subscriptionId = null, bool? replayed = null,
            string? order = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<JsonElement>(_pipeline, $"/admin/webhook-failures", new Query { { "clientId", clientId }, { "subscriptionId",
                subscriptionId }, { "replayed", replayed }, { "order", order } }, cancellationToken);

        /// <summary>Sends one again, as a new delivery.</summary>
        [Operation("POST", "/admin/webhook-failures/{id}/replay", "admin.webhookFailures.replay")]
        public Task<JsonAnswer> ReplayAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/webhook-failures/{id}/replay"), cancellationToken);

        /// <summary>Sends all since a time again.</summary>
        [Operation("POST", "/admin/webhook-failures/replay", "admin.webhookFailures.replayMany")]
        public Task<JsonAnswer> ReplayManyAsync(DateTimeOffset since, string? subscriptionId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/webhook-failures/replay", new Query { { "since", since },
                { "subscriptionId", subscriptionId } }), cancellationToken);

        /// <summary>Nobody needs to look at it any more.</summary>
        [Operation("POST", "/admin/webhook-failures/{id}/dismiss", "admin.webhookFailures.dismiss")]
        public Task<JsonAnswer> DismissAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/webhook-failures/{id}/dismiss"), cancellationToken);
    }

    /// <summary>Alerts.</summary>
    public sealed class AdminAlertsClient
    {
        private readonly Pipeline _pipeline;

        internal AdminAlertsClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Alerts, newest first.</summary>
        [Operation("GET", "/admin/alerts", "admin.alerts.list")]
        public AsyncPageable<JsonElement> List(string? status = null, string? rule = null, string? order = null,
            CancellationToken cancellationToken = default) =>
            new AsyncPageable<JsonElement>(_pipeline, $"/admin/alerts", new Query { { "status", status }, { "rule", rule }, { "order", order } },
                cancellationToken);

        /// <summary>Sends an alert to every configured place.</summary>
        [Operation("POST", "/admin/alerts/test", "admin.alerts.test")]
        public Task<JsonAnswer> TestAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/alerts/test"), cancellationToken);

        /// <summary>Somebody looks after it; <c>note</c> may say who or how.</summary>
        [Operation("POST", "/admin/alerts/{id}/acknowledge", "admin.alerts.acknowledge")]
        public Task<JsonAnswer> AcknowledgeAsync(string id, object? body = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/alerts/{id}/acknowledge").WithJson(body).Repeatable(),
                cancellationToken);

        /// <summary>Takes that back.</summary>
        [Operation("DELETE", "/admin/alerts/{id}/acknowledge", "admin.alerts.unacknowledge")]
        public Task<JsonAnswer> UnacknowledgeAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Delete, $"/admin/alerts/{id}/acknowledge"), cancellationToken);
    }

    /// <summary>Alerts that are recorded and not sent.</summary>
    public sealed class AdminSilencesClient
    {
        private readonly Pipeline _pipeline;

        internal AdminSilencesClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>The silences.</summary>
        [Operation("GET", "/admin/alert-silences", "admin.silences.list")]
        public AsyncPageable<JsonElement> List(CancellationToken cancellationToken = default) =>
            new AsyncPageable<JsonElement>(_pipeline, $"/admin/alert-silences", new Query(), cancellationToken);

        /// <summary>Silences a <c>rule</c>, <c>clientId</c> or <c>target</c> <c>until</c> a time, for a <c>reason</c>.</summary>
        [Operation("POST", "/admin/alert-silences", "admin.silences.create")]
        public Task<JsonAnswer> CreateAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/alert-silences").WithJson(body), cancellationToken);

        /// <summary>Ends a silence.</summary>
        [Operation("DELETE", "/admin/alert-silences/{id}", "admin.silences.delete")]
        public Task DeleteAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.NothingAsync(new Call(HttpMethod.Delete, $"/admin/alert-silences/{id}"), cancellationToken);
    }

    /// <summary>Who did what.</summary>
    public sealed class AdminAuditClient
    {
        private readonly Pipeline _pipeline;

        internal AdminAuditClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Entries, newest first.</summary>
        [Operation("GET", "/admin/audit", "admin.audit.list")]
        public AsyncPageable<JsonElement> List(string? actor = null, string? action = null, string? target = null, string? clientId = null,
            string? outcome = null, DateTimeOffset? from = null, DateTimeOffset? to = null, string? order = null,
            CancellationToken cancellationToken = default) =>
            new AsyncPageable<JsonElement>(_pipeline, $"/admin/audit", new Query { { "actor", actor }, { "action", action }, { "target", target },
                { "clientId", clientId }, { "outcome", outcome }, { "from", from }, { "to", to }, { "order", order } }, cancellationToken);

        /// <summary>The list as CSV, to be read and disposed of.</summary>
        [Operation("GET", "/admin/audit.csv", "admin.audit.export")]
        public Task<Stream> ExportAsync(string? actor = null, string? action = null, string? target = null, string? clientId = null,
            string? outcome = null, DateTimeOffset? from = null, DateTimeOffset? to = null, string? after = null, string? order = null,
            int? limit = null, CancellationToken cancellationToken = default) =>
            _pipeline.StreamAsync(new Call(HttpMethod.Get, $"/admin/audit.csv", new Query { { "actor", actor }, { "action", action }, { "target",
                target }, { "clientId", clientId }, { "outcome", outcome }, { "from", from }, { "to", to }, { "after", after }, { "order",
                order }, { "limit", limit } }).Accepting("text/csv"), cancellationToken);
    }

    /// <summary>Keys that close what is stored.</summary>
    public sealed class AdminKeysClient
    {
        private readonly Pipeline _pipeline;

        internal AdminKeysClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>The keys.</summary>
        [Operation("GET", "/admin/keys", "admin.keys.list")]
        public Task<JsonAnswer> ListAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/keys"), cancellationToken);

        /// <summary>Makes a new data key.</summary>
        [Operation("POST", "/admin/keys/rotate", "admin.keys.rotate")]
        public Task<JsonAnswer> RotateAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/keys/rotate"), cancellationToken);
    }

    /// <summary>Erasing what is stored.</summary>
    public sealed class AdminPurgesClient
    {
        private readonly Pipeline _pipeline;

        internal AdminPurgesClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Jobs, newest first.</summary>
        [Operation("GET", "/admin/purge", "admin.purges.list")]
        public AsyncPageable<JsonElement> List(CancellationToken cancellationToken = default) =>
            new AsyncPageable<JsonElement>(_pipeline, $"/admin/purge", new Query(), cancellationToken);

        /// <summary>Erases by <c>batchId</c>, <c>clientId</c>, <c>olderThanDays</c> or <c>subject</c>; <c>dryRun</c> only counts.</summary>
        [Operation("POST", "/admin/purge", "admin.purges.start")]
        public Task<JsonAnswer> StartAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/purge").WithJson(body), cancellationToken);

        /// <summary>A job.</summary>
        [Operation("GET", "/admin/purge/{id}", "admin.purges.get")]
        public Task<JsonAnswer> GetAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/purge/{id}"), cancellationToken);

        /// <summary>Stops a job.</summary>
        [Operation("DELETE", "/admin/purge/{id}", "admin.purges.cancel")]
        public Task<JsonAnswer> CancelAsync(string id, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Delete, $"/admin/purge/{id}"), cancellationToken);
    }

    /// <summary>What is stored about a person.</summary>
    public sealed class AdminSubjectsClient
    {
        private readonly Pipeline _pipeline;

        internal AdminSubjectsClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>By phone, document or e-mail. The address is logged on its way: <c>LookUpAsync</c> is better.</summary>
        [Operation("GET", "/admin/subjects", "admin.subjects.find")]
        public Task<JsonAnswer> FindAsync(string? phone = null, string? document = null, string? email = null, string? subject = null,
            string? export = null, string? after = null, int? pageSize = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/subjects", new Query { { "phone", phone }, { "document", document },
                { "email", email }, { "subject", subject }, { "export", export }, { "after", after }, { "pageSize", pageSize } }),
                cancellationToken);

        /// <summary>The same, asked for in the body.</summary>
        [Operation("POST", "/admin/subjects/find", "admin.subjects.lookUp")]
        public Task<JsonAnswer> LookUpAsync(object body, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/subjects/find").WithJson(body).Repeatable(), cancellationToken);
    }

    /// <summary>Circuit breakers.</summary>
    public sealed class AdminBreakersClient
    {
        private readonly Pipeline _pipeline;

        internal AdminBreakersClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Every breaker's state, window and times.</summary>
        [Operation("GET", "/admin/circuit-breakers", "admin.breakers.list")]
        public Task<JsonAnswer> ListAsync(CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Get, $"/admin/circuit-breakers"), cancellationToken);

        /// <summary>Closes one.</summary>
        [Operation("POST", "/admin/circuit-breakers/{name}/reset", "admin.breakers.reset")]
        public Task<JsonAnswer> ResetAsync(string name, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/admin/circuit-breakers/{name}/reset"), cancellationToken);
    }
}
