// Who uses a spool: one batcher of one program, whatever its language.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.Json;

namespace Headgate.Client
{
    internal sealed class Owner : IDisposable
    {
        /// <summary>How often an owner looks whether the folder is still its own.</summary>
        internal static readonly TimeSpan Look = TimeSpan.FromSeconds(10);
        /// <summary>How long nothing changes in a folder that another machine has left.</summary>
        private static readonly TimeSpan QuietLeast = TimeSpan.FromMinutes(10);
        /// <summary>After how long an owner that cannot be read was never finished.</summary>
        private static readonly TimeSpan UnreadableLeast = TimeSpan.FromMinutes(1);
        /// <summary>The folders of this process; it is its lock.</summary>
        private static readonly HashSet<string> Here = new HashSet<string>(StringComparer.Ordinal);

        private readonly string folder;
        private readonly string id = Guid.NewGuid().ToString();
        private readonly FileStream held; // null where there is no such lock

        /// <summary>Makes this process the owner of a spool, or says that another one is.</summary>
        internal Owner(string folder)
        {
            this.folder = folder;
            lock (Here)
            {
                if (Here.Contains(folder))
                {
                    throw InUse(folder, "another batcher of this program");
                }
                held = Lock();
                try
                {
                    Take();
                }
                catch
                {
                    held?.Dispose();
                    throw;
                }
                Here.Add(folder);
            }
        }

        internal static HeadgateException InUse(string folder, string by)
        {
            return new HeadgateException(HeadgateCode.SpoolInUse, "the spool " + folder + " is used by " + by + "; give each its own directory");
        }

        private string File => Path.Combine(folder, ".owner");

        /// <summary>Holds a file until it is disposed, or the process ends: with flock, or on Windows by being open.</summary>
        private FileStream Lock()
        {
            try
            {
                return new FileStream(Path.Combine(folder, ".lock"), FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.None);
            }
            catch (IOException error) when (IsHeld(error.HResult))
            {
                throw InUse(folder, "another program");
            }
            catch (Exception error) when (Spool.IsOfFiles(error))
            {
                return null;
            }
        }

        /// <summary>EWOULDBLOCK of Linux and of BSD, and two codes of Windows.</summary>
        private static bool IsHeld(int code)
        {
            return code == 11 || code == 35 || (code & 0xFFFF) == 32 || (code & 0xFFFF) == 33;
        }

        private void Take()
        {
            byte[] text = Json.Written(writer =>
            {
                writer.WriteString("host", Host());
                writer.WriteString("boot", Boot());
                writer.WriteNumber("pid", Pid());
                writer.WriteString("started", Started(Pid()));
                writer.WriteBoolean("lock", held != null);
                writer.WriteString("id", id);
            });
            for (int attempt = 0; attempt < 3; attempt++)
            {
                if (Create(text))
                {
                    return;
                }
                byte[] found = Found(File);
                if (found != null && !(IsDead(found) && Clear(found)))
                {
                    break;
                }
            }
            throw InUse(folder, "another program");
        }

        private bool Create(byte[] text)
        {
            try
            {
                using (var file = new FileStream(File, FileMode.CreateNew, FileAccess.Write, FileShare.Read))
                {
                    Posix.Mode(File, Posix.OwnerOnly);
                    file.Write(text, 0, text.Length);
                    file.Flush(true);
                }
                return true;
            }
            catch (IOException) when (System.IO.File.Exists(File))
            {
                return false;
            }
        }

        private static byte[] Found(string path)
        {
            try
            {
                return System.IO.File.ReadAllBytes(path);
            }
            catch (Exception error) when (error is FileNotFoundException || error is DirectoryNotFoundException)
            {
                return null;
            }
        }

        /// <summary>Whether the owner of that text surely uses the folder no more.</summary>
        private bool IsDead(byte[] text)
        {
            try
            {
                using (JsonDocument document = JsonDocument.Parse(text))
                {
                    JsonElement its = document.RootElement;
                    int pid = its.GetProperty("pid").GetInt32();
                    string boot = Json.Text(its, "boot");
                    if (boot != null && boot == Boot() && Json.IsTrue(its, "lock") && held != null)
                    {
                        return true;
                    }
                    if (Json.Text(its, "host") != Host())
                    {
                        return IsQuiet();
                    }
                    // A process that is this one has no batcher for the folder.
                    return (boot != null && boot != Boot()) || pid == Pid() || IsGone(pid, Json.Text(its, "started"));
                }
            }
            catch (Exception error) when (error is JsonException || error is InvalidOperationException || error is KeyNotFoundException || error is FormatException)
            {
                return DateTime.UtcNow - System.IO.File.GetLastWriteTimeUtc(File) > UnreadableLeast;
            }
        }

        private static bool IsGone(int pid, string itsStart)
        {
            try
            {
                using (Process.GetProcessById(pid))
                {
                }
            }
            catch (ArgumentException)
            {
                return true;
            }
            string start = Started(pid);
            return itsStart != null && start != null && itsStart != start;
        }

        /// <summary>Whether nothing in the folder is younger than ten minutes.</summary>
        private bool IsQuiet()
        {
            foreach (FileSystemInfo one in new DirectoryInfo(folder).GetFileSystemInfos())
            {
                if (one.Name != ".lock" && DateTime.UtcNow - one.LastWriteTimeUtc < QuietLeast)
                {
                    return false;
                }
            }
            return true;
        }

        /// <summary>
        /// Takes a dead owner away: under another name, where it is read again, for another program may be as fast.
        /// </summary>
        private bool Clear(byte[] judged)
        {
            string aside = File + "." + id;
            try
            {
                System.IO.File.Move(File, aside);
            }
            catch (IOException)
            {
                return true; // it went
            }
            byte[] found = Found(aside);
            if (found != null && Convert.ToBase64String(found) == Convert.ToBase64String(judged))
            {
                System.IO.File.Delete(aside);
                return true;
            }
            try
            {
                System.IO.File.Move(aside, File); // it is somebody else's; this does not replace a newer one
            }
            catch (IOException)
            {
                System.IO.File.Delete(aside);
            }
            return false;
        }

        private bool? IsMine()
        {
            try
            {
                byte[] text = Found(File);
                return text == null ? (bool?)null : Encoding.UTF8.GetString(text).Contains(id);
            }
            catch (Exception error) when (Spool.IsOfFiles(error))
            {
                return true;
            }
        }

        /// <summary>Whether the folder is still this one's. An owner that somebody deleted is written again.</summary>
        internal bool Holds()
        {
            bool? mine = IsMine();
            if (mine.HasValue)
            {
                return mine.Value;
            }
            try
            {
                Take();
                return true;
            }
            catch (HeadgateException)
            {
                return false;
            }
            catch (Exception error) when (Spool.IsOfFiles(error))
            {
                return true;
            }
        }

        public void Dispose()
        {
            if (IsMine() == true)
            {
                System.IO.File.Delete(File);
            }
            held?.Dispose();
            lock (Here)
            {
                Here.Remove(folder);
            }
        }

        private static int Pid()
        {
            using (Process own = Process.GetCurrentProcess())
            {
                return own.Id;
            }
        }

        private static string Host()
        {
            try
            {
                return Dns.GetHostName();
            }
            catch (SocketException)
            {
                return null;
            }
        }

        private static string Boot()
        {
            return Proc("/proc/sys/kernel/random/boot_id")?.Trim();
        }

        /// <summary>
        /// When a process began, in the ticks of the system: field 22, counted behind its name, which may have blanks.
        /// </summary>
        private static string Started(int pid)
        {
            string text = Proc("/proc/" + pid + "/stat");
            string[] fields = text?.Substring(text.LastIndexOf(')') + 1).Split(new[] { ' ', '\n' }, StringSplitOptions.RemoveEmptyEntries);
            return fields == null || fields.Length < 20 ? null : fields[19];
        }

        private static string Proc(string path)
        {
            try
            {
                return System.IO.File.ReadAllText(path);
            }
            catch (Exception error) when (Spool.IsOfFiles(error))
            {
                return null;
            }
        }
    }

    /// <summary>What .NET does not have of a Unix. Elsewhere it does nothing.</summary>
    internal static class Posix
    {
        /// <summary>Mode 0600.</summary>
        internal const uint OwnerOnly = 0x180;

        [DllImport("libc", EntryPoint = "chmod", SetLastError = true)]
        private static extern int ChangeMode([MarshalAs(UnmanagedType.LPStr)] string path, uint mode);

        [DllImport("libc", EntryPoint = "open", SetLastError = true)]
        private static extern int Open([MarshalAs(UnmanagedType.LPStr)] string path, int flags);

        [DllImport("libc", EntryPoint = "fsync", SetLastError = true)]
        private static extern int Sync(int file);

        [DllImport("libc", EntryPoint = "close", SetLastError = true)]
        private static extern int Close(int file);

        internal static void Mode(string path, uint mode)
        {
            OnUnix(() => ChangeMode(path, mode));
        }

        /// <summary>The name of a new file is on disk, too.</summary>
        internal static void Flush(string folder)
        {
            OnUnix(() =>
            {
                int file = Open(folder, 0);
                if (file >= 0)
                {
                    Sync(file);
                    Close(file);
                }
            });
        }

        private static void OnUnix(Action action)
        {
            if (Path.DirectorySeparatorChar != '/')
            {
                return;
            }
            try
            {
                action();
            }
            catch (Exception error) when (error is DllNotFoundException || error is EntryPointNotFoundException)
            {
                // A system whose C library has another name.
            }
        }
    }
}
