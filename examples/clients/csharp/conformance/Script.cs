// Verdicts and scripts: what the kit asks of the inside. A script runs in virtual time, without tasks: its steps are done
// here, in the order of the times at which they are due.

using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Headgate.Client;

internal sealed partial class Runner
{
    private object Open(Line line)
    {
        script = null;
        client = new HeadgateClient("http://127.0.0.1:1", line.Text("key"), new ClientOptions { Warn = Console.Error.WriteLine });
        var opened = new Script(this, line);
        batcher = opened.Batcher;
        script = opened;
        return Nothing();
    }

    /// <summary>Makes one request as a batcher does, and says how the answer is judged.</summary>
    private async Task<object> AttemptAsync(Line line)
    {
        List<string> items = line.Texts("items");
        byte[] body = Encoding.UTF8.GetBytes("[" + string.Join(",", items) + "]");
        DateTimeOffset wall = DateTimeOffset.FromUnixTimeMilliseconds((long)line.Double("wall_ms"));
        Transport transport = client.Transport;
        Call call = HeadgateClient.Submission(body, "id", Uuid.New(DateTimeOffset.UtcNow), null);
        Outcome outcome = Outcome.Of(await transport.Exchange(call, CancellationToken.None), items.Count, wall);
        int failures = (int)line.Number("failures", 1);
        return new Dictionary<string, object>
        {
            ["kind"] = outcome.Kind.ToString().ToLowerInvariant(), ["code"] = outcome.Failed?.Code, ["unknown"] = outcome.Unknown,
            ["pause_ms"] = new[] { 0.0, 1.0 }.Select(draw => outcome.Pause(transport, failures, draw).TotalMilliseconds).ToList(),
            ["items"] = outcome.Failed == null ? null : outcome.Named(items.Count), ["replayed"] = outcome.Receipt?.Replayed, ["shrink"] = outcome.Shrink,
        };
    }

    /// <summary>The world of a script: clocks that only the kit moves.</summary>
    private sealed class Script
    {
        internal readonly Batcher Batcher;
        private readonly Runner runner;
        private readonly bool spooled;
        private DateTimeOffset wall;
        private TimeSpan mono;
        private bool full;

        internal Script(Runner runner, Line line)
        {
            this.runner = runner;
            wall = DateTimeOffset.FromUnixTimeMilliseconds((long)line.Double("wall_ms"));
            mono = line.Time("mono_ms").Value;
            Transport transport = runner.client.Transport;
            transport.Now = () => wall;
            transport.Lived = () => mono;
            transport.Draw = () => 1;
            transport.Exchange = (call, cancel) => Task.FromResult(Ask(call));
            BatcherOptions options = runner.Options(line);
            spooled = options.Spool != null;
            Batcher = new Batcher(runner.client, options);
            if (spooled)
            {
                Batcher.Files.Full = () => full ? "No space left on device" : null;
            }
        }

        internal void Tell(params object[] told)
        {
            runner.Write(new Dictionary<string, object> { ["event"] = told });
        }

        internal async Task<object> DoAsync(Line line)
        {
            switch (line.Op)
            {
                case "pass":
                    await UntilAsync(mono + line.Time("ms").Value, () => false);
                    break;
                case "wall":
                    wall += line.Time("ms").Value;
                    break;
                default:
                    full = line.Flag("full");
                    break;
            }
            return Runner.Nothing();
        }

        /// <summary>Does everything that is due until then, to its end, or until something is done.</summary>
        private async Task UntilAsync(TimeSpan end, Func<bool> done)
        {
            while (!done())
            {
                TimeSpan wait = spooled ? Batcher.WriteStep() : TimeSpan.MaxValue;
                if (wait <= TimeSpan.Zero)
                {
                    continue;
                }
                // What is due together is cut and written before one is sent.
                TimeSpan next = await Batcher.SendStepAsync();
                if (next <= TimeSpan.Zero)
                {
                    continue;
                }
                wait = next < wait ? next : wait;
                if (wait > end - mono)
                {
                    Move(end);
                    return;
                }
                Move(mono + wait);
            }
        }

        private void Move(TimeSpan to)
        {
            wall += to - mono;
            mono = to;
        }

        /// <summary>Both: a batcher that is closed ends at its timeout.</summary>
        internal async Task<Flushed> FlushAsync(Line line)
        {
            if (line.Op == "close")
            {
                Batcher.Shut();
            }
            long target = Batcher.Hurry();
            await UntilAsync(mono + (line.Time("timeout_ms") ?? TimeSpan.FromHours(1)), () => !Batcher.IsOpen(target));
            Flushed found = Batcher.Found(target);
            return line.Op == "close" ? await Batcher.EndAsync(found) : found;
        }

        /// <summary>Has the kit say what comes of an attempt.</summary>
        private Reply Ask(Call call)
        {
            runner.Write(new Dictionary<string, object>
            {
                ["ask"] = new Dictionary<string, object>
                {
                    ["at_ms"] = mono.TotalMilliseconds, ["key"] = call.Headers["Idempotency-Key"], ["auth"] = runner.client.Transport.CurrentKey.Text,
                    ["path"] = call.Path, ["body"] = Encoding.UTF8.GetString(call.Body),
                },
            });
            JsonElement told = JsonDocument.Parse(runner.input.ReadLine()).RootElement.GetProperty("answer");
            if (told.TryGetProperty("set_key", out JsonElement key))
            {
                runner.client.SetKey(key.GetString());
            }
            if (told.TryGetProperty("no", out JsonElement no))
            {
                return Without(no.GetString());
            }
            var headers = new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);
            foreach (JsonElement pair in told.GetProperty("headers").EnumerateArray())
            {
                string name = pair[0].GetString(), value = pair[1].GetString();
                headers[name] = headers.TryGetValue(name, out string before) ? before + ", " + value : value;
            }
            byte[] body = Encoding.UTF8.GetBytes(told.GetProperty("body").GetString());
            return new Reply { Answer = new Answer { Status = told.GetProperty("status").GetInt32(), Headers = headers, Body = body }, Left = true };
        }

        private static Reply Without(string why)
        {
            switch (why)
            {
                case "connection": return new Reply { Failed = Transport.Broken(new IOException("connection refused")) };
                case "timeout": return new Reply { Failed = new HeadgateException(HeadgateCode.Timeout, why, true), Left = true };
                case "too_long": return new Reply { Failed = new HeadgateException(HeadgateCode.UnexpectedAnswer, why, true), Left = true };
                default: return new Reply { Failed = Transport.Broken(new IOException(why)), Left = true };
            }
        }
    }
}
