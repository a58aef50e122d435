// Reading: lists of items, one item, and what changes.

using System;
using System.Collections.Generic;
using System.Net.Http;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace Headgate.Client
{
    /// <summary>An item of a stream.</summary>
    public sealed class Item
    {
        internal Item(JsonElement data)
        {
            Key = Json.Text(data, "key");
            Fields = data.TryGetProperty("fields", out JsonElement fields) ? fields.Clone() : default(JsonElement);
            UpdatedAt = Json.Text(data, "updated_at");
            Seq = Json.Number(data, "seq");
        }

        /// <summary>Identifies it in its stream.</summary>
        public string Key { get; }
        /// <summary>Its fields, flattened with dots. <c>GetRawText()</c> of a number is exactly what was sent.</summary>
        public JsonElement Fields { get; }
        /// <summary>When the data arrived, RFC 3339 in UTC.</summary>
        public string UpdatedAt { get; }
        /// <summary>The number of its last change, in one sequence over all streams.</summary>
        public long Seq { get; }

        /// <summary>Makes a value of the fields.</summary>
        public T Deserialize<T>(JsonSerializerOptions options = null)
        {
            return JsonSerializer.Deserialize<T>(Fields.GetRawText(), options);
        }
    }

    /// <summary>Reads with a read key, which can never submit. It may be used by many threads at once.</summary>
    public sealed class HeadgateReader : IDisposable
    {
        private const int PageBytesMax = 64 << 20;

        internal readonly Transport Transport;

        /// <summary>
        /// Makes a reader; nothing is sent yet. The address is as for <see cref="HeadgateClient"/>; without a key it is
        /// <c>HEADGATE_READ_KEY</c>.
        /// </summary>
        public HeadgateReader(string url = null, string readKey = null, ClientOptions options = null)
        {
            readKey = string.IsNullOrEmpty(readKey) ? Environment.GetEnvironmentVariable("HEADGATE_READ_KEY") : readKey;
            Transport = new Transport(url, readKey, "a read key (or HEADGATE_READ_KEY)", options);
        }

        /// <summary>
        /// Hands over every item of a stream, in the order of their keys, page after page. Items that change meanwhile may be old or
        /// new.
        /// </summary>
        public async Task ForEachItemAsync(string stream, Action<Item> each, int pageItems = 1000, CancellationToken cancel = default(CancellationToken))
        {
            string path = "/api/streams/" + Transport.Segment(stream) + "/items?limit=" + pageItems;
            for (string cursor = ""; cursor != null;)
            {
                string next = null;
                string from = cursor == "" ? "" : "&cursor=" + Transport.Segment(cursor);
                List<Item> page = await GetAsync(path + from, answer => Page(answer, out next), cancel).ConfigureAwait(false);
                cursor = next;
                page.ForEach(each);
            }
        }

        /// <summary>Every item of a stream, as a list.</summary>
        public async Task<IReadOnlyList<Item>> ItemsAsync(string stream, int pageItems = 1000, CancellationToken cancel = default(CancellationToken))
        {
            var all = new List<Item>();
            await ForEachItemAsync(stream, all.Add, pageItems, cancel).ConfigureAwait(false);
            return all;
        }

        private static List<Item> Page(Answer answer, out string next)
        {
            try
            {
                using (JsonDocument document = JsonDocument.Parse(answer.Body, Json.Reading))
                {
                    JsonElement root = document.RootElement;
                    if (root.ValueKind == JsonValueKind.Object && root.TryGetProperty("data", out JsonElement data) && data.ValueKind == JsonValueKind.Array)
                    {
                        var page = new List<Item>();
                        foreach (JsonElement item in data.EnumerateArray())
                        {
                            page.Add(new Item(item));
                        }
                        next = Json.Text(root, "next");
                        return page;
                    }
                }
            }
            catch (Exception error) when (error is JsonException || error is InvalidOperationException)
            {
                // The same as anything else that is no answer.
            }
            throw HeadgateException.Unexpected(answer);
        }

        /// <summary>One item of a stream; null if there is none with this key.</summary>
        public async Task<Item> ItemAsync(string stream, string key, CancellationToken cancel = default(CancellationToken))
        {
            try
            {
                string path = "/api/streams/" + Transport.Segment(stream) + "/items/" + Transport.Segment(key);
                return await GetAsync(path, answer => HeadgateClient.Data(answer, data => new Item(data)), cancel).ConfigureAwait(false);
            }
            catch (HeadgateException error) when (error.Status == 404 && error.Code == "ITEM_NOT_FOUND")
            {
                return null;
            }
        }

        private Task<T> GetAsync<T>(string path, Func<Answer, T> read, CancellationToken cancel)
        {
            return Transport.GetAsync(path, Transport.Options.Timeout, read, cancel, PageBytesMax);
        }

        /// <summary>Follows streams as <see cref="FollowAsync(FollowOptions, Func{LiveMessage, Task}, CancellationToken)"/> does.</summary>
        public Task FollowAsync(IEnumerable<string> streams, Action<LiveMessage> onMessage, CancellationToken cancel)
        {
            return FollowAsync(new FollowOptions { Streams = streams }, message =>
            {
                onMessage(message);
                return Task.CompletedTask;
            }, cancel);
        }

        /// <summary>
        /// Hands over messages one after the other, until the token is canceled. A connection that is lost, or silent for 40 seconds,
        /// is followed by another, which resumes after the last message: what changed meanwhile comes, the newest value of each item.
        /// Who takes messages slowly gets the newest values, too. A key or a stream that is refused is thrown.
        /// </summary>
        public Task FollowAsync(FollowOptions options, Func<LiveMessage, Task> onMessage, CancellationToken cancel)
        {
            return new Follower(Transport, options, message => message.Type == "heartbeat" ? Task.CompletedTask : onMessage(message), () => { }).RunAsync(cancel);
        }

        /// <summary>Opens a stream as a map that stays current, until it is disposed.</summary>
        public StreamView View(string stream)
        {
            return new StreamView(Transport, stream);
        }

        /// <summary>Ends connections. Dispose views before their reader.</summary>
        public void Dispose()
        {
            Transport.Dispose();
        }

        /// <summary>Shows the URL without the key.</summary>
        public override string ToString()
        {
            return "HeadgateReader(" + Transport.Base + ")";
        }
    }
}
