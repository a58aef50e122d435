// Values as JSON, exactly: what JSON cannot hold is an error with its path, never something else in its place.

using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;

namespace Headgate.Client
{
    /// <summary>JSON text that goes out as it is, but for white space: an item, or a value inside of one.</summary>
    public sealed class RawJson
    {
        internal readonly byte[] Utf8;

        /// <summary>Takes a JSON text. It throws <see cref="HeadgateException"/> if it is none.</summary>
        public RawJson(string text)
        {
            Utf8 = Json.Compact(text ?? throw new ArgumentNullException(nameof(text)));
        }

        internal RawJson(byte[] utf8)
        {
            Utf8 = utf8;
        }

        /// <summary>The text.</summary>
        public override string ToString()
        {
            return Encoding.UTF8.GetString(Utf8);
        }

        /// <summary>Makes a value of it.</summary>
        public T Deserialize<T>(JsonSerializerOptions options = null)
        {
            return JsonSerializer.Deserialize<T>(Utf8, options);
        }
    }

    internal static class Json
    {
        /// <summary>How deep values may be nested.</summary>
        internal const int DepthMax = 1000;
        internal static readonly JsonDocumentOptions Reading = new JsonDocumentOptions { MaxDepth = DepthMax };
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        internal static JsonSerializerOptions Options(Action<JsonSerializerOptions> change)
        {
            var options = new JsonSerializerOptions
            {
                MaxDepth = DepthMax,
                Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
            };
            change?.Invoke(options);
            options.DictionaryKeyPolicy = new CheckedKeys(options.DictionaryKeyPolicy);
            // The program's own converters come first.
            Converters.AddTo(options.Converters);
            return options;
        }

        internal static byte[] Encode(object value, JsonSerializerOptions options)
        {
            if (value is RawJson raw)
            {
                return raw.Utf8;
            }
            if (value == null)
            {
                throw Invalid("", "is null", null);
            }
            try
            {
                byte[] text = JsonSerializer.SerializeToUtf8Bytes(value, value.GetType(), options);
                string escape = LoneSurrogate(text);
                return escape == null ? text : throw Invalid("", "has " + escape + ", one half of a character", null);
            }
            catch (Exception error) when (IsAboutTheValue(error))
            {
                string path = PathOf.Problem(value, options, out string problem);
                throw path == null ? Invalid(Stripped(error), Innermost(error), error) : Invalid(path, problem, error);
            }
        }

        private static bool IsAboutTheValue(Exception error)
        {
            return error is JsonException || error is NotSupportedException || error is InvalidOperationException
                || error is ArgumentException || error is UnfitException;
        }

        private static string Stripped(Exception error)
        {
            string path = (error as JsonException)?.Path ?? "";
            return path.StartsWith("$", StringComparison.Ordinal) ? path.Substring(1) : path;
        }

        private static string Innermost(Exception error)
        {
            return error.GetBaseException().Message;
        }

        private static HeadgateException Invalid(string path, string problem, Exception cause)
        {
            string subject = path.Trim('.').Length == 0 ? "the item" : "\"" + path.TrimStart('.') + "\"";
            return new HeadgateException(HeadgateCode.InvalidPayload, subject + " cannot be sent as JSON: " + problem, false, cause);
        }

        /// <summary>The UTF-8 of a JSON text, without white space.</summary>
        internal static byte[] Compact(string text)
        {
            byte[] utf8;
            try
            {
                utf8 = Strict.GetBytes(text);
                using (JsonDocument.Parse(utf8, Reading))
                {
                }
            }
            catch (Exception error) when (error is JsonException || error is EncoderFallbackException)
            {
                throw Invalid("", error.Message, error);
            }
            int length = 0;
            bool inText = false;
            for (int i = 0; i < utf8.Length; i++)
            {
                byte c = utf8[i];
                if (c == '"')
                {
                    inText = !inText;
                }
                if (inText && c == '\\')
                {
                    utf8[length++] = c;
                    c = utf8[++i];
                }
                if (inText || c > ' ')
                {
                    utf8[length++] = c;
                }
            }
            Array.Resize(ref utf8, length);
            string escape = LoneSurrogate(utf8);
            return escape == null ? utf8 : throw Invalid("", "has " + escape + ", one half of a character", null);
        }

        /// <summary>Finds an escape such as \ud800 that has no other half.</summary>
        private static string LoneSurrogate(byte[] text)
        {
            for (int i = 0; i + 1 < text.Length; i++)
            {
                if (text[i] != '\\')
                {
                    continue;
                }
                int unit = Unit(text, i);
                if (unit >= 0xD800 && unit <= 0xDFFF)
                {
                    int low = Unit(text, i + 6);
                    if (unit > 0xDBFF || low < 0xDC00 || low > 0xDFFF)
                    {
                        return Encoding.ASCII.GetString(text, i, 6);
                    }
                    i += 6;
                }
                i += unit < 0 ? 1 : 5;
            }
            return null;
        }

        private static int Unit(byte[] text, int at)
        {
            if (at + 6 > text.Length || text[at] != '\\' || text[at + 1] != 'u')
            {
                return -1;
            }
            return Convert.ToInt32(Encoding.ASCII.GetString(text, at + 2, 4), 16);
        }

        /// <summary>Names what a JSON text is, by its first character.</summary>
        internal static string Kind(byte[] text)
        {
            switch ((char)text[0])
            {
                case '{': return "an object";
                case '[': return "a list";
                case '"': return "a text";
                case 't':
                case 'f': return "a boolean";
                case 'n': return "null";
                default: return "a number";
            }
        }

        /// <summary>An object, in one line.</summary>
        internal static byte[] Written(Action<Utf8JsonWriter> members)
        {
            using (var text = new MemoryStream())
            {
                using (var writer = new Utf8JsonWriter(text))
                {
                    writer.WriteStartObject();
                    members(writer);
                    writer.WriteEndObject();
                }
                return text.ToArray();
            }
        }

        /// <summary>How many items a body has.</summary>
        internal static int Count(byte[] body)
        {
            if (body[0] == '{')
            {
                return 1;
            }
            using (JsonDocument document = JsonDocument.Parse(body, Reading))
            {
                return document.RootElement.GetArrayLength();
            }
        }

        /// <summary>A member that is a text; null if it is missing, or something else.</summary>
        internal static string Text(JsonElement element, string name)
        {
            return element.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.String ? value.GetString() : null;
        }

        internal static long Number(JsonElement element, string name)
        {
            return element.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.Number && value.TryGetInt64(out long number) ? number : 0;
        }

        internal static bool IsTrue(JsonElement element, string name)
        {
            return element.TryGetProperty(name, out JsonElement value) && value.ValueKind == JsonValueKind.True;
        }

        internal static IEnumerable<JsonElement> List(JsonElement element, string name)
        {
            if (element.TryGetProperty(name, out JsonElement list) && list.ValueKind == JsonValueKind.Array)
            {
                foreach (JsonElement each in list.EnumerateArray())
                {
                    yield return each;
                }
            }
        }

        internal static List<string> Texts(JsonElement element, string name)
        {
            var all = new List<string>();
            foreach (JsonElement each in List(element, name))
            {
                all.Add(each.ValueKind == JsonValueKind.String ? each.GetString() : each.GetRawText());
            }
            return all;
        }
    }
}
