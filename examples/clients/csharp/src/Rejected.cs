// What the spool gave up, kept in the folder rejected: a file for a batch, a line for each part of it.

using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Text.Json;

namespace Headgate.Client
{
    internal sealed partial class Spool
    {
        private sealed class GivenUp
        {
            internal string Name;
            internal long Room;
            internal bool Keep; // Headgate has not refused all of it: it stays
        }

        private readonly List<GivenUp> given = new List<GivenUp>(); // oldest first

        private string Rejected(string name)
        {
            return Path.Combine(Folder, "rejected", name);
        }

        /// <summary>It is not known, or not true, that Headgate refused the items: they are never deleted.</summary>
        internal static bool IsKept(string code)
        {
            return code == HeadgateCode.Expired || code == HeadgateCode.Mismatch;
        }

        /// <summary>Finds the names of what was given up before. What is in the files is read when room is needed.</summary>
        internal void ReadRejected()
        {
            var folder = new DirectoryInfo(Path.Combine(Folder, "rejected"));
            if (!folder.Exists)
            {
                return;
            }
            foreach (FileInfo file in folder.GetFiles())
            {
                if (file.Name.EndsWith(".json.part", StringComparison.Ordinal))
                {
                    file.Delete();
                }
                else if (file.Name.EndsWith(".json", StringComparison.Ordinal))
                {
                    given.Add(new GivenUp { Name = file.Name, Room = RoomOf(file.Length) });
                }
            }
            given.Sort((a, b) => string.CompareOrdinal(a.Name, b.Name));
            if (given.Count > 0)
            {
                Uuid.Saw(KeyOf(given[given.Count - 1].Name));
            }
        }

        /// <summary>
        /// Adds the part that is next to the file of its batch, or says why not. It makes room, and says how many files had to go for
        /// that.
        /// </summary>
        internal string Reject(Hand hand, HeadgateException failed, out int went)
        {
            went = 0;
            string name = hand.Batch.Key + ".json";
            string path = Rejected(name);
            try
            {
                Directory.CreateDirectory(Path.GetDirectoryName(path));
                string before = File.Exists(path) ? File.ReadAllText(path) : "";
                if (HoldsKey(before, hand.PartKey))
                {
                    return null; // a crash came before the part was taken out of the queue
                }
                byte[] text = Encoding.UTF8.GetBytes(before + Encoding.UTF8.GetString(Line(hand, failed)) + "\n");
                string why = WriteFile(path, text);
                if (why != null)
                {
                    return why;
                }
                GivenUp one = given.Find(other => other.Name == name);
                if (one == null)
                {
                    given.Add(one = new GivenUp { Name = name });
                }
                one.Room = RoomOf(text.Length);
                one.Keep = one.Keep || IsKept(failed.Code);
                went = MakeRoom();
                return null;
            }
            catch (Exception error) when (IsOfFiles(error))
            {
                return error.Message;
            }
        }

        private static byte[] Line(Hand hand, HeadgateException failed)
        {
            byte[] head = Json.Written(writer =>
            {
                writer.WriteNumber("v", 1);
                writer.WriteString("idempotency_key", hand.PartKey);
                writer.WriteString("item_key", hand.Batch.ItemKey);
                writer.WriteStartObject("error");
                writer.WriteString("code", failed.Code);
                writer.WriteString("message", failed.Message);
                writer.WriteString("request_id", failed.RequestId);
                writer.WriteEndObject();
            });
            // The items go out as they are, byte for byte.
            var line = new MemoryStream();
            line.Write(head, 0, head.Length - 1);
            byte[] name = Encoding.ASCII.GetBytes(",\"items\":"), items = Batch.Body(hand.Part);
            line.Write(name, 0, name.Length);
            line.Write(items, 0, items.Length);
            line.WriteByte((byte)'}');
            return line.ToArray();
        }

        private static bool HoldsKey(string text, string key)
        {
            foreach (string line in text.Split('\n'))
            {
                if (Told(line, root => Json.Text(root, "idempotency_key")) == key)
                {
                    return true;
                }
            }
            return false;
        }

        /// <summary>What a line says; null if it cannot be read.</summary>
        private static string Told(string line, Func<JsonElement, string> read)
        {
            try
            {
                using (JsonDocument document = JsonDocument.Parse(line, Json.Reading))
                {
                    return document.RootElement.ValueKind == JsonValueKind.Object ? read(document.RootElement) : null;
                }
            }
            catch (Exception error) when (error is JsonException || error is InvalidOperationException)
            {
                return null;
            }
        }

        /// <summary>Deletes the oldest files of which Headgate refused everything, but never the newest.</summary>
        private int MakeRoom()
        {
            long used = 0;
            given.ForEach(one => used += one.Room);
            int went = 0;
            for (int i = 0; used > rejectedRoom && i < given.Count - 1;)
            {
                GivenUp one = given[i];
                one.Keep = one.Keep || Keeps(one.Name);
                if (one.Keep || Delete(Path.Combine("rejected", one.Name)) != null)
                {
                    i++;
                    continue;
                }
                used -= one.Room;
                went++;
                given.RemoveAt(i);
            }
            return went;
        }

        /// <summary>Whether a file has something that Headgate did not refuse, or cannot be read.</summary>
        private bool Keeps(string name)
        {
            try
            {
                foreach (string line in File.ReadAllText(Rejected(name)).TrimEnd('\n').Split('\n'))
                {
                    string code = Told(line, root => root.TryGetProperty("error", out JsonElement error) && error.ValueKind == JsonValueKind.Object ? Json.Text(error, "code") : null);
                    if (code == null || IsKept(code))
                    {
                        return true;
                    }
                }
                return false;
            }
            catch (Exception error) when (IsOfFiles(error))
            {
                return true;
            }
        }
    }
}
