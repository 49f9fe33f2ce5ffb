using System;
using System.Collections.Generic;
using System.Linq;
using System.Net;
using System.Text.Json;

namespace DataFlow.Client
{
    /// <summary>One field that the server refused.</summary>
    public sealed class FieldError
    {
        /// <summary>Its name or path.</summary>
        public string Field { get; set; } = "";
        /// <summary>What is wrong with it.</summary>
        public string Message { get; set; } = "";
    }

    /// <summary>A call failed. The subclass tells the kind, <see cref="Code"/> the exact reason.</summary>
    public class DataFlowException : Exception
    {
        internal DataFlowException(string message, Exception? inner = null) : base(message, inner) { }

        internal DataFlowException(Answer a, Exception? inner) : base(a.Message, inner)
        {
            Status = a.Status;
            Code = a.Code;
            Title = a.Title;
            Detail = a.Detail;
            CorrelationId = a.CorrelationId;
            Errors = a.Errors;
            RetryAfter = a.RetryAfter;
            Problem = a.Problem;
        }

        /// <summary>The HTTP status; 0 if there was no answer.</summary>
        public int Status { get; }
        /// <summary>The problem's stable code, such as <c>MaxFileSizeMb</c>; null if the answer had none.</summary>
        public string? Code { get; }
        /// <summary>The problem's title.</summary>
        public string? Title { get; }
        /// <summary>What went wrong and what to do, for a person.</summary>
        public string? Detail { get; }
        /// <summary>What the server's log has the call under.</summary>
        public string? CorrelationId { get; }
        /// <summary>Every refused field; empty if it was not about fields.</summary>
        public IReadOnlyList<FieldError> Errors { get; } = Array.Empty<FieldError>();
        /// <summary>How long the server asked to wait.</summary>
        public TimeSpan? RetryAfter { get; }
        /// <summary>The whole problem document, with members that have no property here.</summary>
        public JsonElement? Problem { get; }

        internal static DataFlowException Of(Answer a)
        {
            switch (a.Status)
            {
                case 400: return new InvalidRequestException(a);
                case 401: return new UnauthorizedException(a);
                case 403: return new ForbiddenException(a);
                case 404: return new NotFoundException(a);
                case 409: return new ConflictException(a);
                case 410: return new GoneException(a);
                case 412: case 428: return new PreconditionException(a);
                case 413: return new TooLargeException(a);
                case 422: return new IdempotencyKeyReusedException(a);
                case 429: return new RateLimitException(a);
            }
            return a.Status >= 500 ? new ServerException(a) : new DataFlowException(a, null);
        }

        /// <summary>An answer that is not a success, read; a problem document if it was one.</summary>
        internal sealed class Answer
        {
            public int Status;
            public string? Code, Title, Detail, CorrelationId;
            public IReadOnlyList<FieldError> Errors = Array.Empty<FieldError>();
            public TimeSpan? RetryAfter;
            public JsonElement? Problem;

            public string Message
            {
                get
                {
                    var text = Status + " " + (Code ?? ((HttpStatusCode)Status).ToString());
                    if ((Detail ?? Title) is string said)
                        text += ": " + said;
                    if (Errors.Count > 0)
                        text += " (" + string.Join("; ", Errors.Select(e => e.Field + ": " + e.Message)) + ")";
                    return text;
                }
            }

            public void Read(byte[] body)
            {
                try
                {
                    using var document = JsonDocument.Parse(body);
                    var root = document.RootElement.Clone();
                    if (root.ValueKind != JsonValueKind.Object)
                        return;
                    Problem = root;
                    Code = Text(root, "code");
                    Title = Text(root, "title");
                    Detail = Text(root, "detail");
                    CorrelationId = Text(root, "correlationId") ?? CorrelationId;
                    if (root.TryGetProperty("errors", out var errors) && errors.ValueKind == JsonValueKind.Array)
                        Errors = errors.EnumerateArray().Where(e => e.ValueKind == JsonValueKind.Object)
                            .Select(e => new FieldError { Field = Text(e, "field") ?? "", Message = Text(e, "message") ?? "" }).ToArray();
                }
                catch (JsonException)
                {
                    // Whatever stands before the server answered in its own words: the status is all that is known.
                }
            }

            private static string? Text(JsonElement o, string name) =>
                o.TryGetProperty(name, out var value) && value.ValueKind == JsonValueKind.String ? value.GetString() : null;
        }
    }

    /// <summary>400: <see cref="DataFlowException.Errors"/> names every bad field.</summary>
    public sealed class InvalidRequestException : DataFlowException { internal InvalidRequestException(Answer a) : base(a, null) { } }
    /// <summary>401: credentials are missing or wrong.</summary>
    public sealed class UnauthorizedException : DataFlowException { internal UnauthorizedException(Answer a) : base(a, null) { } }
    /// <summary>403: the client is suspended, or lacks a scope or role.</summary>
    public sealed class ForbiddenException : DataFlowException { internal ForbiddenException(Answer a) : base(a, null) { } }
    /// <summary>404: there is no such thing, or it is another client's.</summary>
    public sealed class NotFoundException : DataFlowException { internal NotFoundException(Answer a) : base(a, null) { } }
    /// <summary>409: a rule or the state of the thing forbids it; <see cref="DataFlowException.Code"/> names the rule.</summary>
    public sealed class ConflictException : DataFlowException { internal ConflictException(Answer a) : base(a, null) { } }
    /// <summary>410: what it needs was erased or has expired.</summary>
    public sealed class GoneException : DataFlowException { internal GoneException(Answer a) : base(a, null) { } }
    /// <summary>412 or 428: the ETag is old, or none was given.</summary>
    public sealed class PreconditionException : DataFlowException { internal PreconditionException(Answer a) : base(a, null) { } }
    /// <summary>413: the body is larger than the server takes.</summary>
    public sealed class TooLargeException : DataFlowException { internal TooLargeException(Answer a) : base(a, null) { } }
    /// <summary>422: the <c>Idempotency-Key</c> was used for other content.</summary>
    public sealed class IdempotencyKeyReusedException : DataFlowException { internal IdempotencyKeyReusedException(Answer a) : base(a, null) { } }
    /// <summary>429, after all retries: see <see cref="DataFlowException.RetryAfter"/>.</summary>
    public sealed class RateLimitException : DataFlowException { internal RateLimitException(Answer a) : base(a, null) { } }
    /// <summary>5xx, after all retries that were safe.</summary>
    public sealed class ServerException : DataFlowException { internal ServerException(Answer a) : base(a, null) { } }
    /// <summary>No answer, or one that broke off or is no JSON, after all retries that were safe. Whether the call was carried out is not known.</summary>
    public sealed class ConnectionException : DataFlowException
    {
        internal ConnectionException(string message, Exception? inner, bool isTimeout) : base(message, inner) => IsTimeout = isTimeout;

        /// <summary>Whether the last try ended because nothing moved for <see cref="DataFlowClientOptions.NetworkTimeout"/>.</summary>
        public bool IsTimeout { get; }
    }
}
