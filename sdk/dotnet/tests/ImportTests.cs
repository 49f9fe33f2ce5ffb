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

/// <summary>Uploads, pages and waiting.</summary>
internal static class ImportTests
{
    private const string Accepted = "{\"batchId\":\"b1\",\"status\":\"Pending\"}";

    private static string State(string status, int processed = 0) => "{\"batchId\":\"b\",\"status\":\"" + status + "\",\"processedRecords\":" + processed + "}";

    [Test]
    private static async Task TheFormIsWhole()
    {
        var fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(Accepted) };
        var told = new Told<long>();
        var answer = await fake.Client().Imports.UploadAsync(ImportFile.FromBytes(Encoding.UTF8.GetBytes("phone\n1\n"), "a\"b\r\né.csv"), new ImportOptions
        {
            OriginDefault = "Site", Sheet = "Plan1", Metadata = new Dictionary<string, object?> { ["campaign"] = "é", ["n"] = null },
            Mapping = new Dictionary<string, string?> { ["Fone"] = "PhoneNumber" }, ContentType = "text/csv", Progress = told,
            Fields = new Dictionary<string, string> { ["later"] = "1" },
        });
        Check.Equal("b1", answer.BatchId);
        Check.That(told.Values.SequenceEqual(new long[] { 0, 8 }), "progress " + string.Join(" ", told.Values));
        var seen = fake.Requests.Single();
        var boundary = seen["Content-Type"]!.Split('=')[1];
        string Part(string name, string value) => "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
        var expected = Part("originDefault", "Site") + Part("sheet", "Plan1") + Part("metadata", "{\"campaign\":\"\\u00E9\",\"n\":null}")
            + Part("mapping", "{\"Fone\":\"PhoneNumber\"}") + Part("later", "1")
            + "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a%22b%0D%0Aé.csv\"\r\nContent-Type: text/csv\r\n\r\nphone\n1\n\r\n--" + boundary + "--\r\n";
        Check.Equal(expected, seen.Body);
        Check.Equal(Encoding.UTF8.GetByteCount(expected).ToString(), seen["Content-Length"]);
        Check.Equal("100-continue", seen["Expect"]);
        await Check.ThrowsAsync<ArgumentException>(() => fake.Client().Imports.UploadAsync(ImportFile.FromBytes(new byte[1], "a"),
            new ImportOptions { Fields = new Dictionary<string, string> { ["a\"b"] = "1" } }));
    }

    [Test]
    private static async Task UploadsAreRepeatedFromTheirBeginning()
    {
        var path = Path.GetTempFileName();
        try
        {
            File.WriteAllText(path, "phone\n1\n");
            var inMemory = new MemoryStream(Encoding.UTF8.GetBytes("headphone\n1\n")) { Position = 4 };
            foreach (var file in new[] { ImportFile.FromPath(path), ImportFile.FromStream(inMemory, "a.csv") })
            {
                var fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(Accepted) }.Then(503).ThenBreaks();
                await fake.Client().Imports.UploadAsync(file);
                Check.Equal(3, fake.Requests.Count, "requests");
                Check.That(fake.Requests.All(r => r.Body!.Contains("\r\n\r\nphone\n1\n\r\n--")), "not the same content");
                Check.Equal(1, fake.Requests.Select(r => r["Idempotency-Key"]).Distinct().Count(), "keys");
            }
            Check.That(inMemory.CanRead, "the caller's stream was closed");
        }
        finally
        {
            File.Delete(path);
        }
        await Check.ThrowsAsync<FileNotFoundException>(() => Task.FromResult(ImportFile.FromPath("/no/such/file")));
    }

    [Test]
    private static async Task AStreamIsSentOnce()
    {
        var fake = new FakeHandler().Then(503);
        await Check.ThrowsAsync<ServerException>(() => fake.Client().Imports.UploadAsync(ImportFile.FromStream(new MadeStream(10), "a.csv")));
        Check.Equal(1, fake.Requests.Count, "requests");
    }

    [Test]
    private static async Task AFileThatCannotBeReadIsNotTheNetworksFault()
    {
        var fake = new FakeHandler();
        var error = await Check.ThrowsAsync<DataFlowException>(() => fake.Client().Imports.UploadAsync(ImportFile.FromStream(new BrokenStream(), "a.csv")));
        Check.That(!(error is ConnectionException) && error.Message.StartsWith("a.csv cannot be read", StringComparison.Ordinal), error.Message);
        Check.Equal(0, fake.Waits.Count, "waits");

        var path = Path.GetTempFileName();
        var file = ImportFile.FromPath(path);
        var closed = new MemoryStream(new byte[9]);
        var closedFile = ImportFile.FromStream(closed, "closed.csv");
        closed.Dispose();
        using (File.Open(path, FileMode.Open, FileAccess.ReadWrite, FileShare.None)) // as Excel has it
            await CannotBeReadAsync(file);
        File.Delete(path);
        await CannotBeReadAsync(file);
        await CannotBeReadAsync(closedFile);
    }

    private static async Task CannotBeReadAsync(ImportFile file)
    {
        var fake = new FakeHandler();
        using var server = new Sink();
        using var client = new DataFlowClient(new DataFlowClientOptions { Address = server.Address, ClientId = "a", ClientSecret = "b" });
        foreach (var one in new[] { fake.Client(), client })
        {
            var error = await Check.ThrowsAsync<DataFlowException>(() => one.Imports.UploadAsync(file));
            Check.That(!(error is ConnectionException) && error.Message.StartsWith(file.FileName + " cannot be read", StringComparison.Ordinal), error.ToString());
        }
        Check.Equal(0, fake.Waits.Count, "waits");
    }

    [Test]
    private static async Task BytesAreUploadedManyTimesAtOnce()
    {
        var file = ImportFile.FromBytes(Encoding.ASCII.GetBytes("phone\n1\n"), "a.csv");
        var fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(Accepted) };
        var inner = 0;
        var client = fake.Client();
        await client.Imports.UploadAsync(file, new ImportOptions
        {
            Progress = new Each<long>(_ =>
            {
                inner++;
                client.Imports.UploadAsync(file).GetAwaiter().GetResult(); // while the outer one is being read
            }),
        });
        Check.Equal(2, inner, "uploads within");
        Check.That(fake.Requests.Count == 3 && fake.Requests.All(r => r.Body!.Contains("\r\n\r\nphone\n1\n\r\n--")), "not the same content");
    }

    /// <summary>A try that broke may still be reading the caller's stream when the next one begins.</summary>
    [Test]
    private static async Task TriesDoNotShareAStream()
    {
        var stream = new LateStream("phone\n1\n");
        var fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(Accepted) };
        var handler = new BreaksFirst { InnerHandler = fake };
        using var client = new DataFlowClient(new DataFlowClientOptions { Address = new Uri("http://server.test/"), ClientId = "a", ClientSecret = "b" },
            () => new HttpClient(handler, false));
        await client.Imports.UploadAsync(ImportFile.FromStream(stream, "a.csv"));
        Check.That(fake.Requests.Single().Body!.Contains("\r\n\r\nphone\n1\n\r\n--"), "not the same content");
        var once = ImportFile.FromStream(new MadeStream(9), "once.csv");
        await client.Imports.UploadAsync(once);
        var error = await Check.ThrowsAsync<DataFlowException>(() => client.Imports.UploadAsync(once));
        Check.Equal("once.csv can be read only once, and was.", error.Message);
    }

    [Test]
    private static async Task MemoryDoesNotGrowWithTheFile()
    {
        const long Length = 300L << 20;
        using var server = new Sink();
        using var client = new DataFlowClient(new DataFlowClientOptions { Address = server.Address, ClientId = "a", ClientSecret = "b" });
        await client.Imports.UploadAsync(ImportFile.FromStream(new MadeStream(1 << 20), "warm.csv"));
        GC.Collect();
        var before = GC.GetTotalMemory(true);
        long most = 0, sent = 0;
        await client.Imports.UploadAsync(ImportFile.FromStream(new MadeStream(Length), "big.csv"), new ImportOptions
        {
            Progress = new Each<long>(value =>
            {
                sent = value;
                most = Math.Max(most, GC.GetTotalMemory(false) - before);
            }),
        });
        Check.Equal(Length, sent, "bytes told");
        Check.That(server.Received > Length, "bytes received: " + server.Received);
        Check.That(most < 16 << 20, "memory grew by " + most);
    }

    [Test]
    private static async Task AnUploadIsCalledOff()
    {
        const int Length = 150 << 20;
        var path = Path.GetTempFileName();
        try
        {
            using (var sparse = File.OpenWrite(path))
                sparse.SetLength(Length);
            foreach (var file in new[] { ImportFile.FromStream(new MadeStream(Length), "big.csv"), ImportFile.FromPath(path), ImportFile.FromBytes(new byte[Length], "big.csv") })
            {
                using var server = new Sink();
                using var client = new DataFlowClient(new DataFlowClientOptions { Address = server.Address, ClientId = "a", ClientSecret = "b" });
                using var stop = new CancellationTokenSource();
                await Check.ThrowsAsync<OperationCanceledException>(() => client.Imports.UploadAsync(file,
                    new ImportOptions { Progress = new Each<long>(sent => { if (sent > 1 << 20) stop.Cancel(); }) }, stop.Token));
                Check.That(server.Received < 100 << 20, "went on after " + server.Received);
            }
        }
        finally
        {
            File.Delete(path);
        }
    }

    [Test]
    private static async Task PagesByNumber()
    {
        var fake = new FakeHandler()
            .Then(_ => FakeHandler.Json("{\"items\":[{\"batchId\":\"1\"},{\"batchId\":\"2\"}],\"page\":1,\"pageSize\":2,\"total\":3}"))
            .Then(_ => FakeHandler.Json("{\"items\":[{\"batchId\":\"3\"}],\"page\":2,\"pageSize\":2,\"total\":3}"));
        var ids = new List<string>();
        await foreach (var batch in fake.Client().Imports.List("Failed"))
            ids.Add(batch.BatchId);
        Check.Equal("1 2 3", string.Join(" ", ids));
        Check.Equal("?status=Failed ?status=Failed&page=2", fake.Requests[0].Uri.Query + " " + fake.Requests[1].Uri.Query);
    }

    [Test]
    private static async Task AListWithoutPagesEnds()
    {
        foreach (var body in new[] { "{\"items\":[{},{}],\"total\":2}", "{\"items\":[{},{}]}", "{\"items\":[{},{}],\"next\":null}" })
        {
            var fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(body) };
            var count = 0;
            await foreach (var _ in fake.Client().Admin.Silences.List())
                Check.That(++count <= 2, "more items than there are: " + body);
            Check.Equal(1, fake.Requests.Count, "requests");
        }
    }

    [Test]
    private static async Task PagesByCursor()
    {
        var fake = new FakeHandler()
            .Then(_ => FakeHandler.Json("{\"items\":[{\"batchId\":\"1\"}],\"page\":1,\"pageSize\":1,\"total\":20000,\"totalIsEstimate\":true,\"next\":\"x y\"}"))
            .Then(503)
            .Then(_ => FakeHandler.Json("{\"items\":[{\"batchId\":\"2\"}],\"pageSize\":1,\"total\":20000,\"next\":null}"));
        var pages = new List<Page<Batch>>();
        await foreach (var page in fake.Client().Imports.List().AsPages(pageSize: 1))
            pages.Add(page);
        Check.Equal(2, pages.Count, "pages");
        Check.That(pages[0].TotalIsEstimate && pages[0].Total == 20000, "the total");
        Check.Equal("?pageSize=1&after=x%20y", fake.Requests[2].Uri.Query);
        using var stop = new CancellationTokenSource();
        stop.Cancel();
        await Check.ThrowsAsync<OperationCanceledException>(async () =>
        {
            await foreach (var _ in fake.Client().Imports.List(cancellationToken: stop.Token))
                Check.That(false, "an item");
        });
        await Check.ThrowsAsync<OperationCanceledException>(async () =>
        {
            await foreach (var _ in fake.Client().Imports.List().WithCancellation(stop.Token))
                Check.That(false, "an item");
        });
    }

    [Test]
    private static async Task WaitsByEvents()
    {
        var fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(State("Completed", 9)) }
            .Then(_ => FakeHandler.Events(": hello\r\n\r\nevent: progress\r\nid: 7\r\ndata: {\"batchId\":\"b\",\r\ndata: \"status\":\"Processing\"}\r\n\r\nevent: progress\ndata:" + State("Processing", 5)
                + "\n\nevent: completed\rdata: " + State("Completed", 8) + "\r\r"));
        var told = new Told<Batch>();
        var batch = await fake.Client().Imports.WaitAsync("b", told);
        Check.Equal("0 5 8", string.Join(" ", told.Values.Select(b => b.ProcessedRecords)));
        Check.Equal(9L, batch.ProcessedRecords, "read at the end");
        Check.Equal("text/event-stream", fake.Requests[0]["Accept"]);
        Check.Equal(2, fake.Requests.Count, "requests");
    }

    [Test]
    private static async Task EventsAreOpenedAgainAndThenPolledFor()
    {
        // Cut in the middle of an event; then nothing new three times; then no stream at all.
        var fake = new FakeHandler { Otherwise = r => r.RequestUri.AbsolutePath.EndsWith("events", StringComparison.Ordinal) ? FakeHandler.Events("data: " + State("Processing") + "\n\n") : FakeHandler.Json(State("Processing")) };
        fake.Then(_ => FakeHandler.Events("data: " + State("Processing", 1) + "\n\ndata: " + State("Processing", 2) + "\n\ndata: {\"sta"));
        var seen = new List<string>();
        await foreach (var batch in fake.Client(o => o.PollInterval = TimeSpan.FromSeconds(7)).Imports.WatchAsync("b"))
        {
            seen.Add(batch.Status);
            if (seen.Count == 8)
                fake.Otherwise = _ => FakeHandler.Json(State("CompletedWithErrors"));
        }
        Check.Equal("CompletedWithErrors", seen.Last());
        Check.Equal(4, fake.Requests.Count(r => r.Uri.AbsolutePath.EndsWith("events", StringComparison.Ordinal)), "streams");
        Check.That(fake.Waits.Count(w => w >= TimeSpan.FromSeconds(7)) >= 3, "polls");
    }

    [Test]
    private static async Task ABatchThatDoesNotChangeIsAskedForLessAndLess()
    {
        var fake = new FakeHandler();
        for (var i = 0; i < 12; i++)
            fake.Then(_ => FakeHandler.Json(State("Scheduled")));
        fake.Then(_ => FakeHandler.Json(State("Processing", 1))).Then(_ => FakeHandler.Json(State("Processing", 2))).Then(_ => FakeHandler.Json(State("Completed", 3)));
        fake.Otherwise = _ => FakeHandler.Json(State("Completed", 3));
        await fake.Client().Imports.WaitAsync("b", useEvents: false);
        Check.Equal("2 3 4.5 6.75 10.125 15.188 22.781 30 30 30 30 30 2 2", string.Join(" ", fake.Waits.Select(w => Math.Round(w.TotalSeconds, 3))));

        var now = DateTimeOffset.UtcNow;
        double Pause(double secondsLeft, int same) => fake.Client().Imports.PollPause(
            new Batch { Status = "Scheduled", ScheduledFor = now.AddSeconds(secondsLeft) }, same, now).TotalSeconds;
        Check.Equal("30 12 2 30", string.Join(" ", Pause(3600, 9), Pause(12, 9), Pause(1, 9), Pause(-5, 9)), "the pause before it begins");
        Check.Equal(60.0, fake.Client(o => o.PollInterval = TimeSpan.FromMinutes(1)).Imports.PollPause(new Batch(), 9, now).TotalSeconds);
    }

    /// <summary>The server was restarted after it had told that the batch is over.</summary>
    [Test]
    private static async Task TheLastLookOutlastsAnOutage()
    {
        foreach (var isAdmin in new[] { false, true })
        {
            var fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(State("Completed", 9)) };
            fake.Then(_ => FakeHandler.Events("event: completed\ndata: " + State("Completed", 8) + "\n\n"));
            for (var i = 0; i < 12; i++)
                fake.ThenBreaks();
            var client = fake.Client();
            var batch = await (isAdmin ? client.Admin.Imports.WaitAsync("b") : client.Imports.WaitAsync("b"));
            Check.Equal(9L, batch.ProcessedRecords);
        }
    }

    [Test]
    private static async Task AServerThatIsAwayIsWaitedFor()
    {
        var fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(State("Completed")) };
        for (var i = 0; i < 12; i++)
            fake.ThenBreaks();
        Check.Equal("Completed", (await fake.Client().Imports.WaitAsync("b")).Status);
        fake = new FakeHandler { Otherwise = _ => new HttpResponseMessage(HttpStatusCode.ServiceUnavailable) };
        await Check.ThrowsAsync<ServerException>(() => fake.Client().Imports.WaitAsync("b"));
        Check.Equal(4 + 31 * 4, fake.Requests.Count, "requests until it is given up");
    }

    [Test]
    private static async Task NoEventsNoBatch()
    {
        var fake = new FakeHandler { Otherwise = r => new HttpResponseMessage(HttpStatusCode.NotFound) };
        await Check.ThrowsAsync<NotFoundException>(() => fake.Client().Imports.WaitAsync("b"));
        fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(State("Failed")) };
        Check.Equal("Failed", (await fake.Client().Imports.WaitAsync("b")).Status); // a proxy that knows no streams
        fake = new FakeHandler { Otherwise = _ => FakeHandler.Json(State("Cancelled")) };
        Check.Equal("Cancelled", (await fake.Client().Imports.WaitAsync("b", useEvents: false)).Status);
        Check.That(fake.Requests.All(r => r.Uri.AbsolutePath == "/base/v1/imports/b"), "events were asked for");
        fake = new FakeHandler { Otherwise = r => r.RequestUri.AbsolutePath.EndsWith("events", StringComparison.Ordinal) ? FakeHandler.Events("data: " + new string('x', 2 << 20)) : FakeHandler.Json(State("Failed")) };
        Check.Equal("Failed", (await fake.Client().Imports.WaitAsync("b")).Status); // an event without end
    }

    private sealed class Each<T> : IProgress<T>
    {
        private readonly Action<T> _tell;

        public Each(Action<T> tell) => _tell = tell;

        public void Report(T value) => _tell(value);
    }

    /// <summary>Hands the first request's content to nobody, and breaks.</summary>
    private sealed class BreaksFirst : DelegatingHandler
    {
        private bool _isBroken;

        protected override Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellationToken)
        {
            if (_isBroken)
                return base.SendAsync(request, cancellationToken);
            _isBroken = true;
            _ = request.Content.CopyToAsync(new MemoryStream());
            throw new HttpRequestException("it broke", new IOException("reset"));
        }
    }

    /// <summary>Its first read ends when the second begins, unless it is called off.</summary>
    private sealed class LateStream : MemoryStream
    {
        private readonly TaskCompletionSource<bool> _second = new TaskCompletionSource<bool>();
        private int _reads;

        public LateStream(string text) : base(Encoding.ASCII.GetBytes(text)) { }

        public override async Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
        {
            if (_reads++ > 0)
                _second.TrySetResult(true);
            else
                await await Task.WhenAny(_second.Task, Task.Delay(Timeout.Infinite, cancellationToken));
            return Read(buffer, offset, count);
        }
    }

    private sealed class BrokenStream : MemoryStream
    {
        public override bool CanSeek => false;

        public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) => throw new IOException("bad sector");
    }

    /// <summary>A server that takes any body, counts its bytes and accepts it.</summary>
    private sealed class Sink : IDisposable
    {
        private readonly TcpListener _listener = new TcpListener(IPAddress.Loopback, 0);

        public Sink()
        {
            _listener.Start();
            Address = new Uri("http://127.0.0.1:" + ((IPEndPoint)_listener.LocalEndpoint).Port);
            _ = Task.Run(AcceptAsync);
        }

        public Uri Address { get; }

        public long Received { get; private set; }

        public void Dispose() => _listener.Stop();

        private async Task AcceptAsync()
        {
            for (; ; )
                await ServeAsync(await _listener.AcceptTcpClientAsync());
        }

        private async Task ServeAsync(TcpClient peer)
        {
            using (peer)
                try
                {
                    var stream = peer.GetStream();
                    var buffer = new byte[1 << 16];
                    var tail = "";
                    for (int n; !tail.EndsWith("\r\n0\r\n\r\n", StringComparison.Ordinal) && (n = await stream.ReadAsync(buffer, 0, buffer.Length)) > 0;)
                    {
                        if (tail == "")
                            await stream.WriteAsync(Encoding.ASCII.GetBytes("HTTP/1.1 100 Continue\r\n\r\n"));
                        Received += n;
                        tail = (tail + Encoding.ASCII.GetString(buffer, Math.Max(0, n - 8), Math.Min(n, 8)));
                        tail = tail.Substring(Math.Max(0, tail.Length - 8));
                    }
                    await stream.WriteAsync(Encoding.ASCII.GetBytes("HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
                        + Accepted.Length + "\r\n\r\n" + Accepted));
                }
                catch (IOException)
                {
                    // the test called it off
                }
        }
    }
}
