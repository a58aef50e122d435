// The sender of a batcher: one batch after the other, each until it is accepted, refused or too old.

using System;
using System.Collections.Generic;
using System.Threading.Tasks;

namespace Headgate.Client
{
    public sealed partial class Batcher
    {
        /// <summary>
        /// How long a batch is tried. The daemon knows idempotency keys for 24 hours: what it may have taken must not come again
        /// after that.
        /// </summary>
        private static readonly TimeSpan AgeMax = TimeSpan.FromHours(23);

        private async Task SendAsync()
        {
            try
            {
                for (; ; )
                {
                    await DeliverAsync(await NextAsync().ConfigureAwait(false)).ConfigureAwait(false);
                }
            }
            catch (OperationCanceledException) when (ending.IsCancellationRequested)
            {
                // The end of the batcher: what is in flight stays so, for EndAsync.
            }
        }

        /// <summary>Waits for a batch.</summary>
        private async Task<Batch> NextAsync()
        {
            for (; ; )
            {
                ending.Token.ThrowIfCancellationRequested();
                TimeSpan wait = System.Threading.Timeout.InfiniteTimeSpan;
                lock (gate)
                {
                    Batch next = null;
                    if (pending.Count > 0 && pending.First.Value.Ready)
                    {
                        next = Unstack();
                    }
                    else if (spool == null)
                    {
                        next = Cut(out wait);
                    }
                    if (next != null)
                    {
                        flying = next;
                        landed = 0;
                        Admit();
                        Tell();
                        return next;
                    }
                }
                await wake.WaitAsync(wait, ending.Token).ConfigureAwait(false);
            }
        }

        /// <summary>Settles every item of a batch.</summary>
        private async Task DeliverAsync(Batch whole)
        {
            var parts = new LinkedList<Batch>();
            parts.AddFirst(whole);
            while (parts.Count > 0)
            {
                Batch part = parts.First.Value;
                parts.RemoveFirst();
                bool accepted = false;
                try
                {
                    Receipt receipt = await TryAsync(part).ConfigureAwait(false);
                    accepted = true;
                    Working();
                    Call("OnAccepted", () => options.OnAccepted?.Invoke(receipt, Raws(part.Entries)));
                }
                catch (HeadgateException refused)
                {
                    List<Batch> smaller = part.Divide(refused);
                    if (smaller != null)
                    {
                        for (int i = smaller.Count - 1; i >= 0; i--)
                        {
                            parts.AddFirst(smaller[i]);
                        }
                        continue;
                    }
                    HandOver(part.Entries, refused);
                }
                Settle(part, accepted, parts.Count == 0 ? whole : null);
            }
        }

        private void Settle(Batch part, bool accepted, Batch done)
        {
            if (done != null)
            {
                spool?.Remove(done);
            }
            lock (gate)
            {
                if (accepted)
                {
                    stats.Accepted += part.Entries.Count;
                }
                else
                {
                    stats.Rejected += part.Entries.Count;
                }
                landed += part.Entries.Count;
                if (done != null)
                {
                    flying = null;
                    flushTo = last; // what gathered goes at once
                    WakeAll();
                }
                Tell();
            }
        }

        /// <summary>Repeats a request, with the same key and the same bytes, until there is a final answer.</summary>
        private async Task<Receipt> TryAsync(Batch part)
        {
            Transport transport = client.Transport;
            Call call = HeadgateClient.Submission(part.Body(), part.ItemKey, part.Key, options.Stream);
            HeadgateException failed = null;
            for (int retry = 0; ; retry++)
            {
                if (Age(part) >= AgeMax)
                {
                    string before = failed == null ? "" : "; the last attempt: " + failed.Message;
                    throw new HeadgateException(HeadgateCode.Expired, "the batch was not accepted for 23 hours, and the daemon would not know any more if it had taken it before" + before);
                }
                try
                {
                    return HeadgateClient.ReadReceipt(await transport.AttemptAsync(call, transport.Options.AttemptTimeout, ending.Token).ConfigureAwait(false));
                }
                catch (HeadgateException error) when (error.Retryable)
                {
                    failed = error;
                }
                TimeSpan pause = transport.Pause(retry, failed.RetryAfter);
                Failing(failed);
                Call("OnRetry", () => options.OnRetry?.Invoke(failed, pause));
                await Task.Delay(pause, ending.Token).ConfigureAwait(false);
            }
        }

        /// <summary>By whichever clock says more: one stops while the machine sleeps, the other may be set back.</summary>
        private TimeSpan Age(Batch part)
        {
            TimeSpan age = client.Transport.Options.Clock() - part.Created;
            return age > part.Lived.Elapsed ? age : part.Lived.Elapsed;
        }

        /// <summary>Stops, and hands over, or leaves in files, what is still there.</summary>
        private async Task EndAsync()
        {
            AppDomain.CurrentDomain.ProcessExit -= OnProcessExit;
            ending.Cancel();
            await Task.WhenAll(tasks).ConfigureAwait(false);
            var left = new List<List<Entry>>();
            lock (gate)
            {
                if (spool != null)
                {
                    left.Add(KeepAll());
                }
                else
                {
                    left.Add(flying == null ? new List<Entry>() : flying.Entries.GetRange(landed, InFlight()));
                    left.Add(queue.Pop(queue.Count));
                }
                flying = null;
                pending.Clear();
                spooled = 0;
                left.ForEach(entries => stats.Rejected += entries.Count);
                Tell();
            }
            spool?.Dispose();
            foreach (List<Entry> entries in left)
            {
                if (entries.Count > 0)
                {
                    HandOver(entries, new HeadgateException(HeadgateCode.Closed, "the batcher was closed before an answer came; what was in flight may have been accepted"));
                }
            }
        }

        /// <summary>Gives items back to the program.</summary>
        private void HandOver(List<Entry> entries, HeadgateException error)
        {
            if (IsFirst(ref losing))
            {
                client.Transport.Warn(entries.Count + " items were not accepted (" + error.Code + "): " + error.Message + "; further ones are not logged until some are");
            }
            Call("OnRejected", () => options.OnRejected?.Invoke(Raws(entries), error));
        }

        private void Failing(HeadgateException error)
        {
            lock (gate)
            {
                stats.Retries++;
            }
            if (IsFirst(ref troubled))
            {
                client.Transport.Warn("a request failed and is tried again (" + error.Code + "): " + error.Message);
            }
        }

        private void Working()
        {
            bool recovered;
            lock (gate)
            {
                recovered = troubled;
                troubled = losing = false;
            }
            if (recovered)
            {
                client.Transport.Warn("requests are accepted again");
            }
        }

        private bool IsFirst(ref bool said)
        {
            lock (gate)
            {
                bool was = said;
                said = true;
                return !was;
            }
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
