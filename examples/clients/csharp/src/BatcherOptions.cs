// The options of a batcher, and what it tells.

using System;
using System.Collections.Generic;

namespace Headgate.Client
{
    /// <summary>What <see cref="Batcher.AddAsync"/> does when the queue is full.</summary>
    public enum WhenFull
    {
        /// <summary>It waits for room.</summary>
        Wait,
        /// <summary>It fails with the code <c>FULL</c>.</summary>
        Fail,
        /// <summary>It gives up what waits longest; that is handed to <see cref="BatcherOptions.OnRejected"/> with the code <c>DROPPED</c>.</summary>
        DropOldest,
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
        /// <summary>The stream that the key is believed to have: if it has another, requests are refused.</summary>
        public string Stream { get; set; }
        /// <summary>The most items of a batch.</summary>
        public int MaxItems { get; set; } = 1000;
        /// <summary>The most bytes of a request with several items.</summary>
        public int MaxBytes { get; set; } = 1000000;
        /// <summary>How long an item waits for others. What gathers while a request is on its way goes at once when that is answered.</summary>
        public TimeSpan Linger { get; set; } = TimeSpan.FromMilliseconds(100);
        /// <summary>How much may wait. An item that is longer than all of it is let in alone.</summary>
        public int QueueBytes { get; set; } = 16 << 20;
        /// <summary>What happens then.</summary>
        public WhenFull WhenFull { get; set; } = WhenFull.Wait;
        /// <summary>An item that waits is replaced by a newer one of the same key, in its place: for sensors and scores.</summary>
        public bool LatestOnly { get; set; }
        /// <summary>
        /// A folder for batches: what was added longer ago than <see cref="Linger"/> survives a crash, and is sent by the next
        /// batcher with the folder. One batcher a folder. It is made if it is missing.
        /// </summary>
        public string Spool { get; set; }
        /// <summary>Is called for each accepted request, with its items.</summary>
        public Action<Receipt, IReadOnlyList<RawJson>> OnAccepted { get; set; }
        /// <summary>Is called for items that will not be sent any more.</summary>
        public Action<IReadOnlyList<RawJson>, HeadgateException> OnRejected { get; set; }
        /// <summary>
        /// Is called before a request is repeated, with the pause until then; and with the code <c>SPOOL</c> before a file is written
        /// again, which may be while another call runs.
        /// </summary>
        public Action<HeadgateException, TimeSpan> OnRetry { get; set; }

        /// <summary>A copy, so that later changes do not count.</summary>
        internal BatcherOptions Checked()
        {
            if (string.IsNullOrEmpty(ItemKey) == !ConnectorHasItemKey)
            {
                throw new ArgumentException("a batcher needs ItemKey, the field that identifies each item; or, if the connector has one in its configuration, ConnectorHasItemKey");
            }
            if (LatestOnly && ConnectorHasItemKey)
            {
                throw new ArgumentException("LatestOnly needs ItemKey, to know which items are the same");
            }
            Client.ItemKey.CheckName(ItemKey ?? "");
            if (MaxItems < 1 || MaxBytes < 1 || QueueBytes < 1 || Linger < TimeSpan.Zero || MaxBytes > HeadgateClient.RequestBytesMax)
            {
                throw new ArgumentException("limits of a batcher are positive, and MaxBytes is at most " + HeadgateClient.RequestBytesMax);
            }
            return (BatcherOptions)MemberwiseClone();
        }
    }

    /// <summary>What a batcher has and had.</summary>
    public sealed class BatcherStats
    {
        internal BatcherStats()
        {
        }

        /// <summary>Items that wait.</summary>
        public int Queued { get; internal set; }
        /// <summary>Items in the batch that is on its way.</summary>
        public int InFlight { get; internal set; }
        /// <summary>Items that were accepted since the batcher was made.</summary>
        public long Accepted { get; internal set; }
        /// <summary>Items that were rejected, with those dropped.</summary>
        public long Rejected { get; internal set; }
        /// <summary>Items that had to make room.</summary>
        public long Dropped { get; internal set; }
        /// <summary>Items that were overtaken by newer ones (<see cref="BatcherOptions.LatestOnly"/>).</summary>
        public long Replaced { get; internal set; }
        /// <summary>Repeated requests.</summary>
        public long Retries { get; internal set; }
        /// <summary>How long the oldest item has been here; zero if there is none.</summary>
        public TimeSpan Oldest { get; internal set; }
    }

    /// <summary>What a flush or a close found at its end.</summary>
    public sealed class Flushed
    {
        internal Flushed(bool done, int queued, int inFlight)
        {
            Done = done;
            Queued = queued;
            InFlight = inFlight;
        }

        /// <summary>Everything added before was accepted or rejected.</summary>
        public bool Done { get; }
        /// <summary>Items that were waiting when the time was over.</summary>
        public int Queued { get; }
        /// <summary>Items that were on their way then.</summary>
        public int InFlight { get; }
    }
}
