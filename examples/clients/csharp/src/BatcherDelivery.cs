// The sender of a batcher: one batch after the other, each until Headgate has accepted or refused all of it.

using System;
using System.Collections.Generic;
using System.Threading.Tasks;

namespace Headgate.Client
{
    public sealed partial class Batcher
    {
        /// <summary>
        /// How long a batch is tried whose outcome is unknown. The daemon knows idempotency keys for 24 hours: what it may have taken
        /// must not come again after that.
        /// </summary>
        private static readonly TimeSpan UnknownMax = TimeSpan.FromHours(23);
        /// <summary>How far the wall clock may be off before the time of a mark is written anew.</summary>
        private static readonly TimeSpan ClockJump = TimeSpan.FromMinutes(1);
        /// <summary>The pause before a file is tried again that could not be read or written.</summary>
        private static readonly TimeSpan Again = TimeSpan.FromSeconds(1);
        /// <summary>How short batches may become because something in between finds them too large.</summary>
        private const int BytesLeast = 4 << 10;
        /// <summary>How many parts have room in the file that says what is in hand.</summary>
        private const int PartsMax = 200;

        /// <summary>Makes one attempt, if it is time. It says how long there is nothing to do.</summary>
        internal async Task<TimeSpan> SendStepAsync()
        {
            TimeSpan wait;
            Hand next;
            lock (gate)
            {
                wait = notBefore - client.Transport.Lived();
                next = hand;
            }
            if (wait > TimeSpan.Zero)
            {
                return wait;
            }
            next = next ?? Take(out wait);
            if (next == null)
            {
                return wait;
            }
            await AttemptAsync(next).ConfigureAwait(false);
            return TimeSpan.Zero;
        }

        /// <summary>Gets the next batch in hand: from its file, from memory if the disk does not take it, or from the queue.</summary>
        private Hand Take(out TimeSpan wait)
        {
            wait = Forever;
            Spooled? first = null;
            lock (gate)
            {
                if (spool == null)
                {
                    Batch next = Cut(out wait);
                    hand = next == null ? null : new Hand(next);
                }
                else if (files.Count > 0)
                {
                    first = files.Peek();
                }
                else if (unwritten != null && unwritten.Refused)
                {
                    hand = new Hand(unwritten);
                }
            }
            Hand read = first.HasValue ? Open(first.Value, out wait) : null;
            lock (gate)
            {
                hand = hand ?? read;
                if (hand != null)
                {
                    Admit();
                }
                Tell();
                return hand;
            }
        }

        /// <summary>Sends what is next of the batch in hand, and does what follows.</summary>
        private async Task AttemptAsync(Hand next)
        {
            Transport transport = client.Transport;
            if (next.Tried && transport.Lived() - next.Lived >= UnknownMax)
            {
                SetAside(next, new HeadgateException(HeadgateCode.Expired, "Headgate may have accepted this more than 23 hours ago, and may no longer detect the duplicate; check the item before you send it again"));
                return;
            }
            Transport.Key key = transport.CurrentKey;
            Call call = HeadgateClient.Submission(Batch.Body(next.Part), next.Batch.ItemKey, next.PartKey, next.Batch.Stream);
            bool fresh = Mark(next);
            Reply reply;
            try
            {
                reply = await transport.Exchange(call, ending.Token).ConfigureAwait(false);
            }
            catch (Transport.CanceledException canceled) when (fresh && !canceled.Left)
            {
                next.Tried = false;
                Save(next);
                throw;
            }
            Outcome outcome = Outcome.Of(reply, next.Parts[0].Count, transport.Now());
            if (fresh && !outcome.Unknown)
            {
                next.Tried = false;
            }
            if (outcome.Kind == Kind.Blocked && transport.CurrentKey != key)
            {
                Save(next);
                return; // about the key before: it says nothing
            }
            Follow(next, outcome, call.Body.Length);
            Wait(outcome);
        }

        /// <summary>Does what an outcome asks for.</summary>
        private void Follow(Hand next, Outcome outcome, int bytes)
        {
            Span part = next.Parts[0];
            switch (outcome.Kind)
            {
                case Kind.Accepted:
                    lock (gate)
                    {
                        stream = outcome.Receipt.Stream;
                    }
                    Turn(BatcherState.Ok, null);
                    IReadOnlyList<RawJson> items = Raws(next.Part);
                    Call("OnAccepted", () => options.OnAccepted?.Invoke(outcome.Receipt, items));
                    Settle(next, true);
                    break;
                case Kind.Mismatch:
                    Turn(BatcherState.Ok, null);
                    SetAside(next, outcome.Failed);
                    break;
                case Kind.Refused:
                    Turn(BatcherState.Ok, null);
                    List<Span> smaller = Hand.Divide(part, outcome.Named(part.Count));
                    if (smaller != null)
                    {
                        CutUp(next, smaller);
                    }
                    else
                    {
                        SetAside(next, outcome.Failed);
                    }
                    break;
                case Kind.Blocked:
                    Save(next);
                    Failing(BatcherState.Blocked, outcome.Failed);
                    break;
                default:
                    if (outcome.Shrink && !next.Tried && part.Count > 1)
                    {
                        lock (gate)
                        {
                            bytesMax = Math.Min(bytesMax, Math.Max(bytes / 2, BytesLeast)); // later batches are shorter, too
                        }
                        CutUp(next, Hand.Divide(part, new List<int>()));
                    }
                    else
                    {
                        Save(next);
                    }
                    Failing(BatcherState.Retrying, outcome.Failed);
                    break;
            }
        }

        /// <summary>Sets when the next attempt may be, and counts failures.</summary>
        private void Wait(Outcome outcome)
        {
            Transport transport = client.Transport;
            lock (gate)
            {
                if (outcome.Kind == Kind.Blocked || outcome.Kind == Kind.Retrying)
                {
                    failures++;
                    stats.Retries++;
                }
                else
                {
                    failures = 0;
                }
                TimeSpan pause = outcome.Pause(transport, Math.Max(failures, 1), transport.Draw());
                if (pause > TimeSpan.Zero)
                {
                    NotBefore(transport.Lived() + pause);
                }
            }
        }

        private void NotBefore(TimeSpan time)
        {
            notBefore = notBefore > time ? notBefore : time;
        }

        /// <summary>Says on disk, before bytes leave, that the outcome is unknown. It is true if that was not so before.</summary>
        private bool Mark(Hand next)
        {
            DateTimeOffset now = client.Transport.Now();
            TimeSpan lived = client.Transport.Lived();
            if (!next.Tried)
            {
                next.Tried = true;
                next.Since = now;
                next.Lived = lived;
                Save(next);
                return true;
            }
            // The time that passed is what counts: a clock that jumped must not make a batch old, or young, after a crash.
            TimeSpan lasted = lived - next.Lived;
            if ((now - (next.Since + lasted)).Duration() > ClockJump)
            {
                next.Since = now - lasted;
                Save(next);
            }
            return false;
        }

        /// <summary>Writes what stands of the batch in hand.</summary>
        private void Save(Hand next)
        {
            string why = spool?.Save(next);
            if (why != null)
            {
                client.Transport.Warn("cannot write the state of the current batch to the spool " + options.Spool + ": " + why);
            }
        }

        /// <summary>Replaces the part that is next by smaller ones, which are on disk before the first of them is sent.</summary>
        private void CutUp(Hand next, List<Span> smaller)
        {
            lock (gate)
            {
                next.Parts.RemoveAt(0);
                next.Parts.InsertRange(0, smaller);
                if (next.Parts.Count > PartsMax)
                {
                    // None of the last ones was sent yet: they may be one.
                    int from = next.Parts[PartsMax - 1].From;
                    next.Parts.RemoveRange(PartsMax - 1, next.Parts.Count - PartsMax + 1);
                    next.Parts.Add(new Span(from, next.Batch.Entries.Count - from));
                }
                next.Whole = next.Tried = false;
            }
            Save(next);
        }

        /// <summary>
        /// Gives up what is next, for one of three reasons: Headgate refused it, knows its key with other content, or may have taken
        /// it too long ago. It is kept in the spool, and told of.
        /// </summary>
        private void SetAside(Hand next, HeadgateException failed)
        {
            if (spool != null)
            {
                string why = spool.Reject(next, failed, out int went);
                Forgot(went);
                if (why != null && !Spool.IsKept(failed.Code))
                {
                    client.Transport.Warn("cannot keep rejected items in the spool " + options.Spool + ": " + why);
                }
                else if (why != null)
                {
                    DiskTakes(false, why);
                    lock (gate)
                    {
                        NotBefore(client.Transport.Lived() + Again);
                    }
                    return;
                }
            }
            HandOver(next.Part, failed);
            Settle(next, false);
        }

        /// <summary>Counts files of refused items that had to go.</summary>
        private void Forgot(int count)
        {
            bool first;
            lock (gate)
            {
                first = count > 0 && stats.Forgotten == 0;
                stats.Forgotten += count;
            }
            if (first)
            {
                client.Transport.Warn("rejected items fill the spool " + options.Spool + ", so the oldest of them are deleted; later deletions are not logged");
            }
        }

        /// <summary>Takes what is next out of the batch in hand, and the batch out of the queue with its last part.</summary>
        private void Settle(Hand next, bool accepted)
        {
            bool more;
            lock (gate)
            {
                int count = next.Parts[0].Count;
                stats.Accepted += accepted ? count : 0;
                stats.Rejected += accepted ? 0 : count;
                next.Parts.RemoveAt(0);
                next.Tried = false;
                more = next.Parts.Count > 0;
                if (!more)
                {
                    Finish(next);
                }
                Tell();
            }
            if (more)
            {
                Save(next);
            }
        }

        private void Finish(Hand next)
        {
            if (next.Room > 0)
            {
                string why = spool.Delete(next.Batch.Key + ".json");
                if (why != null)
                {
                    client.Transport.Warn("cannot delete the file of an answered batch; it will be sent again, without creating duplicates: " + why);
                }
            }
            used -= next.Room;
            if (unwritten == next.Batch)
            {
                unwritten = null;
            }
            hand = null;
            if (spool == null)
            {
                flushTo = Math.Max(flushTo, last); // what gathered goes at once
            }
            Admit();
            WakeAll();
        }

        /// <summary>Tells of another state, or another reason to be blocked, and writes the log when all is well again.</summary>
        private void Turn(BatcherState to, string why)
        {
            BatcherState was;
            bool told;
            lock (gate)
            {
                was = state;
                told = was != to || (to == BatcherState.Blocked && code != why);
                since = was == to ? since : client.Transport.Now();
                state = to;
                code = why;
            }
            if (was != BatcherState.Ok && to == BatcherState.Ok)
            {
                client.Transport.Warn("requests are accepted again");
            }
            if (told)
            {
                Call("OnState", () => options.OnState?.Invoke(to, why));
            }
        }

        private void Failing(BatcherState to, HeadgateException failed)
        {
            bool first;
            lock (gate)
            {
                first = state == BatcherState.Ok || (to == BatcherState.Blocked && (state != to || code != failed.Code));
            }
            if (first && to == BatcherState.Blocked)
            {
                client.Transport.Warn("the daemon rejects the requests (" + failed.Code + "): " + failed.Message + "; the items are kept, and a new key is tried immediately");
            }
            else if (first)
            {
                client.Transport.Warn("a request failed, retrying (" + failed.Code + "): " + failed.Message);
            }
            Turn(to, failed.Code);
        }

        /// <summary>Stops, and hands over what cannot be left in files.</summary>
        private async Task StopAsync()
        {
            AppDomain.CurrentDomain.ProcessExit -= OnProcessExit;
            lock (client.Batchers)
            {
                client.Batchers.Remove(this);
            }
            ending.Cancel();
            await Task.WhenAll(tasks).ConfigureAwait(false);
            List<List<Entry>> left;
            lock (gate)
            {
                left = spool == null ? Dismiss() : KeepAll();
                hand = null;
                unwritten = null;
                left.ForEach(entries => stats.Rejected += entries.Count);
                Tell();
            }
            spool?.Dispose();
            foreach (List<Entry> entries in left)
            {
                HandOver(entries, new HeadgateException(HeadgateCode.Closed, "the batcher was closed before a response; the request in flight may have been accepted"));
            }
        }

        /// <summary>Everything that is in memory, batch by batch.</summary>
        private List<List<Entry>> Dismiss()
        {
            var left = new List<List<Entry>>();
            if (hand != null)
            {
                left.Add(hand.Rest());
            }
            for (Batch next = Cut(out _); next != null; next = Cut(out _))
            {
                left.Add(next.Entries);
            }
            return left;
        }

        /// <summary>Gives items back to the program.</summary>
        private void HandOver(List<Entry> entries, HeadgateException error)
        {
            bool first;
            lock (gate)
            {
                first = !losing;
                losing = true;
            }
            if (first)
            {
                client.Transport.Warn(entries.Count + " items were not accepted (" + error.Code + "): " + error.Message + "; later ones are not logged");
            }
            Call("OnRejected", () => options.OnRejected?.Invoke(Raws(entries), error));
        }

        /// <summary>A callback that throws is the program's mistake, and must not end the sender.</summary>
        private void Call(string name, Action callback)
        {
            try
            {
                callback();
            }
            catch (Exception error)
            {
                client.Transport.Warn(name + " of a batcher threw: " + error);
            }
        }

        private static IReadOnlyList<RawJson> Raws(List<Entry> entries)
        {
            return entries.ConvertAll(entry => new RawJson(entry.Raw));
        }
    }
}
