using System;
using System.Linq;
using System.Net.Http;
using System.Threading;
using DataFlow.Client;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Http;

namespace Microsoft.Extensions.DependencyInjection
{
    /// <summary>Adds the client to a program's services.</summary>
    public static class DataFlowServiceCollectionExtensions
    {
        /// <summary>The name of the client's <see cref="HttpClient"/>.</summary>
        public const string HttpClientName = "DataFlow";

        /// <summary>Registers <see cref="DataFlowClient"/> as a singleton over <see cref="IHttpClientFactory"/>, which renews connections. The secrets are
        /// not in the factory's logs.</summary>
        /// <param name="services">The program's services.</param>
        /// <param name="configure">Sets the options.</param>
        /// <returns>The builder of its <see cref="HttpClient"/>, to add handlers for instance.</returns>
        public static IHttpClientBuilder AddDataFlow(this IServiceCollection services, Action<DataFlowClientOptions> configure)
        {
            if (services == null || configure == null)
                throw new ArgumentNullException(services == null ? nameof(services) : nameof(configure));
            services.TryAddSingleton(provider =>
            {
                var options = new DataFlowClientOptions();
                configure(options);
                var factory = provider.GetRequiredService<IHttpClientFactory>();
                return new DataFlowClient(options, () => factory.CreateClient(HttpClientName), true);
            });
            if (!services.Any(s => s.ServiceType == typeof(IHttpMessageHandlerBuilderFilter) && s.ImplementationInstance is CredentialsFilter))
                services.Insert(0, ServiceDescriptor.Singleton<IHttpMessageHandlerBuilderFilter>(new CredentialsFilter(HttpClientName)));
            return services.AddHttpClient(HttpClientName)
                .ConfigureHttpClient(http => http.Timeout = Timeout.InfiniteTimeSpan)
                .ConfigurePrimaryHttpMessageHandler(DataFlowClient.Handler);
        }
    }
}
