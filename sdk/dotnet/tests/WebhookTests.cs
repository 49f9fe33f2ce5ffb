using System;
using System.Collections.Generic;
using System.Linq;
using System.Security.Cryptography;
using System.Text;
using System.Threading.Tasks;
using DataFlow.Client;

internal static class WebhookTests
{
    private const string Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    private const string Other = "a secret of their own";
    private static readonly byte[] Body = Encoding.UTF8.GetBytes("{\"event\":\"Test\",\"name\":\"é😀\"}");
    private static readonly DateTimeOffset Now = DateTimeOffset.FromUnixTimeSeconds(1794747845);

    private static byte[] Hmac(byte[] key, string head, byte[] body)
    {
        using var hmac = new HMACSHA256(key);
        return hmac.ComputeHash(Encoding.UTF8.GetBytes(head).Concat(body).ToArray());
    }

    private static string Hex(byte[] bytes) => BitConverter.ToString(bytes).Replace("-", "").ToLowerInvariant();

    private static string Own(string secret, string time = "1794747845") => "v1=" + Hex(Hmac(Encoding.UTF8.GetBytes(secret), time + ".", Body));

    private static string Standard(string secret, string time = "1794747845") =>
        "v1," + Convert.ToBase64String(Hmac(secret.StartsWith("whsec_", StringComparison.Ordinal) ? Convert.FromBase64String(secret.Substring(6)) : Encoding.UTF8.GetBytes(secret), "msg_1." + time + ".", Body));

    private static bool Verify(Dictionary<string, string> headers, byte[]? body = null, params string[] secrets) =>
        new WebhookVerifier(secrets.Length == 0 ? new[] { Secret } : secrets) { Now = () => Now }.Verify(body ?? Body, headers);

    private static Dictionary<string, string> OwnHeaders(string signature, string time = "1794747845") =>
        new Dictionary<string, string> { ["x-dataflow-timestamp"] = time, ["X-DATAFLOW-SIGNATURE"] = signature };

    private static Dictionary<string, string> StandardHeaders(string signature, string time = "1794747845", string id = "msg_1") =>
        new Dictionary<string, string> { ["Webhook-Id"] = id, ["Webhook-Timestamp"] = time, ["Webhook-Signature"] = signature };

    [Test]
    private static Task BothSchemes()
    {
        Check.That(Verify(OwnHeaders(Own(Secret))), "X-DataFlow-Signature");
        Check.That(Verify(StandardHeaders(Standard(Secret))), "webhook-signature");
        Check.That(Verify(OwnHeaders(Own(Other)), null, Other) && Verify(StandardHeaders(Standard(Other)), null, Other), "a secret without whsec_");
        Check.That(!Verify(StandardHeaders(Standard(Secret), id: "msg_2")), "another id");
        Check.That(!Verify(OwnHeaders(Own(Secret)), Body.Append((byte)' ').ToArray()), "another body");
        Check.That(!Verify(OwnHeaders(Own(Other))) && !Verify(StandardHeaders(Standard(Other))), "another secret");
        return Task.CompletedTask;
    }

    [Test]
    private static Task TwoSecrets()
    {
        Check.That(Verify(OwnHeaders(Own(Other) + ", " + Own(Secret))), "the second of two values");
        Check.That(Verify(StandardHeaders(Standard(Other) + " " + Standard(Secret))), "the second of two standard values");
        Check.That(Verify(OwnHeaders(Own(Secret)), null, Other, Secret) && Verify(StandardHeaders(Standard(Secret)), null, Other, Secret), "the second of two secrets");
        return Task.CompletedTask;
    }

    [Test]
    private static Task TimesAndHeaders()
    {
        foreach (var (time, isFresh) in new[] { ("1794747545", true), ("1794747544", false), ("1794748145", true), ("1794748146", false), ("-1794747845", false),
            ("1794747845.0", false), (" 1794747845", false), ("", false), ("99999999999999999999", false), ("0x6AF94F45", false), ("１794747845", false) })
        {
            Check.Equal(isFresh, Verify(OwnHeaders(Own(Secret, time), time)), "own, " + time);
            Check.Equal(isFresh, Verify(StandardHeaders(Standard(Secret, time), time)), "standard, " + time);
        }
        foreach (var signature in new[] { "", "v1=", "v1=" + new string('0', 64), Own(Secret).Substring(3), Own(Secret) + "0", Own(Secret).ToUpperInvariant(), "v2=" + Own(Secret).Substring(3), ",,," })
            Check.That(!Verify(OwnHeaders(signature)), "accepted " + signature);
        Check.That(!Verify(new Dictionary<string, string>()), "no headers");
        foreach (var name in StandardHeaders("").Keys)
        {
            var headers = StandardHeaders(Standard(Secret));
            headers.Remove(name);
            Check.That(!Verify(headers), "without " + name);
        }
        return Task.CompletedTask;
    }

    [Test]
    private static async Task Stored()
    {
        var verifier = new WebhookVerifier(Other, Secret);
        var text = "{\"event\":\"Test\",\"note\":\",\\\"signature\\\":\\\"\"}";
        var signature = Hex(Hmac(Encoding.UTF8.GetBytes(Secret), "", Encoding.UTF8.GetBytes(text)));
        var body = text.Substring(0, text.Length - 1) + ",\"signature\":\"" + signature + "\"}";
        Check.That(verifier.VerifyStored(Encoding.UTF8.GetBytes(body)), "stored");
        foreach (var bad in new[] { "", "{}", text, body.Replace("Test", "Tost"), body + " ", body.Replace("\"}", "\",\"a\":1}"), body.Substring(1) })
            Check.That(!verifier.VerifyStored(Encoding.UTF8.GetBytes(bad)), "accepted " + bad);
        foreach (var bad in new[] { new string[0], new[] { "" }, new[] { "whsec_?" } })
            await Check.ThrowsAsync<ArgumentException>(() => Task.FromResult(new WebhookVerifier(bad)));
    }
}
