// A stream as a map that stays current.

using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Headgate.Client
{
    /// <summary>
    /// Keeps the items of one stream, as its messages say. It may be used by many threads at once. The position that a connection
    /// resumes from and the items belong together, so resuming misses nothing.
    /// </summary>
    public sealed class StreamView : IDisposable
    {
        private readonly CancellationTokenSource ending = new CancellationTokenSource();
        private readonly Task following;

        private readonly object gate = new object();
        private readonly Dictionary<string, Item> items = new Dictionary<string, Item>(StringComparer.Ordinal);
        private HashSet<string> seen; // keys of the snapshot that is arriving; null if none is
        private string id;
        private bool complete;
        private bool synced; // this connection has said all there is
        private bool late; // the source went quiet

        internal StreamView(Transport transport, string stream)
        {
            var follower = new Follower(transport, new FollowOptions { Streams = new[] { stream } }, Hear, Lost);
            following = Task.Run(() => follower.RunAsync(ending.Token));
            // It may go unobserved: whoever wants to know looks at Ended.
            following.ContinueWith(task => task.Exception, TaskContinuationOptions.OnlyOnFaulted);
        }

        /// <summary>Is raised after each change: of items, of <see cref="IsComplete"/> or <see cref="IsStale"/>. Not on the thread that subscribed.</summary>
        public event EventHandler Changed;

        /// <summary>Ends with an exception if the key or the stream was refused, and is canceled when the view is disposed.</summary>
        public Task Ended => following;

        /// <summary>The whole content of the stream is known.</summary>
        public bool IsComplete
        {
            get
            {
                lock (gate)
                {
                    return complete;
                }
            }
        }

        /// <summary>The items may be old: the connection is lost, or the stream's source went quiet.</summary>
        public bool IsStale
        {
            get
            {
                lock (gate)
                {
                    return late || !synced;
                }
            }
        }

        /// <summary>How many items there are.</summary>
        public int Count
        {
            get
            {
                lock (gate)
                {
                    return items.Count;
                }
            }
        }

        /// <summary>An item; false if there is none with this key.</summary>
        public bool TryGet(string key, out Item item)
        {
            lock (gate)
            {
                return items.TryGetValue(key, out item);
            }
        }

        /// <summary>A copy of all.</summary>
        public Dictionary<string, Item> Items()
        {
            lock (gate)
            {
                return new Dictionary<string, Item>(items, StringComparer.Ordinal);
            }
        }

        /// <summary>Ends it; the items stay.</summary>
        public void Dispose()
        {
            ending.Cancel();
        }

        /// <summary>
        /// The end of a connection. A snapshot that broke off counts for nothing, unless the position says that what was there before
        /// still holds.
        /// </summary>
        private void Lost()
        {
            lock (gate)
            {
                complete = (complete || seen != null) && Follower.IsResumable(id);
                seen = null;
                synced = false;
            }
            Changed?.Invoke(this, EventArgs.Empty);
        }

        private Task Hear(LiveMessage message)
        {
            lock (gate)
            {
                Apply(message);
            }
            Changed?.Invoke(this, EventArgs.Empty);
            return Task.CompletedTask;
        }

        private void Apply(LiveMessage message)
        {
            id = message.Id;
            switch (message.Type)
            {
                case "reset":
                    // What is there is shown until the snapshot that follows replaces it.
                    complete = synced = false;
                    seen = null;
                    break;
                case "heartbeat":
                    synced = complete;
                    break;
                case "remove":
                    foreach (string key in message.Keys)
                    {
                        items.Remove(key);
                    }
                    break;
                case "snapshot":
                    late = false;
                    if (seen == null)
                    {
                        seen = new HashSet<string>(StringComparer.Ordinal);
                        complete = false;
                    }
                    Set(message.Items);
                    if (message.Complete)
                    {
                        Finish();
                    }
                    break;
                case "update":
                    late = false;
                    Set(message.Items);
                    break;
                case "stale":
                    late = true;
                    break;
                case "fresh":
                    late = false;
                    break;
            }
        }

        private void Set(IReadOnlyList<Item> newer)
        {
            foreach (Item item in newer)
            {
                items[item.Key] = item;
                seen?.Add(item.Key);
            }
        }

        /// <summary>Forgets what the snapshot did not have.</summary>
        private void Finish()
        {
            foreach (string key in new List<string>(items.Keys))
            {
                if (!seen.Contains(key))
                {
                    items.Remove(key);
                }
            }
            seen = null;
            complete = synced = true;
        }
    }
}
