using System;
using System.Collections.Generic;
using System.Text.Json;
using System.Text.Json.Serialization;

namespace DataFlow.Client
{
    /// <summary>The states of a batch.</summary>
    public static class BatchStatus
    {
        /// <summary>It waits to be processed.</summary>
        public const string Pending = "Pending";
        /// <summary>It is being processed.</summary>
        public const string Processing = "Processing";
        /// <summary>It will be processed later; see <see cref="Batch.ScheduledFor"/>.</summary>
        public const string Scheduled = "Scheduled";
        /// <summary>All of it was imported.</summary>
        public const string Completed = "Completed";
        /// <summary>It was processed, and some records failed.</summary>
        public const string CompletedWithErrors = "CompletedWithErrors";
        /// <summary>It ended before all of it was processed; see <see cref="Batch.LastError"/>.</summary>
        public const string Failed = "Failed";
        /// <summary>It was cancelled before it began.</summary>
        public const string Cancelled = "Cancelled";
        /// <summary>Whether a batch in this state is over.</summary>
        /// <param name="status">A state.</param>
        public static bool IsFinal(string status) => status == Completed || status == CompletedWithErrors || status == Failed || status == Cancelled;
    }

    /// <summary>An upload was accepted: it is on disk and will be processed.</summary>
    public sealed class ImportAccepted : Document
    {
        /// <summary>The batch's id.</summary>
        public string BatchId { get; set; } = "";
        /// <summary><see cref="BatchStatus.Pending"/> or <see cref="BatchStatus.Scheduled"/>.</summary>
        public string Status { get; set; } = "";
        /// <summary><c>Immediate</c> or <c>Scheduled</c>.</summary>
        public string PolicyDecision { get; set; } = "";
        /// <summary>When it will be processed, if that is later.</summary>
        public DateTimeOffset? ScheduledFor { get; set; }
        /// <summary>The same for a person.</summary>
        public string Message { get; set; } = "";
    }

    /// <summary>An import and its progress.</summary>
    public class Batch : Document
    {
        /// <summary>Its id.</summary>
        public string BatchId { get; set; } = "";
        /// <summary>Whose it is; operators see it.</summary>
        public string? ClientId { get; set; }
        /// <summary>Its state, one of <see cref="BatchStatus"/>.</summary>
        public string Status { get; set; } = "";
        /// <summary>Whether it is over.</summary>
        public bool IsFinal => BatchStatus.IsFinal(Status);

        /// <summary>The uploaded file's name.</summary>
        public string FileName { get; set; } = "";
        /// <summary><c>Json</c>, <c>Excel</c> or <c>Csv</c>.</summary>
        public string FileType { get; set; } = "";
        /// <summary>The file's length.</summary>
        public long FileSizeBytes { get; set; }
        /// <summary>The file's SHA-256 in hex.</summary>
        public string? Checksum { get; set; }
        /// <summary>When it was accepted.</summary>
        public DateTimeOffset CreatedAt { get; set; }
        /// <summary>When its processing began.</summary>
        public DateTimeOffset? StartedAt { get; set; }
        /// <summary>When it ended.</summary>
        public DateTimeOffset? CompletedAt { get; set; }
        /// <summary>When it will be processed, if it is scheduled.</summary>
        public DateTimeOffset? ScheduledFor { get; set; }
        /// <summary><c>Immediate</c>, <c>Scheduled</c> or <c>Rejected</c>.</summary>
        public string? PolicyDecision { get; set; }
        /// <summary>The file's records; null until they are counted.</summary>
        public long? TotalRecords { get; set; }
        /// <summary>Records that are done, in whatever way.</summary>
        public long ProcessedRecords { get; set; }
        /// <summary>Records that were imported.</summary>
        public long ImportedCount { get; set; }
        /// <summary>Records that failed.</summary>
        public long ErrorCount { get; set; }
        /// <summary>Empty records and repetitions.</summary>
        public long SkippedCount { get; set; }
        /// <summary>The commonest errors.</summary>
        public JsonElement? ErrorSummary { get; set; }
        /// <summary>Why it failed or waits.</summary>
        public string? LastError { get; set; }
        /// <summary>Whether its webhooks were sent.</summary>
        public bool WebhookNotified { get; set; }
        /// <summary>The origin of records that have none.</summary>
        public string? OriginDefault { get; set; }
        /// <summary>Who asked for it.</summary>
        public string? RequestedBy { get; set; }
        /// <summary>What the uploader said about it.</summary>
        public JsonElement? Metadata { get; set; }
        /// <summary>How often it was tried.</summary>
        public int Attempt { get; set; }
        /// <summary>The upload's correlation id.</summary>
        public string? CorrelationId { get; set; }
        /// <summary>What it waits for; null if for nothing.</summary>
        public JsonElement? WaitingFor { get; set; }
        /// <summary>Since when it waits.</summary>
        public DateTimeOffset? WaitingSince { get; set; }
        /// <summary>The rule that refused the upload.</summary>
        public string? RefusedRule { get; set; }
        /// <summary>Records a second in the last minute of work; null if unknown.</summary>
        public double? RowsPerSecond { get; set; }
        /// <summary>How long it will take yet; null if that can't be told.</summary>
        public double? RemainingSeconds { get; set; }
        /// <summary>Whether its failed records can be tried again; null from servers that do not say.</summary>
        public bool? CanRetry { get; set; }
        /// <summary>Whether it can be cancelled; null from servers that do not say.</summary>
        public bool? CanCancel { get; set; }
        /// <summary>The worker that has it; operators see it.</summary>
        public string? LockedBy { get; set; }
    }

    /// <summary>A record of a batch.</summary>
    public sealed class BatchItem : Document
    {
        /// <summary>Its place in the file, from 0.</summary>
        public long Sequence { get; set; }
        /// <summary>The row or line as a person sees it.</summary>
        public long? Row { get; set; }
        /// <summary><c>Imported</c>, <c>Error</c> or <c>Skipped</c>.</summary>
        public string Status { get; set; } = "";
        /// <summary>A stable code for the reason.</summary>
        public string? Reason { get; set; }
        /// <summary>The canonical column that the reason is about, if it is about one.</summary>
        public string? Field { get; set; }
        /// <summary>The file's own column that means it, as it is called in <see cref="Values"/>.</summary>
        public string? Column { get; set; }
        /// <summary>The reason for a person.</summary>
        public string? ErrorMessage { get; set; }
        /// <summary>The item as it was sent.</summary>
        public JsonElement? Payload { get; set; }
        /// <summary>The uploaded columns of a failed item.</summary>
        public JsonElement? Values { get; set; }
        /// <summary>The chunk that it went with.</summary>
        public long? ChunkId { get; set; }
        /// <summary>When it was settled.</summary>
        public DateTimeOffset CreatedAt { get; set; }
        /// <summary>How many records of the file it stands for.</summary>
        public long RecordCount { get; set; }
    }

    /// <summary>Why records of a batch failed, and how many.</summary>
    public sealed class BatchReason
    {
        /// <summary>A stable code.</summary>
        public string Reason { get; set; } = "";
        /// <summary>The same for a person.</summary>
        public string Message { get; set; } = "";
        /// <summary>How many records.</summary>
        public long Count { get; set; }
        /// <summary>The first of them.</summary>
        public long? FirstRow { get; set; }
        /// <summary>Whether another attempt can help.</summary>
        public bool Retryable { get; set; }
    }

    /// <summary>What the server would make of a file.</summary>
    public sealed class ImportPreview : Document
    {
        /// <summary><c>Csv</c>, <c>Excel</c> or <c>Json</c>.</summary>
        public string Format { get; set; } = "";
        /// <summary>The workbook's sheets.</summary>
        public IReadOnlyList<string> Sheets { get; set; } = Array.Empty<string>();
        /// <summary>The sheet that was read.</summary>
        public string? Sheet { get; set; }
        /// <summary>The row with the columns' names.</summary>
        public long? HeaderRow { get; set; }
        /// <summary>How many records were read.</summary>
        public long Records { get; set; }
        /// <summary>Whether these are all.</summary>
        public bool Complete { get; set; }
        /// <summary>The columns, and what they are taken for.</summary>
        public IReadOnlyList<PreviewColumn> Columns { get; set; } = Array.Empty<PreviewColumn>();
        /// <summary>Why records would fail, and how many.</summary>
        public IReadOnlyList<BatchReason> Problems { get; set; } = Array.Empty<BatchReason>();
        /// <summary>The file's SHA-256 in hex.</summary>
        public string? Checksum { get; set; }
        /// <summary>The client's batch with the same file; null if there is none.</summary>
        public JsonElement? DuplicateOf { get; set; }
    }

    /// <summary>A column of a file.</summary>
    public sealed class PreviewColumn
    {
        /// <summary>Its name.</summary>
        public string Name { get; set; } = "";
        /// <summary>The canonical name that it is taken for; null if it is none.</summary>
        public string? Canonical { get; set; }
        /// <summary>Why: <c>name</c>, <c>mapping</c> or <c>client</c>.</summary>
        public string? By { get; set; }
        /// <summary>Some of its values.</summary>
        public IReadOnlyList<string> Samples { get; set; } = Array.Empty<string>();
    }

    /// <summary>A failed batch's next attempt.</summary>
    public sealed class ImportRetry : Document
    {
        /// <summary>The batch.</summary>
        public string BatchId { get; set; } = "";
        /// <summary>Its state.</summary>
        public string Status { get; set; } = "";
        /// <summary>The attempt's number.</summary>
        public int Attempt { get; set; }
        /// <summary>How many items are tried again.</summary>
        public long Items { get; set; }
    }

    /// <summary>A failed item with mended values, for another attempt.</summary>
    public sealed class MendedItem
    {
        /// <summary>The item's place in the file, from 0.</summary>
        public long Sequence { get; set; }
        /// <summary>New values by the file's column or the canonical name.</summary>
        public IDictionary<string, string> Values { get; set; } = new Dictionary<string, string>();
    }

    /// <summary>What came of a chunk, told by the system that took it.</summary>
    public sealed class ImportAck
    {
        /// <summary>The ack's id, from the answer to the chunk.</summary>
        public string AckId { get; set; } = "";
        /// <summary>The chunk.</summary>
        public long ChunkId { get; set; }
        /// <summary><c>Imported</c> or <c>Error</c>.</summary>
        public string Status { get; set; } = "";
        /// <summary>Why it failed.</summary>
        public string? Message { get; set; }
        /// <summary>The outcome of single items.</summary>
        public IList<ImportAckItem>? Items { get; set; }
    }

    /// <summary>What came of an item.</summary>
    public sealed class ImportAckItem
    {
        /// <summary>Its place in the file, from 0.</summary>
        public long Sequence { get; set; }
        /// <summary><c>Imported</c>, <c>Error</c> or <c>Skipped</c>.</summary>
        public string Status { get; set; } = "";
        /// <summary>Why it failed.</summary>
        public string? ErrorMessage { get; set; }
    }

    /// <summary>What the server made of a document of the interface.</summary>
    public sealed class Stored : Document
    {
        /// <summary>Its row.</summary>
        public long Id { get; set; }
        /// <summary>The business entity, of a ticket.</summary>
        public string? BusinessEntity { get; set; }
        /// <summary>The business document's id.</summary>
        public string BusinessDocId { get; set; } = "";
        /// <summary>The phase, of a ticket.</summary>
        public int? PhaseCode { get; set; }
        /// <summary>Its state.</summary>
        public string Status { get; set; } = "";
        /// <summary>Whether it is new.</summary>
        public bool Created { get; set; }
        /// <summary>Which payload of the ticket it is, after reprocessing.</summary>
        public int? PayloadVersion { get; set; }
    }

    /// <summary>A shipment ticket in one phase, with its four states.</summary>
    public sealed class Ticket : Document
    {
        /// <summary>Its row.</summary>
        public long Id { get; set; }
        /// <summary>Whose it is; operators see it.</summary>
        public string? ClientId { get; set; }
        /// <summary>The business entity.</summary>
        public string BusinessEntity { get; set; } = "";
        /// <summary>The business document's id.</summary>
        public string BusinessDocId { get; set; } = "";
        /// <summary>The phase: 15 or 6.</summary>
        public int PhaseCode { get; set; }
        /// <summary>When it came.</summary>
        public DateTimeOffset CreatedAt { get; set; }
        /// <summary>When it was changed last.</summary>
        public DateTimeOffset UpdatedAt { get; set; }
        /// <summary><c>Awaiting</c>, <c>Processing</c>, <c>Processed</c> or <c>Error</c>.</summary>
        public string Status { get; set; } = "";
        /// <summary>Why it is in <c>Error</c>.</summary>
        public string? LastError { get; set; }
        /// <summary>The state of its return.</summary>
        public string ReturnStatus { get; set; } = "";
        /// <summary>The state of its sending to the gateway.</summary>
        public string GatewaySendStatus { get; set; } = "";
        /// <summary>What the other side said of it.</summary>
        public string CallbackStatus { get; set; } = "";
        /// <summary>The other side's message.</summary>
        public string? CallbackMessage { get; set; }
        /// <summary>The payload as it came, when a ticket is asked for by its keys.</summary>
        public string? RawPayloadJson { get; set; }
    }

    /// <summary>A counterparty. All that was stored of it is in <see cref="Document.Additional"/> too.</summary>
    public sealed class Counterparty : Document
    {
        /// <summary>Its row.</summary>
        public long Id { get; set; }
        /// <summary>The business document's id.</summary>
        public string BusinessDocId { get; set; } = "";
        /// <summary>The business entity.</summary>
        public string? BusinessEntity { get; set; }
        /// <summary>Its id in the business.</summary>
        public string? CounterpartyId { get; set; }
        /// <summary>Customer, supplier or carrier, as it was sent.</summary>
        public string? EntityType { get; set; }
        /// <summary>Its name.</summary>
        public string? Name { get; set; }
        /// <summary>Whether it was deleted.</summary>
        public bool IsDeleted { get; set; }
        /// <summary>Its state.</summary>
        public string Status { get; set; } = "";
        /// <summary>What was said when it was taken.</summary>
        public string? StatusMessage { get; set; }
        /// <summary>When it came.</summary>
        public DateTimeOffset CreatedAt { get; set; }
        /// <summary>Its addresses, when it is asked for alone.</summary>
        public JsonElement? Addresses { get; set; }
        /// <summary>Its fiscal references, when it is asked for alone.</summary>
        public JsonElement? FiscalReferences { get; set; }
    }

    /// <summary>A functional ack on its way.</summary>
    public sealed class FunctionalAck : Document
    {
        /// <summary>Its row.</summary>
        public long Id { get; set; }
        /// <summary>The business document's id.</summary>
        public string BusinessDocId { get; set; } = "";
        /// <summary><c>Pending</c>, <c>Sending</c>, <c>Sent</c> or <c>Error</c>.</summary>
        public string Status { get; set; } = "";
        /// <summary>Counted tries.</summary>
        public int AttemptCount { get; set; }
        /// <summary>When it arrived.</summary>
        public DateTimeOffset? SentAt { get; set; }
        /// <summary>Why it did not.</summary>
        public string? LastError { get; set; }
    }

    /// <summary>An event for the server's outbox.</summary>
    public sealed class OutboxEvent
    {
        /// <summary>Its type, such as <c>OrderPlaced</c>.</summary>
        public string EventType { get; set; } = "";
        /// <summary>Its content: anything that System.Text.Json can write, as it does by default. Names stay as they are, nulls are kept.</summary>
        public object? Payload { get; set; }
        /// <summary>The kind of thing that it is about.</summary>
        public string? AggregateType { get; set; }
        /// <summary>The thing that it is about; events of one thing can be kept in order.</summary>
        public string? AggregateId { get; set; }
        /// <summary>What it belongs to.</summary>
        public string? CorrelationId { get; set; }
        /// <summary>Its id (UUID); one is made if there is none.</summary>
        public string? EventId { get; set; }
    }

    /// <summary>An event that is stored and will be sent.</summary>
    public sealed class EventAccepted : Document
    {
        /// <summary>Its id.</summary>
        public string EventId { get; set; } = "";
        /// <summary>Its state.</summary>
        public string Status { get; set; } = "";
    }

    /// <summary>Events that are stored and will be sent.</summary>
    public sealed class EventsAccepted : Document
    {
        /// <summary>In the order in which they were given.</summary>
        public IReadOnlyList<EventAccepted> Items { get; set; } = Array.Empty<EventAccepted>();
        /// <summary>How many.</summary>
        public int Accepted { get; set; }
    }

    /// <summary>A subscription to events. <see cref="Secret"/> is shown only when it is made or its secret is rotated.</summary>
    public sealed class Webhook : Document
    {
        /// <summary>Its id.</summary>
        public string Id { get; set; } = "";
        /// <summary>Whose it is.</summary>
        public string ClientId { get; set; } = "";
        /// <summary>Where deliveries go.</summary>
        public string Url { get; set; } = "";
        /// <summary>What it is for.</summary>
        public IReadOnlyList<string> Events { get; set; } = Array.Empty<string>();
        /// <summary>Whether deliveries are made.</summary>
        public bool IsActive { get; set; }
        /// <summary>Why not.</summary>
        public string? DisabledReason { get; set; }
        /// <summary>Whether the server replaces the secret by itself.</summary>
        public bool AutoRotate { get; set; }
        /// <summary>The secret, this once.</summary>
        public string? Secret { get; set; }
        /// <summary>How long the previous secret is used beside it.</summary>
        public DateTimeOffset? PreviousSecretValidUntil { get; set; }
        /// <summary>When it was made.</summary>
        public DateTimeOffset CreatedAt { get; set; }
    }

    /// <summary>A subscription to make, or what to change of one; what is null is left as it is.</summary>
    public sealed class WebhookChange
    {
        /// <summary>Where deliveries go.</summary>
        public string? Url { get; set; }
        /// <summary>What it is for; by default <c>BatchCompleted</c> and <c>BatchFailed</c>.</summary>
        public IList<string>? Events { get; set; }
        /// <summary>A secret of your own, when it is made.</summary>
        public string? Secret { get; set; }
        /// <summary>Whether deliveries are made.</summary>
        public bool? IsActive { get; set; }
        /// <summary>Whether the server replaces the secret by itself.</summary>
        public bool? AutoRotate { get; set; }
    }

    /// <summary>Something that was, or will be, sent to a subscription.</summary>
    public sealed class WebhookDelivery : Document
    {
        /// <summary>Its id, which the receiver gets as <c>webhook-id</c>.</summary>
        public string Id { get; set; } = "";
        /// <summary>The event's name.</summary>
        public string Event { get; set; } = "";
        /// <summary>The batch or document.</summary>
        public string? Reference { get; set; }
        /// <summary><c>Pending</c>, <c>Sending</c>, <c>Sent</c> or <c>Error</c>.</summary>
        public string Status { get; set; } = "";
        /// <summary>How often it was tried.</summary>
        public int Attempts { get; set; }
        /// <summary>The receiver's last status.</summary>
        public int? LastStatus { get; set; }
        /// <summary>The last error.</summary>
        public string? LastError { get; set; }
        /// <summary>When the event happened.</summary>
        public DateTimeOffset CreatedAt { get; set; }
        /// <summary>When it arrived.</summary>
        public DateTimeOffset? SentAt { get; set; }
    }

    /// <summary>Who the credentials belong to.</summary>
    public sealed class WhoAmI : Document
    {
        /// <summary>The client.</summary>
        public string? ClientId { get; set; }
        /// <summary>The client's name.</summary>
        public string? Name { get; set; }
        /// <summary>What the client may do.</summary>
        public IReadOnlyList<string>? Scopes { get; set; }
        /// <summary>The admin key's name.</summary>
        public string? Admin { get; set; }
        /// <summary>The admin key's role.</summary>
        public string? Role { get; set; }
    }

    /// <summary>How a client's columns are read.</summary>
    public sealed class Mapping : Document
    {
        /// <summary>Canonical names by column or path.</summary>
        [JsonPropertyName("mapping")]
        public Dictionary<string, string?> Columns { get; set; } = new Dictionary<string, string?>();
        /// <summary>When it was changed last.</summary>
        public DateTimeOffset? UpdatedAt { get; set; }
    }

    /// <summary>A client that was made, or whose secret is new; the secret is shown this once.</summary>
    public sealed class ClientSecret : Document
    {
        /// <summary>The client.</summary>
        public string ClientId { get; set; } = "";
        /// <summary>Its secret.</summary>
        [JsonPropertyName("clientSecret")]
        public string Secret { get; set; } = "";
    }
}
