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
        private static readonly TimeSpan RetryAfterMax = TimeSpan.FromSeconds(300);

        internal int Status;
        internal byte[] Body;
        internal Dictionary<string, string> Headers; // several of one name with a comma between them

        internal string Header(string name)
        {
            return Headers.TryGetValue(name, out string value) ? value : null;
        }

        /// <summary>What the server asked to wait: seconds, or a date, which counts from the answer's own.</summary>
        internal TimeSpan? RetryAfter(DateTimeOffset now)
        {
            string text = Header("Retry-After")?.Trim(' ', '\t');
            if (string.IsNullOrEmpty(text))
            {
                return null;
            }
            TimeSpan asked;
            if (text.Trim('0', '1', '2', '3', '4', '5', '6', '7', '8', '9').Length == 0)
            {
                asked = int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int seconds) ? TimeSpan.FromSeconds(seconds) : RetryAfterMax;
            }
            else if (IsDate(text, out DateTimeOffset date))
            {
                asked = date - (IsDate(Header("Date"), out DateTimeOffset own) ? own : now);
            }
            else
            {
                return null;
            }
            return asked < TimeSpan.Zero ? TimeSpan.Zero : asked < RetryAfterMax ? asked : RetryAfterMax;
        }

        /// <summary>Reads a date that says its zone: GMT.</summary>
        private static bool IsDate(string text, out DateTimeOffset date)
        {
            return DateTimeOffset.TryParseExact(text, "r", CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out date);
        }
    }

    /// <summary>A body that is written once: no handler repeats a request by itself. Repeats are counted, and have pauses.</summary>
    internal sealed class OnceContent : HttpContent
    {
        private readonly byte[] body;
        private volatile bool written;

        internal bool Written => written;

        internal OnceContent(byte[] body)
        {
            this.body = body;
            Headers.ContentType = new MediaTypeHeaderValue("application/json");
        }

        protected override Task SerializeToStreamAsync(Stream stream, TransportContext context)
        {
            if (written)
            {
                throw new IOException("the connection was lost before the response");
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

        /// <summary>What a slow uplink carries in a second: an attempt has so much longer for its body.</summary>
        private const double BytesASecond = 16 << 10;

        internal readonly ClientOptions Options;
        internal readonly string Base;
        private readonly string userAgent;
        private readonly object gate = new object();
        private readonly Random random = new Random();
        private volatile Key key;
        private Lane lane;

        // What tests replace: both clocks, chance, and the way to the daemon.
        internal Func<DateTimeOffset> Now = () => DateTimeOffset.UtcNow;
        internal Func<TimeSpan> Lived;
        internal Func<double> Draw;
        internal Func<Call, CancellationToken, Task<Reply>> Exchange;

        internal Transport(string url, string key, string what, ClientOptions options)
        {
            Options = options ?? new ClientOptions();
            if (Options.Timeout <= TimeSpan.Zero || Options.AttemptTimeout <= TimeSpan.Zero || Options.Silence <= TimeSpan.Zero)
            {
                throw new ArgumentException("a timeout must be longer than 0");
            }
            Base = Address(string.IsNullOrEmpty(url) ? Environment.GetEnvironmentVariable("HEADGATE_URL") : url);
            SetKey(key, what);
            userAgent = "headgate-csharp/" + Version + (string.IsNullOrEmpty(Options.UserAgent) ? "" : " " + Options.UserAgent);
            if (userAgent.IndexOfAny(new[] { '\r', '\n', '\0' }) >= 0)
            {
                throw new ArgumentException("UserAgent has characters that are not allowed in a header");
            }
            Stopwatch watch = Stopwatch.StartNew();
            Lived = () => watch.Elapsed;
            Draw = Chance;
            Exchange = OverHttpAsync;
            lane = new Lane(Options.Handler);
        }

        /// <summary>An ingest key or a read key. Another object is another key.</summary>
        internal sealed class Key
        {
            internal readonly string Text;

            internal Key(string text)
            {
                Text = text;
            }
        }

        /// <summary>Connections, which end when the last request over them does, once nobody may use them any more.</summary>
        private sealed class Lane
        {
            internal readonly HttpClient Http;
            internal readonly bool Given; // by the program, whose connections are its own business
            internal int Users = 1; // the transport is one

            internal Lane(HttpMessageHandler given)
            {
                HttpMessageHandler handler = given ?? new HttpClientHandler { UseCookies = false };
                if (handler is HttpClientHandler known && known.AllowAutoRedirect)
                {
                    known.AllowAutoRedirect = false;
                }
                Given = given != null;
                Http = new HttpClient(handler, !Given) { Timeout = Timeout.InfiniteTimeSpan };
            }
        }

        private Lane Enter()
        {
            lock (gate)
            {
                lane.Users++;
                return lane;
            }
        }

        private void Leave(Lane used)
        {
            lock (gate)
            {
                if (--used.Users > 0)
                {
                    return;
                }
            }
            used.Http.Dispose();
        }

        /// <summary>
        /// Ends connections after what is not Headgate's answer: what comes over one next may not be the answer to the next
        /// request.
        /// </summary>
        private void Retire(Lane used)
        {
            lock (gate)
            {
                if (used.Given || lane != used)
                {
                    return;
                }
                lane = new Lane(null);
            }
            Leave(used);
        }

        internal Key CurrentKey => key;

        internal void SetKey(string text, string what)
        {
            key = new Key(CheckedKey(text, what));
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
                    throw new ArgumentException("the key has invalid characters; copy the whole key again");
                }
            }
            return key;
        }

        private static string Address(string url)
        {
            url = string.IsNullOrEmpty(url) ? "http://127.0.0.1:8080" : url;
            if (!Uri.TryCreate(url, UriKind.Absolute, out Uri parsed) || (parsed.Scheme != "http" && parsed.Scheme != "https"))
            {
                throw new ArgumentException("the URL must be http://host:port or https://host; for Unix sockets, set your own Handler");
            }
            if (parsed.UserInfo.Length > 0 || parsed.Query.Length > 0 || parsed.Fragment.Length > 0)
            {
                throw new ArgumentException("the URL must not have a user, query or fragment; pass the key separately");
            }
            return url.TrimEnd('/');
        }

        public void Dispose()
        {
            Leave(lane);
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
            request.Headers.TryAddWithoutValidation("Authorization", "Bearer " + key.Text);
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

        /// <summary>For connections that are followed.</summary>
        internal Task<HttpResponseMessage> Open(HttpRequestMessage request, CancellationToken cancel)
        {
            return lane.Http.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, cancel);
        }

        /// <summary>One request. Only the end of the caller's token is thrown.</summary>
        private async Task<Reply> OverHttpAsync(Call call, CancellationToken caller)
        {
            Lane used = Enter();
            try
            {
                using (var ending = CancellationTokenSource.CreateLinkedTokenSource(caller))
                using (HttpRequestMessage request = Request(call))
                {
                    ending.CancelAfter(Options.AttemptTimeout + TimeSpan.FromSeconds((call.Body?.Length ?? 0) / BytesASecond));
                    Reply reply = await AnsweredAsync(used, request, call, ending.Token, caller).ConfigureAwait(false);
                    if (reply.Left && call.Method != HttpMethod.Get && (reply.Answer == null || Envelope.Of(reply.Answer) == null))
                    {
                        Retire(used);
                    }
                    return reply;
                }
            }
            finally
            {
                Leave(used);
            }
        }

        private static async Task<Reply> AnsweredAsync(Lane used, HttpRequestMessage request, Call call, CancellationToken ending, CancellationToken caller)
        {
            HeadgateException failed;
            bool answered = false;
            try
            {
                using (HttpResponseMessage response = await used.Http.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, ending).ConfigureAwait(false))
                using (ending.Register(response.Dispose))
                {
                    answered = true;
                    Answer answer = await ReadAsync(response, call.AnswerBytesMax, ending).ConfigureAwait(false);
                    if (answer.Body.Length <= call.AnswerBytesMax)
                    {
                        return new Reply { Answer = answer, Left = true };
                    }
                    failed = new HeadgateException(HeadgateCode.UnexpectedAnswer, "the answer " + answer.Status + " is longer than " + call.AnswerBytesMax + " bytes", true) { Status = answer.Status };
                }
            }
            catch (Exception error)
            {
                if (caller.IsCancellationRequested)
                {
                    throw new CanceledException(HasLeft(answered, request), caller);
                }
                if (ending.IsCancellationRequested)
                {
                    failed = new HeadgateException(HeadgateCode.Timeout, "no response within the timeout", true);
                }
                else if (error is HttpRequestException || error is IOException || error is ObjectDisposedException || error is WebException)
                {
                    failed = Broken(error);
                }
                else
                {
                    throw;
                }
            }
            return new Reply { Failed = failed, Left = HasLeft(answered, request) };
        }

        /// <summary>The body is written with the head before it: without it, not a byte has left.</summary>
        private static bool HasLeft(bool answered, HttpRequestMessage request)
        {
            return answered || !(request.Content is OnceContent once) || once.Written;
        }

        /// <summary>The caller ended an attempt.</summary>
        internal sealed class CanceledException : OperationCanceledException
        {
            /// <summary>Whether bytes of the request may have left.</summary>
            internal readonly bool Left;

            internal CanceledException(bool left, CancellationToken caller) : base(caller)
            {
                Left = left;
            }
        }

        internal static HeadgateException Broken(Exception error)
        {
            return new HeadgateException(HeadgateCode.Connection, "no response: " + error.GetBaseException().Message, true, error);
        }

        internal static async Task<Answer> ReadAsync(HttpResponseMessage response, int bytesMax, CancellationToken cancel)
        {
            // Before any of them is asked for: that would parse it, and a date without a zone would have one.
            var headers = new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);
            ReadHeaders(response.Headers.ToString(), headers);
            ReadHeaders(response.Content.Headers.ToString(), headers);
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
                Headers = headers,
            };
        }

        private static void ReadHeaders(string lines, Dictionary<string, string> headers)
        {
            foreach (string line in lines.Split('\n'))
            {
                int colon = line.IndexOf(':');
                if (colon > 0)
                {
                    headers[line.Substring(0, colon)] = line.Substring(colon + 1).Trim();
                }
            }
        }

        /// <summary>
        /// Makes attempts until one is answered as it is read, or with what will be the same next time, or the time is over: then
        /// the last error is thrown.
        /// </summary>
        internal async Task<T> DoAsync<T>(Call call, TimeSpan timeout, Func<Reply, T> read, CancellationToken cancel)
        {
            using (var over = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                over.CancelAfter(timeout);
                Stopwatch watch = Stopwatch.StartNew();
                HeadgateException last = null;
                for (int failures = 1; ; failures++)
                {
                    TimeSpan pause;
                    try
                    {
                        return read(await Exchange(call, over.Token).ConfigureAwait(false));
                    }
                    catch (OperationCanceledException) when (!cancel.IsCancellationRequested)
                    {
                        string before = last == null ? "" : "; the last attempt: " + last.Message;
                        throw new HeadgateException(HeadgateCode.Timeout, "no response within the timeout" + before, true);
                    }
                    catch (HeadgateException error) when (error.Retryable)
                    {
                        last = error;
                        pause = Pause(failures, error.RetryAfter, Draw());
                        if (pause >= timeout - watch.Elapsed)
                        {
                            throw;
                        }
                    }
                    await Task.Delay(pause, cancel).ConfigureAwait(false);
                }
            }
        }

        /// <summary>Reads with a request that changes nothing.</summary>
        internal Task<T> GetAsync<T>(string path, TimeSpan timeout, Func<Answer, T> read, CancellationToken cancel, int answerBytesMax = 1 << 20)
        {
            var call = new Call { Method = HttpMethod.Get, Path = path, AnswerBytesMax = answerBytesMax };
            return DoAsync(call, timeout, reply =>
            {
                if (reply.Answer == null)
                {
                    throw reply.Failed;
                }
                if (reply.Answer.Status < 200 || reply.Answer.Status >= 300)
                {
                    throw HeadgateException.Refusal(reply.Answer, Now());
                }
                return read(reply.Answer);
            }, cancel);
        }

        private double Chance()
        {
            lock (random)
            {
                return random.NextDouble();
            }
        }

        /// <summary>
        /// The pause after so many failures in a row: half to all of a limit that doubles, or what the server asked for if that is
        /// longer.
        /// </summary>
        internal TimeSpan Pause(int failures, TimeSpan? asked, double draw)
        {
            double most = Math.Min(Options.BackoffMax.TotalMilliseconds, Options.BackoffFirst.TotalMilliseconds * Math.Pow(2, Math.Min(failures - 1, 60)));
            TimeSpan pause = TimeSpan.FromTicks((long)(TimeSpan.TicksPerMillisecond * most * (1 + draw) / 2));
            return asked > pause ? asked.Value : pause;
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
