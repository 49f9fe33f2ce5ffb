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
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

/// <summary>Retries, errors, timeouts, credentials.</summary>
internal static class PipelineTests
{
    private static OutboxEvent AnEvent => new OutboxEvent { EventType = "OrderPlaced", Payload = new { total = "15.90" } };

    private static HttpResponseMessage Refuse(HttpRequestMessage _) =>
        throw new HttpRequestException("refused", new SocketException((int)SocketError.ConnectionRefused));

    [Test]
    private static async Task TheSameKeyOnEveryTry()
    {
        var fake = new FakeHandler().Then(503).ThenBreaks().Then(429, retryAfter: "2").Then(_ => FakeHandler.Json("{\"eventId\":\"e1\",\"status\":\"PENDING\"}"));
        var answer = await fake.Client().Events.PublishAsync(AnEvent);
        Check.Equal("e1", answer.EventId);
        Check.Equal(4, fake.Requests.Count, "requests");
        Check.Equal(1, fake.Requests.Select(r => r["Idempotency-Key"]).Distinct().Count(), "keys");
        Check.That(Guid.TryParse(fake.Requests[0]["Idempotency-Key"], out _), "the key is no UUID");
        Check.Equal("{\"eventType\":\"OrderPlaced\",\"payload\":{\"total\":\"15.90\"}}", fake.Requests[3].Body);
        Check.That(fake.Waits[2] >= TimeSpan.FromSeconds(2) && fake.Waits[2] <= TimeSpan.FromSeconds(4), "waited " + fake.Waits[2]);
        await fake.Client().Events.PublishAsync(AnEvent);
        Check.That(fake.Requests[4]["Idempotency-Key"] != fake.Requests[0]["Idempotency-Key"], "another call has the same key");
        await fake.Client().Events.PublishAsync(AnEvent, "mine");
        Check.Equal("mine", fake.Requests[5]["Idempotency-Key"]);
    }

    [Test]
    private static async Task WhatIsNotSafeIsNotRepeated()
    {
        foreach (var fake in new[] { new FakeHandler().Then(503), new FakeHandler().Then(500, retryAfter: "1"), new FakeHandler().ThenBreaks() })
        {
            await Check.ThrowsAsync<DataFlowException>(() => fake.Client().Acks.SendAsync(new { }));
            Check.Equal(1, fake.Requests.Count, "requests");
        }
        foreach (var fake in new[] { new FakeHandler().Then(429), new FakeHandler().Then(Refuse) })
        {
            await fake.Client().Acks.SendAsync(new { });
            Check.Equal(2, fake.Requests.Count, "requests that were certainly not carried out");
        }
    }

    [Test]
    private static async Task WhichAnswersAreTriedAgain()
    {
        foreach (var (status, tries) in new[] { (400, 1), (401, 1), (404, 1), (408, 2), (409, 1), (429, 2), (500, 2), (501, 1), (502, 2), (503, 2), (504, 2), (505, 1), (507, 2) })
            foreach (var type in new[] { "application/problem+json", "text/html" })
            {
                var fake = new FakeHandler().Then(status, "<h1>Sorry</h1>", type);
                try
                {
                    await fake.Client().Imports.GetAsync("b");
                }
                catch (DataFlowException e)
                {
                    Check.Equal(status, e.Status);
                }
                Check.Equal(tries, fake.Requests.Count, "requests after " + status);
            }
    }

    /// <summary>The server never passes on a 429 or 5xx of the other system, so in HTML it is a proxy's.</summary>
    [Test]
    private static async Task AProxysFaultIsNotAnIntegrationsAnswer()
    {
        foreach (var status in new[] { 429, 502, 503 })
        {
            var fake = new FakeHandler().Then(status, "<h1>Sorry</h1>", "text/html");
            using (var answer = await fake.Client().Integrations.CallAsync("payment", HttpMethod.Get, "charges/1"))
                Check.Equal(200, (int)answer.StatusCode);
            Check.Equal(2, fake.Requests.Count, "requests after " + status);
        }
        foreach (var (status, method) in new[] { (502, HttpMethod.Post), (501, HttpMethod.Get) })
        {
            var fake = new FakeHandler().Then(status, "<h1>Sorry</h1>", "text/html");
            Check.Equal(status, (await Check.ThrowsAsync<ServerException>(() => fake.Client().Integrations.CallAsync("payment", method))).Status);
            Check.Equal(1, fake.Requests.Count, "requests");
        }
    }

    [Test]
    private static async Task RetriesEndAndJitterIsFull()
    {
        var fake = new FakeHandler { Otherwise = _ => new HttpResponseMessage(HttpStatusCode.BadGateway) };
        var error = await Check.ThrowsAsync<ServerException>(() => fake.Client(o => o.MaxRetries = 60).Imports.GetAsync("b"));
        Check.Equal(502, error.Status);
        Check.Equal(61, fake.Requests.Count, "requests");
        Check.That(fake.Waits[0] <= TimeSpan.FromMilliseconds(500) && fake.Waits[1] <= TimeSpan.FromSeconds(1), "the first waits are too long");
        var late = fake.Waits.Skip(5).ToList();
        Check.That(late.Max() <= TimeSpan.FromSeconds(8) && late.Max() > TimeSpan.FromSeconds(4) && late.Min() < TimeSpan.FromSeconds(4), "the jitter is not full");
    }

    [Test]
    private static async Task ALongRetryAfterIsTold()
    {
        var fake = new FakeHandler().Then(503, "{\"code\":\"MaintenanceWindow\"}", retryAfter: "3600");
        var error = await Check.ThrowsAsync<ServerException>(() => fake.Client().Imports.GetAsync("b"));
        Check.Equal(TimeSpan.FromHours(1), error.RetryAfter!.Value);
        Check.Equal("MaintenanceWindow", error.Code);
        Check.Equal(0, fake.Waits.Count, "waits");
        var date = DateTimeOffset.UtcNow.AddSeconds(30).ToString("r");
        fake = new FakeHandler().Then(429, retryAfter: date);
        await fake.Client().Imports.GetAsync("b");
        Check.That(fake.Waits.Single() > TimeSpan.FromSeconds(25) && fake.Waits.Single() < TimeSpan.FromSeconds(32), "waited " + fake.Waits.Single());
    }

    [Test]
    private static async Task ProblemsAreTyped()
    {
        var fake = new FakeHandler().Then(400, "{\"type\":\"about:blank\",\"title\":\"Bad request\",\"status\":400,\"detail\":\"2 fields\",\"code\":\"ValidationFailed\","
            + "\"correlationId\":\"c1\",\"errors\":[{\"field\":\"a\",\"message\":\"is missing\"},{\"field\":\"b\",\"message\":\"is long\"}],\"offset\":7}");
        var error = await Check.ThrowsAsync<InvalidRequestException>(() => fake.Client().Tickets.SubmitAsync(new { }));
        Check.Equal("400 ValidationFailed: 2 fields (a: is missing; b: is long)", error.Message);
        Check.Equal("c1", error.CorrelationId);
        Check.Equal("b", error.Errors[1].Field);
        Check.Equal(7, error.Problem!.Value.GetProperty("offset").GetInt32());
        var kinds = new Dictionary<int, Type>
        {
            [401] = typeof(UnauthorizedException), [403] = typeof(ForbiddenException), [404] = typeof(NotFoundException), [409] = typeof(ConflictException),
            [410] = typeof(GoneException), [412] = typeof(PreconditionException), [428] = typeof(PreconditionException), [413] = typeof(TooLargeException),
            [422] = typeof(IdempotencyKeyReusedException), [429] = typeof(RateLimitException), [500] = typeof(ServerException), [503] = typeof(ServerException),
            [418] = typeof(DataFlowException), [302] = typeof(DataFlowException),
        };
        foreach (var (status, type) in kinds)
        {
            var thrown = await Check.ThrowsAsync<DataFlowException>(() => new FakeHandler().Then(status, "not JSON").Client(o => o.MaxRetries = 0).Imports.GetAsync("b"));
            Check.Equal(type, thrown.GetType(), "type of " + status);
        }
        foreach (var body in new[] { "[]", "null", "{\"errors\":{},\"code\":5}", "{\"errors\":[1]}", "" })
            Check.Equal(0, (await Check.ThrowsAsync<NotFoundException>(() => new FakeHandler().Then(404, body).Client().Imports.GetAsync("b"))).Errors.Count);
    }

    [Test]
    private static async Task CredentialsGoWhereTheyBelong()
    {
        var fake = new FakeHandler();
        await fake.Client().Server.WhoAmIAsync();
        await fake.Client().Server.GetHealthAsync();
        await fake.Client(o => o.ClientId = o.ClientSecret = null).Server.WhoAmIAsync();
        Check.Equal("shop geheim ", fake.Requests[0]["X-Client-Id"] + " " + fake.Requests[0]["X-Client-Secret"] + " " + fake.Requests[0]["X-Admin-Key"]);
        Check.That(fake.Requests[1]["X-Client-Secret"] == null && fake.Requests[1]["X-Admin-Key"] == null, "health got credentials");
        Check.Equal("admin", fake.Requests[2]["X-Admin-Key"]);
        using (DataFlowClient.BeginScope("order-7", "pt-BR"))
            await Task.Run(() => fake.Client().Server.WhoAmIAsync());
        Check.Equal("order-7 pt-BR", fake.Requests[3]["X-Correlation-Id"] + " " + fake.Requests[3]["Accept-Language"]);
        await fake.Client(o => o.Language = "pt").Server.WhoAmIAsync();
        Check.Equal("pt", fake.Requests[4]["Accept-Language"]);
        Check.Equal(null, fake.Requests[4]["X-Correlation-Id"], "the scope is over");
        Check.Equal("http://server.test/base/v1/whoami", fake.Requests[4].Uri.AbsoluteUri);
        await Check.ThrowsAsync<ArgumentException>(() => fake.Client(o => o.ClientSecret = "a\r\nX-Admin-Key: b").Server.WhoAmIAsync());
        await Check.ThrowsAsync<ArgumentException>(() => fake.Client().Events.PublishAsync(AnEvent, "a\nb"));
        await Check.ThrowsAsync<ArgumentException>(() => fake.Client(o => o.ClientId = o.ClientSecret = null).GetUsageAsync());
    }

    [Test]
    private static async Task PathsCannotBeLeft()
    {
        var fake = new FakeHandler();
        foreach (var id in new[] { "", ".", ".." })
            await Check.ThrowsAsync<ArgumentException>(() => fake.Client().Imports.GetAsync(id));
        await Check.ThrowsAsync<ArgumentException>(() => fake.Client().Integrations.CallAsync("payment", HttpMethod.Get, "a/../b"));
        await fake.Client().Imports.GetAsync("a/b?c#d é");
        Check.Equal("/base/v1/imports/a%2Fb%3Fc%23d%20%C3%A9", fake.Requests.Single().Uri.AbsolutePath);
        await fake.Client().Integrations.CallAsync("payment", HttpMethod.Get, "/v1/charges/7", new Dictionary<string, string> { ["a b"] = "c&d" });
        Check.Equal("/base/v1/integrations/payment/v1/charges/7?a%20b=c%26d", fake.Requests[1].Uri.PathAndQuery);
    }

    [Test]
    private static Task OptionsAreChecked()
    {
        var bad = new Action<DataFlowClientOptions>[]
        {
            o => o.Address = null, o => o.Address = new Uri("/x", UriKind.Relative), o => o.Address = new Uri("ftp://a/"), o => o.Address = new Uri("http://u:p@a/"),
            o => o.Address = new Uri("http://a/?b"), o => o.ClientSecret = null, o => o.MaxRetries = -1, o => o.RetryDelay = TimeSpan.Zero,
            o => o.NetworkTimeout = TimeSpan.Zero, o => o.PollInterval = TimeSpan.Zero,
        };
        foreach (var change in bad)
            Check.ThrowsAsync<ArgumentException>(() =>
            {
                new FakeHandler().Client(change);
                return Task.CompletedTask;
            }).Wait();
        return Task.CompletedTask;
    }

    [Test]
    private static async Task IntegrationsAnswerForThemselves()
    {
        var fake = new FakeHandler().Then(404, "no such charge", "text/plain").Then(404, "{\"code\":\"NotFound\"}").Then(402, "{}", "application/json");
        using (var answer = await fake.Client().Integrations.CallAsync("payment", HttpMethod.Get, "charges/1"))
            Check.Equal("no such charge", await answer.Content.ReadAsStringAsync());
        await Check.ThrowsAsync<NotFoundException>(() => fake.Client().Integrations.CallAsync("none", HttpMethod.Get));
        using (var answer = await fake.Client().Integrations.CallAsync("payment", HttpMethod.Post, "charges", body: new { amount = 1 }, idempotencyKey: "k"))
            Check.Equal(402, (int)answer.StatusCode);
        Check.Equal("{\"amount\":1} k", fake.Requests[2].Body + " " + fake.Requests[2]["Idempotency-Key"]);
        await Check.ThrowsAsync<DataFlowException>(() => new FakeHandler().Then(200, new string('x', (16 << 20) + 1)).Client().Integrations.CallAsync("payment", HttpMethod.Get));
        using (var answer = await new FakeHandler().Then(200, new string('x', 16 << 20), "text/plain").Client().Integrations.CallAsync("payment", HttpMethod.Get))
            Check.Equal(16L << 20, answer.Content.Headers.ContentLength!.Value);
    }

    private sealed class Mine
    {
        public string ShipTo { get; set; } = "Rua 1";

        public string? Note { get; set; }
    }

    /// <summary>Who reads it in the end knows the names that the caller gave.</summary>
    [Test]
    private static async Task TheCallersOwnObjectsAreSentAsTheyAre()
    {
        const string AsItIs = "{\"ShipTo\":\"Rua 1\",\"Note\":null}";
        var fake = new FakeHandler();
        await fake.Client().Events.PublishAsync(new OutboxEvent { EventType = "A", Payload = new Mine() });
        await fake.Client().Events.PublishAsync(new[] { new OutboxEvent { EventType = "A", Payload = new { Items = new[] { new Mine() } } }, new OutboxEvent { EventType = "B" } });
        await fake.Client().Integrations.CallAsync("payment", HttpMethod.Post, body: new Mine(), contentType: "application/vnd.payment+json");
        await fake.Client().Imports.UploadAsync(ImportFile.FromBytes(new byte[1], "a"),
            new ImportOptions { Metadata = new Dictionary<string, object?> { ["order"] = new Mine() } });
        Check.Equal("{\"eventType\":\"A\",\"payload\":" + AsItIs + "}", fake.Requests[0].Body);
        Check.Equal("[{\"eventType\":\"A\",\"payload\":{\"Items\":[" + AsItIs + "]}},{\"eventType\":\"B\"}]", fake.Requests[1].Body);
        Check.Equal(AsItIs + " application/vnd.payment+json", fake.Requests[2].Body + " " + fake.Requests[2]["Content-Type"]);
        Check.That(fake.Requests[3].Body!.Contains("\r\n\r\n{\"order\":" + AsItIs + "}\r\n"), "metadata: " + fake.Requests[3].Body);
        await Check.ThrowsAsync<ArgumentNullException>(() => fake.Client().Events.PublishAsync(new OutboxEvent[] { null! }));
    }

    [Test]
    private static async Task NullsOfDictionariesAreSent()
    {
        var fake = new FakeHandler();
        await fake.Client().Admin.Clients.PutPolicyAsync("shop", new Dictionary<string, object?> { ["maxFileSizeMb"] = null, ["batchSize"] = 5 });
        await fake.Client().Mapping.PutAsync(new Dictionary<string, string?> { ["Fone"] = "PhoneNumber", ["Nome"] = null });
        await fake.Client().Webhooks.UpdateAsync("w", new WebhookChange { IsActive = true });
        Check.Equal("{\"maxFileSizeMb\":null,\"batchSize\":5}", fake.Requests[0].Body);
        Check.Equal("{\"mapping\":{\"Fone\":\"PhoneNumber\",\"Nome\":null}}", fake.Requests[1].Body);
        Check.Equal("{\"isActive\":true}", fake.Requests[2].Body);
    }

    [Test]
    private static async Task MembersOfLaterReleasesAreKept()
    {
        var fake = new FakeHandler().Then(_ => FakeHandler.Json("{\"batchId\":\"b\",\"status\":\"Processing\",\"waitingFor\":{\"code\":\"InLine\",\"place\":2},\"new\":[1]}"));
        var batch = await fake.Client().Imports.GetAsync("b");
        Check.Equal(2, batch.WaitingFor!.Value.GetProperty("place").GetInt32());
        Check.Equal(1, batch.Additional!["new"].GetArrayLength());
        Check.That(!batch.IsFinal && batch.CanRetry == null, "a batch");
    }

    [Test]
    private static async Task CancellationIsHeard()
    {
        using var stop = new CancellationTokenSource();
        var fake = new FakeHandler().Then(_ =>
        {
            stop.Cancel();
            throw new OperationCanceledException();
        });
        await Check.ThrowsAsync<OperationCanceledException>(() => fake.Client().Imports.GetAsync("b", stop.Token));
        await Check.ThrowsAsync<OperationCanceledException>(() => fake.Client().Imports.GetAsync("b", stop.Token));
        Check.Equal(1, fake.Requests.Count, "requests");
    }

    [Test]
    private static async Task ASilentServerIsLeft()
    {
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        using var client = new DataFlowClient(new DataFlowClientOptions
        {
            Address = new Uri("http://127.0.0.1:" + ((IPEndPoint)listener.LocalEndpoint).Port), MaxRetries = 0, NetworkTimeout = TimeSpan.FromMilliseconds(300),
        });
        var error = await Check.ThrowsAsync<ConnectionException>(() => client.Server.GetHealthAsync());
        Check.That(error.IsTimeout, "no timeout: " + error.Message);
        listener.Stop();
        error = await Check.ThrowsAsync<ConnectionException>(() => client.Server.GetHealthAsync());
        Check.That(!error.IsTimeout, "a refusal is no timeout");
    }

    /// <summary>The time limit is for silence: what is slow but moves is waited for.</summary>
    [Test]
    private static async Task ASlowAnswerIsReadToItsEnd()
    {
        var parts = "{\"name\":\"Shopping\"}".Select(c => c.ToString()).ToArray();
        using var server = new Drip(TimeSpan.FromMilliseconds(150), "application/json", parts.Length, parts);
        using var client = server.Client(TimeSpan.FromSeconds(2)); // the answer takes 3
        var json = client.Server.WhoAmIAsync();
        var text = client.Server.GetMetricsAsync();
        var passedOn = client.Integrations.CallAsync("payment", HttpMethod.Get);
        Check.Equal("Shopping", (await json).Name);
        Check.Equal(string.Concat(parts), await text);
        using var answer = await passedOn;
        Check.Equal(string.Concat(parts), await answer.Content.ReadAsStringAsync());
        Check.Equal("application/json", answer.Content.Headers.ContentType!.MediaType);
    }

    [Test]
    private static async Task AnAnswerThatStopsIsLeft()
    {
        using var server = new Drip(TimeSpan.Zero, "application/json", 100, "{\"name\":");
        using var hasty = server.Client(TimeSpan.FromMilliseconds(500), 1);
        using var patient = server.Client(TimeSpan.FromHours(1));
        foreach (var call in new Func<DataFlowClient, CancellationToken, Task>[]
        {
            (c, token) => c.Server.WhoAmIAsync(token), (c, token) => c.Server.GetMetricsAsync(token),
            (c, token) => c.Integrations.CallAsync("payment", HttpMethod.Get, cancellationToken: token),
        })
        {
            var before = server.Requests;
            Check.That((await Check.ThrowsAsync<ConnectionException>(() => call(hasty, default))).IsTimeout, "no timeout");
            Check.Equal(before + 2, server.Requests, "requests");
            using var stop = new CancellationTokenSource(500);
            await Check.ThrowsAsync<OperationCanceledException>(() => call(patient, stop.Token));
        }
    }

    /// <summary>The factory's loggers write all headers at Trace.</summary>
    [Test]
    private static async Task SecretsAreNotLogged()
    {
        var fake = new FakeHandler();
        var log = new Written();
        var services = new ServiceCollection();
        services.AddLogging(logging => logging.SetMinimumLevel(LogLevel.Trace).AddProvider(log));
        services.AddHttpClient("other").ConfigurePrimaryHttpMessageHandler(() => fake); // the factory's loggers are there before us
        for (var i = 0; i < 2; i++)
            services.AddDataFlow(o =>
            {
                o.Address = new Uri("http://server.test/");
                o.ClientId = "shop";
                o.ClientSecret = "geheim";
                o.AdminKey = "admin-key";
            }).ConfigurePrimaryHttpMessageHandler(() => fake);
        using var provider = services.BuildServiceProvider();
        await provider.GetRequiredService<DataFlowClient>().Server.WhoAmIAsync();
        await provider.GetRequiredService<DataFlowClient>().Admin.GetOwnersAsync();
        await provider.GetRequiredService<IHttpClientFactory>().CreateClient("other").GetAsync("http://other.test/");
        Check.Equal("shop geheim ", fake.Requests[0]["X-Client-Id"] + " " + fake.Requests[0]["X-Client-Secret"] + " " + fake.Requests[0]["X-Admin-Key"]);
        Check.Equal(" admin-key", fake.Requests[1]["X-Client-Secret"] + " " + fake.Requests[1]["X-Admin-Key"]);
        Check.That(log.Text.Contains("User-Agent: dataflow-sdk-dotnet"), "headers are not logged at all");
        Check.That(!log.Text.Contains("geheim") && !log.Text.Contains("admin-key"), log.Text);
    }

    private sealed class Written : ILoggerProvider, ILogger
    {
        private readonly StringBuilder _text = new StringBuilder();

        public string Text => _text.ToString();

        public ILogger CreateLogger(string categoryName) => this;

        public IDisposable BeginScope<T>(T state) => this;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<T>(LogLevel logLevel, EventId eventId, T state, Exception exception, Func<T, Exception, string> formatter)
        {
            lock (_text)
                _text.AppendLine(formatter(state, exception));
        }

        public void Dispose() { }
    }

    [Test]
    private static async Task ByDependencyInjection()
    {
        var services = new ServiceCollection();
        var fake = new FakeHandler();
        services.AddDataFlow(o =>
        {
            o.Address = new Uri("http://server.test/");
            o.ClientId = "shop";
            o.ClientSecret = "geheim";
        }).ConfigurePrimaryHttpMessageHandler(() => fake);
        using var provider = services.BuildServiceProvider();
        await provider.GetRequiredService<DataFlowClient>().Server.WhoAmIAsync();
        Check.Equal("http://server.test/v1/whoami", fake.Requests.Single().Uri.AbsoluteUri);
        Check.That(ReferenceEquals(provider.GetRequiredService<DataFlowClient>(), provider.GetRequiredService<DataFlowClient>()), "not a singleton");
        Check.That(!((HttpClientHandler)DataFlowClient.Handler()).AllowAutoRedirect, "a redirect would carry the credentials elsewhere");
        Check.Equal(Timeout.InfiniteTimeSpan, provider.GetRequiredService<IHttpClientFactory>().CreateClient("DataFlow").Timeout);
    }

    [Test]
    private static async Task ManyThreadsAtOnce()
    {
        var fake = new FakeHandler { Otherwise = request => FakeHandler.Json("{\"batchId\":\"" + request.RequestUri.Segments.Last() + "\"}") };
        var client = fake.Client();
        await Task.WhenAll(Enumerable.Range(0, 500).Select(i => Task.Run(async () =>
        {
            using (DataFlowClient.BeginScope("c" + i))
                Check.Equal("b" + i, (await client.Imports.GetAsync("b" + i)).BatchId);
        })));
        Check.That(fake.Requests.All(r => r["X-Correlation-Id"] == "c" + r.Uri.Segments.Last().Substring(1)), "scopes were mixed up");
    }
}
