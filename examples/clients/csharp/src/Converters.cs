// What System.Text.Json would round, replace or leave to the culture: here it is exact, or an error.

using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Numerics;
using System.Reflection;
using System.Text.Json;
using System.Text.Json.Serialization;

namespace Headgate.Client
{
    /// <summary>A value that JSON cannot hold.</summary>
    internal sealed class UnfitException : Exception
    {
        internal UnfitException(string message) : base(message)
        {
        }
    }

    internal static class Converters
    {
        internal static void AddTo(IList<JsonConverter> list)
        {
            list.Add(new Writer<double>((writer, value) => writer.WriteNumberValue(Fit.Number(value))));
            list.Add(new Writer<float>((writer, value) => writer.WriteNumberValue((float)Fit.Number(value))));
            list.Add(new Writer<string>((writer, value) => writer.WriteStringValue(Fit.Text(value))));
            list.Add(new Writer<DateTime>((writer, value) => writer.WriteStringValue(Fit.Date(value))));
            list.Add(new Writer<DateTimeOffset>((writer, value) => writer.WriteStringValue(Fit.Date(value.UtcDateTime))));
            list.Add(new Writer<TimeSpan>((writer, value) => writer.WriteStringValue(value.ToString("c", CultureInfo.InvariantCulture))));
            list.Add(new Writer<BigInteger>((writer, value) => Raw(writer, value.ToString(CultureInfo.InvariantCulture))));
            list.Add(new Writer<RawJson>((writer, value) => Raw(writer, value.Utf8)));
        }

        private static void Raw(Utf8JsonWriter writer, string text)
        {
            Raw(writer, System.Text.Encoding.UTF8.GetBytes(text));
        }

        private static void Raw(Utf8JsonWriter writer, byte[] text)
        {
            using (JsonDocument document = JsonDocument.Parse(text, Json.Reading))
            {
                document.RootElement.WriteTo(writer);
            }
        }
    }

    /// <summary>Only writes: items are never read with these options.</summary>
    internal sealed class Writer<T> : JsonConverter<T>
    {
        private readonly Action<Utf8JsonWriter, T> write;

        internal Writer(Action<Utf8JsonWriter, T> write)
        {
            this.write = write;
        }

        public override T Read(ref Utf8JsonReader reader, Type type, JsonSerializerOptions options)
        {
            throw new NotSupportedException();
        }

        public override void Write(Utf8JsonWriter writer, T value, JsonSerializerOptions options)
        {
            if (value == null)
            {
                writer.WriteNullValue();
                return;
            }
            write(writer, value);
        }
    }

    /// <summary>Looks at the names of members of dictionaries, which no converter sees.</summary>
    internal sealed class CheckedKeys : JsonNamingPolicy
    {
        private readonly JsonNamingPolicy inner;

        internal CheckedKeys(JsonNamingPolicy inner)
        {
            this.inner = inner;
        }

        public override string ConvertName(string name)
        {
            return Fit.Text(inner == null ? name : inner.ConvertName(name));
        }
    }

    /// <summary>Gives back what fits into JSON, and throws what does not.</summary>
    internal static class Fit
    {
        internal static double Number(double value)
        {
            if (double.IsNaN(value) || double.IsInfinity(value))
            {
                throw new UnfitException(value.ToString(CultureInfo.InvariantCulture) + " is not a JSON number");
            }
            return value;
        }

        internal static string Text(string value)
        {
            for (int i = 0; i < value.Length; i++)
            {
                if (!char.IsSurrogate(value[i]))
                {
                    continue;
                }
                if (i + 1 >= value.Length || !char.IsSurrogatePair(value[i], value[i + 1]))
                {
                    throw new UnfitException("its text is not valid Unicode: it has half of a surrogate pair");
                }
                i++;
            }
            return value;
        }

        internal static string Date(DateTime value)
        {
            if (value.Kind == DateTimeKind.Unspecified)
            {
                throw new UnfitException("a DateTime has no time zone; use DateTimeOffset, or DateTime.SpecifyKind");
            }
            return value.ToUniversalTime().ToString("yyyy-MM-dd'T'HH:mm:ss.FFFFFFF'Z'", CultureInfo.InvariantCulture);
        }
    }

    /// <summary>Finds where in a value the problem is, after the serializer has found that there is one.</summary>
    internal static class PathOf
    {
        private const int DepthMax = 100;

        internal static string Problem(object value, JsonSerializerOptions options, out string problem)
        {
            problem = null;
            try
            {
                return Find(value, "", options, 0, ref problem);
            }
            catch (Exception)
            {
                return null; // a getter that throws, a list that cannot be read twice: the path stays unknown
            }
        }

        private static string Find(object value, string path, JsonSerializerOptions options, int depth, ref string problem)
        {
            if (value == null || depth > DepthMax || value is JsonElement || value is RawJson)
            {
                return null;
            }
            try
            {
                if (value is double || value is float)
                {
                    Fit.Number(Convert.ToDouble(value, CultureInfo.InvariantCulture));
                }
                if (value is DateTime date)
                {
                    Fit.Date(date);
                }
                if (value is string text)
                {
                    Fit.Text(text);
                    return null;
                }
            }
            catch (UnfitException error)
            {
                problem = error.Message;
                return path;
            }
            if (value is IDictionary || value is IEnumerable<KeyValuePair<string, object>>)
            {
                return InMembers((IEnumerable)value, path, options, depth, ref problem);
            }
            if (value is IEnumerable list)
            {
                int at = 0;
                foreach (object each in list)
                {
                    string found = Find(each, path + "[" + at++ + "]", options, depth + 1, ref problem);
                    if (found != null)
                    {
                        return found;
                    }
                }
                return null;
            }
            return value.GetType().IsPrimitive ? null : InProperties(value, path, options, depth, ref problem);
        }

        private static string InMembers(IEnumerable members, string path, JsonSerializerOptions options, int depth, ref string problem)
        {
            foreach (object each in members)
            {
                object name = each is DictionaryEntry entry ? entry.Key : Member(each, "Key");
                object inner = each is DictionaryEntry same ? same.Value : Member(each, "Value");
                string found = Find(name, path, options, depth + 1, ref problem) ?? Find(inner, path + "." + name, options, depth + 1, ref problem);
                if (found != null)
                {
                    return found;
                }
            }
            return null;
        }

        private static object Member(object pair, string name)
        {
            return pair.GetType().GetProperty(name).GetValue(pair, null);
        }

        private static string InProperties(object value, string path, JsonSerializerOptions options, int depth, ref string problem)
        {
            foreach (PropertyInfo property in value.GetType().GetProperties(BindingFlags.Public | BindingFlags.Instance))
            {
                if (property.GetIndexParameters().Length > 0 || !property.CanRead || property.IsDefined(typeof(JsonIgnoreAttribute), true))
                {
                    continue;
                }
                string name = property.GetCustomAttribute<JsonPropertyNameAttribute>()?.Name
                    ?? options.PropertyNamingPolicy?.ConvertName(property.Name) ?? property.Name;
                string found = Find(property.GetValue(value, null), path + "." + name, options, depth + 1, ref problem);
                if (found != null)
                {
                    return found;
                }
            }
            return null;
        }
    }
}
