// What an answer to a submission means: the one place that decides whether items may be given up.

using System;
using System.Collections.Generic;
using System.Text.Json;

namespace Headgate.Client
{
    /// <summary>How an attempt ended. Only the first three take something from the queue.</summary>
    internal enum Kind
    {
        Accepted,
        Refused, // Headgate's word about items
        Mismatch, // the key belongs to other content
        Blocked, // Headgate's word about key, stream or request
        Retrying, // everything else
    }

    /// <summary>What came back: a complete answer, or why there is none.</summary>
    internal sealed class Reply
    {
        internal Answer Answer;
        internal HeadgateException Failed;
        internal bool Left; // the request began to leave
    }

    /// <summary>An attempt and what follows from it.</summary>
    internal sealed class Outcome
    {
        private static readonly TimeSpan AfterRefusal = TimeSpan.FromMilliseconds(100);
        private static readonly TimeSpan BlockedLeast = TimeSpan.FromSeconds(5);

        internal Kind Kind;
        internal Receipt Receipt; // of accepted
        internal HeadgateException Failed; // of all others
        internal bool Unknown; // Headgate may have taken it
        internal bool Shrink; // something in between finds the body too large

        /// <summary>What a reply to a submission of so many items means; of a removal, whose count says nothing, they are -1.</summary>
        internal static Outcome Of(Reply reply, int sent, DateTimeOffset now)
        {
            Answer answer = reply.Answer;
            if (answer == null)
            {
                return new Outcome { Kind = Kind.Retrying, Failed = reply.Failed, Unknown = reply.Left };
            }
            Envelope own = Envelope.Of(answer);
            int status = answer.Status;
            if (own != null && own.Receipt != null && status == 202)
            {
                return Taken(own.Receipt, sent);
            }
            var outcome = new Outcome { Kind = Kind.Retrying, Failed = HeadgateException.Refusal(answer, now) };
            if (own == null)
            {
                outcome.Unknown = status == 202 || status >= 500;
                outcome.Shrink = status == 413;
            }
            else if (status >= 200 && status < 300)
            {
                outcome.Unknown = true;
            }
            else if (own.IsAboutItems(status))
            {
                outcome.Kind = Kind.Refused;
            }
            else if (HeadgateException.IsFinal(status))
            {
                outcome.Kind = Kind.Blocked;
            }
            else
            {
                outcome.Unknown = status >= 500 && status != 503;
            }
            return outcome;
        }

        /// <summary>Compares what was accepted with what was sent.</summary>
        private static Outcome Taken(Receipt receipt, int sent)
        {
            if (receipt.ItemsReceived == sent || sent < 0)
            {
                return new Outcome { Kind = Kind.Accepted, Receipt = receipt };
            }
            string message = "the idempotency key belongs to another request with " + receipt.ItemsReceived + " items, but " + sent + " were sent; use a new key";
            return new Outcome
            {
                Kind = Kind.Mismatch,
                Failed = new HeadgateException(HeadgateCode.Mismatch, message) { Status = 202, RequestId = receipt.RequestId },
            };
        }

        /// <summary>How long to wait before the next attempt, after so many failures in a row.</summary>
        internal TimeSpan Pause(Transport transport, int failures, double draw)
        {
            switch (Kind)
            {
                case Kind.Refused:
                    return AfterRefusal;
                case Kind.Blocked:
                    TimeSpan pause = transport.Pause(failures, Failed.RetryAfter, draw);
                    return pause > BlockedLeast ? pause : BlockedLeast;
                case Kind.Retrying:
                    return transport.Pause(failures, Failed.RetryAfter, draw);
                default:
                    return TimeSpan.Zero;
            }
        }

        /// <summary>Which of so many items the details name, in order.</summary>
        internal List<int> Named(int count)
        {
            var items = new SortedSet<int>();
            foreach (ErrorDetail detail in Failed.Details)
            {
                if (detail.Item >= 0 && detail.Item < count)
                {
                    items.Add(detail.Item.Value);
                }
            }
            return new List<int>(items);
        }
    }

    /// <summary>A complete answer of Headgate's: one of both.</summary>
    internal sealed class Envelope
    {
        internal Receipt Receipt;
        internal string Code, Message, RequestId;
        internal IReadOnlyList<ErrorDetail> Details;

        /// <summary>Whether an error is about the items.</summary>
        internal bool IsAboutItems(int status)
        {
            if (Code == null)
            {
                return false;
            }
            foreach (ErrorDetail detail in Details)
            {
                if (detail.Header != null)
                {
                    return false;
                }
            }
            return status == 400 && Code == HeadgateCode.InvalidPayload || status == 413 && Code == "PAYLOAD_TOO_LARGE";
        }

        /// <summary>Null if it is not Headgate's. No header but Content-Type is asked: proxies replace the others.</summary>
        internal static Envelope Of(Answer answer)
        {
            string media = answer.Header("Content-Type");
            if (media == null || !string.Equals(media.Split(';')[0].Trim(), "application/json", StringComparison.OrdinalIgnoreCase))
            {
                return null;
            }
            try
            {
                using (JsonDocument document = JsonDocument.Parse(answer.Body, Json.Reading))
                {
                    JsonElement root = document.RootElement;
                    if (root.ValueKind != JsonValueKind.Object || !root.TryGetProperty("success", out JsonElement success))
                    {
                        return null;
                    }
                    switch (success.ValueKind)
                    {
                        case JsonValueKind.True: return OfData(root, answer);
                        case JsonValueKind.False: return OfError(root);
                        default: return null;
                    }
                }
            }
            catch (Exception error) when (error is JsonException || error is InvalidOperationException)
            {
                return null;
            }
        }

        private static Envelope OfData(JsonElement root, Answer answer)
        {
            if (!root.TryGetProperty("data", out JsonElement data) || data.ValueKind != JsonValueKind.Object
                || string.IsNullOrEmpty(Json.Text(data, "stream")) || string.IsNullOrEmpty(Json.Text(data, "request_id"))
                || !data.TryGetProperty("items_received", out JsonElement count) || count.ValueKind != JsonValueKind.Number || !count.TryGetInt32(out _))
            {
                return null;
            }
            string replayed = answer.Header("Idempotent-Replayed");
            return new Envelope { Receipt = new Receipt(data, replayed != null && replayed.Split(',')[0].Trim() == "true") };
        }

        private static Envelope OfError(JsonElement root)
        {
            if (!root.TryGetProperty("error", out JsonElement error) || error.ValueKind != JsonValueKind.Object
                || string.IsNullOrEmpty(Json.Text(error, "code")) || string.IsNullOrEmpty(Json.Text(error, "request_id")))
            {
                return null;
            }
            return new Envelope
            {
                Code = Json.Text(error, "code"),
                Message = Json.Text(error, "message") ?? "no message",
                RequestId = Json.Text(error, "request_id"),
                Details = ReadDetails(error),
            };
        }

        /// <summary>Each detail as far as it can be read: a member of another type is as none.</summary>
        private static IReadOnlyList<ErrorDetail> ReadDetails(JsonElement error)
        {
            var details = new List<ErrorDetail>();
            foreach (JsonElement each in Json.List(error, "details"))
            {
                if (each.ValueKind != JsonValueKind.Object)
                {
                    continue;
                }
                int? item = null;
                if (each.TryGetProperty("item", out JsonElement at) && at.ValueKind == JsonValueKind.Number && at.TryGetInt32(out int index))
                {
                    item = index;
                }
                details.Add(new ErrorDetail(item, Json.Text(each, "field"), Json.Text(each, "header")));
            }
            return details;
        }
    }
}
