// The batcher: what callers see of it, and its state.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Headgate.Client
{
    /// <summary>
    /// Joins items into requests and sends them in the background, in order, one request at a time. What it holds is in memory:
    /// a crash loses it, unless it has a spool. <see cref="Dispose"/>, and the normal end of the process, flush for at most 5
    /// seconds. It may be used by many threads at once.
    /// </summary>
    /// <remarks>
    /// Its callbacks are called one after the other, before a flush ends for their items. They must not wait for a flush or a
    /// close of the same batcher, nor add to it where that may wait for room.
    /// </remarks>
    public sealed partial class Batcher : IDisposable
    {
        private static readonly TimeSpan Leaving = TimeSpan.FromSeconds(5);

        private readonly HeadgateClient client;
        private readonly BatcherOptions options;
        private readonly CancellationTokenSource ending = new CancellationTokenSource();
        private readonly SemaphoreSlim wake = new SemaphoreSlim(0, 1);
        private readonly SemaphoreSlim wakeFiles = new SemaphoreSlim(0, 1);
        private readonly List<Task> tasks = new List<Task>();
        private readonly SemaphoreSlim closing = new SemaphoreSlim(1, 1);
        private readonly Spool spool; // null without one
        private bool ended;

        // Below: of the lock.
        private readonly object gate = new object();
        private readonly EntryQueue queue;
        private readonly LinkedList<Batch> pending = new LinkedList<Batch>(); // cut, and in files; without a spool none
        private readonly BatcherStats stats = new BatcherStats();
        private int spooled; // bytes of the pending
        private Batch flying; // on its way
        private int landed; // of its items those that are settled
        private long last; // number of the newest item
        private long flushTo; // up to this item, nothing waits for others
        private bool closed;
        private TaskCompletionSource<bool> changed = NewSignal();
        private bool troubled, losing; // the log has been told

        internal Batcher(HeadgateClient client, BatcherOptions options)
        {
            this.client = client;
            this.options = (options ?? new BatcherOptions()).Checked();
            queue = new EntryQueue(this.options.LatestOnly);
            if (this.options.Spool != null)
            {
                spool = new Spool(this.options.Spool, client.Transport.Warn);
                try
                {
                    TakeLeftovers();
                }
                catch
                {
                    spool.Dispose();
                    throw;
                }
                tasks.Add(Task.Run(() => WriteFilesAsync()));
            }
            tasks.Add(Task.Run(() => SendAsync()));
            AppDomain.CurrentDomain.ProcessExit += OnProcessExit;
        }

        private static TaskCompletionSource<bool> NewSignal()
        {
            return new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        /// <summary>
        /// Puts an item into the queue. It is encoded here, so that one that cannot be sent fails here. If the queue is full, the
        /// task waits, unless the options say otherwise.
        /// </summary>
        public Task AddAsync(object item, CancellationToken cancel = default(CancellationToken))
        {
            Entry entry = Encoded(item);
            List<Entry> dropped;
            lock (gate)
            {
                if (closed)
                {
                    throw new HeadgateException(HeadgateCode.Closed, "the batcher is closed");
                }
                if (queue.Takes(entry, options.QueueBytes, spooled))
                {
                    Put(entry);
                    return Task.CompletedTask;
                }
                switch (options.WhenFull)
                {
                    case WhenFull.Fail:
                        throw new HeadgateException(HeadgateCode.Full, "the queue is full: " + options.QueueBytes + " bytes wait", true);
                    case WhenFull.DropOldest:
                        dropped = MakeRoom(entry);
                        Put(entry);
                        break;
                    default:
                        return WaitForRoomAsync(queue.Line(entry), cancel);
                }
            }
            foreach (Entry each in dropped)
            {
                HandOver(new List<Entry> { each }, new HeadgateException(HeadgateCode.Dropped, "the queue was full, and " + ItemKey.Named(each.Key) + " the oldest in it"));
            }
            return Task.CompletedTask;
        }

        private Entry Encoded(object item)
        {
            byte[] raw = Json.Encode(item, client.JsonOptions);
            if (raw[0] != '{')
            {
                throw new HeadgateException(HeadgateCode.InvalidPayload, "an item must be an object; this is " + Json.Kind(raw) + " as JSON");
            }
            string key = options.ItemKey == null ? null : ItemKey.Of(raw, options.ItemKey);
            if (raw.Length + 2 > HeadgateClient.RequestBytesMax)
            {
                throw new HeadgateException(HeadgateCode.TooLarge, ItemKey.Named(key) + " takes " + raw.Length + " bytes, and a request has at most " + HeadgateClient.RequestBytesMax + " with its brackets");
            }
            return new Entry { Raw = raw, Key = key };
        }

        private async Task WaitForRoomAsync(Waiter waiter, CancellationToken cancel)
        {
            using (cancel.Register(() => GiveUp(waiter)))
            {
                if (!await waiter.Done.Task.ConfigureAwait(false))
                {
                    throw new HeadgateException(HeadgateCode.Closed, "the batcher was closed while the item waited for room");
                }
            }
        }

        private void GiveUp(Waiter waiter)
        {
            lock (gate)
            {
                if (!queue.Leave(waiter))
                {
                    return;
                }
                Admit();
            }
            waiter.Done.TrySetCanceled();
        }

        /// <summary>
        /// Ends when everything added before is accepted or rejected, or at the timeout, or when it is canceled: the result says how
        /// much is not. It does not wait for the linger.
        /// </summary>
        public async Task<Flushed> FlushAsync(TimeSpan? timeout = null, CancellationToken cancel = default(CancellationToken))
        {
            using (var time = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                time.CancelAfter(timeout ?? Timeout.InfiniteTimeSpan);
                var over = NewSignal();
                using (time.Token.Register(() => over.TrySetResult(true)))
                {
                    long target = -1;
                    for (; ; )
                    {
                        Task change;
                        lock (gate)
                        {
                            if (target < 0)
                            {
                                target = flushTo = last;
                                WakeAll();
                            }
                            if (!IsOpen(target))
                            {
                                return new Flushed(true, 0, 0);
                            }
                            if (over.Task.IsCompleted)
                            {
                                return new Flushed(false, Queued(), InFlight());
                            }
                            change = changed.Task;
                        }
                        await Task.WhenAny(change, over.Task).ConfigureAwait(false);
                    }
                }
            }
        }

        /// <summary>
        /// Flushes until the timeout, then stops. What is still there is handed to <see cref="BatcherOptions.OnRejected"/> with the
        /// code <c>CLOSED</c>; with a spool it stays in its files. From its beginning on, adding fails with the code <c>CLOSED</c>.
        /// </summary>
        public async Task<Flushed> CloseAsync(TimeSpan? timeout = null, CancellationToken cancel = default(CancellationToken))
        {
            lock (gate)
            {
                closed = true;
                for (Waiter waiter = queue.FirstWaiter; waiter != null; waiter = queue.FirstWaiter)
                {
                    queue.Leave(waiter);
                    waiter.Done.TrySetResult(false);
                }
            }
            Flushed flushed = await FlushAsync(timeout, cancel).ConfigureAwait(false);
            await closing.WaitAsync().ConfigureAwait(false);
            try
            {
                if (!ended)
                {
                    ended = true;
                    await EndAsync().ConfigureAwait(false);
                }
            }
            finally
            {
                closing.Release();
            }
            return flushed;
        }

        /// <summary>Closes it, with 5 seconds to flush.</summary>
        public void Dispose()
        {
            Task.Run(() => CloseAsync(Leaving)).GetAwaiter().GetResult();
        }

        /// <summary>The process ends normally, and nobody closed it.</summary>
        private void OnProcessExit(object sender, EventArgs e)
        {
            Dispose();
        }

        /// <summary>What it has and had.</summary>
        public BatcherStats Stats()
        {
            lock (gate)
            {
                return new BatcherStats
                {
                    Queued = Queued(),
                    InFlight = InFlight(),
                    Accepted = stats.Accepted,
                    Rejected = stats.Rejected,
                    Dropped = stats.Dropped,
                    Replaced = stats.Replaced,
                    Retries = stats.Retries,
                    Oldest = Oldest()?.Age ?? TimeSpan.Zero,
                };
            }
        }

        /// <summary>Names what it is, and not the key.</summary>
        public override string ToString()
        {
            BatcherStats now = Stats();
            return "Headgate.Client.Batcher(" + client.Transport.Base + ", " + now.Queued + " queued, " + now.InFlight + " in flight)";
        }

        // Below: called with the lock held.

        private void Put(Entry entry)
        {
            entry.Number = ++last;
            entry.Added = Stopwatch.GetTimestamp();
            if (queue.Push(entry))
            {
                stats.Replaced++;
            }
            int count = queue.Count;
            if (count == 1 || count >= options.MaxItems || queue.Bytes + count + 1 >= options.MaxBytes)
            {
                WakeAll();
            }
        }

        /// <summary>Lets in those who wait, as far as there is room.</summary>
        private void Admit()
        {
            for (Waiter waiter = queue.FirstWaiter; waiter != null && queue.Fits(waiter.Entry, options.QueueBytes, spooled); waiter = queue.FirstWaiter)
            {
                queue.Leave(waiter);
                Put(waiter.Entry);
                waiter.Done.TrySetResult(true);
            }
        }

        /// <summary>Takes out the oldest, until an item has room.</summary>
        private List<Entry> MakeRoom(Entry entry)
        {
            var dropped = new List<Entry>();
            while (!queue.Takes(entry, options.QueueBytes, spooled))
            {
                if (pending.Count > 0 && pending.First.Value.Ready)
                {
                    Batch oldest = Unstack();
                    spool.Remove(oldest);
                    dropped.AddRange(oldest.Entries);
                }
                else if (queue.Count > 0)
                {
                    dropped.AddRange(queue.Pop(1));
                }
                else
                {
                    break;
                }
            }
            stats.Dropped += dropped.Count;
            stats.Rejected += dropped.Count;
            Tell();
            return dropped;
        }

        /// <summary>Makes a batch of the front of the queue, if it is time; else it says how long to wait for that.</summary>
        private Batch Cut(out TimeSpan wait)
        {
            wait = Timeout.InfiniteTimeSpan;
            int count = queue.Prefix(options.MaxItems, options.MaxBytes, out bool full);
            if (count == 0)
            {
                return null;
            }
            TimeSpan left = options.Linger - queue.First.Age;
            if (!full && left > TimeSpan.Zero && flushTo < queue.First.Number && !closed)
            {
                // A timer may be early by less than a millisecond; longer waits than it can hold are cut.
                wait = left < TimeSpan.FromDays(1) ? left + TimeSpan.FromMilliseconds(1) : TimeSpan.FromDays(1);
                return null;
            }
            return new Batch { Key = Uuid.New(), ItemKey = options.ItemKey, Created = client.Transport.Options.Clock(), Entries = queue.Pop(count) };
        }

        /// <summary>Puts a batch behind those that wait.</summary>
        private void Stack(Batch next)
        {
            pending.AddLast(next);
            spooled += next.Bytes;
        }

        /// <summary>Takes the first of them.</summary>
        private Batch Unstack()
        {
            Batch first = pending.First.Value;
            pending.RemoveFirst();
            spooled -= first.Bytes;
            return first;
        }

        private int Queued()
        {
            int count = queue.Count;
            foreach (Batch batch in pending)
            {
                count += batch.Entries.Count;
            }
            return count;
        }

        private int InFlight()
        {
            return flying == null ? 0 : flying.Entries.Count - landed;
        }

        private Entry Oldest()
        {
            if (InFlight() > 0)
            {
                return flying.Entries[landed];
            }
            return pending.Count > 0 ? pending.First.Value.Entries[0] : queue.First;
        }

        /// <summary>Whether an item up to this one is neither accepted nor rejected.</summary>
        private bool IsOpen(long target)
        {
            Entry oldest = Oldest();
            return oldest != null && oldest.Number <= target;
        }

        /// <summary>Wakes whoever waits for a change.</summary>
        private void Tell()
        {
            changed.TrySetResult(true);
            changed = NewSignal();
        }

        private void WakeAll()
        {
            if (wake.CurrentCount == 0)
            {
                wake.Release();
            }
            if (wakeFiles.CurrentCount == 0)
            {
                wakeFiles.Release();
            }
        }
    }
}
