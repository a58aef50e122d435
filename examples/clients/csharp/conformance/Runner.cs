// Does what the conformance kit in tests/clients tells it: cases with the public interface of the library, verdicts and
// scripts with what it has inside.
//
// What .NET leaves to its users is done here as they are told to do it: the batcher is disposed at the end.

using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Headgate.Client;

internal sealed partial class Runner
{
    private static readonly JsonSerializerOptions Writing = new JsonSerializerOptions
    {
        Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
        MaxDepth = 1000,
    };

    private readonly TextWriter output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { AutoFlush = true };
    private readonly Dictionary<string, CancellationTokenSource> cancels = new Dictionary<string, CancellationTokenSource>();
    private readonly Dictionary<string, StreamView> views = new Dictionary<string, StreamView>();
    private readonly List<Task> background = new List<Task>();
    private HeadgateClient client;
    private Batcher batcher;
    private HeadgateReader reader;
    private string last; // request id of the last receipt
    private Script script; // that is run
    private readonly TextReader input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));

    private static void Main()
    {
        var runner = new Runner();
        try
        {
            runner.RunAsync().GetAwaiter().GetResult();
        }
        finally
        {
            if (runner.script == null)
            {
                runner.batcher?.Dispose();
            }
        }
    }

    private async Task RunAsync()
    {
        for (string text = input.ReadLine(); text != null; text = input.ReadLine())
        {
            var line = new Line(JsonDocument.Parse(text).RootElement);
            if (line.Op == "kill")
            {
                System.Diagnostics.Process.GetCurrentProcess().Kill();
                Thread.Sleep(Timeout.Infinite);
            }
            string name = line.Text("as");
            if (name != null)
            {
                var cancel = new CancellationTokenSource();
                lock (cancels)
                {
                    cancels[name] = cancel;
                }
                background.Add(Task.Run(() => AnswerAsync(line, cancel.Token)));
                continue;
            }
            await AnswerAsync(line, CancellationToken.None);
            if (line.Op == "exit")
            {
                return;
            }
        }
    }

    private async Task AnswerAsync(Line line, CancellationToken cancel)
    {
        var answer = new Dictionary<string, object> { ["n"] = line.N };
        try
        {
            answer["ok"] = await DoAsync(line, cancel);
        }
        catch (Exception error)
        {
            answer["error"] = Described(error);
        }
        Write(answer);
    }

    private void Write(object line)
    {
        lock (output)
        {
            output.WriteLine(JsonSerializer.Serialize(line, Writing));
        }
    }

    private static Dictionary<string, object> Described(Exception error)
    {
        var shown = new Dictionary<string, object> { ["message"] = error.Message, ["text"] = error + " " + error.Message };
        if (error is PartlyAdded partly)
        {
            shown = Described(error.InnerException);
            shown["added"] = partly.Added;
            return shown;
        }
        if (!(error is HeadgateException known))
        {
            shown["code"] = error is OperationCanceledException ? "CANCELED" : error is UnknownOp ? "UNKNOWN_OP" : "USAGE";
            return shown;
        }
        shown["code"] = known.Code;
        shown["status"] = known.Status == 0 ? null : (object)known.Status;
        shown["request_id"] = known.RequestId;
        shown["retryable"] = known.Retryable;
        var details = new List<object>();
        foreach (ErrorDetail detail in known.Details)
        {
            details.Add(new Dictionary<string, object> { ["item"] = detail.Item, ["field"] = detail.Field });
        }
        shown["details"] = details;
        return shown;
    }

    private Task<object> DoAsync(Line line, CancellationToken cancel)
    {
        switch (line.Op)
        {
            case "client":
            case "reader":
                return Now(Connect(line));
            case "send": return SendAsync(line, cancel);
            case "remove": return RemoveAsync(line, cancel);
            case "request":
            case "wait": return StateAsync(line, cancel);
            case "cancel":
                lock (cancels)
                {
                    cancels[line.Text("of")].Cancel();
                }
                return Now(Nothing());
            case "batcher": return Now(MakeBatcher(line));
            case "add": return AddAsync(line, cancel);
            case "flush":
            case "close": return FlushAsync(line, cancel);
            case "stats": return Now(Stats());
            case "events": return Now(Events());
            case "set_key":
                client.SetKey(line.Text("key"));
                return Now(Nothing());
            case "attempt": return AttemptAsync(line);
            case "open": return Now(Open(line));
            case "pass":
            case "wall":
            case "disk": return script.DoAsync(line);
            case "items":
            case "item": return ReadAsync(line, cancel);
            case "follow": return FollowAsync(line, cancel);
            case "view":
            case "viewed":
            case "unview": return Now(View(line));
            case "show":
                return Now(new Dictionary<string, object> { ["text"] = client + " " + batcher + " " + reader });
            case "exit": return Now(Nothing());
            default: throw new UnknownOp();
        }
    }

    private static Task<object> Now(object result)
    {
        return Task.FromResult(result);
    }

    private static object Nothing()
    {
        return new Dictionary<string, object>();
    }

    private object Connect(Line line)
    {
        var options = new ClientOptions
        {
            UserAgent = line.Text("user_agent"),
            Warn = Console.Error.WriteLine,
        };
        options.Timeout = line.Time("timeout_ms") ?? options.Timeout;
        options.AttemptTimeout = line.Time("attempt_timeout_ms") ?? options.AttemptTimeout;
        options.BackoffFirst = line.Time("backoff_ms") ?? options.BackoffFirst;
        options.BackoffMax = line.Time("backoff_max_ms") ?? options.BackoffMax;
        options.Silence = line.Time("silence_ms") ?? options.Silence;
        if (line.Op == "reader")
        {
            reader = new HeadgateReader(line.Text("url"), line.Text("key"), options);
        }
        else
        {
            client = new HeadgateClient(line.Text("url"), line.Text("key"), options);
        }
        return Nothing();
    }

    private sealed class UnknownOp : Exception
    {
    }

    /// <summary>An add that failed after some.</summary>
    private sealed class PartlyAdded : Exception
    {
        internal readonly int Added;

        internal PartlyAdded(int added, Exception cause) : base("", cause)
        {
            Added = added;
        }
    }
}

/// <summary>What the kit says.</summary>
internal sealed class Line
{
    private readonly JsonElement members;

    internal Line(JsonElement members)
    {
        this.members = members;
    }

    internal long N => Number("n", -1);
    internal string Op => Text("op");

    internal bool Has(string name)
    {
        return members.TryGetProperty(name, out _);
    }

    internal string Text(string name)
    {
        return members.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.String ? value.GetString() : null;
    }

    internal bool Flag(string name)
    {
        return members.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.True;
    }

    internal long Number(string name, long other)
    {
        return members.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.Number ? value.GetInt64() : other;
    }

    internal double Double(string name)
    {
        return members.GetProperty(name).GetDouble();
    }

    internal TimeSpan? Time(string name)
    {
        return members.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.Number ? TimeSpan.FromMilliseconds(value.GetDouble()) : (TimeSpan?)null;
    }

    internal List<string> Texts(string name)
    {
        var all = new List<string>();
        if (members.TryGetProperty(name, out JsonElement list))
        {
            foreach (JsonElement each in list.EnumerateArray())
            {
                all.Add(each.GetString());
            }
        }
        return all;
    }
}
