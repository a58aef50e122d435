// The spool: a folder that is the queue, with a file for each batch that is not answered yet. The files are the same in
// every language.

using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Text.Json;

namespace Headgate.Client
{
    internal sealed partial class Spool : IDisposable
    {
        /// <summary>What a file takes at least.</summary>
        private const int RoomLeast = 4 << 10;
        /// <summary>The length of the file that says what is in hand.</summary>
        private const int StateBytes = 4 << 10;
        /// <summary>Which part of the room of the queue what is given up may have.</summary>
        private const int RejectedShare = 10;

        internal readonly string Folder;
        internal readonly Owner Owner;
        /// <summary>Says why nothing can be written, if a test wants that.</summary>
        internal Func<string> Full = () => null;
        private readonly long rejectedRoom;
        private readonly FileStream state;
        private Left left; // what an earlier life had in hand, until that batch comes

        /// <summary>What .state says.</summary>
        private sealed class Left
        {
            internal string Batch;
            internal long? Tried; // milliseconds since 1970
            internal List<Span> Parts; // null if it is whole
        }

        internal Spool(string folder, long bytes)
        {
            Folder = Path.GetFullPath(folder);
            rejectedRoom = bytes / RejectedShare;
            if (!Directory.Exists(Folder))
            {
                Directory.CreateDirectory(Folder);
                Posix.Mode(Folder, Convert.ToUInt32("700", 8));
            }
            Owner = new Owner(Folder);
            try
            {
                string path = Path.Combine(Folder, ".state");
                state = new FileStream(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.ReadWrite, 1);
                Posix.Mode(path, Posix.OwnerOnly);
                ReadState();
            }
            catch
            {
                state?.Dispose();
                Owner.Dispose();
                throw;
            }
        }

        /// <summary>What an error of files is; anything else is a mistake.</summary>
        internal static bool IsOfFiles(Exception error)
        {
            return error is IOException || error is UnauthorizedAccessException;
        }

        internal static long RoomOf(long bytes)
        {
            return Math.Max(bytes, RoomLeast);
        }

        internal static string KeyOf(string name)
        {
            return name.Substring(0, name.Length - ".json".Length);
        }

        /// <summary>The names of what lies there, in their order, and what each takes.</summary>
        internal List<Spooled> Names()
        {
            var found = new List<Spooled>();
            var parts = new List<FileInfo>();
            foreach (FileInfo file in new DirectoryInfo(Folder).EnumerateFiles())
            {
                if (file.Name.EndsWith(".json.part", StringComparison.Ordinal))
                {
                    parts.Add(file);
                }
                else if (file.Name.EndsWith(".json", StringComparison.Ordinal) && file.Name[0] != '.')
                {
                    found.Add(new Spooled { Name = file.Name, Room = RoomOf(file.Length) });
                }
            }
            parts.ForEach(part => part.Delete()); // never finished, and so never sent
            found.Sort((a, b) => string.CompareOrdinal(a.Name, b.Name));
            if (found.Count > 0)
            {
                Uuid.Saw(KeyOf(found[found.Count - 1].Name));
            }
            return found;
        }

        /// <summary>Makes the file that says what is in hand, so that it can be written when nothing else can.</summary>
        private void ReadState()
        {
            var old = new byte[Math.Min(state.Length, 1 << 20)];
            for (int count = 0, more = 1; count < old.Length && more > 0; count += more)
            {
                more = state.Read(old, count, old.Length - count);
            }
            left = Parse(old);
            if (old.Length < StateBytes)
            {
                string why = WriteState(old.Length == 0 ? Encoding.UTF8.GetBytes("{}") : Encoding.UTF8.GetBytes(Encoding.UTF8.GetString(old).Trim()));
                if (why != null)
                {
                    throw new IOException("the spool " + Folder + " cannot be written: " + why);
                }
            }
        }

        private static Left Parse(byte[] text)
        {
            try
            {
                using (JsonDocument document = JsonDocument.Parse(text))
                {
                    JsonElement root = document.RootElement;
                    if (root.ValueKind != JsonValueKind.Object || Json.Text(root, "batch") == null)
                    {
                        return null;
                    }
                    var found = new Left { Batch = Json.Text(root, "batch") };
                    if (root.TryGetProperty("tried", out JsonElement tried) && tried.ValueKind == JsonValueKind.Number)
                    {
                        found.Tried = (long)tried.GetDouble();
                    }
                    if (root.TryGetProperty("parts", out JsonElement parts) && parts.ValueKind == JsonValueKind.Array)
                    {
                        found.Parts = new List<Span>();
                        foreach (JsonElement part in parts.EnumerateArray())
                        {
                            found.Parts.Add(new Span(part[0].GetInt32(), part[1].GetInt32()));
                        }
                    }
                    return found;
                }
            }
            catch (Exception error) when (error is JsonException || error is InvalidOperationException || error is FormatException || error is IndexOutOfRangeException)
            {
                return null;
            }
        }

        private string WriteState(byte[] text)
        {
            var whole = new byte[Math.Max(StateBytes, text.Length + 1)];
            for (int i = 0; i < whole.Length; i++)
            {
                whole[i] = (byte)' ';
            }
            text.CopyTo(whole, 0);
            whole[whole.Length - 1] = (byte)'\n';
            try
            {
                state.Position = 0;
                state.Write(whole, 0, whole.Length);
                state.Flush(true);
                return null;
            }
            catch (Exception error) when (IsOfFiles(error))
            {
                return error.Message;
            }
        }

        /// <summary>Writes what stands of the batch in hand, or says why not.</summary>
        internal string Save(Hand hand)
        {
            return WriteState(Json.Written(writer =>
            {
                writer.WriteString("batch", hand.Batch.Key);
                if (hand.Tried)
                {
                    writer.WriteNumber("tried", hand.Since.ToUnixTimeMilliseconds());
                }
                else
                {
                    writer.WriteNull("tried");
                }
                if (hand.Whole)
                {
                    writer.WriteNull("parts");
                    return;
                }
                writer.WriteStartArray("parts");
                foreach (Span part in hand.Parts)
                {
                    writer.WriteStartArray();
                    writer.WriteNumberValue(part.From);
                    writer.WriteNumberValue(part.Count);
                    writer.WriteEndArray();
                }
                writer.WriteEndArray();
            }));
        }

        /// <summary>Gives a batch what an earlier life knew of it.</summary>
        internal void Resume(Hand hand, Transport transport)
        {
            Left known = left;
            if (known == null || known.Batch != hand.Batch.Key)
            {
                return;
            }
            left = null;
            if (known.Parts != null)
            {
                int end = 0;
                foreach (Span part in known.Parts)
                {
                    if (part.From < end || part.Count < 1 || part.From + (long)part.Count > hand.Batch.Entries.Count)
                    {
                        return; // no parts of this batch: it is as new
                    }
                    end = part.From + part.Count;
                }
                hand.Parts = known.Parts;
                hand.Whole = false;
            }
            if (known.Tried.HasValue)
            {
                hand.Tried = true;
                hand.Since = DateTimeOffset.FromUnixTimeMilliseconds(known.Tried.Value);
                TimeSpan age = transport.Now() - hand.Since;
                hand.Lived = transport.Lived() - (age > TimeSpan.Zero ? age : TimeSpan.Zero);
            }
        }

        /// <summary>A batch of a file. <see cref="InvalidDataException"/> says that it is none.</summary>
        internal Batch Read(string name)
        {
            byte[] text = File.ReadAllBytes(Path.Combine(Folder, name));
            try
            {
                Batch batch = Parsed(text, Math.Max(Array.IndexOf(text, (byte)'\n'), 0));
                if (batch.Key != KeyOf(name))
                {
                    throw new InvalidDataException("its key is not its name");
                }
                HeadgateClient.Submission(text, batch.ItemKey, batch.Key, batch.Stream); // can be sent
                return batch;
            }
            catch (Exception error) when (error is JsonException || error is InvalidOperationException || error is ArgumentException || error is HeadgateException)
            {
                throw new InvalidDataException(error.Message, error);
            }
        }

        private static Batch Parsed(byte[] text, int end)
        {
            var batch = new Batch { Entries = new List<Entry>() };
            using (JsonDocument head = JsonDocument.Parse(new ReadOnlyMemory<byte>(text, 0, end)))
            {
                batch.Key = Json.Text(head.RootElement, "idempotency_key");
                batch.ItemKey = Json.Text(head.RootElement, "item_key");
                batch.Stream = Json.Text(head.RootElement, "stream");
                if (Json.Number(head.RootElement, "v") != 1 || string.IsNullOrEmpty(batch.Key))
                {
                    throw new InvalidDataException("it is not a batch of version 1");
                }
            }
            using (JsonDocument body = JsonDocument.Parse(new ReadOnlyMemory<byte>(text, end + 1, text.Length - end - 1), Json.Reading))
            {
                JsonElement root = body.RootElement;
                var items = root.ValueKind == JsonValueKind.Object ? new List<JsonElement> { root } : new List<JsonElement>(root.EnumerateArray());
                foreach (JsonElement item in items)
                {
                    if (item.ValueKind != JsonValueKind.Object)
                    {
                        throw new InvalidDataException("an item is no object");
                    }
                    batch.Entries.Add(new Entry { Raw = Encoding.UTF8.GetBytes(item.GetRawText()) });
                }
            }
            return batch;
        }

        /// <summary>Makes the file of a batch; or says why not. It says what room it takes.</summary>
        internal string Write(Batch batch, out long room)
        {
            byte[] head = Json.Written(writer =>
            {
                writer.WriteNumber("v", 1);
                writer.WriteString("idempotency_key", batch.Key);
                writer.WriteString("item_key", batch.ItemKey); // null where the connector has it
                writer.WriteString("stream", batch.Stream);
                writer.WriteNumber("created", batch.Created.ToUnixTimeMilliseconds());
            });
            byte[] body = Batch.Body(batch.Entries);
            var text = new byte[head.Length + 1 + body.Length];
            head.CopyTo(text, 0);
            text[head.Length] = (byte)'\n';
            body.CopyTo(text, head.Length + 1);
            room = RoomOf(text.Length);
            return WriteFile(Path.Combine(Folder, batch.Key + ".json"), text);
        }

        /// <summary>Makes a file, whole or not at all, and on disk before it returns.</summary>
        private string WriteFile(string path, byte[] text)
        {
            string full = Full();
            if (full != null)
            {
                return full;
            }
            try
            {
                using (var file = new FileStream(path + ".part", FileMode.Create, FileAccess.Write, FileShare.None))
                {
                    Posix.Mode(path + ".part", Posix.OwnerOnly);
                    file.Write(text, 0, text.Length);
                    file.Flush(true);
                }
                if (File.Exists(path))
                {
                    File.Replace(path + ".part", path, null);
                }
                else
                {
                    File.Move(path + ".part", path);
                }
                Posix.Flush(Path.GetDirectoryName(path));
                return null;
            }
            catch (Exception error) when (IsOfFiles(error))
            {
                Delete(path + ".part"); // what there was room for is room again
                return error.Message;
            }
        }

        /// <summary>Deletes a file, or says why not.</summary>
        internal string Delete(string name)
        {
            try
            {
                File.Delete(Path.Combine(Folder, name));
                return null;
            }
            catch (Exception error) when (IsOfFiles(error))
            {
                return error.Message;
            }
        }

        /// <summary>Sets a file aside that is no batch; false if even that fails.</summary>
        internal bool SetAside(string name)
        {
            string path = Path.Combine(Folder, name);
            try
            {
                File.Delete(path + ".damaged");
                File.Move(path, path + ".damaged");
                return true;
            }
            catch (Exception error) when (IsOfFiles(error))
            {
                return false;
            }
        }

        public void Dispose()
        {
            state.Dispose();
            Owner.Dispose();
        }
    }
}
