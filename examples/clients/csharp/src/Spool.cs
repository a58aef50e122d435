// The spool: a folder with a file for each batch that is not answered yet. The files are the same in every language.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks;

namespace Headgate.Client
{
    internal sealed class Spool : IDisposable
    {
        private readonly string folder;
        private readonly Action<string> warn;
        private readonly FileStream held;

        internal Spool(string folder, Action<string> warn)
        {
            this.folder = folder;
            this.warn = warn;
            Directory.CreateDirectory(folder);
            try
            {
                held = new FileStream(Path.Combine(folder, ".lock"), FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.None);
            }
            catch (IOException error)
            {
                throw new IOException("the spool " + folder + " is used by another batcher, or cannot be locked: " + error.Message, error);
            }
        }

        /// <summary>What lies there, in order of names. What is no batch is set aside, and told of.</summary>
        internal List<Batch> Leftovers()
        {
            var names = new List<string>();
            foreach (string part in Directory.GetFiles(folder, "*.json.part"))
            {
                File.Delete(part); // never finished, and so never sent
            }
            foreach (string path in Directory.GetFiles(folder, "*.json"))
            {
                if (path.EndsWith(".json", StringComparison.Ordinal))
                {
                    names.Add(Path.GetFileName(path));
                }
            }
            names.Sort(StringComparer.Ordinal);
            var all = new List<Batch>();
            foreach (string name in names)
            {
                try
                {
                    all.Add(Read(name));
                    Uuid.Saw(name.Substring(0, name.Length - ".json".Length));
                }
                catch (Exception error) when (error is JsonException || error is InvalidDataException || error is InvalidOperationException || error is ArgumentException)
                {
                    string path = Path.Combine(folder, name);
                    warn(path + " is no spooled batch; it is set aside, as .damaged: " + error.Message);
                    File.Delete(path + ".damaged");
                    File.Move(path, path + ".damaged");
                }
            }
            return all;
        }

        private Batch Read(string name)
        {
            byte[] text = File.ReadAllBytes(Path.Combine(folder, name));
            int end = Array.IndexOf(text, (byte)'\n');
            if (end < 0)
            {
                throw new InvalidDataException("it has one line only");
            }
            var batch = new Batch { File = name, Ready = true, Entries = new List<Entry>() };
            using (JsonDocument head = JsonDocument.Parse(new ReadOnlyMemory<byte>(text, 0, end)))
            {
                batch.Key = Json.Text(head.RootElement, "idempotency_key");
                batch.ItemKey = Json.Text(head.RootElement, "item_key");
                batch.Created = DateTimeOffset.FromUnixTimeMilliseconds(Json.Number(head.RootElement, "created"));
                if (Json.Number(head.RootElement, "v") != 1 || string.IsNullOrEmpty(batch.Key))
                {
                    throw new InvalidDataException("it is not a batch of version 1");
                }
            }
            using (JsonDocument body = JsonDocument.Parse(new ReadOnlyMemory<byte>(text, end + 1, text.Length - end - 1), Json.Reading))
            {
                if (body.RootElement.ValueKind == JsonValueKind.Object)
                {
                    batch.Entries.Add(new Entry { Raw = Encoding.UTF8.GetBytes(body.RootElement.GetRawText()) });
                    return batch;
                }
                foreach (JsonElement item in body.RootElement.EnumerateArray())
                {
                    batch.Entries.Add(new Entry { Raw = Encoding.UTF8.GetBytes(item.GetRawText()) });
                }
            }
            return batch;
        }

        /// <summary>Makes the file of a batch, whole or not at all, and on disk before it returns; or says why not.</summary>
        internal string Write(Batch batch)
        {
            string path = Path.Combine(folder, batch.Key + ".json");
            try
            {
                using (var file = new FileStream(path + ".part", FileMode.Create, FileAccess.Write, FileShare.None))
                {
                    byte[] head = Head(batch);
                    byte[] body = batch.Body();
                    file.Write(head, 0, head.Length);
                    file.WriteByte((byte)'\n');
                    file.Write(body, 0, body.Length);
                    file.Flush(true);
                }
                File.Move(path + ".part", path);
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                TakeAway(path + ".part"); // what there was room for is room again
                return error.Message;
            }
            batch.File = batch.Key + ".json";
            return null;
        }

        private static void TakeAway(string part)
        {
            try
            {
                File.Delete(part);
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                // The next batcher does it.
            }
        }

        private static byte[] Head(Batch batch)
        {
            using (var text = new MemoryStream())
            {
                using (var writer = new Utf8JsonWriter(text))
                {
                    writer.WriteStartObject();
                    writer.WriteNumber("v", 1);
                    writer.WriteString("idempotency_key", batch.Key);
                    writer.WriteString("item_key", batch.ItemKey); // null where the connector has it
                    writer.WriteNumber("created", batch.Created.ToUnixTimeMilliseconds());
                    writer.WriteEndObject();
                }
                return text.ToArray();
            }
        }

        /// <summary>Deletes the file of a batch, if it has one.</summary>
        internal void Remove(Batch batch)
        {
            if (batch.File == null)
            {
                return;
            }
            try
            {
                File.Delete(Path.Combine(folder, batch.File));
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                warn("the file of an answered batch could not be deleted; it will be sent again, with its key: " + error.Message);
            }
            batch.File = null;
        }

        public void Dispose()
        {
            held.Dispose();
        }
    }

    public sealed partial class Batcher
    {
        private void TakeLeftovers()
        {
            foreach (Batch batch in spool.Leftovers())
            {
                if (batch.Entries.Count == 0)
                {
                    spool.Remove(batch);
                    continue;
                }
                foreach (Entry entry in batch.Entries)
                {
                    entry.Number = ++last;
                    entry.Added = Stopwatch.GetTimestamp();
                }
                Stack(batch);
            }
        }

        /// <summary>Cuts batches and writes them, whatever the sender is doing.</summary>
        private async Task WriteFilesAsync()
        {
            try
            {
                while (!ending.IsCancellationRequested)
                {
                    Batch next;
                    TimeSpan wait;
                    lock (gate)
                    {
                        next = Cut(out wait);
                        if (next != null)
                        {
                            Stack(next);
                        }
                    }
                    if (next == null)
                    {
                        await wakeFiles.WaitAsync(wait, ending.Token).ConfigureAwait(false);
                        continue;
                    }
                    await KeepAsync(next).ConfigureAwait(false);
                    lock (gate)
                    {
                        next.Ready = true;
                        WakeAll();
                    }
                }
            }
            catch (OperationCanceledException)
            {
                // The end of the batcher: what is in the queue is for EndAsync.
            }
        }

        /// <summary>Writes a batch, however long the disk does not take it.</summary>
        private async Task KeepAsync(Batch next)
        {
            for (int retry = 0; ; retry++)
            {
                string why = spool.Write(next);
                if (why == null)
                {
                    return;
                }
                TimeSpan pause = client.Transport.Pause(retry, null);
                var failed = new HeadgateException(HeadgateCode.Spool, "a batch cannot be written to the spool: " + why, true);
                if (retry == 0)
                {
                    client.Transport.Warn(failed.Message + "; it waits until it can");
                }
                Call("OnRetry", () => options.OnRetry?.Invoke(failed, pause));
                await Task.Delay(pause, ending.Token).ConfigureAwait(false);
            }
        }

        /// <summary>Leaves everything in files, and gives back what cannot be written. Called at the end, with the lock held.</summary>
        private List<Entry> KeepAll()
        {
            var lost = new List<Entry>();
            for (Batch next = Cut(out _); next != null; next = Cut(out _))
            {
                Stack(next);
            }
            foreach (Batch next in pending)
            {
                if (next.File == null && spool.Write(next) != null)
                {
                    lost.AddRange(next.Entries);
                }
            }
            return lost;
        }
    }
}
