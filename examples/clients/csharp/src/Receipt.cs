// What the daemon says of requests.

using System.Collections.Generic;
using System.Text.Json;

namespace Headgate.Client
{
    /// <summary>The answer to what was accepted: it is on disk.</summary>
    public sealed class Receipt
    {
        internal Receipt(JsonElement data, bool replayed)
        {
            Stream = Json.Text(data, "stream");
            ItemsReceived = (int)Json.Number(data, "items_received");
            RequestId = Json.Text(data, "request_id");
            Replayed = replayed;
        }

        /// <summary>The key's stream.</summary>
        public string Stream { get; }
        /// <summary>The number of items.</summary>
        public int ItemsReceived { get; }
        /// <summary>What <see cref="HeadgateClient.RequestAsync"/> asks with.</summary>
        public string RequestId { get; }
        /// <summary>An earlier attempt, or an earlier request with the same idempotency key, had been accepted.</summary>
        public bool Replayed { get; }
    }

    /// <summary>How a sink stands to a request.</summary>
    public sealed class SinkState
    {
        internal SinkState(JsonElement data)
        {
            Name = Json.Text(data, "name");
            State = Json.Text(data, "state");
            At = Json.Text(data, "at");
        }

        /// <summary>Name of the sink.</summary>
        public string Name { get; }
        /// <summary><c>waiting</c>, <c>done</c>, <c>stale</c>, <c>retrying</c>, <c>failed</c> or <c>discarded</c>.</summary>
        public string State { get; }
        /// <summary>When it was done, where that is known.</summary>
        public string At { get; }
    }

    /// <summary>What became of a request.</summary>
    public sealed class RequestState
    {
        internal RequestState(JsonElement data)
        {
            RequestId = Json.Text(data, "request_id");
            Timestamp = Json.Text(data, "timestamp");
            Stream = Json.Text(data, "stream");
            Status = Json.Text(data, "status");
            ItemsReceived = (int)Json.Number(data, "items_received");
            Errors = Json.Texts(data, "errors");
            ProcessedAt = Json.Text(data, "processed_at");
            var sinks = new List<SinkState>();
            foreach (JsonElement sink in Json.List(data, "sinks"))
            {
                sinks.Add(new SinkState(sink));
            }
            Sinks = sinks;
        }

        /// <summary>A UUIDv7.</summary>
        public string RequestId { get; }
        /// <summary>When it arrived, RFC 3339 in UTC.</summary>
        public string Timestamp { get; }
        /// <summary>The key's stream.</summary>
        public string Stream { get; }
        /// <summary><c>accepted</c>, <c>processed</c>, <c>failed</c>, <c>stale</c>, <c>discarded</c>, <c>rejected</c>, <c>duplicate</c>, <c>test</c>, <c>removed</c> or <c>handshake</c>.</summary>
        public string Status { get; }
        /// <summary>The number of items.</summary>
        public int ItemsReceived { get; }
        /// <summary>Why sinks could not deliver it.</summary>
        public IReadOnlyList<string> Errors { get; }
        /// <summary>When the last sink had it; null until then.</summary>
        public string ProcessedAt { get; }
        /// <summary>The sinks that want its stream.</summary>
        public IReadOnlyList<SinkState> Sinks { get; }

        /// <summary>Whether it is in a state that it does not leave by itself.</summary>
        public bool IsDone
        {
            get
            {
                if (Status == "removed")
                {
                    foreach (SinkState sink in Sinks)
                    {
                        if (sink.State == "waiting" || sink.State == "retrying")
                        {
                            return false;
                        }
                    }
                }
                return Status != "accepted";
            }
        }
    }
}
