using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Security.Cryptography;
using System.Text;

namespace DataFlow.Client
{
    /// <summary>Tells whether a webhook comes from DataFlow. It needs nothing else of this library: the file can be copied alone.</summary>
    public sealed class WebhookVerifier
    {
        private const string Prefix = "whsec_";
        private static readonly UTF8Encoding Utf8 = new UTF8Encoding(false);
        private readonly (byte[] Shown, byte[] Key)[] _secrets;

        /// <summary>A verifier with one secret, or with two while a secret is being replaced.</summary>
        /// <param name="secrets">As they were shown, <c>whsec_</c> included.</param>
        public WebhookVerifier(params string[] secrets) : this((IEnumerable<string>)secrets) { }

        /// <summary>A verifier with one secret, or with two while a secret is being replaced.</summary>
        /// <param name="secrets">As they were shown, <c>whsec_</c> included.</param>
        public WebhookVerifier(IEnumerable<string> secrets)
        {
            _secrets = (secrets ?? throw new ArgumentNullException(nameof(secrets)))
                .Select(s => string.IsNullOrEmpty(s) ? throw new ArgumentException("A secret is empty.", nameof(secrets)) : (Utf8.GetBytes(s), Key(s))).ToArray();
            if (_secrets.Length == 0)
                throw new ArgumentException("There is no secret.", nameof(secrets));
        }

        /// <summary>How far a delivery's time may be from now. An older one may be a recording that somebody sends again.</summary>
        public TimeSpan Tolerance { get; set; } = TimeSpan.FromMinutes(5);

        internal Func<DateTimeOffset> Now { get; set; } = () => DateTimeOffset.UtcNow;
        /// <summary>Whether a delivery is DataFlow's and fresh, by <c>X-DataFlow-Signature</c> or <c>webhook-signature</c>.</summary>
        /// <param name="body">The body as it came, before anything parsed it.</param>
        /// <param name="header">Gives a header's value by its name, in whatever case; null if it did not come.</param>
        public bool Verify(byte[] body, Func<string, string?> header)
        {
            if (body == null || header == null)
                throw new ArgumentNullException(body == null ? nameof(body) : nameof(header));
            var time = header("X-DataFlow-Timestamp");
            if (IsFresh(time) && header("X-DataFlow-Signature") is string own
                && Matches(own.Split(','), "v1=", time + ".", body, s => s.Shown, Hex))
                return true;
            time = header("webhook-timestamp");
            return IsFresh(time) && header("webhook-id") is string id && header("webhook-signature") is string standard
                && Matches(standard.Split(' '), "v1,", id + "." + time + ".", body, s => s.Key, Convert.ToBase64String);
        }

        /// <summary>The same with headers in a dictionary, whatever the case of their names.</summary>
        /// <param name="body">The body as it came, before anything parsed it.</param>
        /// <param name="headers">The headers.</param>
        public bool Verify(byte[] body, IEnumerable<KeyValuePair<string, string>> headers) =>
            Verify(body, name => headers.Where(h => string.Equals(h.Key, name, StringComparison.OrdinalIgnoreCase)).Select(h => h.Value).FirstOrDefault());

        /// <summary>Whether a body that was kept without its headers is DataFlow's, by its member <c>signature</c>. That includes no time: it does
        /// not tell an old delivery from a new one.</summary>
        /// <param name="body">The body as it came.</param>
        public bool VerifyStored(byte[] body)
        {
            const int Tail = 64 + 2; // the hex digits, and "}
            var mark = Encoding.ASCII.GetBytes(",\"signature\":\"");
            if (body == null)
                throw new ArgumentNullException(nameof(body));
            var at = body.Length - Tail - mark.Length;
            if (at < 0 || !mark.SequenceEqual(body.Skip(at).Take(mark.Length)) || body[body.Length - 2] != '"' || body[body.Length - 1] != '}')
                return false;
            var text = new byte[at + 1];
            Array.Copy(body, text, at);
            text[at] = (byte)'}';
            return Matches(new[] { Encoding.ASCII.GetString(body, body.Length - Tail, 64) }, "", "", text, s => s.Shown, Hex);
        }

        private bool IsFresh(string? time) =>
            !string.IsNullOrEmpty(time) && time!.Length <= 12 && time.All(c => c >= '0' && c <= '9')
            && Math.Abs(Now().ToUnixTimeSeconds() - long.Parse(time, CultureInfo.InvariantCulture)) <= Tolerance.TotalSeconds;

        /// <summary>Every given value is compared with every secret's, so that the time tells nothing about where they differ.</summary>
        private bool Matches(string[] given, string scheme, string head, byte[] body, Func<(byte[] Shown, byte[] Key), byte[]> key, Func<byte[], string> text)
        {
            var start = Utf8.GetBytes(head);
            var found = false;
            foreach (var secret in _secrets)
            {
                using var hmac = new HMACSHA256(key(secret));
                hmac.TransformBlock(start, 0, start.Length, null, 0);
                hmac.TransformFinalBlock(body, 0, body.Length);
                var expected = Utf8.GetBytes(scheme + text(hmac.Hash));
                foreach (var one in given.Take(8))
                    found |= AreEqual(expected, Utf8.GetBytes(one.Trim()));
            }
            return found;
        }

        [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.NoOptimization)]
        private static bool AreEqual(byte[] a, byte[] b)
        {
            if (a.Length != b.Length)
                return false;
            var difference = 0;
            for (var i = 0; i < a.Length; i++)
                difference |= a[i] ^ b[i];
            return difference == 0;
        }

        private static byte[] Key(string secret)
        {
            if (!secret.StartsWith(Prefix, StringComparison.Ordinal))
                return Utf8.GetBytes(secret);
            try
            {
                return Convert.FromBase64String(secret.Substring(Prefix.Length));
            }
            catch (FormatException e)
            {
                throw new ArgumentException("What follows whsec_ is not base64.", nameof(secret), e);
            }
        }

        private static string Hex(byte[] bytes) => string.Concat(bytes.Select(b => b.ToString("x2", CultureInfo.InvariantCulture)));
    }
}
