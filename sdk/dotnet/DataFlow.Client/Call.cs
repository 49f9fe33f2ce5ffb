using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Net.Http;
using System.Text;
using System.Text.Json;

namespace DataFlow.Client
{
    /// <summary>Names the call of the contract that a method makes; the tests compare them with /openapi.json.</summary>
    [AttributeUsage(AttributeTargets.Method, AllowMultiple = true)]
    internal sealed class OperationAttribute : Attribute
    {
        public OperationAttribute(string method, string path, string name)
        {
            Method = method;
            Path = path;
            Name = name;
        }

        public string Method { get; }

        public string Path { get; }
        /// <summary>The same in every SDK.</summary>
        public string Name { get; }
    }

    /// <summary>What goes behind the question mark; null values are left out.</summary>
    internal sealed class Query : IEnumerable
    {
        private readonly List<KeyValuePair<string, string>> _items = new List<KeyValuePair<string, string>>();

        public void Add(string name, string? value)
        {
            if (value != null)
                _items.Add(new KeyValuePair<string, string>(name, value));
        }

        public void Add(string name, int? value) => Add(name, value?.ToString(CultureInfo.InvariantCulture));

        public void Add(string name, bool? value) => Add(name, value == null ? null : value.Value ? "true" : "false");

        public void Add(string name, DateTimeOffset? value) =>
            Add(name, value?.UtcDateTime.ToString("yyyy-MM-dd'T'HH:mm:ss.fff'Z'", CultureInfo.InvariantCulture));

        /// <summary>These, and other ones behind them.</summary>
        public Query And(params (string Name, string? Value)[] more)
        {
            var all = new Query();
            all._items.AddRange(_items.Where(i => !more.Any(m => m.Name == i.Key)));
            foreach (var (name, value) in more)
                all.Add(name, value);
            return all;
        }

        public IEnumerator GetEnumerator() => _items.GetEnumerator();

        public override string ToString() => _items.Count == 0 ? "" : "?" + string.Join("&",
            _items.Select(i => Uri.EscapeDataString(i.Key) + "=" + Uri.EscapeDataString(i.Value)));
    }

    /// <summary>One call, from which the request of each try is made.</summary>
    internal sealed class Call
    {
        public static readonly HttpMethod Patch = new HttpMethod("PATCH");

        public Call(HttpMethod method, FormattableString path, Query? query = null)
        {
            Method = method;
            Path = Fill(path);
            Query = query;
            IsRepeatable = method == HttpMethod.Get || method == HttpMethod.Put || method == HttpMethod.Delete || method == HttpMethod.Head;
        }

        public HttpMethod Method { get; }

        public string Path { get; set; }

        public Query? Query { get; set; }
        /// <summary>Made anew for every try; the watch is told when the network moves.</summary>
        public Func<Watch, HttpContent>? Content { get; set; }
        /// <summary>Whether the content can be made a second time.</summary>
        public Func<bool> CanRepeatContent { get; set; } = () => true;
        /// <summary>Whether it may be carried out twice without harm.</summary>
        public bool IsRepeatable { get; set; }

        public string? IdempotencyKey { get; set; }

        public string? IfMatch { get; set; }

        public string Accept { get; set; } = "application/json";
        /// <summary>Uploads ask for leave first, so that a refusal is read instead of a broken connection.</summary>
        public bool ExpectContinue { get; set; }
        /// <summary>Health is asked for without credentials.</summary>
        public bool IsAnonymous { get; set; }

        public Call WithJson(object? body)
        {
            if (body == null)
                return this;
            var bytes = body is JsonElement || body is IDictionary
                ? JsonSerializer.SerializeToUtf8Bytes(body, body.GetType(), Json.Exact)
                : JsonSerializer.SerializeToUtf8Bytes(body, body.GetType(), Json.Options);
            return WithBytes(bytes, "application/json");
        }

        public Call WithBytes(byte[] bytes, string contentType)
        {
            Content = _ =>
            {
                var content = new ByteArrayContent(bytes);
                content.Headers.TryAddWithoutValidation("Content-Type", Header(contentType, "the content type"));
                return content;
            };
            return this;
        }

        public Call Accepting(string type)
        {
            Accept = type;
            return this;
        }

        /// <summary>Safe to repeat because the document is known by its own key, or because the same again changes nothing.</summary>
        public Call Repeatable()
        {
            IsRepeatable = true;
            return this;
        }

        /// <summary>The path with its parameters escaped. A dot segment would be another path than the one that was meant.</summary>
        private static string Fill(FormattableString path)
        {
            var parts = path.GetArguments().Select(a => (object)Segment(Convert.ToString(a, CultureInfo.InvariantCulture) ?? "")).ToArray();
            return string.Format(CultureInfo.InvariantCulture, path.Format, parts);
        }

        public static string Segment(string value)
        {
            if (value.Length == 0 || value == "." || value == "..")
                throw new ArgumentException("A part of the path is empty, \".\" or \"..\".", nameof(value));
            return Uri.EscapeDataString(value);
        }

        /// <summary>A value for a header: visible ASCII and blanks, so that it can't end the line.</summary>
        public static string Header(string value, string what)
        {
            if (value.Length == 0 || value.Any(c => c < ' ' || c > '~'))
                throw new ArgumentException(what + " must be of visible ASCII characters.");
            return value;
        }
    }

    internal static class Json
    {
        /// <summary>What is null is left out.</summary>
        public static readonly JsonSerializerOptions Options = new JsonSerializerOptions
        {
            PropertyNamingPolicy = JsonNamingPolicy.CamelCase,
            PropertyNameCaseInsensitive = true,
            IgnoreNullValues = true,
        };

        /// <summary>Dictionaries and JSON keep their nulls, which mean "no limit" or "ignore" to the server.</summary>
        public static readonly JsonSerializerOptions Exact = new JsonSerializerOptions { PropertyNamingPolicy = JsonNamingPolicy.CamelCase };

        /// <summary>A caller's own object, as System.Text.Json writes it by default: no name is changed, no null left out.</summary>
        public static byte[] OwnBytes(object value) => JsonSerializer.SerializeToUtf8Bytes(value, value.GetType(), null);

        /// <summary>The same, to be put into a body of ours.</summary>
        public static JsonElement? Own(object? value)
        {
            if (value == null)
                return null;
            using var document = JsonDocument.Parse(OwnBytes(value));
            return document.RootElement.Clone();
        }

        public static byte[] Bytes(string text) => new UTF8Encoding(false, true).GetBytes(text);
    }
}
