using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Reflection;
using System.Text.Json;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using DataFlow.Client;

/// <summary>Every call of the contract has a method, and every method makes the call that it says.</summary>
internal static class OperationTests
{
    // For browsers: the console's own files.
    private static readonly string[] NotForSdks = { "GET /", "GET /console/{file}" };

    private static string Bare(string operation) => Regex.Replace(operation, @"\{\w+\}", "{}");

    private static IEnumerable<(MethodInfo Method, OperationAttribute Operation, object Target)> Methods(object target)
    {
        foreach (var method in target.GetType().GetMethods(BindingFlags.Public | BindingFlags.Instance | BindingFlags.DeclaredOnly))
            foreach (var operation in method.GetCustomAttributes<OperationAttribute>())
                yield return (method, operation, target);
        foreach (var property in target.GetType().GetProperties().Where(p => p.PropertyType.Name.EndsWith("Client", StringComparison.Ordinal)))
            foreach (var found in Methods(property.GetValue(target)!))
                yield return found;
    }

    [Test]
    private static Task AllOfTheDocument()
    {
        using var document = JsonDocument.Parse(File.ReadAllBytes(Environment.GetEnvironmentVariable("DATAFLOW_OPENAPI")!));
        var known = Methods(new FakeHandler().Client()).Select(m => Bare(m.Operation.Method + " " + m.Operation.Path)).ToHashSet();
        var missing = document.RootElement.GetProperty("paths").EnumerateObject()
            .SelectMany(path => path.Value.EnumerateObject().Where(m => Regex.IsMatch(m.Name, "^(get|put|post|patch|delete)$"))
                .Select(m => m.Name.ToUpperInvariant() + " " + path.Name))
            .Where(o => !NotForSdks.Contains(o) && !known.Contains(Bare(o))).ToArray();
        Check.That(missing.Length == 0, "no method for " + string.Join(", ", missing));
        return Task.CompletedTask;
    }

    /// <summary>What a list takes beside its filters is AsyncPageable's.</summary>
    [Test]
    private static Task AllParametersOfTheDocument()
    {
        using var document = JsonDocument.Parse(File.ReadAllBytes(Environment.GetEnvironmentVariable("DATAFLOW_OPENAPI")!));
        var shared = document.RootElement.GetProperty("components").GetProperty("parameters");
        var known = Methods(new FakeHandler().Client()).ToLookup(m => Bare(m.Operation.Method + " " + m.Operation.Path), m => m.Method);
        var missing = new List<string>();
        foreach (var path in document.RootElement.GetProperty("paths").EnumerateObject())
            foreach (var operation in path.Value.EnumerateObject().Where(m => m.Value.ValueKind == JsonValueKind.Object && m.Value.TryGetProperty("parameters", out _)))
            {
                var methods = known[Bare(operation.Name.ToUpperInvariant() + " " + path.Name)].ToArray();
                var isList = methods.Any(m => m.ReturnType.Name.StartsWith("AsyncPageable", StringComparison.Ordinal));
                var taken = methods.SelectMany(m => m.GetParameters()).Select(p => p.Name).Concat(isList ? new[] { "page", "pageSize", "after" } : new string[0]).ToHashSet();
                foreach (var one in operation.Value.GetProperty("parameters").EnumerateArray())
                {
                    var parameter = one.TryGetProperty("$ref", out var name) ? shared.GetProperty(name.GetString().Split('/').Last()) : one;
                    if (parameter.GetProperty("in").GetString() == "query" && methods.Length > 0 && !taken.Contains(parameter.GetProperty("name").GetString()))
                        missing.Add(operation.Name + " " + path.Name + " " + parameter.GetProperty("name").GetString());
                }
            }
        Check.That(missing.Count == 0, "not taken: " + string.Join(", ", missing));
        return Task.CompletedTask;
    }

    [Test]
    private static async Task EachMakesItsCall()
    {
        var count = 0;
        foreach (var (method, operation, target) in Methods(new FakeHandler().Client()))
        {
            var fake = new FakeHandler { Otherwise = request => FakeHandler.Json("{\"status\":\"Completed\"}") };
            var same = Methods(fake.Client()).First(m => m.Method == method).Target;
            var arguments = method.GetParameters().Select(p => Argument(p, operation)).ToArray();
            var made = method.Invoke(same, arguments)!;
            if (made is Task task)
                await task;
            else
                await Drain((dynamic)made);
            var path = Regex.Escape("/base/v1" + operation.Path).Replace(@"\{path}", "{path}");
            path = Regex.Replace(path, @"\\?\{\w+\}", "[^/]+");
            var seen = fake.Requests[0];
            var what = target.GetType().Name + "." + method.Name;
            Check.That(seen.Method == operation.Method && Regex.IsMatch(seen.Uri.AbsolutePath, "^" + path + "$"),
                what + " asked for " + seen.Method + " " + seen.Uri.AbsolutePath + ", not " + operation.Method + " " + operation.Path);
            // A parameter that is not sent would be silently without effect.
            foreach (var p in method.GetParameters().Where(p => p.ParameterType == typeof(string) && Argument(p, operation) != null && p.Name != "idempotencyKey" && p.Name != "contentType" && p.Name != "ifMatch"))
                Check.That((seen.Uri + seen.Body).Contains(p.Name!.ToLowerInvariant() + "7"), what + " does not send " + p.Name + ": " + seen.Uri);
            Check.Equal(seen.Uri.AbsolutePath.Contains("/admin/") || operation.Path == "/metrics" ? "admin" : null, seen["X-Admin-Key"], what + ", X-Admin-Key");
            count++;
        }
        Check.That(count > 110, count + " operations only");
    }

    private static object? Argument(ParameterInfo p, OperationAttribute operation)
    {
        var type = Nullable.GetUnderlyingType(p.ParameterType) ?? p.ParameterType;
        if (type == typeof(string))
            return operation.Path == "/integrations/{name}" && p.Name == "path" ? null : p.Name!.ToLowerInvariant() + "7";
        if (type == typeof(bool))
            return true;
        if (type == typeof(object))
            return new { any = 1 };
        if (type == typeof(HttpMethod))
            return new HttpMethod(operation.Method);
        if (type == typeof(ImportFile))
            return ImportFile.FromBytes(new byte[] { 1 }, "a.csv");
        if (type == typeof(ReportFormat))
            return Enum.Parse(typeof(ReportFormat), operation.Path.Split('.').Last(), true);
        if (type == typeof(IDictionary<string, string?>))
            return new Dictionary<string, string?> { ["Fone"] = "PhoneNumber" };
        if (type.IsInterface)
            return null;
        return type.IsValueType || type.GetConstructor(Type.EmptyTypes) != null ? Activator.CreateInstance(type) : null;
    }

    private static async Task Drain<T>(IAsyncEnumerable<T> list)
    {
        await foreach (var _ in list)
        {
        }
    }
}
