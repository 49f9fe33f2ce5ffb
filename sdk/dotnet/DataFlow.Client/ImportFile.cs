using System;
using System.Collections.Generic;
using System.IO;
using System.Net;
using System.Net.Http;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace DataFlow.Client
{
    /// <summary>What is uploaded: a file, a stream or bytes. None of them is copied into memory.</summary>
    public sealed class ImportFile
    {
        private readonly Func<Stream> _open;
        // Held while the caller's stream is read: a try that failed may still be reading it when the next one begins. Null if each try opens its own.
        private readonly SemaphoreSlim? _turn;
        private bool _isUsed;

        private ImportFile(string fileName, long? length, bool isShared, bool canRepeat, Func<Stream> open)
        {
            FileName = fileName ?? throw new ArgumentNullException(nameof(fileName));
            Length = length;
            CanRepeat = canRepeat;
            _turn = isShared ? new SemaphoreSlim(1, 1) : null;
            _open = open;
        }

        /// <summary>The name that the server is told.</summary>
        public string FileName { get; }
        /// <summary>The length in bytes; null if it is not known.</summary>
        public long? Length { get; }
        /// <summary>Whether it can be read again from its beginning. If not, an upload that broke off is not repeated.</summary>
        public bool CanRepeat { get; }
        /// <summary>A file on disk, opened anew for each try.</summary>
        /// <param name="path">Where it is.</param>
        public static ImportFile FromPath(string path)
        {
            var info = new FileInfo(path);
            return new ImportFile(info.Name, info.Length, false, true,
                () => new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.Read, 4096, FileOptions.Asynchronous | FileOptions.SequentialScan));
        }

        /// <summary>A stream, from where it stands to its end. It is left open. If it can seek, it is rewound for another try;
        /// use it for one upload at a time.</summary>
        /// <param name="stream">The content.</param>
        /// <param name="fileName">A name for it.</param>
        public static ImportFile FromStream(Stream stream, string fileName)
        {
            if (stream == null || !stream.CanRead)
                throw new ArgumentException("The stream cannot be read.", nameof(stream));
            if (!stream.CanSeek)
                return new ImportFile(fileName, null, true, false, () => stream);
            var start = stream.Position;
            return new ImportFile(fileName, stream.Length - start, true, true, () =>
            {
                stream.Position = start;
                return stream;
            });
        }

        /// <summary>Bytes that are in memory anyway.</summary>
        /// <param name="content">The content; not to be changed while it is uploaded.</param>
        /// <param name="fileName">A name for it.</param>
        public static ImportFile FromBytes(byte[] content, string fileName) =>
            content == null ? throw new ArgumentNullException(nameof(content))
                : new ImportFile(fileName, content.Length, false, true, () => new MemoryStream(content, false));

        internal bool MayTryAgain => CanRepeat || !_isUsed;

        /// <summary>Gives the content to <paramref name="use"/>, from its beginning.</summary>
        internal async Task UseAsync(Func<Stream, Task> use, CancellationToken cancellationToken)
        {
            if (_turn != null)
                await _turn.WaitAsync(cancellationToken).ConfigureAwait(false);
            try
            {
                var stream = Open();
                using (_turn == null ? stream : null)
                    await use(stream).ConfigureAwait(false);
            }
            finally
            {
                _turn?.Release();
            }
        }

        private Stream Open()
        {
            if (!MayTryAgain)
                throw new DataFlowException(FileName + " can be read only once, and was.");
            _isUsed = true;
            try
            {
                return _open();
            }
            catch (Exception e) when (IsOfFile(e))
            {
                throw CannotBeRead(e);
            }
        }

        internal async Task<int> ReadAsync(Stream stream, byte[] buffer, CancellationToken cancellationToken)
        {
            try
            {
                return await stream.ReadAsync(buffer, 0, buffer.Length, cancellationToken).ConfigureAwait(false);
            }
            catch (Exception e) when (IsOfFile(e))
            {
                throw CannotBeRead(e);
            }
        }

        private static bool IsOfFile(Exception e) => e is IOException || e is UnauthorizedAccessException || e is ObjectDisposedException;

        /// <summary>Not the network's fault, so that the upload is not tried again.</summary>
        private DataFlowException CannotBeRead(Exception e) => new DataFlowException(FileName + " cannot be read: " + e.Message, e);
    }

    /// <summary>How an upload is read and known.</summary>
    public sealed class ImportOptions
    {
        /// <summary>The origin of records that have none.</summary>
        public string? OriginDefault { get; set; }
        /// <summary>Who asks for it.</summary>
        public string? RequestedBy { get; set; }
        /// <summary>The sheet of a workbook; the first by default.</summary>
        public string? Sheet { get; set; }
        /// <summary>Another name for the file.</summary>
        public string? FileName { get; set; }
        /// <summary>The declared type, which must agree with the content; by default the content alone decides.</summary>
        public string? ContentType { get; set; }
        /// <summary>Anything to keep with the batch.</summary>
        public IDictionary<string, object?>? Metadata { get; set; }
        /// <summary>Canonical names by column or path; null or "" keeps a column from being mapped by its own name.</summary>
        public IDictionary<string, string?>? Mapping { get; set; }
        /// <summary>Further fields of the form, which this release has no property for.</summary>
        public IDictionary<string, string>? Fields { get; set; }
        /// <summary>Known to the server for an upload once. By default one is made for each call, the same on all of its tries.</summary>
        public string? IdempotencyKey { get; set; }
        /// <summary>Told the bytes of the file that were sent, from 0 again if the upload is repeated.</summary>
        public IProgress<long>? Progress { get; set; }
    }

    /// <summary>A multipart form with one file behind its fields, written straight from the file to the connection.</summary>
    internal sealed class UploadContent : HttpContent
    {
        private readonly ImportFile _file;
        private readonly IProgress<long>? _progress;
        private readonly Watch _watch;
        private readonly CancellationToken _cancellationToken;
        private readonly CancellationTokenSource _ended = new CancellationTokenSource();
        private readonly byte[] _head, _tail;

        public UploadContent(ImportFile file, IEnumerable<KeyValuePair<string, string?>> fields, ImportOptions options, Watch watch,
            CancellationToken cancellationToken)
        {
            _file = file;
            _progress = options.Progress;
            _watch = watch;
            _cancellationToken = cancellationToken;
            var boundary = "dataflow-" + Guid.NewGuid().ToString("N");
            var head = new System.Text.StringBuilder();
            foreach (var field in fields)
                if (field.Value != null)
                    head.Append("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + field.Key + "\"\r\n\r\n" + field.Value + "\r\n");
            // As browsers write names, so that a quotation mark or line end in one stays inside it.
            var name = (options.FileName ?? file.FileName).Replace("\"", "%22").Replace("\r", "%0D").Replace("\n", "%0A");
            head.Append("--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\nContent-Type: "
                + Call.Header(options.ContentType ?? "application/octet-stream", "The content type") + "\r\n\r\n");
            _head = Json.Bytes(head.ToString());
            _tail = Json.Bytes("\r\n--" + boundary + "--\r\n");
            Headers.TryAddWithoutValidation("Content-Type", "multipart/form-data; boundary=" + boundary);
        }

        protected override bool TryComputeLength(out long length)
        {
            length = _head.Length + (_file.Length ?? 0) + _tail.Length;
            return _file.Length != null;
        }

        protected override async Task SerializeToStreamAsync(Stream target, TransportContext? context)
        {
            using var stop = CancellationTokenSource.CreateLinkedTokenSource(_ended.Token, _cancellationToken);
            try
            {
                await _file.UseAsync(source => SendAsync(source, target, stop.Token), stop.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (!Pipeline.IsOfNetwork(e))
            {
                _watch.Fail(e);
                throw;
            }
        }

        private async Task SendAsync(Stream source, Stream target, CancellationToken cancellationToken)
        {
            await target.WriteAsync(_head, 0, _head.Length, cancellationToken).ConfigureAwait(false);
            var buffer = new byte[Pipeline.CopyBytes];
            long sent = 0;
            _progress?.Report(0);
            for (int n; (n = await _file.ReadAsync(source, buffer, cancellationToken).ConfigureAwait(false)) > 0;)
            {
                if (_file.Length is long expected && sent + n > expected)
                    throw new DataFlowException(_file.FileName + " grew while it was uploaded.");
                await target.WriteAsync(buffer, 0, n, cancellationToken).ConfigureAwait(false);
                sent += n;
                _watch.Moved();
                _progress?.Report(sent);
            }
            if (_file.Length is long all && sent < all)
                throw new DataFlowException(_file.FileName + " shrank while it was uploaded.");
            await target.WriteAsync(_tail, 0, _tail.Length, cancellationToken).ConfigureAwait(false);
            await target.FlushAsync(cancellationToken).ConfigureAwait(false);
        }

        /// <summary>Ends a try that still reads the file though its answer, or its failure, has come.</summary>
        protected override void Dispose(bool disposing)
        {
            if (disposing)
                _ended.Cancel();
            base.Dispose(disposing);
        }

        // By default options: the names inside of the caller's own objects stay as they are.
        internal static string? Text(object? value) => value == null ? null : JsonSerializer.Serialize(value, value.GetType(), null);
    }
}
