using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Net.Http;
using System.Runtime.CompilerServices;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Threading;
using System.Threading.Tasks;

namespace DataFlow.Client
{
    /// <summary>What every answer has.</summary>
    public abstract class Document
    {
        /// <summary>Members that this release has no property for.</summary>
        [JsonExtensionData]
        public Dictionary<string, JsonElement>? Additional { get; set; }
        /// <summary>What the answer's head said; null for a part of an answer.</summary>
        [JsonIgnore]
        public ResponseInfo? Response { get; internal set; }
    }

    /// <summary>An answer without a type of its own: its members as JSON, under the names of the server's <c>/openapi.json</c>.</summary>
    public sealed class JsonAnswer : Document
    {
        /// <summary>A member; <see cref="JsonValueKind.Undefined"/> if the answer has none of this name.</summary>
        /// <param name="name">Its name, such as <c>jobId</c>.</param>
        public JsonElement this[string name] => Additional != null && Additional.TryGetValue(name, out var value) ? value : default;
    }

    /// <summary>The head of an answer.</summary>
    public sealed class ResponseInfo
    {
        internal ResponseInfo(HttpResponseMessage response)
        {
            Status = (int)response.StatusCode;
            ETag = response.Headers.ETag?.ToString();
            IsReplayed = One("Idempotent-Replayed") == "true";
            CorrelationId = One("X-Correlation-Id");

            string? One(string name) => response.Headers.TryGetValues(name, out var values) ? values.FirstOrDefault() : null;
        }

        /// <summary>The HTTP status.</summary>
        public int Status { get; }
        /// <summary>The version of what was read, for <c>If-Match</c>; null if there was none.</summary>
        public string? ETag { get; }
        /// <summary>Whether this is the answer of an earlier call with the same <c>Idempotency-Key</c>.</summary>
        public bool IsReplayed { get; }
        /// <summary>What the server's log has the call under.</summary>
        public string? CorrelationId { get; }
    }

    /// <summary>A page of a list.</summary>
    /// <typeparam name="T">Its items.</typeparam>
    public sealed class Page<T> : Document
    {
        /// <summary>The items.</summary>
        public IReadOnlyList<T> Items { get; set; } = Array.Empty<T>();
        /// <summary>The page's number, from 1.</summary>
        [JsonPropertyName("page")]
        public int Number { get; set; }
        /// <summary>How many items a page has at most.</summary>
        public int PageSize { get; set; }
        /// <summary>How many items there are; see <see cref="TotalIsEstimate"/>.</summary>
        public long Total { get; set; }
        /// <summary>Whether <see cref="Total"/> is an estimate, as it is beyond 10,000.</summary>
        public bool TotalIsEstimate { get; set; }
        /// <summary>Where the next page begins; null at the end, or where pages have only numbers.</summary>
        public string? Next { get; set; }
    }

    /// <summary>A list that is fetched page by page while it is read: <c>await foreach (var item in list)</c>.</summary>
    /// <typeparam name="T">Its items.</typeparam>
    public sealed class AsyncPageable<T> : IAsyncEnumerable<T>
    {
        private readonly Func<Query, CancellationToken, Task<Page<T>>> _fetch;
        private readonly Query _query;
        private readonly CancellationToken _cancellationToken;

        internal AsyncPageable(Pipeline pipeline, FormattableString path, Query query, CancellationToken cancellationToken)
        {
            _ = new Call(HttpMethod.Get, path); // refuses bad parameters now, not at the first item
            _fetch = (q, token) => pipeline.JsonAsync<Page<T>>(new Call(HttpMethod.Get, path, q), token);
            _query = query;
            _cancellationToken = cancellationToken;
        }

        /// <summary>One page.</summary>
        /// <param name="page">Its number, from 1.</param>
        /// <param name="pageSize">Items of a page, 1 to 200.</param>
        /// <param name="after">Where it begins, instead of a number: <see cref="Page{T}.Next"/> of an earlier page.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        public async Task<Page<T>> GetPageAsync(int? page = null, int? pageSize = null, string? after = null, CancellationToken cancellationToken = default)
        {
            using var both = CancellationTokenSource.CreateLinkedTokenSource(_cancellationToken, cancellationToken);
            return await _fetch(_query.And(("page", Text(page)), ("pageSize", Text(pageSize)), ("after", after)), both.Token).ConfigureAwait(false);
        }

        private static string? Text(int? number) => number?.ToString(CultureInfo.InvariantCulture);

        /// <summary>The items one after the other.</summary>
        /// <param name="cancellationToken">Ends the enumeration.</param>
        public async IAsyncEnumerator<T> GetAsyncEnumerator(CancellationToken cancellationToken = default)
        {
            await foreach (var page in AsPages().WithCancellation(cancellationToken).ConfigureAwait(false))
                foreach (var item in page.Items)
                    yield return item;
        }

        /// <summary>The pages one after the other. Cursors are followed where the server gives them, so that nothing is seen twice or missed.</summary>
        /// <param name="after">Where to begin: <see cref="Page{T}.Next"/> of an earlier page.</param>
        /// <param name="pageSize">Items of a page, 1 to 200.</param>
        /// <param name="cancellationToken">Ends the enumeration.</param>
        public async IAsyncEnumerable<Page<T>> AsPages(string? after = null, int? pageSize = null,
            [EnumeratorCancellation] CancellationToken cancellationToken = default)
        {
            long seen = 0;
            for (var number = 1; ; number++)
            {
                var page = await GetPageAsync(after == null && number > 1 ? number : (int?)null, pageSize, after, cancellationToken).ConfigureAwait(false);
                yield return page;
                seen += page.Items.Count;
                if (page.Items.Count == 0 || (page.Next == null && (after != null || seen >= page.Total)))
                    yield break;
                after = page.Next;
            }
        }
    }
}
