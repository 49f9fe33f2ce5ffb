using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using DataFlow.Client;

/// <summary>Answers in place of the network and keeps what was asked.</summary>
internal sealed class FakeHandler : HttpMessageHandler
{
    private readonly Queue<Func<HttpRequestMessage, HttpResponseMessage>> _answers = new Queue<Func<HttpRequestMessage, HttpResponseMessage>>();

    public List<Seen> Requests { get; } = new List<Seen>();

    public List<TimeSpan> Waits { get; } = new List<TimeSpan>();

    /// <summary>When no answer is left.</summary>
    public Func<HttpRequestMessage, HttpResponseMessage> Otherwise { get; set; } = _ => Json("{}");

    public FakeHandler Then(Func<HttpRequestMessage, HttpResponseMessage> answer)
    {
        _answers.Enqueue(answer);
        return this;
    }

    public FakeHandler Then(int status, string body = "{}", string type = "application/problem+json", string? retryAfter = null) => Then(_ =>
    {
        var answer = new HttpResponseMessage((HttpStatusCode)status) { Content = new StringContent(body, Encoding.UTF8, type) };
        if (retryAfter != null)
            answer.Headers.TryAddWithoutValidation("Retry-After", retryAfter);
        return answer;
    });

    public FakeHandler ThenBreaks() => Then(_ => throw new HttpRequestException("it broke", new IOException("reset")));

    public static HttpResponseMessage Json(string body) =>
        new HttpResponseMessage(HttpStatusCode.OK) { Content = new StringContent(body, Encoding.UTF8, "application/json") };

    public static HttpResponseMessage Events(string text) =>
        new HttpResponseMessage(HttpStatusCode.OK) { Content = new StringContent(text, Encoding.UTF8, "text/event-stream") };

    public DataFlowClient Client(Action<DataFlowClientOptions>? change = null)
    {
        var options = new DataFlowClientOptions { Address = new Uri("http://server.test/base/"), ClientId = "shop", ClientSecret = "geheim", AdminKey = "admin" };
        change?.Invoke(options);
        var http = new HttpClient(this, false) { Timeout = Timeout.InfiniteTimeSpan };
        var client = new DataFlowClient(options, () => http);
        client.Pipeline.Delay = (wait, token) =>
        {
            token.ThrowIfCancellationRequested();
            lock (Waits)
                Waits.Add(wait);
            return Task.CompletedTask;
        };
        return client;
    }

    protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellationToken)
    {
        var seen = new Seen(request, request.Content == null ? null : await request.Content.ReadAsByteArrayAsync());
        Func<HttpRequestMessage, HttpResponseMessage> answer;
        lock (Requests)
        {
            Requests.Add(seen);
            answer = _answers.Count > 0 ? _answers.Dequeue() : Otherwise;
        }
        return answer(request);
    }
}

internal sealed class Seen
{
    private readonly Dictionary<string, string> _headers;

    public Seen(HttpRequestMessage request, byte[]? body)
    {
        Method = request.Method.Method;
        Uri = request.RequestUri;
        Body = body == null ? null : Encoding.UTF8.GetString(body);
        _headers = request.Headers.Concat(request.Content?.Headers ?? Enumerable.Empty<KeyValuePair<string, IEnumerable<string>>>())
            .ToDictionary(h => h.Key, h => string.Join(", ", h.Value), StringComparer.OrdinalIgnoreCase);
    }

    public string Method { get; }

    public Uri Uri { get; }

    public string? Body { get; }

    public string? this[string header] => _headers.TryGetValue(header, out var value) ? value : null;
}

/// <summary>Bytes that are made while they are read, and never all at once.</summary>
internal sealed class MadeStream : Stream
{
    private long _left;

    public MadeStream(long length) => _left = length;

    public override bool CanRead => true;

    public override bool CanSeek => false;

    public override bool CanWrite => false;

    public override long Length => throw new NotSupportedException();

    public override long Position { get => throw new NotSupportedException(); set => throw new NotSupportedException(); }

    public override int Read(byte[] buffer, int offset, int count)
    {
        var n = (int)Math.Min(count, _left);
        for (var i = 0; i < n; i++)
            buffer[offset + i] = (byte)'x';
        _left -= n;
        return n;
    }

    public override void Flush() { }

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
}

/// <summary>A server that answers with the parts of a body, one after a pause each; after the last it is silent, if the body is longer.</summary>
internal sealed class Drip : IDisposable
{
    private readonly TcpListener _listener = new TcpListener(IPAddress.Loopback, 0);
    private readonly CancellationTokenSource _over = new CancellationTokenSource();
    private readonly string _head;
    private readonly string[] _parts;
    private readonly TimeSpan _pause;

    public Drip(TimeSpan pause, string type, int length, params string[] parts)
    {
        _head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + type + "\r\nContent-Length: " + length + "\r\n\r\n";
        _parts = parts;
        _pause = pause;
        _listener.Start();
        _ = Task.Run(AcceptAsync);
    }

    public int Requests { get; private set; }

    public DataFlowClient Client(TimeSpan timeout, int retries = 0) => new DataFlowClient(new DataFlowClientOptions
    {
        Address = new Uri("http://127.0.0.1:" + ((IPEndPoint)_listener.LocalEndpoint).Port), ClientId = "a", ClientSecret = "b", AdminKey = "c",
        MaxRetries = retries, NetworkTimeout = timeout, RetryDelay = TimeSpan.FromMilliseconds(1),
    });

    public void Dispose()
    {
        _over.Cancel();
        _listener.Stop();
    }

    private async Task AcceptAsync()
    {
        for (; ; )
            _ = ServeAsync(await _listener.AcceptTcpClientAsync());
    }

    private async Task ServeAsync(TcpClient peer)
    {
        using (peer)
            try
            {
                var stream = peer.GetStream();
                if (await stream.ReadAsync(new byte[65536]) == 0)
                    return;
                Requests++;
                await stream.WriteAsync(Encoding.ASCII.GetBytes(_head));
                foreach (var part in _parts)
                {
                    await Task.Delay(_pause, _over.Token);
                    await stream.WriteAsync(Encoding.ASCII.GetBytes(part));
                }
                await Task.Delay(Timeout.Infinite, _over.Token);
            }
            catch (Exception e) when (e is IOException || e is OperationCanceledException)
            {
                // the test, or the client, has left
            }
    }
}

internal sealed class Told<T> : IProgress<T>
{
    public List<T> Values { get; } = new List<T>();

    public void Report(T value) => Values.Add(value);
}
