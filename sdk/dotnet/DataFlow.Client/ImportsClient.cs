using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Http;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace DataFlow.Client
{
    /// <summary>Bulk imports: upload, follow, look at what failed, try again.</summary>
    public sealed class ImportsClient
    {
        private const int MaxEventBytes = 1 << 20;
        private const int MaxSilentStreams = 3;
        private const int MaxLostPolls = 30;
        private static readonly TimeSpan MaxPollInterval = TimeSpan.FromSeconds(30);
        private readonly Pipeline _pipeline;

        internal ImportsClient(Pipeline pipeline) => _pipeline = pipeline;

        /// <summary>Uploads a file as a stream. When it returns, the file is on the server's disk and will be processed.</summary>
        /// <param name="file">What to upload.</param>
        /// <param name="options">How it is read and known.</param>
        /// <param name="cancellationToken">Aborts the upload.</param>
        [Operation("POST", "/imports", "imports.upload")]
        public Task<ImportAccepted> UploadAsync(ImportFile file, ImportOptions? options = null, CancellationToken cancellationToken = default)
        {
            options ??= new ImportOptions();
            var call = Form($"/imports", file, options, null, null, cancellationToken);
            call.IdempotencyKey = options.IdempotencyKey ?? Guid.NewGuid().ToString("D");
            return _pipeline.JsonAsync<ImportAccepted>(call, cancellationToken);
        }

        /// <summary>What the server would make of a file: columns, problems of its first records, and whether it came before. Nothing is stored.</summary>
        /// <param name="file">The file, or its head.</param>
        /// <param name="options">How it is read.</param>
        /// <param name="isComplete">False if this is only the head of the file.</param>
        /// <param name="checksum">SHA-256 (hex) of the whole file, if this is only its head.</param>
        /// <param name="cancellationToken">Aborts the upload.</param>
        [Operation("POST", "/imports/preview", "imports.preview")]
        public Task<ImportPreview> PreviewAsync(ImportFile file, ImportOptions? options = null, bool isComplete = true, string? checksum = null,
            CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<ImportPreview>(
                Form($"/imports/preview", file, options ?? new ImportOptions(), isComplete ? null : "false", checksum, cancellationToken).Repeatable(),
                cancellationToken);

        private static Call Form(FormattableString path, ImportFile file, ImportOptions options, string? complete, string? checksum,
            CancellationToken cancellationToken)
        {
            if (file == null)
                throw new ArgumentNullException(nameof(file));
            var fields = new Dictionary<string, string?>
            {
                ["originDefault"] = options.OriginDefault,
                ["requestedBy"] = options.RequestedBy,
                ["sheet"] = options.Sheet,
                ["metadata"] = UploadContent.Text(options.Metadata),
                ["mapping"] = UploadContent.Text(options.Mapping),
                ["complete"] = complete,
                ["checksum"] = checksum,
            };
            foreach (var more in options.Fields ?? new Dictionary<string, string>())
            {
                if (more.Key.IndexOfAny(new[] { '"', '\r', '\n' }) >= 0)
                    throw new ArgumentException("A field's name has a quotation mark or line end.", nameof(options));
                fields[more.Key] = more.Value;
            }
            return new Call(HttpMethod.Post, path)
            {
                Content = watch => new UploadContent(file, fields, options, watch, cancellationToken),
                CanRepeatContent = () => file.MayTryAgain,
                ExpectContinue = true,
            };
        }

        /// <summary>The client's batches, newest first.</summary>
        /// <param name="status">Only those in this state.</param>
        /// <param name="order"><c>newest</c> or <c>oldest</c>.</param>
        /// <param name="cancellationToken">Ends the enumeration.</param>
        [Operation("GET", "/imports", "imports.list")]
        public AsyncPageable<Batch> List(string? status = null, string? order = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<Batch>(_pipeline, $"/imports", new Query { { "status", status }, { "order", order } }, cancellationToken);

        /// <summary>A batch and its progress.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("GET", "/imports/{batchId}", "imports.get")]
        public Task<Batch> GetAsync(string batchId, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Batch>(new Call(HttpMethod.Get, $"/imports/{batchId}"), cancellationToken);

        /// <summary>Cancels a batch that has not begun.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("DELETE", "/imports/{batchId}", "imports.cancel")]
        public Task CancelAsync(string batchId, CancellationToken cancellationToken = default) =>
            _pipeline.NothingAsync(new Call(HttpMethod.Delete, $"/imports/{batchId}"), cancellationToken);

        /// <summary>Another attempt at a batch's failed items.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="items">New values for some of them; the others are tried as they are.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("POST", "/imports/{batchId}/retry", "imports.retry")]
        public Task<ImportRetry> RetryAsync(string batchId, IEnumerable<MendedItem>? items = null, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<ImportRetry>(new Call(HttpMethod.Post, $"/imports/{batchId}/retry").WithJson(items == null ? null : new { items }), cancellationToken);

        /// <summary>Tells what came of a chunk (scope <c>acks</c>). The same ack again changes nothing.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="ack">The outcome.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("POST", "/imports/{batchId}/acks", "imports.ack")]
        public Task<JsonAnswer> AcknowledgeAsync(string batchId, ImportAck ack, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<JsonAnswer>(new Call(HttpMethod.Post, $"/imports/{batchId}/acks").WithJson(ack).Repeatable(), cancellationToken);

        /// <summary>A batch's records, as far as they are settled.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="status"><c>Imported</c>, <c>Error</c> or <c>Skipped</c>.</param>
        /// <param name="reason">Only those that failed for this reason.</param>
        /// <param name="cancellationToken">Ends the enumeration.</param>
        [Operation("GET", "/imports/{batchId}/items", "imports.items")]
        public AsyncPageable<BatchItem> ListItems(string batchId, string? status = null, string? reason = null, CancellationToken cancellationToken = default) =>
            new AsyncPageable<BatchItem>(_pipeline, $"/imports/{batchId}/items", new Query { { "status", status }, { "reason", reason } }, cancellationToken);

        /// <summary>Why records failed, with counts.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        [Operation("GET", "/imports/{batchId}/reasons", "imports.reasons")]
        public Task<Page<BatchReason>> GetReasonsAsync(string batchId, CancellationToken cancellationToken = default) =>
            _pipeline.JsonAsync<Page<BatchReason>>(new Call(HttpMethod.Get, $"/imports/{batchId}/reasons"), cancellationToken);

        /// <summary>The failed records with their reasons, to be mended and uploaded again.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="format">The report's format.</param>
        /// <param name="cancellationToken">Ends the call.</param>
        /// <returns>The report, to be read and disposed of.</returns>
        [Operation("GET", "/imports/{batchId}/errors.xlsx", "imports.errorsXlsx"),
         Operation("GET", "/imports/{batchId}/errors.csv", "imports.errorsCsv"), Operation("GET", "/imports/{batchId}/errors.json", "imports.errorsJson")]
        public Task<Stream> OpenErrorReportAsync(string batchId, ReportFormat format = ReportFormat.Xlsx, CancellationToken cancellationToken = default) =>
            _pipeline.StreamAsync(Report(false, batchId, format), cancellationToken);

        internal static Call Report(bool isAdmin, string batchId, ReportFormat format)
        {
            switch (format)
            {
                case ReportFormat.Xlsx: return Of("xlsx");
                case ReportFormat.Csv: return Of("csv");
                case ReportFormat.Json: return Of("json");
                default: throw new ArgumentOutOfRangeException(nameof(format));
            }

            Call Of(string end) => isAdmin ? new Call(HttpMethod.Get, $"/admin/imports/{batchId}/errors.{end}") { Accept = "*/*" }
                : new Call(HttpMethod.Get, $"/imports/{batchId}/errors.{end}") { Accept = "*/*" };
        }

        /// <summary>Waits until a batch is over. A batch that failed is an answer too: look at <see cref="Batch.Status"/>.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="progress">Told of every change.</param>
        /// <param name="useEvents">False to poll only.</param>
        /// <param name="cancellationToken">Ends the wait, not the batch.</param>
        public Task<Batch> WaitAsync(string batchId, IProgress<Batch>? progress = null, bool useEvents = true,
            CancellationToken cancellationToken = default) =>
            LastAsync(WatchAsync(batchId, useEvents, cancellationToken), token => GetAsync(batchId, token), progress, cancellationToken);

        /// <summary>The batch at its end, read once more: the last event may have been written before the webhooks were.</summary>
        internal async Task<Batch> LastAsync(IAsyncEnumerable<Batch> states, Func<CancellationToken, Task<Batch>> get, IProgress<Batch>? progress,
            CancellationToken cancellationToken)
        {
            await foreach (var batch in states.ConfigureAwait(false))
                progress?.Report(batch);
            return await PollAsync(get, cancellationToken).ConfigureAwait(false);
        }

        /// <summary>A batch after each change until it is over, by server-sent events. Streams that end are opened again; where none comes
        /// through, the batch is asked for every <see cref="DataFlowClientOptions.PollInterval"/>, and less and less often, down to every
        /// 30 seconds, while nothing changes. A server that is away is asked up to 30 times.</summary>
        /// <param name="batchId">The batch.</param>
        /// <param name="useEvents">False to poll only.</param>
        /// <param name="cancellationToken">Ends the enumeration.</param>
        [Operation("GET", "/imports/{batchId}/events", "imports.watch")]
        public IAsyncEnumerable<Batch> WatchAsync(string batchId, bool useEvents = true, CancellationToken cancellationToken = default) =>
            WatchAsync(new Call(HttpMethod.Get, $"/imports/{batchId}/events") { Accept = "text/event-stream" }, useEvents,
                token => GetAsync(batchId, token), cancellationToken);

        internal async IAsyncEnumerable<Batch> WatchAsync(Call call, bool useEvents, Func<CancellationToken, Task<Batch>> get,
            [EnumeratorCancellation] CancellationToken cancellationToken)
        {
            Batch? batch;
            var silent = useEvents ? 0 : MaxSilentStreams; // streams in a row that brought nothing
            while (silent < MaxSilentStreams)
            {
                var events = 0;
                var isOver = false;
                using (var stream = await OpenAsync(call, cancellationToken).ConfigureAwait(false))
                {
                    if (stream == null)
                        break;
                    var reader = new EventReader(stream, MaxEventBytes);
                    while ((batch = await NextAsync(reader, cancellationToken).ConfigureAwait(false)) != null)
                    {
                        events++;
                        isOver = batch.IsFinal;
                        yield return batch;
                        if (reader.Name == "completed")
                            yield break;
                    }
                }
                if (isOver)
                    yield break;
                silent = events > 1 ? 0 : silent + 1; // the first tells only how it stands
                await _pipeline.Delay(_pipeline.Pause(silent, null), cancellationToken).ConfigureAwait(false);
            }
            batch = null;
            for (var same = 0; ;)
            {
                var before = batch;
                batch = await PollAsync(get, cancellationToken).ConfigureAwait(false);
                yield return batch;
                if (batch.IsFinal)
                    yield break;
                same = before?.Status == batch.Status && before.ProcessedRecords == batch.ProcessedRecords ? same + 1 : 0;
                await _pipeline.Delay(PollPause(batch, same, DateTimeOffset.UtcNow), cancellationToken).ConfigureAwait(false);
            }
        }

        /// <summary>The batch. A server that is away is asked again: it may be restarted while a batch is waited for.</summary>
        private async Task<Batch> PollAsync(Func<CancellationToken, Task<Batch>> get, CancellationToken cancellationToken)
        {
            for (var lost = 0; ; lost++)
            {
                try
                {
                    return await get(cancellationToken).ConfigureAwait(false);
                }
                catch (DataFlowException e) when (lost < MaxLostPolls && Pipeline.IsTransient(e))
                {
                    // Away for now.
                }
                await _pipeline.Delay(_pipeline.Options.PollInterval, cancellationToken).ConfigureAwait(false);
            }
        }

        /// <summary>The pause after a poll, by the number of polls that found the same. A scheduled batch may wait for hours: it is asked for at
        /// the moment when it begins, and rarely before that, only because it may be cancelled.</summary>
        internal TimeSpan PollPause(Batch batch, int same, DateTimeOffset now)
        {
            var least = _pipeline.Options.PollInterval;
            var pause = TimeSpan.FromMilliseconds(Math.Min(MaxPollInterval.TotalMilliseconds, least.TotalMilliseconds * Math.Pow(1.5, Math.Min(same, 60))));
            if (batch.Status == BatchStatus.Scheduled && batch.ScheduledFor - now is TimeSpan left && left > TimeSpan.Zero && left < pause)
                pause = left;
            return pause < least ? least : pause;
        }

        /// <summary>Null if there is no stream to be had, though there may be a batch: the caller asks for it, which tells.</summary>
        private async Task<Stream?> OpenAsync(Call call, CancellationToken cancellationToken)
        {
            try
            {
                return await _pipeline.SendAsync<Stream?>(call, async (response, _) =>
                {
                    if (response.Content.Headers.ContentType?.MediaType == "text/event-stream")
                        return new AnswerStream(response, await response.Content.ReadAsStreamAsync().ConfigureAwait(false), _pipeline.Options.NetworkTimeout);
                    response.Dispose();
                    return null;
                }, cancellationToken).ConfigureAwait(false);
            }
            catch (DataFlowException)
            {
                return null;
            }
        }

        /// <summary>The next state; null when the stream has ended or broken.</summary>
        private static async Task<Batch?> NextAsync(EventReader reader, CancellationToken cancellationToken)
        {
            try
            {
                while (await reader.ReadAsync(cancellationToken).ConfigureAwait(false) is string data)
                    if (data.Length > 0 && JsonSerializer.Deserialize<Batch>(data, Json.Options) is { } batch && batch.Status.Length > 0)
                        return batch;
            }
            catch (Exception e) when (e is ConnectionException || e is JsonException || e is InvalidDataException)
            {
                // As if it had ended: another stream, or polling, goes on from here.
            }
            return null;
        }
    }

    /// <summary>Formats of an error report.</summary>
    public enum ReportFormat
    {
        /// <summary>A workbook.</summary>
        Xlsx,

        /// <summary>Comma-separated text, guarded against formulas.</summary>
        Csv,

        /// <summary>The records as they were uploaded.</summary>
        Json,
    }

    /// <summary>Reads server-sent events: the data of one after the other.</summary>
    internal sealed class EventReader
    {
        private readonly Stream _stream;
        private readonly int _limit;
        private readonly byte[] _buffer = new byte[4096];
        private readonly MemoryStream _line = new MemoryStream();
        private int _at, _end;
        private bool _afterReturn;

        public EventReader(Stream stream, int limit)
        {
            _stream = stream;
            _limit = limit;
        }

        /// <summary>The name of the event that was read last.</summary>
        public string Name { get; private set; } = "";
        /// <summary>The data of the next event; null at the end. An event that the end cuts off is none.</summary>
        public async Task<string?> ReadAsync(CancellationToken cancellationToken)
        {
            var data = new StringBuilder();
            var any = false;
            Name = "";
            while (await LineAsync(cancellationToken).ConfigureAwait(false) is string line)
            {
                if (line.Length == 0)
                {
                    if (any)
                        return data.ToString();
                    continue;
                }
                var colon = line.IndexOf(':');
                var field = colon < 0 ? line : line.Substring(0, colon);
                var value = colon < 0 ? "" : line.Substring(colon + (colon + 1 < line.Length && line[colon + 1] == ' ' ? 2 : 1));
                if (field == "event")
                    Name = value;
                if (field != "data")
                    continue; // a comment (the heartbeat), an id
                data.Append(any ? "\n" : "").Append(value);
                any = true;
                if (data.Length > _limit)
                    throw new InvalidDataException("An event is too long.");
            }
            return null;
        }

        private async Task<string?> LineAsync(CancellationToken cancellationToken)
        {
            _line.SetLength(0);
            for (; ; )
            {
                if (_at == _end)
                {
                    _at = 0;
                    _end = await _stream.ReadAsync(_buffer, 0, _buffer.Length, cancellationToken).ConfigureAwait(false);
                    if (_end == 0)
                        return null;
                }
                var c = _buffer[_at++];
                var skip = c == '\n' && _afterReturn;
                _afterReturn = c == '\r';
                if (skip)
                    continue;
                if (c == '\n' || c == '\r')
                    return Encoding.UTF8.GetString(_line.ToArray());
                if (_line.Length >= _limit)
                    throw new InvalidDataException("A line is too long.");
                _line.WriteByte(c);
            }
        }
    }
}
