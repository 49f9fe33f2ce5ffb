// Receives DataFlow's webhooks: verifies, answers at once, and works on them afterwards, each once.
//   DATAFLOW_WEBHOOK_SECRETS=whsec_...[,whsec_... while a secret is replaced]  the subscription's secret
//   RECEIVER_URL=http://127.0.0.1:5080                                         where to listen
using System;
using System.Collections.Concurrent;
using System.IO;
using System.Linq;
using System.Text.Json;
using System.Threading.Channels;
using System.Threading.Tasks;
using DataFlow.Client;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

public static class Program
{
    private static readonly WebhookVerifier Verifier =
        new WebhookVerifier((Environment.GetEnvironmentVariable("DATAFLOW_WEBHOOK_SECRETS") ?? "").Split(','));

    // Deliveries that came before. A real service keeps the ids of the last day in its database, with what it did.
    private static readonly ConcurrentDictionary<string, bool> Known = new ConcurrentDictionary<string, bool>();

    // Full when the work does not keep up: then the answer is 503, and DataFlow tries again later.
    private static readonly Channel<JsonElement> Queue = Channel.CreateBounded<JsonElement>(1000);

    public static async Task Main()
    {
        using var host = new HostBuilder()
            .ConfigureLogging(logging => logging.AddConsole().SetMinimumLevel(LogLevel.Warning))
            .ConfigureWebHostDefaults(web => web
                .UseUrls(Environment.GetEnvironmentVariable("RECEIVER_URL") ?? "http://127.0.0.1:5080")
                .ConfigureKestrel(kestrel => kestrel.Limits.MaxRequestBodySize = 1 << 20)
                .Configure(app => app.Map("/hooks/dataflow", hooks => hooks.Run(ReceiveAsync))))
            .Build();
        var work = WorkAsync();
        await host.RunAsync();
        Queue.Writer.Complete();
        await work; // what was answered with 2xx is worked on before the program ends
    }

    private static async Task ReceiveAsync(HttpContext context)
    {
        if (context.Request.Method != "POST")
        {
            context.Response.StatusCode = 405;
            return;
        }
        var body = new MemoryStream(); // as it came: a body that was parsed and written again has other bytes
        await context.Request.Body.CopyToAsync(body, context.RequestAborted);
        // By the signature that covers the id too, or somebody could send a recorded delivery again under another id.
        if (!Verifier.Verify(body.ToArray(), name => name.StartsWith("webhook-") ? context.Request.Headers[name].FirstOrDefault() : null))
        {
            context.Response.StatusCode = 401;
            return;
        }
        string id = context.Request.Headers["webhook-id"];
        var isNew = Known.TryAdd(id, true);
        if (isNew && !Queue.Writer.TryWrite(JsonDocument.Parse(body.ToArray()).RootElement))
        {
            Known.TryRemove(id, out _);
            context.Response.StatusCode = 503;
            return;
        }
        context.Response.StatusCode = 204; // also to one that came before: the first answer was lost
    }

    private static async Task WorkAsync()
    {
        await foreach (var delivery in Queue.Reader.ReadAllAsync())
        {
            var about = delivery.TryGetProperty("batchId", out var id) || delivery.TryGetProperty("businessDocId", out id) ? id.GetString() : "";
            Console.WriteLine(delivery.GetProperty("event").GetString() + " " + delivery.GetProperty("status").GetString() + " " + about);
        }
    }
}
