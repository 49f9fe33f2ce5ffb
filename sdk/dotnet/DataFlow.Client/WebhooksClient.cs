using System;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;

namespace DataFlow.Client
{
    /// <summary>Subscriptions to webhooks. <c>clientId</c> is the client's own by default; operators give it.</summary>
    public sealed class WebhooksClient
    {
        private readonly Pipeline _pipeline;

        internal WebhooksClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>The client's subscriptions, without secrets.</summary>
        [Operation("GET", "/clients/{clientId}/webhooks", "webhooks.list")]
        public AsyncPageable<Webhook> List(string? clientId = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<Webhook>(_pipeline, $"/clients/{_pipeline.Client(clientId)}/webhooks", new Query(), cancellationToken);

        /// <summary>Subscribes. The answer has the secret, this once.</summary>
        [Operation("POST", "/clients/{clientId}/webhooks", "webhooks.create")]
        public Task<Webhook> CreateAsync(WebhookChange body, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Webhook>(new Call(HttpMethod.Post, $"/clients/{_pipeline.Client(clientId)}/webhooks").WithJson(body), cancellationToken);

        /// <summary>A subscription, without its secret.</summary>
        [Operation("GET", "/clients/{clientId}/webhooks/{id}", "webhooks.get")]
        public Task<Webhook> GetAsync(string id, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Webhook>(One(HttpMethod.Get, id, clientId), cancellationToken);

        /// <summary>Changes what is not null.</summary>
        [Operation("PATCH", "/clients/{clientId}/webhooks/{id}", "webhooks.update")]
        public Task<Webhook> UpdateAsync(string id, WebhookChange body, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Webhook>(One(Call.Patch, id, clientId).WithJson(body).Repeatable(), cancellationToken);

        /// <summary>Removes a subscription with its deliveries.</summary>
        [Operation("DELETE", "/clients/{clientId}/webhooks/{id}", "webhooks.delete")]
        public Task DeleteAsync(string id, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.NothingAsync(One(HttpMethod.Delete, id, clientId), cancellationToken);

        /// <summary>A new secret, shown this once. The old one is used beside it for the overlap.</summary>
        [Operation("POST", "/clients/{clientId}/webhooks/{id}/rotate-secret", "webhooks.rotateSecret")]
        public Task<Webhook> RotateSecretAsync(string id, int? overlapHours = null, string? secret = null, string? clientId = null,
            CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Webhook>(new Call(HttpMethod.Post, $"/clients/{_pipeline.Client(clientId)}/webhooks/{id}/rotate-secret",
                new Query { { "overlapHours", overlapHours } }).WithJson(secret == null ? null : new { secret }), cancellationToken);

        /// <summary>The secret of a subscription whose secrets replace themselves.</summary>
        [Operation("GET", "/clients/{clientId}/webhooks/{id}/secret", "webhooks.secret")]
        public Task<Webhook> GetSecretAsync(string id, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Webhook>(new Call(HttpMethod.Get, $"/clients/{_pipeline.Client(clientId)}/webhooks/{id}/secret"), cancellationToken);

        /// <summary>Sends an event <c>Test</c>.</summary>
        [Operation("POST", "/clients/{clientId}/webhooks/{id}/test", "webhooks.test")]
        public Task<JsonAnswer> TestAsync(string id, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/clients/{_pipeline.Client(clientId)}/webhooks/{id}/test"), cancellationToken);

        /// <summary>What was sent, with every attempt.</summary>
        [Operation("GET", "/clients/{clientId}/webhooks/{id}/deliveries", "webhooks.deliveries")]
        public AsyncPageable<WebhookDelivery> ListDeliveries(string id, string? status = null, string? order = null, string? clientId = null,
            CancellationToken cancellationToken = default) =>
            new AsyncPageable<WebhookDelivery>(_pipeline, $"/clients/{_pipeline.Client(clientId)}/webhooks/{id}/deliveries",
                new Query { { "status", status }, { "order", order } }, cancellationToken);

        /// <summary>A delivery with its payload.</summary>
        [Operation("GET", "/clients/{clientId}/webhooks/{id}/deliveries/{deliveryId}", "webhooks.delivery")]
        public Task<WebhookDelivery> GetDeliveryAsync(string id, string deliveryId, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<WebhookDelivery>(
                new Call(HttpMethod.Get, $"/clients/{_pipeline.Client(clientId)}/webhooks/{id}/deliveries/{deliveryId}"), cancellationToken);

        /// <summary>Sends a delivery again.</summary>
        [Operation("POST", "/clients/{clientId}/webhooks/{id}/deliveries/{deliveryId}/resend", "webhooks.resend")]
        public Task<JsonAnswer> ResendAsync(string id, string deliveryId, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(
                new Call(HttpMethod.Post, $"/clients/{_pipeline.Client(clientId)}/webhooks/{id}/deliveries/{deliveryId}/resend"), cancellationToken);

        /// <summary>Sends again what was given up since a time.</summary>
        [Operation("POST", "/clients/{clientId}/webhooks/{id}/replay", "webhooks.replay")]
        public Task<JsonAnswer> ReplayAsync(string id, DateTimeOffset since, string? clientId = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/clients/{_pipeline.Client(clientId)}/webhooks/{id}/replay",
                new Query { { "since", since } }), cancellationToken);

        private Call One(HttpMethod method, string id, string? clientId) => new Call(method, $"/clients/{_pipeline.Client(clientId)}/webhooks/{id}");
    }
}
