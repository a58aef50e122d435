// The batcher: what callers see of it, and its state.

using System;
using System.Collections.Generic;
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
        /// <summary>A wait that ends with a signal.</summary>
        private static readonly TimeSpan Forever = TimeSpan.FromHours(1);
        /// <summary>How long items gather at least while older ones wait.</summary>
        private static readonly TimeSpan LingerBehind = TimeSpan.FromSeconds(1);

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
        private readonly Queue<Spooled> files = new Queue<Spooled>(); // on disk, in order, but for the one in hand
        private readonly BatcherStats stats = new BatcherStats();
        private Batch unwritten; // cut, and in no file yet
        private long used; // room of the files, with the one in hand
        private Hand hand; // being sent
        private int bytesMax; // of a request
        private string stream; // the key's, if that is known
        private long last; // number of the newest item
        private long flushTo; // up to this item, nothing waits for others
        private bool closed;
        private bool lost; // another program took the folder
        private BatcherState state;
        private string code;
        private DateTimeOffset since;
        private int failures; // in a row
        private TimeSpan notBefore; // when the next attempt may be
        private TaskCompletionSource<bool> changed = NewSignal();
        private bool losing; // the log has been told of lost items
        private bool diskFails; // and the program of a disk that takes nothing

        /// <summary>One whose steps nobody does yet.</summary>
        internal Batcher(HeadgateClient client, BatcherOptions options)
        {
            this.client = client;
            this.options = (options ?? new BatcherOptions()).Checked();
            queue = new EntryQueue(this.options.LatestOnly);
            bytesMax = this.options.MaxBytes;
            since = client.Transport.Now();
            if (this.options.Spool != null)
            {
                spool = new Spool(this.options.Spool, this.options.SpoolBytes);
                try
                {
                    ReadFolder();
                }
                catch
                {
                    spool.Dispose();
                    throw;
                }
            }
            lock (client.Batchers)
            {
                client.Batchers.Add(this);
            }
        }

        /// <summary>Its spool; null without one.</summary>
        internal Spool Files => spool;

        internal void Start()
        {
            if (spool != null)
            {
                tasks.Add(Task.Run(() => RunAsync(() => Task.FromResult(WriteStep()), wakeFiles)));
                tasks.Add(Task.Run(() => RunAsync(() => Task.FromResult(LookStep()), new SemaphoreSlim(0, 1))));
            }
            tasks.Add(Task.Run(() => RunAsync(SendStepAsync, wake)));
            AppDomain.CurrentDomain.ProcessExit += OnProcessExit;
        }

        /// <summary>Does steps until the batcher ends, with a rest whenever there is nothing to do.</summary>
        private async Task RunAsync(Func<Task<TimeSpan>> step, SemaphoreSlim signal)
        {
            try
            {
                while (!ending.IsCancellationRequested)
                {
                    TimeSpan wait = await step().ConfigureAwait(false);
                    if (wait > TimeSpan.Zero)
                    {
                        // A timer may be early by less than a millisecond.
                        await signal.WaitAsync(wait + TimeSpan.FromMilliseconds(1), ending.Token).ConfigureAwait(false);
                    }
                }
            }
            catch (OperationCanceledException) when (ending.IsCancellationRequested)
            {
                // The end of the batcher: what is in hand and in the queue is for EndAsync.
            }
        }

        private static TaskCompletionSource<bool> NewSignal()
        {
            return new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        /// <summary>
        /// Adds an item to the queue, and fails if the item cannot be sent. If the queue is full, the
        /// task waits, unless <see cref="BatcherOptions.WhenFull"/> is set.
        /// </summary>
        public Task AddAsync(object item, CancellationToken cancel = default(CancellationToken))
        {
            Entry entry = Encoded(item);
            List<Entry> dropped;
            lock (gate)
            {
                if (lost)
                {
                    throw Owner.InUse(options.Spool, "another program");
                }
                if (closed)
                {
                    throw new HeadgateException(HeadgateCode.Closed, "the batcher is closed");
                }
                if (Takes(entry))
                {
                    Put(entry);
                    return Task.CompletedTask;
                }
                switch (options.WhenFull)
                {
                    case WhenFull.Fail:
                        throw new HeadgateException(HeadgateCode.Full, "the queue is full: " + (queue.Bytes + UnwrittenBytes()) + " bytes wait in memory, " + used + " in the spool", true);
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
                HandOver(new List<Entry> { each }, new HeadgateException(HeadgateCode.Dropped, "the queue was full, so " + ItemKey.Named(each.Key) + ", the oldest, was dropped"));
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
                throw new HeadgateException(HeadgateCode.TooLarge, ItemKey.Named(key) + " takes " + raw.Length + " bytes, but a request can have at most " + HeadgateClient.RequestBytesMax + " with its brackets");
            }
            return new Entry { Raw = raw, Key = key };
        }

        private async Task WaitForRoomAsync(Waiter waiter, CancellationToken cancel)
        {
            using (cancel.Register(() => GiveUp(waiter)))
            {
                if (!await waiter.Done.Task.ConfigureAwait(false))
                {
                    throw new HeadgateException(HeadgateCode.Closed, "the batcher was closed while the item waited for space in the queue");
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
                    long target;
                    lock (gate)
                    {
                        target = Hurry();
                    }
                    for (; ; )
                    {
                        Task change;
                        lock (gate)
                        {
                            if (!IsOpen(target) || over.Task.IsCompleted || ending.IsCancellationRequested)
                            {
                                return Found(target);
                            }
                            change = changed.Task;
                        }
                        await Task.WhenAny(change, over.Task).ConfigureAwait(false);
                    }
                }
            }
        }

        /// <summary>
        /// Flushes until the timeout, then stops. What is still there stays in the spool; without one, or if it could not be written,
        /// it is handed to <see cref="BatcherOptions.OnRejected"/> with the code <c>CLOSED</c>. From its beginning on, adding fails
        /// with the code <c>CLOSED</c>.
        /// </summary>
        public async Task<Flushed> CloseAsync(TimeSpan? timeout = null, CancellationToken cancel = default(CancellationToken))
        {
            Shut();
            Flushed flushed = await FlushAsync(timeout, cancel).ConfigureAwait(false);
            return await EndAsync(flushed).ConfigureAwait(false);
        }

        /// <summary>Lets no more items in.</summary>
        internal void Shut()
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
        }

        internal async Task<Flushed> EndAsync(Flushed flushed)
        {
            await closing.WaitAsync().ConfigureAwait(false);
            try
            {
                if (!ended)
                {
                    ended = true;
                    await StopAsync().ConfigureAwait(false);
                }
            }
            finally
            {
                closing.Release();
            }
            lock (gate)
            {
                flushed.Spooled = files.Count;
            }
            return flushed;
        }

        /// <summary>Ends a pause: the key is another one.</summary>
        internal void TryNow()
        {
            lock (gate)
            {
                notBefore = TimeSpan.Zero;
                failures = 0;
                WakeAll();
            }
        }

        /// <summary>
        /// Stops the batcher if another program took the folder over. What is in memory is written at the end all the same: what must
        /// not be lost does not depend on who owns the folder.
        /// </summary>
        private TimeSpan LookStep()
        {
            if (spool.Owner.Holds())
            {
                return Owner.Look;
            }
            client.Transport.Warn("another program now uses the spool " + options.Spool + ", so this batcher stops");
            lock (gate)
            {
                lost = true;
            }
            Shut();
            ending.Cancel();
            lock (gate)
            {
                Tell();
            }
            Call("OnState", () => options.OnState?.Invoke(BatcherState.Blocked, HeadgateCode.SpoolInUse));
            return Owner.Look;
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
                    Damaged = stats.Damaged,
                    Forgotten = stats.Forgotten,
                    Spooled = files.Count,
                    SpooledBytes = used - (hand?.Room ?? 0),
                    State = state,
                    Code = code,
                    Since = since,
                    Oldest = OldestAge(),
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

        /// <summary>Has everything that is there sent without waiting for more, and says which item is the newest of it.</summary>
        internal long Hurry()
        {
            flushTo = last;
            WakeAll();
            return last;
        }

        internal Flushed Found(long target)
        {
            var found = new Flushed { Done = !IsOpen(target), State = state, Code = code };
            if (!found.Done)
            {
                found.Queued = Queued();
                found.InFlight = InFlight();
                found.Spooled = files.Count;
            }
            return found;
        }

        private void Put(Entry entry)
        {
            entry.Number = ++last;
            entry.Added = client.Transport.Lived();
            if (queue.Push(entry))
            {
                stats.Replaced++;
            }
            int count = queue.Count;
            if (count == 1 || count >= options.MaxItems || queue.Bytes + count + 1 >= bytesMax)
            {
                WakeAll();
            }
        }

        /// <summary>Of a batch that was cut and is in no file yet.</summary>
        private int UnwrittenBytes()
        {
            return unwritten == null ? 0 : unwritten.Bytes;
        }

        /// <summary>Whether an item may go in at once.</summary>
        private bool Takes(Entry entry)
        {
            int bytes = UnwrittenBytes();
            return queue.Takes(entry, options.QueueBytes, bytes) && (spool == null || queue.Takes(entry, options.SpoolBytes, bytes + used));
        }

        private bool Fits(Entry entry)
        {
            int bytes = UnwrittenBytes();
            return queue.Fits(entry, options.QueueBytes, bytes) && (spool == null || queue.Fits(entry, options.SpoolBytes, bytes + used));
        }

        /// <summary>Lets in those who wait, as far as there is room.</summary>
        private void Admit()
        {
            for (Waiter waiter = queue.FirstWaiter; waiter != null && Fits(waiter.Entry); waiter = queue.FirstWaiter)
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
            while (!Takes(entry) && queue.Count > 0)
            {
                dropped.AddRange(queue.Pop(1));
            }
            stats.Dropped += dropped.Count;
            stats.Rejected += dropped.Count;
            Tell();
            return dropped;
        }

        /// <summary>Makes a batch of the front of the queue, if it is time; else it says how long to wait for that.</summary>
        private Batch Cut(out TimeSpan wait)
        {
            wait = Forever;
            int count = queue.Prefix(options.MaxItems, bytesMax, out bool full);
            if (count == 0)
            {
                return null;
            }
            Entry first = queue.First;
            TimeSpan linger = options.Linger;
            if ((hand != null || unwritten != null || files.Count > 0) && linger < LingerBehind)
            {
                linger = LingerBehind; // what has to wait anyway makes larger batches
            }
            TimeSpan left = first.Added + linger - client.Transport.Lived();
            if (!full && left > TimeSpan.Zero && flushTo < first.Number && !closed)
            {
                wait = left < Forever ? left : Forever;
                return null;
            }
            return new Batch
            {
                Key = Uuid.New(client.Transport.Now()),
                ItemKey = options.ItemKey,
                Stream = options.Stream ?? (spool == null ? null : stream),
                Created = client.Transport.Now(),
                Entries = queue.Pop(count),
                First = first.Number,
            };
        }

        private bool Holds(Batch batch)
        {
            return hand != null && hand.Batch == batch;
        }

        private int Queued()
        {
            return queue.Count + (unwritten == null || Holds(unwritten) ? 0 : unwritten.Entries.Count);
        }

        private int InFlight()
        {
            return hand == null ? 0 : hand.Left;
        }

        private TimeSpan OldestAge()
        {
            Entry oldest = hand != null ? hand.Batch.Entries[0] : unwritten != null ? unwritten.Entries[0] : queue.First;
            return oldest == null ? TimeSpan.Zero : client.Transport.Lived() - oldest.Added;
        }

        /// <summary>Whether an item up to this one is neither accepted nor rejected.</summary>
        internal bool IsOpen(long target)
        {
            long oldest = hand != null ? hand.Batch.First
                : files.Count > 0 ? files.Peek().First
                : unwritten != null ? unwritten.First
                : queue.First?.Number ?? long.MaxValue;
            return oldest <= target;
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
