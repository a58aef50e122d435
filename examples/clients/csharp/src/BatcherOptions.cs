// The options of a batcher, and what it tells.

using System;
using System.Collections.Generic;

namespace Headgate.Client
{
    /// <summary>What <see cref="Batcher.AddAsync"/> does when the queue is full.</summary>
    public enum WhenFull
    {
        /// <summary>It waits for space.</summary>
        Wait,
        /// <summary>It fails with the code <c>FULL</c>.</summary>
        Fail,
        /// <summary>
        /// It gives up what waits longest; that is handed to <see cref="BatcherOptions.OnRejected"/> with the code <c>DROPPED</c>. Not
        /// with a spool.
        /// </summary>
        DropOldest,
    }

    /// <summary>The state of a batcher's connection.</summary>
    public enum BatcherState
    {
        /// <summary>The last request was answered by Headgate with a word about its items, or there was none.</summary>
        Ok,
        /// <summary>Requests do not reach Headgate, or Headgate is unavailable.</summary>
        Retrying,
        /// <summary>
        /// Headgate refuses the key, the stream or the request: somebody has to do something, such as
        /// <see cref="HeadgateClient.SetKey"/>. Items are kept meanwhile.
        /// </summary>
        Blocked,
    }

    /// <summary>How a <see cref="Batcher"/> works.</summary>
    public sealed class BatcherOptions
    {
        /// <summary>
        /// The name of the field that identifies each item. It is demanded, or <see cref="ConnectorHasItemKey"/>: without either,
        /// items are known by their position in a request, and the second batch would overwrite the first.
        /// </summary>
        public string ItemKey { get; set; }
        /// <summary>The connector has an <c>item_key</c> in the daemon's configuration.</summary>
        public bool ConnectorHasItemKey { get; set; }
        /// <summary>The expected stream of the key: if the key is for another one, requests are rejected.</summary>
        public string Stream { get; set; }
        /// <summary>The most items of a batch.</summary>
        public int MaxItems { get; set; } = 1000;
        /// <summary>The most bytes of a request with several items.</summary>
        public int MaxBytes { get; set; } = 1000000;
        /// <summary>How long an item waits for others. What gathers while a request is on its way goes at once when that is answered.</summary>
        public TimeSpan Linger { get; set; } = TimeSpan.FromMilliseconds(100);
        /// <summary>How much may wait in memory. An item that exceeds it is accepted alone.</summary>
        public int QueueBytes { get; set; } = 16 << 20;
        /// <summary>What happens then.</summary>
        public WhenFull WhenFull { get; set; } = WhenFull.Wait;
        /// <summary>An item that waits is replaced by a newer one of the same key, in its place: for sensors and scores.</summary>
        public bool LatestOnly { get; set; }
        /// <summary>
        /// A folder that is the queue: what was added longer ago than <see cref="Linger"/> (a second, while older items wait) survives
        /// a crash, and is sent by the next batcher with the folder. One batcher a folder. It is created if it is missing.
        /// </summary>
        public string Spool { get; set; }
        /// <summary>
        /// How much the folder may have. A file counts 4 KiB at least. What is given up may have a tenth of that beside it.
        /// </summary>
        public long SpoolBytes { get; set; } = 1L << 30;
        /// <summary>Is called for each accepted request, with its items.</summary>
        public Action<Receipt, IReadOnlyList<RawJson>> OnAccepted { get; set; }
        /// <summary>
        /// Is called for items that will not be sent: Headgate rejected them, or the code of the error has another reason. With a
        /// spool they are kept in its folder <c>rejected</c>.
        /// </summary>
        public Action<IReadOnlyList<RawJson>, HeadgateException> OnRejected { get; set; }
        /// <summary>
        /// Is called when the state is another one, with the code of the last error, null if all is well; and again if what blocks has
        /// another code. With the code <c>SPOOL</c> it tells of a disk that takes nothing, or that takes batches again, whatever the
        /// state is; that may be while another call runs.
        /// </summary>
        public Action<BatcherState, string> OnState { get; set; }

        /// <summary>A copy, so that later changes do not count.</summary>
        internal BatcherOptions Checked()
        {
            if (string.IsNullOrEmpty(ItemKey) == !ConnectorHasItemKey)
            {
                throw new ArgumentException("ItemKey is missing; set the field that identifies each item, or ConnectorHasItemKey if the connector has an item key");
            }
            if (LatestOnly && ConnectorHasItemKey)
            {
                throw new ArgumentException("LatestOnly requires ItemKey; set it");
            }
            Client.ItemKey.CheckName(ItemKey ?? "");
            if (WhenFull == WhenFull.DropOldest && Spool != null)
            {
                throw new ArgumentException("DropOldest is not allowed with a spool; use Wait or Fail");
            }
            if (MaxItems < 1 || MaxBytes < 1 || QueueBytes < 1 || SpoolBytes < 1 || Linger < TimeSpan.Zero || MaxBytes > HeadgateClient.RequestBytesMax)
            {
                throw new ArgumentException("limits of a batcher must be positive, and MaxBytes at most " + HeadgateClient.RequestBytesMax);
            }
            return (BatcherOptions)MemberwiseClone();
        }
    }

    /// <summary>The counters of a batcher.</summary>
    public sealed class BatcherStats
    {
        internal BatcherStats()
        {
        }

        /// <summary>Items that wait in memory.</summary>
        public int Queued { get; internal set; }
        /// <summary>Items in the batch that is being sent.</summary>
        public int InFlight { get; internal set; }
        /// <summary>Batches that wait on disk. How many items they have is known when they are read.</summary>
        public int Spooled { get; internal set; }
        /// <summary>What those take.</summary>
        public long SpooledBytes { get; internal set; }
        /// <summary>Items that were accepted since the batcher was made.</summary>
        public long Accepted { get; internal set; }
        /// <summary>Items that were rejected, with those dropped.</summary>
        public long Rejected { get; internal set; }
        /// <summary>Dropped items.</summary>
        public long Dropped { get; internal set; }
        /// <summary>Items that were overtaken by newer ones (<see cref="BatcherOptions.LatestOnly"/>).</summary>
        public long Replaced { get; internal set; }
        /// <summary>Repeated requests.</summary>
        public long Retries { get; internal set; }
        /// <summary>Files that were set aside, because they turned out to be no batches.</summary>
        public long Damaged { get; internal set; }
        /// <summary>Files of refused items that had to make room for newer ones.</summary>
        public long Forgotten { get; internal set; }
        /// <summary>How long the oldest item in memory has been here; zero if there is none.</summary>
        public TimeSpan Oldest { get; internal set; }
        /// <summary>The state of the batcher's connection.</summary>
        public BatcherState State { get; internal set; }
        /// <summary>The code of the last error; null if all is well.</summary>
        public string Code { get; internal set; }
        /// <summary>When the state began.</summary>
        public DateTimeOffset Since { get; internal set; }
    }

    /// <summary>What a flush or a close found at its end.</summary>
    public sealed class Flushed
    {
        internal Flushed()
        {
        }

        /// <summary>Everything added before was accepted or rejected.</summary>
        public bool Done { get; internal set; }
        /// <summary>Items that were waiting in memory when the time was over.</summary>
        public int Queued { get; internal set; }
        /// <summary>Items that were being sent then.</summary>
        public int InFlight { get; internal set; }
        /// <summary>Batches that were waiting on disk then. They stay in the spool.</summary>
        public int Spooled { get; internal set; }
        /// <summary>Says why, if it was not done.</summary>
        public BatcherState State { get; internal set; }
        /// <summary>The code of the last error; null if all is well.</summary>
        public string Code { get; internal set; }
    }
}
