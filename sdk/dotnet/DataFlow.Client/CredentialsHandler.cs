using System;
using System.Collections.Generic;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Extensions.Http;

namespace DataFlow.Client
{
    /// <summary>
    /// Puts the secrets of a request into its headers behind everything that logs them. The loggers of IHttpClientFactory write all
    /// headers at Trace. Microsoft.Extensions.Http 5.0 can be told to leave some out (RedactLoggedHeaders), but we support 3.1, which can't.
    /// </summary>
    internal sealed class CredentialsHandler : DelegatingHandler
    {
        private const string Property = "DataFlow.Credentials";

        /// <summary>Gives a request the secrets that it will be sent with.</summary>
        public static void Keep(HttpRequestMessage request, string name, string value) =>
            request.Properties[Property] = new KeyValuePair<string, string>(name, value);

        protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellationToken)
        {
            if (!request.Properties.TryGetValue(Property, out var kept) || !(kept is KeyValuePair<string, string> secret))
                return await base.SendAsync(request, cancellationToken).ConfigureAwait(false);
            request.Headers.Remove(secret.Key);
            request.Headers.TryAddWithoutValidation(secret.Key, secret.Value);
            try
            {
                return await base.SendAsync(request, cancellationToken).ConfigureAwait(false);
            }
            finally
            {
                request.Headers.Remove(secret.Key); // who logs the answer's request
            }
        }
    }

    /// <summary>Adds the handler behind all others of our client, the factory's loggers among them. It must be the first filter: that one acts last.</summary>
    internal sealed class CredentialsFilter : IHttpMessageHandlerBuilderFilter
    {
        private readonly string _name;

        public CredentialsFilter(string name) => _name = name;

        public Action<HttpMessageHandlerBuilder> Configure(Action<HttpMessageHandlerBuilder> next) => builder =>
        {
            next(builder);
            if (builder.Name == _name)
                builder.AdditionalHandlers.Add(new CredentialsHandler());
        };
    }
}
