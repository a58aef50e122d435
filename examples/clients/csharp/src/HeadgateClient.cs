// The client: one request at a time. Batches are in Batcher.cs.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Net.Http;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace Headgate.Client
{
    /// <summary>
    /// Submits items with an ingest key. A key belongs to one stream, and so does a client. It may be used by many threads at
    /// once.
    /// </summary>
    public sealed class HeadgateClient : IDisposable
    {
        /// <summary>The longest body that a daemon accepts by default.</summary>
        internal const int RequestBytesMax = 1 << 20;

        internal readonly Transport Transport;
        internal readonly JsonSerializerOptions JsonOptions;
        internal readonly HashSet<Batcher> Batchers = new HashSet<Batcher>(); // that want to know of another key; it is its lock

        /// <summary>
        /// Makes a client; nothing is sent yet. The address is <c>http://host:port</c> or <c>https://host</c>; without one it is
        /// <c>HEADGATE_URL</c>, or <c>http://127.0.0.1:8080</c>. Without a key it is <c>HEADGATE_KEY</c>.
        /// </summary>
        public HeadgateClient(string url = null, string key = null, ClientOptions options = null)
        {
            key = string.IsNullOrEmpty(key) ? Environment.GetEnvironmentVariable("HEADGATE_KEY") : key;
            Transport = new Transport(url, key, "an ingest key (or HEADGATE_KEY)", options);
            JsonOptions = Json.Options(Transport.Options.Json);
        }

        /// <summary>
        /// Submits one object or a list of objects in one request: anything that System.Text.Json takes, or <see cref="RawJson"/>.
        /// A refusal of Headgate's is thrown at once; after anything else, such as no answer, 503, or the page of a proxy, the request
        /// is repeated with the same idempotency key until the timeout. Two sends at once are accepted in any order; a
        /// <see cref="Client.Batcher"/> keeps it.
        /// </summary>
        public async Task<Receipt> SendAsync(object items, SendOptions options = null, CancellationToken cancel = default(CancellationToken))
        {
            byte[] body = Json.Encode(items, JsonOptions);
            if (body[0] != '{' && body[0] != '[')
            {
                throw new HeadgateException(HeadgateCode.InvalidPayload, "items must be an object or a list of objects; this is " + Json.Kind(body) + " as JSON");
            }
            if (body.Length > RequestBytesMax)
            {
                throw new HeadgateException(HeadgateCode.TooLarge, "the items take " + body.Length + " bytes, but a request can have at most " + RequestBytesMax + "; send fewer items per request, or use a Batcher");
            }
            options = options ?? new SendOptions();
            Call call = Submission(body, options.ItemKey, options.IdempotencyKey ?? Uuid.New(Transport.Now()), options.Stream);
            return await SubmitAsync(call, Json.Count(body), options, cancel).ConfigureAwait(false);
        }

        /// <summary>Makes attempts until one is accepted, or refused.</summary>
        private Task<Receipt> SubmitAsync(Call call, int sent, SendOptions options, CancellationToken cancel)
        {
            return Transport.DoAsync(call, options.Timeout ?? Transport.Options.Timeout, reply =>
            {
                Outcome outcome = Outcome.Of(reply, sent, Transport.Now());
                return outcome.Failed == null ? outcome.Receipt : throw outcome.Failed;
            }, cancel);
        }

        /// <summary>
        /// Removes an item from a stream, if the key's connector can remove items. The receipt comes whether or not there is
        /// such an item.
        /// </summary>
        public async Task<Receipt> RemoveAsync(string stream, string key, SendOptions options = null, CancellationToken cancel = default(CancellationToken))
        {
            if (string.IsNullOrEmpty(stream) || string.IsNullOrEmpty(key))
            {
                throw new ArgumentException("a removal requires the name of a stream and the key of an item");
            }
            options = options ?? new SendOptions();
            var call = new Call { Method = HttpMethod.Delete, Path = "/api/streams/" + Transport.Segment(stream) + "/items/" + Transport.Segment(key) };
            AddIdempotencyKey(call, options.IdempotencyKey ?? Uuid.New(Transport.Now()));
            return await SubmitAsync(call, -1, options, cancel).ConfigureAwait(false);
        }

        /// <summary>Returns the status of a request of the key's connector.</summary>
        public Task<RequestState> RequestAsync(string requestId, CancellationToken cancel = default(CancellationToken))
        {
            return StateAsync(requestId, Transport.Options.Timeout, cancel);
        }

        private Task<RequestState> StateAsync(string requestId, TimeSpan timeout, CancellationToken cancel)
        {
            return Transport.GetAsync("/api/requests/" + Transport.Segment(requestId), timeout, answer => Data(answer, data => new RequestState(data)), cancel);
        }

        /// <summary>Waits for a request as <see cref="WaitAsync(string, TimeSpan, CancellationToken)"/> does.</summary>
        public Task<RequestState> WaitAsync(Receipt receipt, TimeSpan timeout, CancellationToken cancel = default(CancellationToken))
        {
            return WaitAsync(receipt.RequestId, timeout, cancel);
        }

        /// <summary>
        /// Asks until a request is processed or failed, or has any other state that it does not leave by itself. A failed request
        /// is a value, not an exception. When the timeout is over first, the exception has the code <c>TIMEOUT</c>.
        /// </summary>
        public async Task<RequestState> WaitAsync(string requestId, TimeSpan timeout, CancellationToken cancel = default(CancellationToken))
        {
            Stopwatch watch = Stopwatch.StartNew();
            for (double pause = 20; ; pause = Math.Min(2 * pause, 1000))
            {
                TimeSpan left = timeout - watch.Elapsed;
                if (left > TimeSpan.Zero)
                {
                    RequestState state = await StateAsync(requestId, left, cancel).ConfigureAwait(false);
                    if (state.IsDone)
                    {
                        return state;
                    }
                }
                if (timeout - watch.Elapsed <= TimeSpan.FromMilliseconds(pause))
                {
                    throw new HeadgateException(HeadgateCode.Timeout, "request " + requestId + " was not processed within " + timeout + "; it is stored, and will be delivered later", true) { RequestId = requestId };
                }
                await Task.Delay(TimeSpan.FromMilliseconds(pause), cancel).ConfigureAwait(false);
            }
        }

        /// <summary>
        /// Starts a batcher. An <see cref="ArgumentException"/> is about its options; a <see cref="HeadgateException"/> with the code
        /// <c>SPOOL_IN_USE</c> says that another one has the folder.
        /// </summary>
        public Batcher Batcher(BatcherOptions options)
        {
            var batcher = new Batcher(this, options);
            batcher.Start();
            return batcher;
        }

        /// <summary>Replaces the ingest key. Batchers retry immediately.</summary>
        public void SetKey(string key)
        {
            Transport.SetKey(key, "an ingest key");
            List<Batcher> told;
            lock (Batchers)
            {
                told = new List<Batcher>(Batchers);
            }
            told.ForEach(batcher => batcher.TryNow());
        }

        /// <summary>Closes connections. Dispose batchers before their client.</summary>
        public void Dispose()
        {
            Transport.Dispose();
        }

        /// <summary>Shows the URL without the key.</summary>
        public override string ToString()
        {
            return "HeadgateClient(" + Transport.Base + ")";
        }

        /// <summary>The request of a send and of a batch.</summary>
        internal static Call Submission(byte[] body, string itemKey, string idempotencyKey, string stream)
        {
            string query = stream == null ? "" : "?stream=" + Transport.Segment(stream);
            var call = new Call { Method = HttpMethod.Post, Path = "/api/ingest" + query, Body = body };
            AddIdempotencyKey(call, idempotencyKey);
            if (!string.IsNullOrEmpty(itemKey))
            {
                ItemKey.CheckName(itemKey);
                call.Headers["X-Item-Key"] = itemKey;
            }
            return call;
        }

        private static void AddIdempotencyKey(Call call, string key)
        {
            bool visible = key.Length >= 1 && key.Length <= 255;
            foreach (char c in key)
            {
                visible = visible && c > ' ' && c <= '~';
            }
            if (!visible)
            {
                throw new ArgumentException("an idempotency key must have 1 to 255 visible ASCII characters");
            }
            call.Headers["Idempotency-Key"] = key;
        }

        /// <summary>Takes what an answer brings out of its envelope. Members that are not known here are left alone.</summary>
        internal static T Data<T>(Answer answer, Func<JsonElement, T> read)
        {
            try
            {
                using (JsonDocument document = JsonDocument.Parse(answer.Body, Json.Reading))
                {
                    if (document.RootElement.ValueKind == JsonValueKind.Object
                        && document.RootElement.TryGetProperty("data", out JsonElement data)
                        && data.ValueKind == JsonValueKind.Object)
                    {
                        return read(data);
                    }
                }
            }
            catch (JsonException)
            {
                // The same as anything else that is no answer.
            }
            throw HeadgateException.Unexpected(answer);
        }
    }
}
