// The one type of error, and how answers become errors.

using System;
using System.Collections.Generic;
using System.Text;

namespace Headgate.Client
{
    /// <summary>Codes of what a client finds by itself. Every other code comes from the daemon, such as <c>UNAUTHORIZED</c>.</summary>
    public static class HeadgateCode
    {
        /// <summary>Cannot be written as JSON, or is not an object. The daemon has this code, too.</summary>
        public const string InvalidPayload = "INVALID_PAYLOAD";
        /// <summary>No answer, or it broke off.</summary>
        public const string Connection = "CONNECTION";
        /// <summary>No answer, or no state to wait for, within the time.</summary>
        public const string Timeout = "TIMEOUT";
        /// <summary>More bytes than a request may have.</summary>
        public const string TooLarge = "TOO_LARGE";
        /// <summary>The batcher is closed, or was before the item was accepted.</summary>
        public const string Closed = "CLOSED";
        /// <summary>The queue is full.</summary>
        public const string Full = "FULL";
        /// <summary>The queue was full, and this was the oldest.</summary>
        public const string Dropped = "DROPPED";
        /// <summary>For 23 hours it was unknown whether the daemon had taken the batch.</summary>
        public const string Expired = "EXPIRED";
        /// <summary>The idempotency key belongs to other content.</summary>
        public const string Mismatch = "MISMATCH";
        /// <summary>A batch cannot be written to the spool now; only <see cref="BatcherOptions.OnState"/> is told of it.</summary>
        public const string Spool = "SPOOL";
        /// <summary>Another batcher uses the folder.</summary>
        public const string SpoolInUse = "SPOOL_IN_USE";
        /// <summary>Not an answer of Headgate: a redirect, a page of something in between.</summary>
        public const string UnexpectedAnswer = "UNEXPECTED_ANSWER";
    }

    /// <summary>A place in the items of a request.</summary>
    public sealed class ErrorDetail
    {
        internal ErrorDetail(int? item, string field, string header)
        {
            Item = item;
            Field = field;
            Header = header;
        }

        /// <summary>The position of the item, from 0; null if it is about the whole body.</summary>
        public int? Item { get; }
        /// <summary>The name of the field; null if it is about none.</summary>
        public string Field { get; }
        /// <summary>The name of a header of the request, if it is about one: then it is not about items.</summary>
        public string Header { get; }
    }

    /// <summary>Every error of this library that is not a wrong use of it, and not a cancellation.</summary>
    public sealed class HeadgateException : Exception
    {
        private static readonly ErrorDetail[] NoDetails = new ErrorDetail[0];

        internal HeadgateException(string code, string message, bool retryable = false, Exception cause = null)
            : base(message, cause)
        {
            Code = code;
            Retryable = retryable;
            Details = NoDetails;
        }

        /// <summary>What is wrong, for programs.</summary>
        public string Code { get; }
        /// <summary>The status of the answer; 0 if there was none.</summary>
        public int Status { get; internal set; }
        /// <summary>Finds the request in the daemon's log; null if there was no answer.</summary>
        public string RequestId { get; internal set; }
        /// <summary>Places in the items, at most 20.</summary>
        public IReadOnlyList<ErrorDetail> Details { get; internal set; }
        /// <summary>Whether the same request may be accepted later.</summary>
        public bool Retryable { get; }
        /// <summary>What the server asked to wait.</summary>
        internal TimeSpan? RetryAfter { get; set; }

        /// <summary>The code, the message, and where it was thrown.</summary>
        public override string ToString()
        {
            return Code + (RequestId == null ? "" : ", request " + RequestId) + ": " + base.ToString();
        }

        /// <summary>Makes an error of an answer that is not what was asked for: Headgate's own, or somebody else's.</summary>
        internal static HeadgateException Refusal(Answer answer, DateTimeOffset now)
        {
            HeadgateException error;
            Envelope own = Envelope.Of(answer);
            if (own?.Code != null)
            {
                error = new HeadgateException(own.Code, own.Message, !IsFinal(answer.Status)) { RequestId = own.RequestId, Details = own.Details };
            }
            else
            {
                string message = answer.Status >= 300 && answer.Status < 400
                    ? "the server answered " + answer.Status + ", a redirect, which is not followed; set the final URL"
                    : "the response is not from Headgate; status " + answer.Status + Excerpt(answer.Body);
                error = new HeadgateException(HeadgateCode.UnexpectedAnswer, message, true) { RequestId = answer.Header("X-Request-Id") };
            }
            error.Status = answer.Status;
            error.RetryAfter = answer.RetryAfter(now);
            return error;
        }

        /// <summary>An answer of 2xx without what Headgate answers.</summary>
        internal static HeadgateException Unexpected(Answer answer)
        {
            string message = "the response is not from Headgate; status " + answer.Status + Excerpt(answer.Body);
            return new HeadgateException(HeadgateCode.UnexpectedAnswer, message, true) { Status = answer.Status };
        }

        /// <summary>Whether an answer of Headgate's with this status is the same when the request is repeated.</summary>
        internal static bool IsFinal(int status)
        {
            return status >= 400 && status < 500 && status != 408 && status != 425 && status != 429;
        }

        /// <summary>The text of a page, without its markup, as far as a message can hold it.</summary>
        private static string Excerpt(byte[] body)
        {
            var text = new StringBuilder();
            bool inTag = false, space = false;
            foreach (char c in Encoding.UTF8.GetString(body, 0, Math.Min(body.Length, 4096)))
            {
                if (text.Length >= 120)
                {
                    break;
                }
                if (c == '<')
                {
                    inTag = space = true;
                }
                else if (c == '>' && inTag)
                {
                    inTag = false;
                }
                else if (char.IsWhiteSpace(c))
                {
                    space = true;
                }
                else if (!inTag && !char.IsControl(c) && c != '\uFFFD')
                {
                    text.Append(space && text.Length > 0 ? " " : "").Append(c);
                    space = false;
                }
            }
            return text.Length == 0 ? "" : ": " + text;
        }
    }
}
