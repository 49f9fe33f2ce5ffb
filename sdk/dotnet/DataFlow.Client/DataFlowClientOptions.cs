using System;

namespace DataFlow.Client
{
    /// <summary>Where the server is, who calls it, and how patient the client is. Read once, when the client is made.</summary>
    public sealed class DataFlowClientOptions
    {
        /// <summary>The server's address, such as <c>https://dataflow.example.com</c>. A path in it is kept as a prefix.</summary>
        public Uri? Address { get; set; }
        /// <summary>Sent as <c>X-Client-Id</c>.</summary>
        public string? ClientId { get; set; }
        /// <summary>Sent as <c>X-Client-Secret</c>.</summary>
        public string? ClientSecret { get; set; }
        /// <summary>Sent as <c>X-Admin-Key</c> to <c>/admin</c>, and elsewhere if there is no <see cref="ClientId"/>.</summary>
        public string? AdminKey { get; set; }
        /// <summary>The language of messages, such as <c>pt-BR</c>. Codes are the same in all of them.</summary>
        public string? Language { get; set; }
        /// <summary>How often a call is repeated at most, after its first try. 0: never.</summary>
        public int MaxRetries { get; set; } = 3;
        /// <summary>The longest wait before the first repetition. It doubles with each; the actual wait is any part of it (full jitter).</summary>
        public TimeSpan RetryDelay { get; set; } = TimeSpan.FromMilliseconds(500);
        /// <summary>The longest wait before a repetition when the server names none. One that it names is added to.</summary>
        public TimeSpan MaxRetryDelay { get; set; } = TimeSpan.FromSeconds(8);
        /// <summary>The longest <c>Retry-After</c> that is waited for. With a longer one the call fails and tells it.</summary>
        public TimeSpan MaxRetryAfter { get; set; } = TimeSpan.FromSeconds(60);
        /// <summary>How long a try may go without a byte sent or received. An upload may take as long as it moves.</summary>
        public TimeSpan NetworkTimeout { get; set; } = TimeSpan.FromSeconds(60);
        /// <summary>How often a batch is asked for where server-sent events do not come through. The pause grows to 30 s while nothing changes.</summary>
        public TimeSpan PollInterval { get; set; } = TimeSpan.FromSeconds(2);

        internal DataFlowClientOptions Checked()
        {
            if (Address == null || !Address.IsAbsoluteUri || (Address.Scheme != "https" && Address.Scheme != "http"))
                throw new ArgumentException("Address must be an absolute http or https URL.", nameof(Address));
            if (Address.UserInfo.Length > 0 || Address.Query.Length > 0 || Address.Fragment.Length > 0)
                throw new ArgumentException("Address must have no user, query or fragment.", nameof(Address));
            if ((ClientId == null) != (ClientSecret == null))
                throw new ArgumentException("ClientId and ClientSecret are given together.", nameof(ClientSecret));
            if (MaxRetries < 0 || MaxRetries > 100)
                throw new ArgumentOutOfRangeException(nameof(MaxRetries));
            if (RetryDelay <= TimeSpan.Zero || MaxRetryDelay < RetryDelay || MaxRetryAfter < TimeSpan.Zero)
                throw new ArgumentOutOfRangeException(nameof(RetryDelay), "RetryDelay is over 0 and at most MaxRetryDelay.");
            if (NetworkTimeout <= TimeSpan.Zero || PollInterval <= TimeSpan.Zero)
                throw new ArgumentOutOfRangeException(nameof(NetworkTimeout), "NetworkTimeout and PollInterval are over 0.");
            return (DataFlowClientOptions)MemberwiseClone();
        }
    }
}
