// The items that wait for their batch, and the callers that wait for room.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Threading.Tasks;

namespace Headgate.Client
{
    /// <summary>An item on its way.</summary>
    internal sealed class Entry
    {
        internal byte[] Raw;
        internal string Key; // the value of the item key; null if the connector has that
        internal long Number; // in the order in which items came
        internal long Added; // a time stamp of Stopwatch, which is smaller than one

        internal TimeSpan Age => new TimeSpan((long)((Stopwatch.GetTimestamp() - Added) * (TimeSpan.TicksPerSecond / (double)Stopwatch.Frequency)));
    }

    /// <summary>A caller whose item has no room yet. The result is false if the batcher was closed.</summary>
    internal sealed class Waiter
    {
        internal Entry Entry;
        internal readonly TaskCompletionSource<bool> Done = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        internal LinkedListNode<Waiter> Place;
    }

    /// <summary>The items of one request, or of one that was refused and cut.</summary>
    internal sealed class Batch
    {
        internal string Key; // idempotency key
        internal string ItemKey; // null if the connector has one
        internal DateTimeOffset Created;
        internal readonly Stopwatch Lived = Stopwatch.StartNew();
        internal List<Entry> Entries;
        internal string File; // its name in the spool; null if it is in none
        internal bool Ready; // to be sent: with a spool, the file is written
        internal string Whole; // of a part: the key of the batch that it was cut out of
        internal int Offset; // of a part: its first item's place there

        internal int Bytes
        {
            get
            {
                int sum = 0;
                foreach (Entry entry in Entries)
                {
                    sum += entry.Raw.Length;
                }
                return sum;
            }
        }

        internal byte[] Body()
        {
            var body = new MemoryStream(Bytes + Entries.Count + 1);
            for (int i = 0; i < Entries.Count; i++)
            {
                body.WriteByte((byte)(i == 0 ? '[' : ','));
                body.Write(Entries[i].Raw, 0, Entries[i].Raw.Length);
            }
            body.WriteByte((byte)']');
            return body.ToArray();
        }

        /// <summary>
        /// Makes smaller batches of one that was refused: what the answer names stands alone, or else it is halved. Null if that is
        /// no use.
        /// </summary>
        internal List<Batch> Divide(HeadgateException refused)
        {
            if ((refused.Status != 400 && refused.Status != 413) || Entries.Count < 2)
            {
                return null;
            }
            var alone = new SortedSet<int>();
            foreach (ErrorDetail detail in refused.Details)
            {
                if (detail.Item >= 0 && detail.Item < Entries.Count)
                {
                    alone.Add(detail.Item.Value);
                }
            }
            if (alone.Count == 0)
            {
                int half = Entries.Count / 2;
                return new List<Batch> { Part(0, half), Part(half, Entries.Count) };
            }
            var parts = new List<Batch>();
            int from = 0;
            foreach (int at in alone)
            {
                if (from < at)
                {
                    parts.Add(Part(from, at));
                }
                parts.Add(Part(at, at + 1));
                from = at + 1;
            }
            if (from < Entries.Count)
            {
                parts.Add(Part(from, Entries.Count));
            }
            return parts;
        }

        /// <summary>
        /// A batch of its own, with a key of its own. Whenever the same part is cut out of the same batch, it has the same key: what
        /// was accepted before a crash is known when the batch comes from its file again.
        /// </summary>
        private Batch Part(int from, int to)
        {
            string whole = Whole ?? Key;
            int offset = Offset + from;
            return new Batch
            {
                Key = string.Format(CultureInfo.InvariantCulture, "{0}/{1}/{2}", whole, offset, to - from),
                ItemKey = ItemKey,
                Created = Created,
                Entries = Entries.GetRange(from, to - from),
                Whole = whole,
                Offset = offset,
            };
        }
    }

    /// <summary>Items in order, and their bytes.</summary>
    internal sealed class EntryQueue
    {
        private readonly LinkedList<Entry> entries = new LinkedList<Entry>();
        private readonly Dictionary<string, Entry> newest; // by key, if only the latest of each counts
        private readonly LinkedList<Waiter> waiters = new LinkedList<Waiter>();
        private int bytes;

        internal EntryQueue(bool latestOnly)
        {
            newest = latestOnly ? new Dictionary<string, Entry>(StringComparer.Ordinal) : null;
        }

        internal int Count => entries.Count;
        internal int Bytes => bytes;
        internal Entry First => entries.First?.Value;
        internal Waiter FirstWaiter => waiters.First?.Value;

        private Entry Older(Entry entry)
        {
            Entry old = null;
            newest?.TryGetValue(entry.Key, out old);
            return old;
        }

        /// <summary>Whether an item may go in. Who came first is let in first.</summary>
        internal bool Takes(Entry entry, int limit, int elsewhere)
        {
            Entry old = Older(entry);
            if (old != null)
            {
                return bytes - old.Raw.Length + entry.Raw.Length + elsewhere <= limit;
            }
            return waiters.Count == 0 && Fits(entry, limit, elsewhere);
        }

        internal bool Fits(Entry entry, int limit, int elsewhere)
        {
            long waiting = (long)bytes + elsewhere;
            return waiting == 0 || waiting + entry.Raw.Length <= limit;
        }

        /// <summary>Puts an item at the end, or in the place of an older one: then it is true.</summary>
        internal bool Push(Entry entry)
        {
            Entry old = Older(entry);
            if (old != null)
            {
                bytes += entry.Raw.Length - old.Raw.Length;
                old.Raw = entry.Raw;
                return true;
            }
            if (newest != null)
            {
                newest[entry.Key] = entry;
            }
            entries.AddLast(entry);
            bytes += entry.Raw.Length;
            return false;
        }

        /// <summary>Takes items from the front.</summary>
        internal List<Entry> Pop(int count)
        {
            var taken = new List<Entry>(count);
            while (taken.Count < count)
            {
                Entry entry = entries.First.Value;
                entries.RemoveFirst();
                bytes -= entry.Raw.Length;
                if (Older(entry) == entry)
                {
                    newest.Remove(entry.Key);
                }
                taken.Add(entry);
            }
            return taken;
        }

        /// <summary>Counts the items of the next batch, and says whether it is full.</summary>
        internal int Prefix(int itemsMax, int bytesMax, out bool full)
        {
            int size = 1, count = 0;
            full = true;
            foreach (Entry entry in entries)
            {
                size += entry.Raw.Length + 1;
                if (count == itemsMax || (size > bytesMax && count > 0))
                {
                    return count;
                }
                count++;
                if (size >= bytesMax)
                {
                    return count;
                }
            }
            full = count == itemsMax;
            return count;
        }

        /// <summary>Puts a caller at the end of those who wait.</summary>
        internal Waiter Line(Entry entry)
        {
            var waiter = new Waiter { Entry = entry };
            waiter.Place = waiters.AddLast(waiter);
            return waiter;
        }

        /// <summary>Takes a caller out, unless its item was let in.</summary>
        internal bool Leave(Waiter waiter)
        {
            if (waiter.Place == null)
            {
                return false;
            }
            waiters.Remove(waiter.Place);
            waiter.Place = null;
            return true;
        }
    }
}
