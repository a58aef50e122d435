// Following streams: messages as they come, over one connection after the other.

using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Http;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;

namespace Headgate.Client
{
    /// <summary>A change of streams.</summary>
    public sealed class LiveMessage
    {
        internal LiveMessage(JsonElement data)
        {
            Type = Json.Text(data, "type");
            Stream = Json.Text(data, "stream");
            Id = Json.Text(data, "id");
            var items = new List<Item>();
            foreach (JsonElement item in Json.List(data, "items"))
            {
                items.Add(new Item(item));
            }
            Items = items;
            Keys = Json.Texts(data, "keys");
            Complete = Json.IsTrue(data, "complete");
            Reason = Json.Text(data, "reason");
            UpdatedAt = Json.Text(data, "updated_at");
            RetryMs = Json.Number(data, "retry_ms");
        }

        /// <summary><c>snapshot</c>, <c>update</c>, <c>remove</c>, <c>stale</c>, <c>fresh</c> or <c>reset</c>. Others may come with newer daemons.</summary>
        public string Type { get; }
        /// <summary>The stream that it is about; null in a reset, which is about all.</summary>
        public string Stream { get; }
        /// <summary>The position to resume from, once the message was applied.</summary>
        public string Id { get; }
        /// <summary>Items of a snapshot or an update.</summary>
        public IReadOnlyList<Item> Items { get; }
        /// <summary>Keys of a remove.</summary>
        public IReadOnlyList<string> Keys { get; }
        /// <summary>A snapshot ends with this message.</summary>
        public bool Complete { get; }
        /// <summary>Reason of a reset.</summary>
        public string Reason { get; }
        /// <summary>How old the newest data of a stale stream is.</summary>
        public string UpdatedAt { get; }

        internal long RetryMs { get; }
    }

    /// <summary>What to follow.</summary>
    public sealed class FollowOptions
    {
        /// <summary>Names of streams; if there are none, every stream of the key.</summary>
        public IEnumerable<string> Streams { get; set; }
        /// <summary>The <see cref="LiveMessage.Id"/> to go on after. Without it the streams' snapshots come first.</summary>
        public string Since { get; set; }
        /// <summary>How many flushes a second may come at most; changes in between are joined to the newest value. 0: the daemon's default.</summary>
        public int MaxRate { get; set; }
    }

    internal sealed class Follower
    {
        private readonly Transport transport;
        private readonly string path;
        private readonly Func<LiveMessage, Task> hear;
        private readonly Action lost;
        private string id; // of the last message
        private bool heard; // something came over the newest connection

        internal Follower(Transport transport, FollowOptions options, Func<LiveMessage, Task> hear, Action lost)
        {
            this.transport = transport;
            this.hear = hear;
            this.lost = lost;
            path = PathOf(options);
            id = options.Since;
        }

        private static string PathOf(FollowOptions options)
        {
            var names = new List<string>();
            foreach (string name in options.Streams ?? new string[0])
            {
                names.Add(Transport.Segment(name));
            }
            var query = new List<string>();
            if (names.Count > 0)
            {
                query.Add("streams=" + string.Join(",", names));
            }
            if (options.MaxRate > 0)
            {
                query.Add("max_rate=" + options.MaxRate);
            }
            return "/api/live" + (query.Count == 0 ? "" : "?" + string.Join("&", query));
        }

        internal async Task RunAsync(CancellationToken cancel)
        {
            for (int failures = 1; ; failures++)
            {
                heard = false;
                TimeSpan? pause = null;
                try
                {
                    pause = await ConnectAsync(cancel).ConfigureAwait(false);
                }
                catch (HeadgateException error) when (error.Retryable)
                {
                    pause = error.RetryAfter;
                }
                catch (HandlerException error)
                {
                    System.Runtime.ExceptionServices.ExceptionDispatchInfo.Capture(error.InnerException).Throw();
                }
                catch (Exception error) when (IsLost(error) && !cancel.IsCancellationRequested)
                {
                    // Another connection, from the last position.
                }
                finally
                {
                    lost();
                }
                cancel.ThrowIfCancellationRequested();
                failures = heard ? 1 : failures;
                await Task.Delay(transport.Pause(failures, pause, transport.Draw()), cancel).ConfigureAwait(false);
            }
        }

        private static bool IsLost(Exception error)
        {
            return error is HttpRequestException || error is IOException || error is ObjectDisposedException || error is OperationCanceledException
                || error is System.Net.WebException || error is JsonException || error is InvalidDataException || error is InvalidOperationException;
        }

        /// <summary>Follows until the connection ends, and says how long to wait for the next, if the daemon did.</summary>
        private async Task<TimeSpan?> ConnectAsync(CancellationToken caller)
        {
            var call = new Call { Method = HttpMethod.Get, Path = path };
            call.Headers["Accept"] = "text/event-stream";
            call.Headers["Cache-Control"] = "no-store";
            if (IsResumable(id))
            {
                call.Headers["Last-Event-ID"] = id;
            }
            using (var silence = CancellationTokenSource.CreateLinkedTokenSource(caller))
            using (HttpRequestMessage request = transport.Request(call))
            {
                silence.CancelAfter(transport.Options.Silence);
                using (HttpResponseMessage response = await transport.Open(request, silence.Token).ConfigureAwait(false))
                using (silence.Token.Register(response.Dispose))
                {
                    string kind = response.Content.Headers.ContentType?.MediaType;
                    if ((int)response.StatusCode != 200 || kind != "text/event-stream")
                    {
                        Answer answer = await Transport.ReadAsync(response, call.AnswerBytesMax, silence.Token).ConfigureAwait(false);
                        throw answer.Status == 200 ? HeadgateException.Unexpected(answer) : HeadgateException.Refusal(answer, transport.Now());
                    }
                    using (Stream stream = await response.Content.ReadAsStreamAsync().ConfigureAwait(false))
                    {
                        return await HearAsync(new EventStream(stream, silence, transport.Options.Silence)).ConfigureAwait(false);
                    }
                }
            }
        }

        private async Task<TimeSpan?> HearAsync(EventStream events)
        {
            for (; ; )
            {
                byte[] data = await events.NextAsync().ConfigureAwait(false);
                if (data == null)
                {
                    return null;
                }
                LiveMessage message;
                using (JsonDocument document = JsonDocument.Parse(data, Json.Reading))
                {
                    message = new LiveMessage(document.RootElement);
                }
                if (message.Type == null)
                {
                    return null;
                }
                heard = true;
                if (message.Type == "bye")
                {
                    return TimeSpan.FromMilliseconds(Math.Min(Math.Max(message.RetryMs, 0), 300000));
                }
                id = message.Id;
                try
                {
                    await hear(message).ConfigureAwait(false);
                }
                catch (Exception error)
                {
                    throw new HandlerException(error);
                }
            }
        }

        /// <summary>Whether the daemon can go on after a position: 0 stands for a snapshot that has not ended.</summary>
        internal static bool IsResumable(string id)
        {
            int colon = id == null ? -1 : id.IndexOf(':');
            return colon > 0 && colon + 1 < id.Length && id[colon + 1] != '0' && id.Remove(colon, 1).Trim('0', '1', '2', '3', '4', '5', '6', '7', '8', '9').Length == 0;
        }

        /// <summary>What the program's own handler threw goes to the program.</summary>
        private sealed class HandlerException : Exception
        {
            internal HandlerException(Exception inner) : base("", inner)
            {
            }
        }
    }

    /// <summary>Server-Sent Events, as the HTML standard cuts them: lines end with LF, CR or CR LF.</summary>
    internal sealed class EventStream
    {
        private const int EventBytesMax = 64 << 20;

        private readonly Stream stream;
        private readonly CancellationTokenSource silence;
        private readonly TimeSpan limit;
        private readonly byte[] buffer = new byte[16 << 10];
        private readonly MemoryStream line = new MemoryStream();
        private int at, end;
        private bool afterReturn; // the line before ended with CR: an LF that follows belongs to it

        internal EventStream(Stream stream, CancellationTokenSource silence, TimeSpan limit)
        {
            this.stream = stream;
            this.silence = silence;
            this.limit = limit;
        }

        /// <summary>The data of an event that came whole; null at the end. Names and ids are in the data, too.</summary>
        internal async Task<byte[]> NextAsync()
        {
            MemoryStream data = null;
            for (; ; )
            {
                while (!TakeLine())
                {
                    if (!await FillAsync().ConfigureAwait(false))
                    {
                        return null;
                    }
                }
                byte[] text = line.ToArray();
                line.SetLength(0);
                if (text.Length == 0 && data != null)
                {
                    return data.ToArray();
                }
                const string name = "data";
                if (!BeginsWith(text, name) || (text.Length > name.Length && text[name.Length] != ':'))
                {
                    continue;
                }
                int from = Math.Min(text.Length, name.Length + 1);
                from += from < text.Length && text[from] == ' ' ? 1 : 0;
                data = data ?? new MemoryStream();
                if (data.Length > 0)
                {
                    data.WriteByte((byte)'\n');
                }
                data.Write(text, from, text.Length - from);
                TooLong(data.Length);
            }
        }

        private static bool BeginsWith(byte[] text, string name)
        {
            for (int i = 0; i < name.Length; i++)
            {
                if (i >= text.Length || text[i] != name[i])
                {
                    return false;
                }
            }
            return true;
        }

        private static void TooLong(long length)
        {
            if (length > EventBytesMax)
            {
                throw new InvalidDataException("an event is too long");
            }
        }

        /// <summary>Moves bytes to the line; true at its end.</summary>
        private bool TakeLine()
        {
            while (at < end)
            {
                byte c = buffer[at++];
                bool second = c == '\n' && afterReturn;
                afterReturn = c == '\r';
                if (second)
                {
                    continue;
                }
                if (c == '\n' || c == '\r')
                {
                    return true;
                }
                line.WriteByte(c);
            }
            TooLong(line.Length);
            return false;
        }

        /// <summary>Reads more. Only while it waits for the connection does silence count: between, the program is busy.</summary>
        private async Task<bool> FillAsync()
        {
            silence.CancelAfter(limit);
            at = 0;
            end = await stream.ReadAsync(buffer, 0, buffer.Length, silence.Token).ConfigureAwait(false);
            silence.CancelAfter(Timeout.InfiniteTimeSpan);
            return end > 0;
        }
    }
}
