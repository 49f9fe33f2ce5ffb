// What the NuGet packages of the library add to netstandard2.0, as far as the library and the compiler use it: declarations
// without bodies. NuGet's packages are not at hand where the tests run, but the reference assembly of netstandard2.0 is: the
// library compiled against both uses nothing that netstandard2.0 lacks. Nothing of this is ever run or shipped.
using System.Collections.Generic;
using System.IO;
using System.Net.Http;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;
using System.Threading.Tasks.Sources;

// Microsoft.Bcl.AsyncInterfaces
namespace System
{
    public interface IAsyncDisposable { ValueTask DisposeAsync(); }
}

namespace System.Collections.Generic
{
    public interface IAsyncEnumerable<out T> { IAsyncEnumerator<T> GetAsyncEnumerator(CancellationToken cancellationToken = default); }

    public interface IAsyncEnumerator<out T> : IAsyncDisposable
    {
        T Current { get; }

        ValueTask<bool> MoveNextAsync();
    }
}

namespace System.Threading.Tasks
{
    public readonly struct ConfiguredCancelableAsyncEnumerable<T>
    {
        public Enumerator GetAsyncEnumerator() => throw null!;

        public ConfiguredCancelableAsyncEnumerable<T> WithCancellation(CancellationToken cancellationToken) => throw null!;

        public ConfiguredCancelableAsyncEnumerable<T> ConfigureAwait(bool continueOnCapturedContext) => throw null!;

        public readonly struct Enumerator
        {
            public T Current => throw null!;

            public ConfiguredValueTaskAwaitable<bool> MoveNextAsync() => throw null!;

            public ConfiguredValueTaskAwaitable DisposeAsync() => throw null!;
        }
    }

    public static class TaskAsyncEnumerableExtensions
    {
        public static ConfiguredCancelableAsyncEnumerable<T> WithCancellation<T>(this IAsyncEnumerable<T> source, CancellationToken cancellationToken) => throw null!;

        public static ConfiguredCancelableAsyncEnumerable<T> ConfigureAwait<T>(this IAsyncEnumerable<T> source, bool continueOnCapturedContext) => throw null!;
    }

    // System.Threading.Tasks.Extensions
    public readonly struct ValueTask
    {
        public ValueTask(IValueTaskSource source, short token) => throw null!;

        public ValueTaskAwaiter GetAwaiter() => throw null!;

        public ConfiguredValueTaskAwaitable ConfigureAwait(bool continueOnCapturedContext) => throw null!;
    }

    public readonly struct ValueTask<T>
    {
        public ValueTask(IValueTaskSource<T> source, short token) => throw null!;

        public ValueTask(T result) => throw null!;

        public ValueTaskAwaiter<T> GetAwaiter() => throw null!;

        public ConfiguredValueTaskAwaitable<T> ConfigureAwait(bool continueOnCapturedContext) => throw null!;
    }
}

namespace System.Threading.Tasks.Sources
{
    public enum ValueTaskSourceStatus { Pending, Succeeded, Faulted, Canceled }

    [Flags]
    public enum ValueTaskSourceOnCompletedFlags { None, UseSchedulingContext, FlowExecutionContext }

    public interface IValueTaskSource
    {
        ValueTaskSourceStatus GetStatus(short token);

        void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags);

        void GetResult(short token);
    }

    public interface IValueTaskSource<out T>
    {
        ValueTaskSourceStatus GetStatus(short token);

        void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags);

        T GetResult(short token);
    }

    public struct ManualResetValueTaskSourceCore<T>
    {
        public short Version => throw null!;

        public void Reset() => throw null!;

        public void SetResult(T result) => throw null!;

        public void SetException(Exception error) => throw null!;

        public T GetResult(short token) => throw null!;

        public ValueTaskSourceStatus GetStatus(short token) => throw null!;

        public void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) => throw null!;
    }
}

namespace System.Runtime.CompilerServices
{
    public readonly struct ValueTaskAwaiter : ICriticalNotifyCompletion
    {
        public bool IsCompleted => throw null!;

        public void GetResult() => throw null!;

        public void OnCompleted(Action continuation) => throw null!;

        public void UnsafeOnCompleted(Action continuation) => throw null!;
    }

    public readonly struct ValueTaskAwaiter<T> : ICriticalNotifyCompletion
    {
        public bool IsCompleted => throw null!;

        public T GetResult() => throw null!;

        public void OnCompleted(Action continuation) => throw null!;

        public void UnsafeOnCompleted(Action continuation) => throw null!;
    }

    public readonly struct ConfiguredValueTaskAwaitable
    {
        public ValueTaskAwaiter GetAwaiter() => throw null!;
    }

    public readonly struct ConfiguredValueTaskAwaitable<T>
    {
        public ValueTaskAwaiter<T> GetAwaiter() => throw null!;
    }

    public struct AsyncIteratorMethodBuilder
    {
        public static AsyncIteratorMethodBuilder Create() => throw null!;

        public void MoveNext<T>(ref T stateMachine) where T : IAsyncStateMachine => throw null!;

        public void AwaitOnCompleted<T, U>(ref T awaiter, ref U stateMachine) where T : INotifyCompletion where U : IAsyncStateMachine => throw null!;

        public void AwaitUnsafeOnCompleted<T, U>(ref T awaiter, ref U stateMachine) where T : ICriticalNotifyCompletion where U : IAsyncStateMachine => throw null!;

        public void Complete() => throw null!;
    }

    [AttributeUsage(AttributeTargets.Method)]
    public sealed class AsyncIteratorStateMachineAttribute : StateMachineAttribute
    {
        public AsyncIteratorStateMachineAttribute(Type stateMachineType) : base(stateMachineType) { }
    }

    [AttributeUsage(AttributeTargets.Parameter)]
    public sealed class EnumeratorCancellationAttribute : Attribute { }
}

// System.Text.Json
namespace System.Text.Json
{
    public class JsonException : Exception
    {
        public JsonException(string message) => throw null!;
    }

    public enum JsonValueKind { Undefined, Object, Array, String, Number, True, False, Null }

    public sealed class JsonDocument : IDisposable
    {
        public JsonElement RootElement => throw null!;

        public static JsonDocument Parse(ReadOnlyMemory<byte> utf8Json, JsonDocumentOptions options = default) => throw null!;

        public void Dispose() => throw null!;
    }

    public struct JsonDocumentOptions { }

    public readonly struct JsonElement
    {
        public JsonValueKind ValueKind => throw null!;

        public JsonElement Clone() => throw null!;

        public bool TryGetProperty(string propertyName, out JsonElement value) => throw null!;

        public string GetString() => throw null!;

        public IEnumerable<JsonElement> EnumerateArray() => throw null!;
    }

    public abstract class JsonNamingPolicy
    {
        public static JsonNamingPolicy CamelCase => throw null!;
    }

    public sealed class JsonSerializerOptions
    {
        public JsonNamingPolicy PropertyNamingPolicy { set => throw null!; }

        public bool PropertyNameCaseInsensitive { set => throw null!; }

        public bool IgnoreNullValues { set => throw null!; }
    }

    public static class JsonSerializer
    {
        public static ValueTask<T> DeserializeAsync<T>(Stream utf8Json, JsonSerializerOptions options, CancellationToken cancellationToken) => throw null!;

        public static T Deserialize<T>(string json, JsonSerializerOptions options) => throw null!;

        public static string Serialize(object value, Type inputType, JsonSerializerOptions? options) => throw null!;

        public static byte[] SerializeToUtf8Bytes(object value, Type inputType, JsonSerializerOptions? options) => throw null!;
    }
}

namespace System
{
    // System.Memory
    public readonly struct ReadOnlyMemory<T>
    {
        public static implicit operator ReadOnlyMemory<T>(T[] array) => throw null!;
    }
}

namespace System.Text.Json.Serialization
{
    public sealed class JsonIgnoreAttribute : Attribute { }

    public sealed class JsonExtensionDataAttribute : Attribute { }

    public sealed class JsonPropertyNameAttribute : Attribute
    {
        public JsonPropertyNameAttribute(string name) => throw null!;
    }
}

// Microsoft.Extensions.Http
namespace System.Net.Http
{
    public interface IHttpClientFactory { HttpClient CreateClient(string name); }
}

namespace Microsoft.Extensions.Http
{
    public abstract class HttpMessageHandlerBuilder
    {
        public abstract string Name { get; set; }

        public abstract IList<DelegatingHandler> AdditionalHandlers { get; }
    }

    public interface IHttpMessageHandlerBuilderFilter
    {
        System.Action<HttpMessageHandlerBuilder> Configure(System.Action<HttpMessageHandlerBuilder> next);
    }
}

namespace Microsoft.Extensions.DependencyInjection
{
    public class ServiceDescriptor
    {
        public System.Type ServiceType => throw null!;

        public object? ImplementationInstance => throw null!;

        public static ServiceDescriptor Singleton<T>(T implementationInstance) where T : class => throw null!;
    }

    public interface IServiceCollection : IList<ServiceDescriptor> { }

    public interface IHttpClientBuilder { }

    public static class ServiceProviderServiceExtensions
    {
        public static T GetRequiredService<T>(this System.IServiceProvider provider) => throw null!;
    }

    public static class HttpClientFactoryServiceCollectionExtensions
    {
        public static IHttpClientBuilder AddHttpClient(this IServiceCollection services, string name) => throw null!;
    }

    public static class HttpClientBuilderExtensions
    {
        public static IHttpClientBuilder ConfigureHttpClient(this IHttpClientBuilder builder, System.Action<HttpClient> configureClient) => throw null!;

        public static IHttpClientBuilder ConfigurePrimaryHttpMessageHandler(this IHttpClientBuilder builder, System.Func<HttpMessageHandler> configureHandler) => throw null!;
    }
}

namespace Microsoft.Extensions.DependencyInjection.Extensions
{
    public static class ServiceCollectionDescriptorExtensions
    {
        public static void TryAddSingleton<T>(this IServiceCollection services, System.Func<System.IServiceProvider, T> implementationFactory) where T : class => throw null!;
    }
}
