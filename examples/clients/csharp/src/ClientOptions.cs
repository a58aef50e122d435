// The options of clients and readers, and of one request.

using System;
using System.Net.Http;
using System.Text.Json;

namespace Headgate.Client
{
    /// <summary>How a <see cref="HeadgateClient"/> or a <see cref="HeadgateReader"/> works.</summary>
    public sealed class ClientOptions
    {
        /// <summary>How long a send may take, all its retries included.</summary>
        public TimeSpan Timeout { get; set; } = TimeSpan.FromSeconds(30);
        /// <summary>How long one request may take, and a second more for each 16 KiB of its body.</summary>
        public TimeSpan AttemptTimeout { get; set; } = TimeSpan.FromSeconds(10);
        /// <summary>The longest pause before the first retry; it doubles with each further one. Half of it is the shortest.</summary>
        public TimeSpan BackoffFirst { get; set; } = TimeSpan.FromMilliseconds(250);
        /// <summary>The longest pause of all that the server did not ask for.</summary>
        public TimeSpan BackoffMax { get; set; } = TimeSpan.FromSeconds(30);
        /// <summary>After how long without a byte a followed connection counts as dead.</summary>
        public TimeSpan Silence { get; set; } = TimeSpan.FromSeconds(40);
        /// <summary>Is added to <c>User-Agent</c>, such as <c>shop/1.2</c>.</summary>
        public string UserAgent { get; set; }
        /// <summary>
        /// Sends in place of the library's own handler: for proxies, certificates, tests. It must not follow redirects; a
        /// <see cref="HttpClientHandler"/> is told so. It is not disposed.
        /// </summary>
        public HttpMessageHandler Handler { get; set; }
        /// <summary>Changes how items are written: naming policies, converters.</summary>
        public Action<JsonSerializerOptions> Json { get; set; }
        /// <summary>
        /// Takes warnings: that requests begin to fail, are accepted again, that items were lost. Without it they go to
        /// <see cref="System.Diagnostics.Trace"/>.
        /// </summary>
        public Action<string> Warn { get; set; }
    }

    /// <summary>Changes one request.</summary>
    public sealed class SendOptions
    {
        /// <summary>
        /// The name of the field that identifies each item, such as <c>order.id</c>. Without it, and without one of the
        /// connector, an item is known by its position in the list.
        /// </summary>
        public string ItemKey { get; set; }
        /// <summary>
        /// Replaces the random idempotency key: 1 to 255 visible ASCII characters. A second request with the same key within
        /// 24 hours changes nothing, so do not make it of the content: on, off, on would lose the third.
        /// </summary>
        public string IdempotencyKey { get; set; }
        /// <summary>The expected stream of the key: if the key is for another one, the request is rejected.</summary>
        public string Stream { get; set; }
        /// <summary>Replaces the client's timeout.</summary>
        public TimeSpan? Timeout { get; set; }
    }
}
