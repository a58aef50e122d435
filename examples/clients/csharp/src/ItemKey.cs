// The value that identifies an item, found as the daemon finds it: on the flattened item.

using System;
using System.Text;
using System.Text.Json;

namespace Headgate.Client
{
    internal static class ItemKey
    {
        private const int BytesMax = 512;

        /// <summary>The text of the field of an item: a string, a number or a boolean.</summary>
        internal static string Of(byte[] item, string field)
        {
            using (JsonDocument document = JsonDocument.Parse(item, Json.Reading))
            {
                if (!Find(document.RootElement, field, out JsonElement value))
                {
                    throw Wrong("the item has no field \"" + field + "\", which is the item key");
                }
                string text;
                switch (value.ValueKind)
                {
                    case JsonValueKind.String:
                        text = value.GetString();
                        break;
                    case JsonValueKind.Number:
                    case JsonValueKind.True:
                    case JsonValueKind.False:
                        text = value.GetRawText();
                        break;
                    default:
                        throw Wrong("the field \"" + field + "\", which is the item key, is " + Json.Kind(Encoding.UTF8.GetBytes(value.GetRawText())) + "; it must be a text, a number or a boolean");
                }
                int bytes = Encoding.UTF8.GetByteCount(text);
                if (bytes == 0 || bytes > BytesMax)
                {
                    throw Wrong("the field \"" + field + "\", which is the item key, has " + bytes + " bytes; it must have 1 to " + BytesMax);
                }
                return text;
            }
        }

        private static bool Find(JsonElement element, string field, out JsonElement value)
        {
            if (element.TryGetProperty(field, out value))
            {
                return true;
            }
            foreach (JsonProperty member in element.EnumerateObject())
            {
                if (member.Value.ValueKind == JsonValueKind.Object
                    && field.StartsWith(member.Name + ".", StringComparison.Ordinal)
                    && Find(member.Value, field.Substring(member.Name.Length + 1), out value))
                {
                    return true;
                }
            }
            return false;
        }

        private static HeadgateException Wrong(string message)
        {
            return new HeadgateException(HeadgateCode.InvalidPayload, message);
        }

        /// <summary>A header carries the name of the field, and .NET sends headers as ASCII.</summary>
        internal static void CheckName(string field)
        {
            foreach (char c in field)
            {
                if (c < ' ' || c > '~')
                {
                    throw new ArgumentException("the item key must be a field name of visible ASCII characters, because it is sent as a header");
                }
            }
        }

        /// <summary>Says which item an error is about, if that is known.</summary>
        internal static string Named(string key)
        {
            return key == null ? "the item" : "the item \"" + key + "\"";
        }
    }
}
