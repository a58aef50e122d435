// The ops that send, add and read.

using System;
using System.Collections.Generic;
using System.Linq;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Headgate.Client;

internal sealed partial class Runner
{
    private readonly object noting = new object();
    private List<object> accepted = new List<object>(), rejected = new List<object>(), states = new List<object>();

    /// <summary>What a .NET program would have: dictionaries, numbers as they are written, and what JSON lacks.</summary>
    private static object Value(JsonElement element)
    {
        switch (element.ValueKind)
        {
            case JsonValueKind.Array:
                return element.EnumerateArray().Select(Value).ToList();
            case JsonValueKind.Object:
                var members = new Dictionary<string, object>();
                foreach (JsonProperty member in element.EnumerateObject())
                {
                    members[member.Name] = Value(member.Value);
                }
                return members.Count == 1 && members.TryGetValue("$", out object special) ? Special((string)special) : members;
            case JsonValueKind.String: return element.GetString();
            case JsonValueKind.Number: return new RawJson(element.GetRawText());
            case JsonValueKind.Null: return null;
            default: return element.ValueKind == JsonValueKind.True;
        }
    }

    private static object Special(string name)
    {
        switch (name)
        {
            case "nan": return double.NaN;
            case "inf": return double.PositiveInfinity;
            case "-inf": return double.NegativeInfinity;
            case "not_unicode": return "a\uD800b";
            case "time": return new DateTimeOffset(2026, 3, 1, 12, 30, 0, TimeSpan.FromHours(2));
            default: throw new ArgumentException(name);
        }
    }

    private static List<object> Values(Line line)
    {
        return line.Texts("items").Select(text => Value(JsonDocument.Parse(text).RootElement)).ToList();
    }

    private async Task<object> SendAsync(Line line, CancellationToken cancel)
    {
        var options = new SendOptions
        {
            ItemKey = line.Text("item_key"),
            IdempotencyKey = line.Text("idempotency_key"),
            Stream = line.Text("stream"),
            Timeout = line.Time("timeout_ms"),
        };
        List<object> items = Values(line);
        return Shown(await client.SendAsync(line.Flag("one") ? items[0] : items, options, cancel));
    }

    private async Task<object> RemoveAsync(Line line, CancellationToken cancel)
    {
        return Shown(await client.RemoveAsync(line.Text("stream"), line.Text("key"), new SendOptions { Timeout = line.Time("timeout_ms") }, cancel));
    }

    private object Shown(Receipt receipt)
    {
        last = receipt.RequestId;
        return new Dictionary<string, object>
        {
            ["stream"] = receipt.Stream, ["items_received"] = receipt.ItemsReceived, ["request_id"] = receipt.RequestId, ["replayed"] = receipt.Replayed,
        };
    }

    private async Task<object> StateAsync(Line line, CancellationToken cancel)
    {
        RequestState state = line.Op == "request"
            ? await client.RequestAsync(line.Text("id"), cancel)
            : await client.WaitAsync(line.Text("id") ?? last, line.Time("timeout_ms") ?? TimeSpan.FromSeconds(30), cancel);
        return new Dictionary<string, object>
        {
            ["status"] = state.Status, ["errors"] = state.Errors,
            ["sinks"] = state.Sinks.Select(sink => new Dictionary<string, object> { ["name"] = sink.Name, ["state"] = sink.State }).ToList(),
        };
    }

    private object MakeBatcher(Line line)
    {
        script = null;
        batcher = client.Batcher(Options(line));
        return Nothing();
    }

    /// <summary>Options as a line has them, with callbacks that note what they are told.</summary>
    private BatcherOptions Options(Line line)
    {
        var options = new BatcherOptions
        {
            ItemKey = line.Text("item_key"),
            ConnectorHasItemKey = line.Flag("connector_has_item_key"),
            LatestOnly = line.Flag("latest_only"),
            Spool = line.Text("spool"),
            OnAccepted = (receipt, items) =>
            {
                Note(accepted, "items", items.Count, "replayed", receipt.Replayed);
                script?.Tell("accepted", items.Count, receipt.Replayed);
            },
            OnRejected = (items, error) =>
            {
                List<object> ids = items.Select(Id).ToList();
                Note(rejected, "items", ids, "code", error.Code, "status", Status(error));
                script?.Tell("rejected", error.Code, ids);
            },
            OnState = (state, code) =>
            {
                lock (noting)
                {
                    states.Add(new object[] { Named(state), code });
                }
                script?.Tell("state", Named(state), code);
            },
        };
        options.MaxItems = (int)line.Number("max_items", options.MaxItems);
        options.MaxBytes = (int)line.Number("max_bytes", options.MaxBytes);
        options.QueueBytes = (int)line.Number("queue_bytes", options.QueueBytes);
        options.SpoolBytes = line.Number("spool_bytes", options.SpoolBytes);
        options.Linger = line.Time("linger_ms") ?? options.Linger;
        string full = line.Text("when_full");
        options.WhenFull = full == "fail" ? WhenFull.Fail : full == "drop_oldest" ? WhenFull.DropOldest : WhenFull.Wait;
        lock (noting)
        {
            accepted = new List<object>();
            rejected = new List<object>();
            states = new List<object>();
        }
        return options;
    }

    private static string Named(BatcherState state)
    {
        return state.ToString().ToLowerInvariant();
    }

    private static object Status(HeadgateException error)
    {
        return error.Status == 0 ? null : (object)error.Status;
    }

    private static object Id(RawJson item)
    {
        return item.Deserialize<JsonElement>().TryGetProperty("id", out JsonElement id) ? (object)id : null;
    }

    private void Note(List<object> list, params object[] members)
    {
        var noted = new Dictionary<string, object>();
        for (int i = 0; i < members.Length; i += 2)
        {
            noted[(string)members[i]] = members[i + 1];
        }
        lock (noting)
        {
            list.Add(noted);
        }
    }

    private object Events()
    {
        lock (noting)
        {
            return new Dictionary<string, object> { ["accepted"] = accepted.ToList(), ["rejected"] = rejected.ToList(), ["states"] = states.ToList() };
        }
    }

    private object Stats()
    {
        BatcherStats stats = batcher.Stats();
        return new Dictionary<string, object>
        {
            ["queued"] = stats.Queued, ["in_flight"] = stats.InFlight, ["accepted"] = stats.Accepted, ["rejected"] = stats.Rejected,
            ["dropped"] = stats.Dropped, ["replaced"] = stats.Replaced, ["retries"] = stats.Retries, ["oldest_ms"] = stats.Oldest.TotalMilliseconds,
            ["spooled"] = stats.Spooled, ["spooled_bytes"] = stats.SpooledBytes, ["damaged"] = stats.Damaged,
            ["state"] = Named(stats.State), ["code"] = stats.Code,
        };
    }

    private async Task<object> AddAsync(Line line, CancellationToken cancel)
    {
        List<object> items = Values(line);
        int added = 0;
        if (line.Flag("concurrently"))
        {
            await Task.WhenAll(items.Select(item => Task.Run(() => batcher.AddAsync(item, cancel))));
            return new Dictionary<string, object> { ["added"] = items.Count };
        }
        foreach (object item in items)
        {
            try
            {
                await batcher.AddAsync(item, cancel);
            }
            catch (Exception error)
            {
                throw new PartlyAdded(added, error);
            }
            added++;
        }
        return new Dictionary<string, object> { ["added"] = added };
    }

    private async Task<object> FlushAsync(Line line, CancellationToken cancel)
    {
        if (script != null)
        {
            return Shown(await script.FlushAsync(line));
        }
        return Shown(line.Op == "flush" ? await batcher.FlushAsync(line.Time("timeout_ms"), cancel) : await batcher.CloseAsync(line.Time("timeout_ms"), cancel));
    }

    private static object Shown(Flushed flushed)
    {
        return new Dictionary<string, object>
        {
            ["done"] = flushed.Done, ["queued"] = flushed.Queued, ["in_flight"] = flushed.InFlight, ["spooled"] = flushed.Spooled,
            ["state"] = Named(flushed.State), ["code"] = flushed.Code,
        };
    }

    private static object Shown(Item item)
    {
        return item == null ? null : new Dictionary<string, object> { ["key"] = item.Key, ["fields"] = item.Fields, ["updated_at"] = item.UpdatedAt, ["seq"] = item.Seq };
    }

    private async Task<object> ReadAsync(Line line, CancellationToken cancel)
    {
        if (line.Op == "item")
        {
            return new Dictionary<string, object> { ["item"] = Shown(await reader.ItemAsync(line.Text("stream"), line.Text("key"), cancel)) };
        }
        IReadOnlyList<Item> items = await reader.ItemsAsync(line.Text("stream"), (int)line.Number("page", 1000), cancel);
        return new Dictionary<string, object> { ["items"] = items.Select(Shown).ToList() };
    }

    private async Task<object> FollowAsync(Line line, CancellationToken cancel)
    {
        var messages = new List<object>();
        using (var end = CancellationTokenSource.CreateLinkedTokenSource(cancel))
        {
            try
            {
                await reader.FollowAsync(new FollowOptions { Streams = line.Texts("streams"), Since = line.Text("since") }, message =>
                {
                    messages.Add(new Dictionary<string, object>
                    {
                        ["type"] = message.Type, ["stream"] = message.Stream, ["id"] = message.Id, ["items"] = message.Items.Select(Shown).ToList(),
                        ["keys"] = message.Keys, ["complete"] = message.Complete, ["reason"] = message.Reason,
                    });
                    if (messages.Count == line.Number("count", 1))
                    {
                        end.Cancel();
                    }
                    return Task.CompletedTask;
                }, end.Token);
            }
            catch (OperationCanceledException) when (end.IsCancellationRequested && !cancel.IsCancellationRequested)
            {
                // Enough.
            }
        }
        return new Dictionary<string, object> { ["messages"] = messages };
    }

    private object View(Line line)
    {
        string stream = line.Text("stream");
        if (line.Op == "view")
        {
            views[stream] = reader.View(stream);
            return Nothing();
        }
        StreamView view = views[stream];
        if (line.Op == "unview")
        {
            view.Dispose();
            views.Remove(stream);
            return Nothing();
        }
        return new Dictionary<string, object>
        {
            ["items"] = view.Items().ToDictionary(pair => pair.Key, pair => (object)pair.Value.Fields), ["complete"] = view.IsComplete, ["stale"] = view.IsStale,
        };
    }
}
