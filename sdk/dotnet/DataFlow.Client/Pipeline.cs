using System;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Runtime.ExceptionServices;
using System.Security.Authentication;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace DataFlow.Client
{
    /// <summary>Sends calls: credentials, retries, timeouts, errors. Holds nothing that changes, so any thread may use it.</summary>
    internal sealed class Pipeline
    {
        private const int MaxProblemBytes = 1 << 20;
        private const int MaxPassedOnBytes = 16 << 20; // the server passes on no more
        internal const int CopyBytes = 81920;

        private readonly Func<HttpClient> _http;
        private readonly string _base;
        private readonly bool _keepsSecrets;
        private readonly Random _random = new Random();

        /// <param name="options">The options, checked.</param>
        /// <param name="http">Gives a client for each try.</param>
        /// <param name="keepsSecrets">Whether the client has a <see cref="CredentialsHandler"/>.</param>
        public Pipeline(DataFlowClientOptions options, Func<HttpClient> http, bool keepsSecrets = false)
        {
            Options = options;
            _http = http;
            _keepsSecrets = keepsSecrets;
            _base = options.Address!.AbsoluteUri.TrimEnd('/') + "/v1";
        }

        public DataFlowClientOptions Options { get; }
        /// <summary>Replaced by tests, which do not wait.</summary>
        internal Func<TimeSpan, CancellationToken, Task> Delay { get; set; } = Task.Delay;
        /// <summary>The client that a path names: the caller itself, unless another one is given.</summary>
        public string Client(string? clientId) =>
            clientId ?? Options.ClientId ?? throw new ArgumentException("An operator gives the clientId.", nameof(clientId));

        public Task<T> JsonAsync<T>(Call call, CancellationToken cancellationToken) =>
            SendAsync(call, async (response, watch) =>
            {
                using (response)
                {
                    if (response.StatusCode == HttpStatusCode.NoContent && typeof(T) == typeof(JsonAnswer))
                        return (T)(object)new JsonAnswer { Response = new ResponseInfo(response) };
                    var body = await BodyAsync(response, watch, int.MaxValue).ConfigureAwait(false);
                    var value = await JsonSerializer.DeserializeAsync<T>(body, Json.Options, watch.Token).ConfigureAwait(false);
                    if (value is Document document)
                        document.Response = new ResponseInfo(response);
                    return value ?? throw new JsonException("The answer is null.");
                }
            }, cancellationToken);

        public Task NothingAsync(Call call, CancellationToken cancellationToken) =>
            SendAsync(call, (response, _) =>
            {
                response.Dispose();
                return Task.FromResult(true);
            }, cancellationToken);

        public Task<string> TextAsync(Call call, CancellationToken cancellationToken) =>
            SendAsync(call, async (response, watch) =>
            {
                using (response)
                using (var reader = new StreamReader(await BodyAsync(response, watch, int.MaxValue).ConfigureAwait(false)))
                    return await reader.ReadToEndAsync().ConfigureAwait(false);
            }, cancellationToken);

        /// <summary>An answer that another system gave, with its body in memory: the caller reads that without a token or time limit.</summary>
        public Task<HttpResponseMessage> PassedOnAsync(Call call, CancellationToken cancellationToken) =>
            SendAsync(call, async (response, watch) =>
            {
                var body = await BodyAsync(response, watch, MaxPassedOnBytes + 1).ConfigureAwait(false);
                if (body.Length > MaxPassedOnBytes)
                    throw new DataFlowException("The answer is larger than " + MaxPassedOnBytes + " bytes.");
                var held = new ByteArrayContent(body.ToArray());
                if (response.Content != null)
                    foreach (var header in response.Content.Headers.Where(h => !h.Key.Equals("Content-Length", StringComparison.OrdinalIgnoreCase)))
                        held.Headers.TryAddWithoutValidation(header.Key, header.Value);
                response.Content?.Dispose();
                response.Content = held;
                return response;
            }, cancellationToken, IsPassedOn);

        /// <summary>Whether the other system answered. Its 408, 429 and 5xx never come through: those are DataFlow's, or of a proxy before it.</summary>
        private static bool IsPassedOn(HttpResponseMessage response) => response.IsSuccessStatusCode
            || ((int)response.StatusCode < 500 && !IsTransient((int)response.StatusCode)
                && response.Content?.Headers.ContentType?.MediaType != "application/problem+json");

        /// <summary>The body as it comes. The caller disposes of the stream, and with it of the connection.</summary>
        public Task<Stream> StreamAsync(Call call, CancellationToken cancellationToken) =>
            SendAsync<Stream>(call, async (response, _) =>
                new AnswerStream(response, await response.Content.ReadAsStreamAsync().ConfigureAwait(false), Options.NetworkTimeout),
                cancellationToken);

        /// <summary>Tries until there is an answer that <paramref name="read"/> can take, or no more tries are due.</summary>
        public async Task<T> SendAsync<T>(Call call, Func<HttpResponseMessage, Watch, Task<T>> read, CancellationToken cancellationToken,
            Func<HttpResponseMessage, bool>? isAnswer = null)
        {
            var correlationId = DataFlowClient.CurrentCorrelationId;
            for (var attempt = 0; ; attempt++)
            {
                cancellationToken.ThrowIfCancellationRequested();
                DataFlowException failure;
                bool wasRefused; // certainly not carried out
                using (var watch = new Watch(Options.NetworkTimeout, cancellationToken))
                using (var request = Request(call, correlationId, watch))
                {
                    HttpResponseMessage? response = null;
                    try
                    {
                        response = await _http().SendAsync(request, HttpCompletionOption.ResponseHeadersRead, watch.Token).ConfigureAwait(false);
                        watch.Moved();
                        if (isAnswer?.Invoke(response) ?? response.IsSuccessStatusCode)
                            return await read(response, watch).ConfigureAwait(false);
                        failure = await FailureAsync(response, correlationId, watch).ConfigureAwait(false);
                        wasRefused = failure.Status == 429;
                        response.Dispose();
                    }
                    catch (Exception) when (watch.Fault != null)
                    {
                        response?.Dispose();
                        ExceptionDispatchInfo.Capture(watch.Fault).Throw();
                        throw;
                    }
                    catch (Exception e) when (!(e is DataFlowException) && IsOfNetwork(e))
                    {
                        response?.Dispose();
                        cancellationToken.ThrowIfCancellationRequested();
                        failure = new ConnectionException(watch.IsOver
                            ? "The server at " + _base + " was silent for " + Options.NetworkTimeout.TotalSeconds + " s."
                            : e is JsonException ? "The answer is not the JSON that was expected: " + e.Message
                            : "The server at " + _base + " cannot be reached, or the connection broke: " + Innermost(e).Message, e, watch.IsOver);
                        wasRefused = Innermost(e) is AuthenticationException || (Innermost(e) is SocketException s
                            && (s.SocketErrorCode == SocketError.ConnectionRefused || s.SocketErrorCode == SocketError.HostNotFound
                                || s.SocketErrorCode == SocketError.TryAgain));
                    }
                    catch
                    {
                        response?.Dispose();
                        throw;
                    }
                }
                if (attempt >= Options.MaxRetries || !IsTransient(failure) || !(wasRefused || call.IsRepeatable || call.IdempotencyKey != null)
                    || failure.RetryAfter > Options.MaxRetryAfter || !call.CanRepeatContent())
                    throw failure;
                await Delay(Pause(attempt, failure.RetryAfter), cancellationToken).ConfigureAwait(false);
            }
        }

        /// <summary>Full jitter: any part of the doubled wait. What the server asked for is waited in full, and some more.</summary>
        public TimeSpan Pause(int attempt, TimeSpan? retryAfter)
        {
            double part;
            lock (_random)
                part = _random.NextDouble();
            var limit = Math.Min(Options.MaxRetryDelay.TotalMilliseconds, Options.RetryDelay.TotalMilliseconds * Math.Pow(2, Math.Min(attempt, 30)));
            return (retryAfter ?? TimeSpan.Zero) + TimeSpan.FromMilliseconds(part * limit);
        }

        private HttpRequestMessage Request(Call call, string? correlationId, Watch watch)
        {
            var request = new HttpRequestMessage(call.Method, _base + call.Path + call.Query) { Content = call.Content?.Invoke(watch) };
            void Set(string name, string? value)
            {
                if (value != null)
                    request.Headers.TryAddWithoutValidation(name, Call.Header(value, name));
            }
            void SetSecret(string name, string? value)
            {
                if (value == null || !_keepsSecrets)
                    Set(name, value);
                else
                    CredentialsHandler.Keep(request, name, Call.Header(value, name));
            }
            Set("Accept", call.Accept);
            Set("Accept-Language", DataFlowClient.CurrentLanguage ?? Options.Language);
            Set("User-Agent", "dataflow-sdk-dotnet/" + DataFlowClient.Version);
            Set("X-Correlation-Id", correlationId);
            Set("Idempotency-Key", call.IdempotencyKey);
            Set("If-Match", call.IfMatch);
            var isAdmin = call.Path.StartsWith("/admin/", StringComparison.Ordinal) || call.Path == "/metrics";
            if (!call.IsAnonymous && !isAdmin && Options.ClientId != null)
            {
                Set("X-Client-Id", Options.ClientId);
                SetSecret("X-Client-Secret", Options.ClientSecret);
            }
            else if (!call.IsAnonymous)
                SetSecret("X-Admin-Key", Options.AdminKey);
            if (call.ExpectContinue)
                request.Headers.ExpectContinue = true;
            return request;
        }

        private static async Task<DataFlowException> FailureAsync(HttpResponseMessage response, string? correlationId, Watch watch)
        {
            var answer = new DataFlowException.Answer { Status = (int)response.StatusCode, CorrelationId = correlationId };
            if (response.Headers.TryGetValues("X-Correlation-Id", out var ids))
                answer.CorrelationId = string.Join(",", ids);
            if (response.Headers.RetryAfter is { } after)
            {
                var wait = after.Delta ?? after.Date - DateTimeOffset.UtcNow;
                answer.RetryAfter = wait < TimeSpan.Zero ? TimeSpan.Zero : wait;
            }
            if (response.Content?.Headers.ContentType?.MediaType is string type && type.EndsWith("json", StringComparison.OrdinalIgnoreCase))
                answer.Read((await BodyAsync(response, watch, MaxProblemBytes).ConfigureAwait(false)).ToArray());
            return DataFlowException.Of(answer);
        }

        /// <summary>The body, or <paramref name="limit"/> bytes of it. It may take as long as it moves.</summary>
        private static async Task<MemoryStream> BodyAsync(HttpResponseMessage response, Watch watch, int limit)
        {
            var body = new MemoryStream();
            if (response.Content == null)
                return body;
            // Some handlers look at the token only between reads; closing the answer ends the read in all of them.
            using var end = watch.Token.Register(response.Dispose);
            var stream = await response.Content.ReadAsStreamAsync().ConfigureAwait(false);
            var buffer = new byte[8192];
            for (int n; body.Length < limit
                && (n = await stream.ReadAsync(buffer, 0, (int)Math.Min(buffer.Length, limit - body.Length), watch.Token).ConfigureAwait(false)) > 0;)
            {
                watch.Moved();
                body.Write(buffer, 0, n);
            }
            body.Position = 0;
            return body;
        }

        internal static bool IsTransient(DataFlowException e) => e is ConnectionException c ? !(c.InnerException is JsonException) : IsTransient(e.Status);

        /// <summary>Whether waiting may help, whoever answered and in whatever format. A server that can't do something (501, 505) can't do it later.</summary>
        private static bool IsTransient(int status) => status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);

        internal static bool IsOfNetwork(Exception e) =>
            e is HttpRequestException || e is IOException || e is OperationCanceledException || e is JsonException || e is ObjectDisposedException
            || e is SocketException || e is WebException;

        private static Exception Innermost(Exception e)
        {
            while (e.InnerException != null)
                e = e.InnerException;
            return e;
        }
    }

    /// <summary>Ends a try when nothing has moved for too long.</summary>
    internal sealed class Watch : IDisposable
    {
        private readonly TimeSpan _limit;
        private readonly CancellationTokenSource _silence = new CancellationTokenSource();
        private readonly CancellationTokenSource _both;

        public Watch(TimeSpan limit, CancellationToken cancellationToken)
        {
            _limit = limit;
            _both = CancellationTokenSource.CreateLinkedTokenSource(_silence.Token, cancellationToken);
            Moved();
        }

        public CancellationToken Token => _both.Token;

        public bool IsOver => _silence.IsCancellationRequested && Fault == null;

        /// <summary>Why the request's content could not be made, if that is what ended the try.</summary>
        public Exception? Fault { get; private set; }

        public void Moved() => Set(() => _silence.CancelAfter(_limit));

        /// <summary>Ends the try: a handler that has sent <c>Expect: 100-continue</c> may not notice that the content failed, and wait for the answer.</summary>
        public void Fail(Exception fault) => Set(() =>
        {
            Fault = fault;
            _silence.Cancel();
        });

        private static void Set(Action change)
        {
            try
            {
                change();
            }
            catch (ObjectDisposedException)
            {
                // An upload goes on for a moment after its answer has come.
            }
        }

        public void Dispose()
        {
            _both.Dispose();
            _silence.Dispose();
        }
    }

    /// <summary>The body of an answer. A read that gets nothing for too long fails; network faults are the library's exceptions.</summary>
    internal sealed class AnswerStream : Stream
    {
        private readonly HttpResponseMessage _response;
        private readonly Stream _inner;
        private readonly TimeSpan _limit;

        public AnswerStream(HttpResponseMessage response, Stream inner, TimeSpan limit)
        {
            _response = response;
            _inner = inner;
            _limit = limit;
        }

        public override bool CanRead => true;
        public override bool CanSeek => false;
        public override bool CanWrite => false;
        public override long Length => throw new NotSupportedException();

        public override long Position
        {
            get => throw new NotSupportedException();
            set => throw new NotSupportedException();
        }

        public override int Read(byte[] buffer, int offset, int count) =>
            ReadAsync(buffer, offset, count, CancellationToken.None).ConfigureAwait(false).GetAwaiter().GetResult();

        public override async Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
        {
            using var watch = new Watch(_limit, cancellationToken);
            // Some handlers look at the token only between reads; closing the answer ends the read in all of them.
            using var end = watch.Token.Register(_response.Dispose);
            try
            {
                return await _inner.ReadAsync(buffer, offset, count, watch.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (Pipeline.IsOfNetwork(e))
            {
                cancellationToken.ThrowIfCancellationRequested();
                throw new ConnectionException("The answer broke off: " + (watch.IsOver ? "nothing came for " + _limit.TotalSeconds + " s." : e.Message), e, watch.IsOver);
            }
        }

        public override void Flush() { }

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();

        public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

        protected override void Dispose(bool disposing)
        {
            if (disposing)
            {
                _inner.Dispose();
                _response.Dispose();
            }
            base.Dispose(disposing);
        }
    }
}
