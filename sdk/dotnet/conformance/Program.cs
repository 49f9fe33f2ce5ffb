// The driver of the conformance tests; sdk/conformance/README.md has the protocol.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Reflection;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using DataFlow.Client;

internal static class Program
{
    private static readonly JsonSerializerOptions Written = new JsonSerializerOptions { PropertyNamingPolicy = JsonNamingPolicy.CamelCase };
    private static readonly JsonSerializerOptions Read = new JsonSerializerOptions { PropertyNameCaseInsensitive = true, MaxDepth = 200 };
    private static readonly Dictionary<string, Method> Methods = new Dictionary<string, Method>();
    private static readonly List<(string Operation, string Name)> Operations = new List<(string, string)>();
    private static readonly Dictionary<string, DataFlowClientOptions> Options = new Dictionary<string, DataFlowClientOptions>();
    private static readonly Dictionary<string, DataFlowClient> Clients = new Dictionary<string, DataFlowClient>();

    private static readonly string[] Known =
        { "originDefault", "requestedBy", "sheet", "contentType", "fileName", "metadata", "mapping", "complete", "checksum" };

    private static async Task Main()
    {
        Find(typeof(DataFlowClient), client => client);
        var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { AutoFlush = true };
        using var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
        while (await input.ReadLineAsync() is string line)
        {
            var request = JsonDocument.Parse(line, new JsonDocumentOptions { MaxDepth = 200 }).RootElement;
            if (request.GetProperty("op").GetString() == "client")
                Answer(MakeClient(request)); // before the requests behind it are looked at
            else
                _ = Task.Run(async () =>
                {
                    try
                    {
                        Answer(await AnswerAsync(request));
                    }
                    catch (Exception e)
                    {
                        Answer(new { error = ErrorOf(e) });
                    }
                });

            void Answer(object value)
            {
                var text = JsonSerializer.Serialize(value, value.GetType(), Written);
                lock (output)
                    output.WriteLine("{\"id\":" + request.GetProperty("id").GetRawText() + "," + text.Substring(1));
            }
        }
    }

    /// <summary>The public methods of a class of the library, and of the classes that its properties lead to.</summary>
    private static void Find(Type type, Func<DataFlowClient, object> of)
    {
        foreach (var method in type.GetMethods(BindingFlags.Public | BindingFlags.Instance | BindingFlags.DeclaredOnly))
            foreach (var found in method.GetCustomAttributesData().Where(a => a.AttributeType.Name == "OperationAttribute"))
            {
                var words = found.ConstructorArguments.Select(a => (string)a.Value!).ToArray();
                Operations.Add((words[0] + " " + words[1], words[2]));
                Methods[words[2]] = new Method { Info = method, Target = of, Format = words[1].Split('.').Last() };
            }
        foreach (var property in type.GetProperties().Where(p => p.PropertyType.Name.EndsWith("Client", StringComparison.Ordinal)))
            Find(property.PropertyType, client => property.GetValue(of(client))!);
    }

    private static async Task<object> AnswerAsync(JsonElement request)
    {
        var op = request.GetProperty("op").GetString();
        if (op == "hello")
            return new { ok = new { sdk = "dotnet", version = typeof(DataFlowClient).Assembly.GetName().Version!.ToString(3), operations = Operations.GroupBy(o => o.Operation).ToDictionary(g => g.Key, g => g.Last().Name) } };
        if (op == "verify")
            return new { ok = Verify(request) };
        var options = Member(request, "options") ?? default;
        using var scope = DataFlowClient.BeginScope(Text(options, "correlationId"), Text(options, "language"));
        var client = Client(request.GetProperty("client").GetString(), Member(options, "timeoutMs"));
        var name = request.GetProperty("call").GetString();
        switch (op)
        {
            case "upload": return await UploadAsync(client, name, request, options);
            case "wait": return await WaitAsync(client, name, request);
            case "iterate": return await IterateAsync(client, name, request, options);
            case "call": return await CallAsync(client, name, request, options);
            default: throw new NotSupportedException("op " + op);
        }
    }

    private static object MakeClient(JsonElement request)
    {
        var o = request.GetProperty("options");
        var made = new DataFlowClientOptions
        {
            Address = new Uri(Text(o, "baseUrl")!), ClientId = Text(o, "clientId"), ClientSecret = Text(o, "clientSecret"), AdminKey = Text(o, "adminKey"),
        };
        made.MaxRetries = Member(o, "retries")?.GetInt32() ?? made.MaxRetries;
        made.RetryDelay = Milliseconds(o, "retryBaseMs") ?? made.RetryDelay;
        made.MaxRetryDelay = Milliseconds(o, "retryCapMs") ?? made.MaxRetryDelay;
        made.MaxRetryAfter = Milliseconds(o, "maxRetryAfterMs") ?? made.MaxRetryAfter;
        made.NetworkTimeout = Milliseconds(o, "timeoutMs") ?? made.NetworkTimeout;
        made.PollInterval = Milliseconds(o, "pollMs") ?? TimeSpan.FromMilliseconds(200);
        try
        {
            lock (Clients)
            {
                var name = request.GetProperty("name").GetString();
                Options[name] = made;
                Clients[name] = new DataFlowClient(made);
            }
            return new { ok = new { } };
        }
        catch (Exception e)
        {
            return new { error = ErrorOf(e) };
        }
    }

    private static DataFlowClient Client(string name, JsonElement? timeout)
    {
        lock (Clients)
        {
            if (!Clients.TryGetValue(name, out var client))
                throw new NotSupportedException("no client " + name);
            if (timeout == null)
                return client;
            var o = Options[name];
            return new DataFlowClient(new DataFlowClientOptions
            {
                Address = o.Address, ClientId = o.ClientId, ClientSecret = o.ClientSecret, AdminKey = o.AdminKey, MaxRetries = o.MaxRetries,
                RetryDelay = o.RetryDelay, MaxRetryDelay = o.MaxRetryDelay, MaxRetryAfter = o.MaxRetryAfter, PollInterval = o.PollInterval,
                NetworkTimeout = TimeSpan.FromMilliseconds(timeout.Value.GetDouble()),
            });
        }
    }

    private static object? Invoke(DataFlowClient client, string name, JsonElement request, JsonElement options)
    {
        if (!Methods.TryGetValue(name, out var method))
            throw new NotSupportedException("no method " + name);
        var args = new Dictionary<string, JsonElement>(StringComparer.OrdinalIgnoreCase);
        foreach (var source in new[] { Member(request, "args"), options })
            if (source is JsonElement o && o.ValueKind == JsonValueKind.Object)
                foreach (var one in o.EnumerateObject())
                    args[one.Name] = one.Value;
        var body = args.TryGetValue("body", out var whole) ? whole : (JsonElement?)null;
        if (name == "events.publish" && body?.ValueKind == JsonValueKind.Array)
            return client.Events.PublishAsync(JsonSerializer.Deserialize<OutboxEvent[]>(body.Value.GetRawText(), Read), Text(options, "idempotencyKey"));
        var values = method.Info.GetParameters().Select(p =>
        {
            if (p.ParameterType == typeof(CancellationToken))
                return CancellationToken.None;
            if (p.ParameterType == typeof(ReportFormat))
                return Enum.Parse(typeof(ReportFormat), method.Format, true);
            var found = args.TryGetValue(p.Name!, out var value) ? value
                : p.Name == "ack" ? body
                : p.Name == "columns" ? Member(body ?? default, "mapping")
                : p.Name == "items" || p.Name == "secret" ? Member(body ?? default, p.Name) : null;
            return found == null || found.Value.ValueKind == JsonValueKind.Null ? p.HasDefaultValue ? p.DefaultValue : null : Convert(found.Value, p.ParameterType);
        }).ToArray();
        try
        {
            return method.Info.Invoke(method.Target(client), values);
        }
        catch (TargetInvocationException e)
        {
            throw e.InnerException!;
        }
    }

    private static object? Convert(JsonElement value, Type type)
    {
        type = Nullable.GetUnderlyingType(type) ?? type;
        if (type == typeof(object) || type == typeof(JsonElement))
            return value;
        var text = value.ValueKind == JsonValueKind.String ? value.GetString() : value.GetRawText();
        if (type == typeof(string))
            return text;
        if (type == typeof(HttpMethod))
            return new HttpMethod(text);
        if (type == typeof(IEnumerable<KeyValuePair<string, string>>))
            return value.EnumerateObject().Select(o => new KeyValuePair<string, string>(o.Name, o.Value.ToString())).ToArray();
        if (type == typeof(int) || type == typeof(bool) || type == typeof(DateTimeOffset))
            return type == typeof(int) ? int.Parse(text) : type == typeof(bool) ? bool.Parse(text) : (object)DateTimeOffset.Parse(text);
        return JsonSerializer.Deserialize(value.GetRawText(), type, Read);
    }

    private static async Task<object> CallAsync(DataFlowClient client, string name, JsonElement request, JsonElement options)
    {
        if (name == "integrations.call" && Member(request.GetProperty("args"), "method") == null)
            return Integration(await client.Integrations.CallAsync(Text(request.GetProperty("args"), "name")!, HttpMethod.Get, Text(request.GetProperty("args"), "path"),
                onUnavailable: Text(request.GetProperty("args"), "onUnavailable")));
        var made = Invoke(client, name, request, options);
        object? result;
        if (made!.GetType().Name.StartsWith("AsyncPageable", StringComparison.Ordinal))
        {
            var args = Member(request, "args") ?? default;
            made = made.GetType().GetMethod("GetPageAsync")!.Invoke(made, new object?[]
            {
                Member(args, "page")?.GetInt32(), Member(args, "pageSize")?.GetInt32(), Text(args, "after"), CancellationToken.None,
            });
        }
        await (Task)made!;
        result = made.GetType().GetProperty("Result")?.GetValue(made);
        if (result is Stream stream)
            using (stream)
            {
                var bytes = new MemoryStream();
                await stream.CopyToAsync(bytes);
                using var sha = SHA256.Create();
                var hex = BitConverter.ToString(sha.ComputeHash(bytes.ToArray())).Replace("-", "").ToLowerInvariant();
                return new { ok = new { bytes = bytes.Length, sha256 = hex, text = Encoding.UTF8.GetString(bytes.ToArray(), 0, (int)Math.Min(4096, bytes.Length)) } };
            }
        if (result is HttpResponseMessage response)
            return Integration(response);
        if (result is IReadOnlyList<Ticket> items)
            return new { ok = new { items } };
        if (result == null || result.GetType().Name == "VoidTaskResult" || !HasValue(made.GetType()))
            return new { ok = (object?)null };
        return new { ok = result, response = Head(result) };

        static bool HasValue(Type t) => t.IsGenericType && t.GetGenericArguments()[0].Name != "VoidTaskResult" && t.GetGenericArguments()[0] != typeof(bool);
    }

    private static object? Head(object? result) => result is Document d && d.Response != null
        ? new { status = d.Response.Status, etag = d.Response.ETag, correlationId = d.Response.CorrelationId, replayed = d.Response.IsReplayed } : null;

    private static object Integration(HttpResponseMessage response)
    {
        using (response)
        {
            var text = response.Content.ReadAsStringAsync().Result;
            object body = text;
            if (response.Content.Headers.ContentType?.MediaType == "application/json")
                body = JsonDocument.Parse(text).RootElement;
            return new { ok = new { status = (int)response.StatusCode, body } };
        }
    }

    private static async Task<object> IterateAsync(DataFlowClient client, string name, JsonElement request, JsonElement options)
    {
        var limit = Member(request, "limit")?.GetInt32() ?? int.MaxValue;
        var args = Member(request, "args") ?? default;
        var made = Invoke(client, name, request, options)!;
        if (made is IAsyncEnumerable<Batch> states && !made.GetType().Name.StartsWith("AsyncPageable", StringComparison.Ordinal))
        {
            var seen = new List<Batch>();
            var isWhole = true;
            await foreach (var state in states)
            {
                seen.Add(state);
                if (seen.Count >= limit)
                {
                    isWhole = false;
                    break;
                }
            }
            return new { ok = new { items = seen.Select((s, i) => new { @event = isWhole && i == seen.Count - 1 ? "completed" : "progress", data = s }) } };
        }
        var method = typeof(Program).GetMethod(nameof(ListAsync), BindingFlags.NonPublic | BindingFlags.Static)!.MakeGenericMethod(made.GetType().GetGenericArguments());
        return await (Task<object>)method.Invoke(null, new object?[] { made, Member(args, "pageSize")?.GetInt32(), Text(args, "after"), limit })!;
    }

    private static async Task<object> ListAsync<T>(AsyncPageable<T> list, int? pageSize, string? after, int limit)
    {
        var items = new List<T>();
        await foreach (var page in list.AsPages(after, pageSize))
        {
            items.AddRange(page.Items.Take(limit - items.Count));
            if (items.Count >= limit)
                break;
        }
        return new { ok = new { items } };
    }

    private static async Task<object> UploadAsync(DataFlowClient client, string name, JsonElement request, JsonElement options)
    {
        var source = request.GetProperty("source");
        var args = Member(request, "args") ?? default;
        var fileName = Text(args, "fileName");
        var file = Text(source, "path") is string path ? ImportFile.FromPath(path)
            : Text(source, "text") is string text ? ImportFile.FromBytes(Encoding.UTF8.GetBytes(text), fileName ?? "upload")
            : ImportFile.FromStream(new OnceStream(File.OpenRead(Text(source, "stream")!)), fileName ?? "upload");
        using var stop = new CancellationTokenSource();
        var abort = Member(request, "abortAfterBytes")?.GetInt64();
        var before = Process.GetCurrentProcess().WorkingSet64;
        var most = before;
        long calls = 0, sent = 0;
        var how = new ImportOptions
        {
            OriginDefault = Text(args, "originDefault"), RequestedBy = Text(args, "requestedBy"), Sheet = Text(args, "sheet"), ContentType = Text(args, "contentType"),
            Fields = args.ValueKind == JsonValueKind.Object ? args.EnumerateObject().Where(a => !Known.Contains(a.Name)).ToDictionary(a => a.Name, a => a.Value.ToString()) : null,
            FileName = fileName, IdempotencyKey = Text(options, "idempotencyKey"),
            Metadata = Member(args, "metadata") is JsonElement m ? JsonSerializer.Deserialize<Dictionary<string, object?>>(m.GetRawText()) : null,
            Mapping = Member(args, "mapping") is JsonElement p ? JsonSerializer.Deserialize<Dictionary<string, string?>>(p.GetRawText()) : null,
            Progress = new Told<long>(value =>
            {
                sent = value;
                if (++calls % 64 == 0)
                    most = Math.Max(most, Process.GetCurrentProcess().WorkingSet64);
                if (sent >= abort)
                    stop.Cancel();
            }),
        };
        object answer;
        if (name == "imports.preview")
            answer = await client.Imports.PreviewAsync(file, how, Text(args, "complete") != "false", Text(args, "checksum"), stop.Token);
        else
            answer = await client.Imports.UploadAsync(file, how, stop.Token);
        return new { ok = new { answer, progress = new { calls, sent, total = file.Length }, growthKb = (most - before) / 1024 }, response = Head(answer) };
    }

    private static async Task<object> WaitAsync(DataFlowClient client, string name, JsonElement request)
    {
        using var stop = new CancellationTokenSource();
        if (Member(request, "timeoutMs") is JsonElement timeout)
            stop.CancelAfter(timeout.GetInt32());
        var batchId = Text(request.GetProperty("args"), "batchId")!;
        var useEvents = Member(request, "events")?.GetBoolean() ?? true;
        var progress = 0;
        var told = new Told<Batch>(_ => progress++);
        try
        {
            var answer = name == "imports.wait" ? await client.Imports.WaitAsync(batchId, told, useEvents, stop.Token)
                : await client.Admin.Imports.WaitAsync(batchId, told, useEvents, stop.Token);
            return new { ok = new { answer, progress } };
        }
        catch (OperationCanceledException)
        {
            return new { error = new { kind = "timeout", message = "the batch took too long" } };
        }
    }

    private static bool Verify(JsonElement request)
    {
        var verifier = new WebhookVerifier(request.GetProperty("secrets").EnumerateArray().Select(s => s.GetString()));
        if (Member(request, "toleranceSeconds") is JsonElement seconds)
            verifier.Tolerance = TimeSpan.FromSeconds(seconds.GetDouble());
        var body = request.GetProperty("body").GetBytesFromBase64();
        if (Member(request, "stored")?.GetBoolean() ?? false)
            return verifier.VerifyStored(body);
        return verifier.Verify(body, request.GetProperty("headers").EnumerateObject().Select(h => new KeyValuePair<string, string>(h.Name, h.Value.GetString())));
    }

    private static object ErrorOf(Exception e)
    {
        switch (e)
        {
            case ConnectionException c: return new { kind = c.IsTimeout ? "timeout" : "network", message = c.Message };
            case DataFlowException d when d.Status > 0:
                return new
                {
                    kind = "problem", type = d.GetType().Name, status = d.Status, code = d.Code, title = d.Title, detail = d.Detail, errors = d.Errors,
                    correlationId = d.CorrelationId, retryAfter = d.RetryAfter?.TotalSeconds, message = d.Message,
                };
            case OperationCanceledException _: return new { kind = "aborted", message = e.Message };
            case ArgumentException _: return new { kind = "argument", message = e.Message };
        }
        Console.Error.WriteLine(e);
        return new { kind = "driver", message = e.Message };
    }

    private static JsonElement? Member(JsonElement o, string name) =>
        o.ValueKind == JsonValueKind.Object && o.TryGetProperty(name, out var value) && value.ValueKind != JsonValueKind.Null ? value : (JsonElement?)null;

    private static string? Text(JsonElement o, string name) => Member(o, name) is JsonElement v ? v.ValueKind == JsonValueKind.String ? v.GetString() : v.GetRawText() : null;

    private static TimeSpan? Milliseconds(JsonElement o, string name) =>
        Member(o, name) is JsonElement v ? TimeSpan.FromMilliseconds(v.GetDouble()) : (TimeSpan?)null;

    private sealed class Method
    {
        public MethodInfo Info = null!;
        public Func<DataFlowClient, object> Target = null!;
        public string Format = "";
    }

    /// <summary>Told at once, in the thread that tells.</summary>
    private sealed class Told<T> : IProgress<T>
    {
        private readonly Action<T> _tell;

        public Told(Action<T> tell) => _tell = tell;

        public void Report(T value) => _tell(value);
    }

    /// <summary>A stream that can be read once.</summary>
    private sealed class OnceStream : Stream
    {
        private readonly Stream _inner;

        public OnceStream(Stream inner) => _inner = inner;

        public override bool CanRead => true;

        public override bool CanSeek => false;

        public override bool CanWrite => false;

        public override long Length => throw new NotSupportedException();

        public override long Position { get => throw new NotSupportedException(); set => throw new NotSupportedException(); }

        public override int Read(byte[] buffer, int offset, int count) => _inner.Read(buffer, offset, count);

        public override void Flush() { }

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();

        public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
    }
}
