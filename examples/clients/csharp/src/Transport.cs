// Requests: one attempt, and attempts until there is an answer to keep.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Threading;
using System.Threading.Tasks;

namespace Headgate.Client
{
    /// <summary>A request, the same for all its attempts.</summary>
    internal sealed class Call
    {
        internal HttpMethod Method;
        internal string Path;
        internal byte[] Body;
        internal int AnswerBytesMax = 1 << 20;
        internal readonly Dictionary<string, string> Headers = new Dictionary<string, string>();
    }

    internal sealed class Answer
    {
        internal int Status;
        internal byte[] Body;
        internal string RequestId;
        internal bool Replayed;
        internal string RetryAfterText;

        /// <summary>What the server asked to wait: seconds or a date.</summary>
        internal TimeSpan? RetryAfter(DateTimeOffset now)
        {
            string text = RetryAfterText?.Trim();
            if (string.IsNullOrEmpty(text))
            {
                return null;
            }
            if (text.Trim('0', '1', '2', '3', '4', '5', '6', '7', '8', '9').Length == 0)
            {
                return int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int seconds) ? TimeSpan.FromSeconds(seconds) : TimeSpan.MaxValue;
            }
            if (!DateTimeOffset.TryParseExact(text, "r", CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out DateTimeOffset date))
            {
                return null;
            }
            return date > now ? date - now : TimeSpan.Zero;
        }
    }

    /// <summary>A body that is written once: no handler repeats a request by itself. Repeats are counted, and have pauses.</summary>
    internal sealed class OnceContent : HttpContent
    {
        private readonly byte[] body;
        private bool written;

        internal OnceContent(byte[] body)
        {
            this.body = body;
            Headers.ContentType = new MediaTypeHeaderValue("application/json");
        }

        protected override Task SerializeToStreamAsync(Stream stream, TransportContext context)
        {
            if (written)
            {
                throw new IOException("the connection was lost before the answer came");
            }
            written = true;
            return stream.WriteAsync(body, 0, body.Length);
        }

        protected override bool TryComputeLength(out long length)
        {
            length = body.Length;
            return true;
        }
    }

    internal sealed class Transport : IDisposable
    {
        internal const string Version = "0.1.0";
        private static readonly TimeSpan RetryAfterMax = TimeSpan.FromSeconds(300);

        internal readonly ClientOptions Options;
        internal readonly string Base;
        private readonly string key;
        private readonly string userAgent;
        private readonly HttpClient http;
        private readonly Random random = new Random();

        internal Transport(string url, string key, string what, ClientOptions options)
        {
            Options = options ?? new ClientOptions();
            if (Options.Timeout <= TimeSpan.Zero || Options.AttemptTimeout <= TimeSpan.Zero || Options.Silence <= TimeSpan.Zero)
            {
                throw new ArgumentException("a timeout must be longer than nothing");
            }
            Base = Address(string.IsNullOrEmpty(url) ? Environment.GetEnvironmentVariable("HEADGATE_URL") : url);
            this.key = CheckedKey(key, what);
            userAgent = "headgate-csharp/" + Version + (string.IsNullOrEmpty(Options.UserAgent) ? "" : " " + Options.UserAgent);
            if (userAgent.IndexOfAny(new[] { '\r', '\n', '\0' }) >= 0)
            {
                throw new ArgumentException("UserAgent has characters that no header can carry");
            }
            HttpMessageHandler handler = Options.Handler ?? new HttpClientHandler { UseCookies = false };
            if (handler is HttpClientHandler known && known.AllowAutoRedirect)
            {
                known.AllowAutoRedirect = false;
            }
            http = new HttpClient(handler, Options.Handler == null) { Timeout = Timeout.InfiniteTimeSpan };
        }

        private static string CheckedKey(string key, string what)
        {
            if (string.IsNullOrEmpty(key))
            {
                throw new ArgumentException("needs " + what);
            }
            foreach (char c in key)
            {
                if (c <= ' ' || c > '~')
                {
                    throw new ArgumentException("the key has characters that no key has; check that it was copied whole");
                }
            }
            return key;
        }

        private static string Address(string url)
        {
            url = string.IsNullOrEmpty(url) ? "http://127.0.0.1:8080" : url;
            if (!Uri.TryCreate(url, UriKind.Absolute, out Uri parsed) || (parsed.Scheme != "http" && parsed.Scheme != "https"))
            {
                throw new ArgumentException("the address must be http://host:port or https://host; Unix sockets need a Handler of your own");
            }
            if (parsed.UserInfo.Length > 0 || parsed.Query.Length > 0 || parsed.Fragment.Length > 0)
            {
                throw new ArgumentException("the address must have no user, query or fragment; the key goes beside it");
            }
            return url.TrimEnd('/');
        }

        public void Dispose()
        {
            http.Dispose();
        }

        /// <summary>A name as one part of a path or a query.</summary>
        internal static string Segment(string name)
        {
            if (name == "." || name == "..")
            {
                // System.Uri takes them for steps in the path, however they are written.
                throw new ArgumentException("\"" + name + "\" cannot be part of an address in .NET");
            }
            try
            {
                return Uri.EscapeDataString(name);
            }
            catch (UriFormatException)
            {
                throw new ArgumentException("the name has one half of a character, or is too long");
            }
        }

        internal HttpRequestMessage Request(Call call)
        {
            var request = new HttpRequestMessage(call.Method, new Uri(Base + call.Path));
            request.Headers.TryAddWithoutValidation("Authorization", "Bearer " + key);
            request.Headers.TryAddWithoutValidation("User-Agent", userAgent);
            foreach (KeyValuePair<string, string> header in call.Headers)
            {
                request.Headers.TryAddWithoutValidation(header.Key, header.Value);
            }
            if (call.Body != null)
            {
                request.Content = new OnceContent(call.Body);
            }
            return request;
        }

        internal Task<HttpResponseMessage> Open(HttpRequestMessage request, CancellationToken cancel)
        {
            return http.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, cancel);
        }

        /// <summary>One request. What is not 2xx is thrown, and so is the end of the caller's token.</summary>
        internal async Task<Answer> AttemptAsync(Call call, TimeSpan limit, CancellationToken caller)
        {
            using (var ending = CancellationTokenSource.CreateLinkedTokenSource(caller))
            using (HttpRequestMessage request = Request(call))
            {
                ending.CancelAfter(limit < Options.AttemptTimeout ? limit : Options.AttemptTimeout);
                try
                {
                    using (HttpResponseMessage response = await Open(request, ending.Token).ConfigureAwait(false))
                    using (ending.Token.Register(response.Dispose))
                    {
                        Answer answer = await ReadAsync(response, call.AnswerBytesMax, ending.Token).ConfigureAwait(false);
                        if (answer.Status < 200 || answer.Status >= 300)
                        {
                            throw HeadgateException.Refusal(answer, Options.Clock());
                        }
                        if (answer.Body.Length > call.AnswerBytesMax)
                        {
                            throw new HeadgateException(HeadgateCode.UnexpectedAnswer, "the answer is longer than " + call.AnswerBytesMax + " bytes") { Status = answer.Status };
                        }
                        return answer;
                    }
                }
                catch (Exception error) when (!(error is HeadgateException))
                {
                    caller.ThrowIfCancellationRequested();
                    if (ending.IsCancellationRequested)
                    {
                        throw new HeadgateException(HeadgateCode.Timeout, "no answer within the time", true);
                    }
                    if (error is HttpRequestException || error is IOException || error is ObjectDisposedException || error is WebException)
                    {
                        throw Broken(error);
                    }
                    throw;
                }
            }
        }

        internal static HeadgateException Broken(Exception error)
        {
            return new HeadgateException(HeadgateCode.Connection, "no answer: " + error.GetBaseException().Message, true, error);
        }

        internal static async Task<Answer> ReadAsync(HttpResponseMessage response, int bytesMax, CancellationToken cancel)
        {
            var body = new MemoryStream();
            var buffer = new byte[16 << 10];
            using (Stream stream = await response.Content.ReadAsStreamAsync().ConfigureAwait(false))
            {
                while (body.Length <= bytesMax)
                {
                    int count = await stream.ReadAsync(buffer, 0, buffer.Length, cancel).ConfigureAwait(false);
                    if (count == 0)
                    {
                        break;
                    }
                    body.Write(buffer, 0, count);
                }
                if (body.Length > bytesMax)
                {
                    // The rest is not taken: the connection ends.
                    response.Dispose();
                }
            }
            return new Answer
            {
                Status = (int)response.StatusCode,
                Body = body.ToArray(),
                RequestId = Header(response, "X-Request-Id"),
                Replayed = Header(response, "Idempotent-Replayed") == "true",
                RetryAfterText = Header(response, "Retry-After"),
            };
        }

        private static string Header(HttpResponseMessage response, string name)
        {
            return response.Headers.TryGetValues(name, out IEnumerable<string> values) ? string.Join(",", values) : null;
        }

        /// <summary>
        /// Makes attempts until one is answered with 2xx, or with what will be the same next time, or the time is over: then
        /// the last error is thrown.
        /// </summary>
        internal async Task<Answer> DoAsync(Call call, TimeSpan timeout, CancellationToken cancel)
        {
            Stopwatch watch = Stopwatch.StartNew();
            for (int retry = 0; ; retry++)
            {
                TimeSpan pause;
                TimeSpan left = timeout - watch.Elapsed;
                try
                {
                    return await AttemptAsync(call, left > TimeSpan.Zero ? left : TimeSpan.FromMilliseconds(1), cancel).ConfigureAwait(false);
                }
                catch (HeadgateException error) when (error.Retryable)
                {
                    pause = Pause(retry, error.RetryAfter);
                    if (pause >= timeout - watch.Elapsed)
                    {
                        throw;
                    }
                }
                await Task.Delay(pause, cancel).ConfigureAwait(false);
            }
        }

        /// <summary>The pause before a retry, from 0: what the server asked for, or a random part of a doubling limit.</summary>
        internal TimeSpan Pause(int retry, TimeSpan? asked)
        {
            if (asked.HasValue)
            {
                return asked.Value < RetryAfterMax ? asked.Value : RetryAfterMax;
            }
            double most = Math.Min(Options.BackoffMax.TotalMilliseconds, Options.BackoffFirst.TotalMilliseconds * Math.Pow(2, Math.Min(retry, 60)));
            lock (random)
            {
                return TimeSpan.FromMilliseconds(random.NextDouble() * most);
            }
        }

        internal void Warn(string message)
        {
            if (Options.Warn != null)
            {
                Options.Warn(message);
            }
            else
            {
                Trace.TraceWarning("headgate: " + message);
            }
        }
    }
}
