// The files of a batcher: batches are written when they are cut, and read when their turn comes.

using System;
using System.Collections.Generic;
using System.IO;

namespace Headgate.Client
{
    public sealed partial class Batcher
    {
        /// <summary>Takes the names of what lies in the folder.</summary>
        private void ReadFolder()
        {
            foreach (Spooled found in spool.Names())
            {
                files.Enqueue(new Spooled { Name = found.Name, Room = found.Room, First = ++last });
                used += found.Room;
            }
            spool.ReadRejected();
        }

        /// <summary>Reads the first file; null if it is no batch, or cannot be read now.</summary>
        private Hand Open(Spooled first, out TimeSpan wait)
        {
            wait = TimeSpan.Zero;
            try
            {
                Batch batch = spool.Read(first.Name);
                if (batch.Entries.Count > 0)
                {
                    return Opened(batch, first);
                }
                spool.Delete(first.Name);
            }
            catch (Exception error) when (error is FileNotFoundException || error is DirectoryNotFoundException)
            {
                // Somebody took it away.
            }
            catch (Exception error) when (error is InvalidDataException || error is UnauthorizedAccessException)
            {
                client.Transport.Warn(first.Name + " in the spool " + options.Spool + " is not a valid batch, or cannot be opened; renamed to .damaged: " + error.Message);
                bool aside = spool.SetAside(first.Name);
                lock (gate)
                {
                    stats.Damaged += aside ? 1 : 0;
                }
            }
            catch (IOException error)
            {
                DiskTakes(false, error.Message);
                wait = Again;
                lock (gate)
                {
                    NotBefore(client.Transport.Lived() + Again);
                }
                return null;
            }
            lock (gate)
            {
                files.Dequeue();
                used -= first.Room;
                Admit();
                WakeAll();
            }
            return null;
        }

        private Hand Opened(Batch batch, Spooled first)
        {
            batch.First = first.First;
            foreach (Entry entry in batch.Entries)
            {
                entry.Number = first.First;
                entry.Added = client.Transport.Lived();
            }
            var next = new Hand(batch) { Room = first.Room };
            spool.Resume(next, client.Transport);
            lock (gate)
            {
                files.Dequeue();
                if (next.Parts.Count > 0)
                {
                    hand = next; // at once: it is never in neither
                    return next;
                }
                used -= next.Room;
            }
            spool.Delete(first.Name); // a crash came between the last part and the end of its file
            return null;
        }

        /// <summary>Cuts and writes a batch, if it is time. It says how long there is nothing to do.</summary>
        internal TimeSpan WriteStep()
        {
            Batch next;
            lock (gate)
            {
                if (unwritten == null)
                {
                    unwritten = Cut(out TimeSpan wait);
                    if (unwritten == null)
                    {
                        return wait;
                    }
                }
                next = unwritten;
                if (next.Again > client.Transport.Lived())
                {
                    return next.Again - client.Transport.Lived();
                }
            }
            string why = spool.Write(next, out long room);
            lock (gate)
            {
                if (why == null)
                {
                    Written(next, room);
                }
                else
                {
                    // It is written again later, and sent from memory if its turn comes first.
                    next.Refused = true;
                    next.Again = client.Transport.Lived() + Again;
                    WakeAll();
                }
            }
            DiskTakes(why == null, why);
            return TimeSpan.Zero;
        }

        /// <summary>Forgets the items of a batch that has a file, but for one that is being sent.</summary>
        private void Written(Batch next, long room)
        {
            if (unwritten != next)
            {
                spool.Delete(next.Key + ".json"); // it was sent meanwhile
                return;
            }
            if (Holds(next))
            {
                hand.Room = room;
            }
            else
            {
                files.Enqueue(new Spooled { Name = next.Key + ".json", Room = room, First = next.First });
            }
            unwritten = null;
            used += room;
            Admit();
            Tell();
            WakeAll();
        }

        /// <summary>Tells when the disk takes nothing any more, and when it does again.</summary>
        private void DiskTakes(bool well, string why)
        {
            lock (gate)
            {
                if (diskFails == !well)
                {
                    return;
                }
                diskFails = !well;
            }
            if (!well)
            {
                client.Transport.Warn("the spool " + options.Spool + " fails, retrying: " + why);
            }
            Call("OnState", () => options.OnState?.Invoke(well ? BatcherState.Ok : BatcherState.Retrying, HeadgateCode.Spool));
        }

        /// <summary>
        /// Leaves everything in files, and gives back what cannot be written, batch by batch. Called at the end, with the lock held.
        /// </summary>
        private List<List<Entry>> KeepAll()
        {
            var lost = new List<List<Entry>>();
            if (hand != null && hand.Room > 0)
            {
                var behind = files.ToArray();
                files.Clear();
                files.Enqueue(new Spooled { Name = hand.Batch.Key + ".json", Room = hand.Room, First = hand.Batch.First });
                Array.ForEach(behind, files.Enqueue);
                hand = null;
            }
            for (; ; )
            {
                unwritten = unwritten ?? Cut(out _);
                if (unwritten == null)
                {
                    return lost;
                }
                if (spool.Write(unwritten, out long room) == null)
                {
                    files.Enqueue(new Spooled { Name = unwritten.Key + ".json", Room = room, First = unwritten.First });
                    used += room;
                }
                else
                {
                    lost.Add(Holds(unwritten) ? hand.Rest() : unwritten.Entries);
                }
                hand = null;
                unwritten = null;
            }
        }
    }
}
