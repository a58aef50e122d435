// The items that wait for their batch, and the callers that wait for room.

using System;
using System.Collections.Generic;
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
        internal TimeSpan Added; // by the clock that cannot be set
    }

    /// <summary>A caller whose item has no room yet. The result is false if the batcher was closed.</summary>
    internal sealed class Waiter
    {
        internal Entry Entry;
        internal readonly TaskCompletionSource<bool> Done = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        internal LinkedListNode<Waiter> Place;
    }

    /// <summary>The items of one request, in memory.</summary>
    internal sealed class Batch
    {
        internal string Key; // idempotency key
        internal string ItemKey; // null if the connector has one
        internal string Stream; // that it is meant for; null if that is not known
        internal DateTimeOffset Created;
        internal List<Entry> Entries;
        internal long First; // number of the first item
        internal bool Refused; // the disk did not take it: it may be sent from memory
        internal TimeSpan Again; // when it is written again

        internal int Bytes => Size(Entries);

        internal static int Size(List<Entry> entries)
        {
            int sum = 0;
            foreach (Entry entry in entries)
            {
                sum += entry.Raw.Length;
            }
            return sum;
        }

        /// <summary>A list of items.</summary>
        internal static byte[] Body(List<Entry> entries)
        {
            var body = new MemoryStream(Size(entries) + entries.Count + 2);
            for (int i = 0; i < entries.Count; i++)
            {
                body.WriteByte((byte)(i == 0 ? '[' : ','));
                body.Write(entries[i].Raw, 0, entries[i].Raw.Length);
            }
            body.WriteByte((byte)']');
            return body.ToArray();
        }
    }

    /// <summary>A batch of which only the file is there.</summary>
    internal struct Spooled
    {
        internal string Name; // with .json
        internal long Room; // that it takes
        internal long First;
    }

    /// <summary>A part of a batch: its first item's place, and how many.</summary>
    internal struct Span
    {
        internal readonly int From, Count;

        internal Span(int from, int count)
        {
            From = from;
            Count = count;
        }
    }

    /// <summary>The batch that is being sent.</summary>
    internal sealed class Hand
    {
        internal readonly Batch Batch;
        internal long Room; // of its file; 0 if it has none
        internal List<Span> Parts; // what is left of it
        internal bool Whole = true; // it was not cut
        internal bool Tried; // whether Headgate has what is to be sent is unknown
        internal DateTimeOffset Since;
        internal TimeSpan Lived; // the same moment by the other clock

        internal Hand(Batch batch)
        {
            Batch = batch;
            Parts = new List<Span> { new Span(0, batch.Entries.Count) };
        }

        /// <summary>What is sent next.</summary>
        internal List<Entry> Part => Batch.Entries.GetRange(Parts[0].From, Parts[0].Count);

        /// <summary>The batch's, or that of a part: the same whenever the same part is cut out of the same batch.</summary>
        internal string PartKey => Whole ? Batch.Key : string.Format(CultureInfo.InvariantCulture, "{0}/{1}/{2}", Batch.Key, Parts[0].From, Parts[0].Count);

        /// <summary>The items that are neither accepted nor rejected.</summary>
        internal List<Entry> Rest()
        {
            var rest = new List<Entry>();
            foreach (Span part in Parts)
            {
                rest.AddRange(Batch.Entries.GetRange(part.From, part.Count));
            }
            return rest;
        }

        internal int Left
        {
            get
            {
                int sum = 0;
                foreach (Span part in Parts)
                {
                    sum += part.Count;
                }
                return sum;
            }
        }

        /// <summary>
        /// Makes smaller parts of one that was refused: the items that are named stand alone, or else it is halved. Null if that is
        /// no use.
        /// </summary>
        internal static List<Span> Divide(Span part, List<int> named)
        {
            if (part.Count < 2)
            {
                return null;
            }
            int half = part.Count / 2;
            if (named.Count == 0)
            {
                return new List<Span> { new Span(part.From, half), new Span(part.From + half, part.Count - half) };
            }
            var parts = new List<Span>();
            int from = 0;
            foreach (int item in named)
            {
                if (from < item)
                {
                    parts.Add(new Span(part.From + from, item - from));
                }
                parts.Add(new Span(part.From + item, 1));
                from = item + 1;
            }
            if (from < part.Count)
            {
                parts.Add(new Span(part.From + from, part.Count - from));
            }
            return parts;
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
        internal bool Takes(Entry entry, long limit, long elsewhere)
        {
            Entry old = Older(entry);
            if (old != null)
            {
                return bytes - old.Raw.Length + entry.Raw.Length + elsewhere <= limit;
            }
            return waiters.Count == 0 && Fits(entry, limit, elsewhere);
        }

        internal bool Fits(Entry entry, long limit, long elsewhere)
        {
            long waiting = bytes + elsewhere;
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
