// Idempotency keys: UUIDv7, whose order is the order in which they were made.

using System;
using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;

namespace Headgate.Client
{
    internal static class Uuid
    {
        private static readonly Regex Form = new Regex("^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$");
        private static readonly object Lock = new object();
        private static long last; // milliseconds and a counter of 12 bits

        /// <summary>Greater than every one that this process made or saw before, even if the clock goes back.</summary>
        internal static string New(DateTimeOffset now)
        {
            // Random but for bytes 7 and 8. A key must be unique, not secret.
            byte[] guid = Guid.NewGuid().ToByteArray();
            var random = new byte[8];
            Array.Copy(guid, 0, random, 0, 4);
            Array.Copy(guid, 9, random, 4, 4);
            long stamp;
            lock (Lock)
            {
                last = Math.Max(last + 1, now.ToUnixTimeMilliseconds() << 12);
                stamp = last;
            }
            random[0] = (byte)(random[0] & 0x3F | 0x80);
            var text = new StringBuilder(36);
            text.Append((stamp >> 12).ToString("x12", CultureInfo.InvariantCulture)).Insert(8, '-');
            text.Append("-7").Append((stamp & 0xFFF).ToString("x3", CultureInfo.InvariantCulture)).Append('-');
            for (int i = 0; i < random.Length; i++)
            {
                text.Append(i == 2 ? "-" : "").Append(random[i].ToString("x2", CultureInfo.InvariantCulture));
            }
            return text.ToString();
        }

        /// <summary>Makes all that follow greater than this one.</summary>
        internal static void Saw(string uuid)
        {
            if (!Form.IsMatch(uuid))
            {
                return;
            }
            long time = long.Parse(uuid.Substring(0, 8) + uuid.Substring(9, 4), NumberStyles.HexNumber, CultureInfo.InvariantCulture);
            long counter = long.Parse(uuid.Substring(15, 3), NumberStyles.HexNumber, CultureInfo.InvariantCulture);
            lock (Lock)
            {
                last = Math.Max(last, time << 12 | counter);
            }
        }
    }
}
