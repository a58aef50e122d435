//! A PostgreSQL server of a test's own, in a temporary folder.
//!
//! Where its programs are missing the tests are skipped and say so; with `CI` set that is a failure. The server does
//! not run as root: then its programs run as the user `postgres`, or as `nobody`.
//!
//! **Invariant**: a server never outlives its [`Postgres`]; what is in it is read with `psql`, as anybody would.
#![expect(
    clippy::disallowed_methods,
    reason = "blocking helpers around a child process: they poll"
)]

mod disk;
mod place;
mod programs;
mod standby;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

pub use place::Place;
use postgres::{Database, DatabaseOptions, Durability};
use rustix::process::{Pid, Signal, kill_process};

pub use disk::SmallDisk;
pub use programs::programs_for;

/// No step of a server takes longer, on a busy machine.
const STEP_MAX: Duration = Duration::from_secs(180);

/// The password of the one user; nobody may ever see it.
pub const PASSWORD: &str = "canary-of-the-database";
const USER: &str = "headgate";
/// Where a server listens that has no other place.
const HERE: &str = "127.0.0.1";

/// The server.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    folder: tempfile::TempDir,
    /// None: this namespace, and 127.0.0.1.
    place: Option<Place>,
    port: u16,
    server: Option<Child>,
}

impl Postgres {
    /// A new database, and the server of it; `None` where the programs are missing and none are required.
    pub fn start(test: &str) -> Option<Self> {
        Self::start_at(test, None)
    }

    fn start_at(test: &str, place: Option<Place>) -> Option<Self> {
        let programs = programs_for(test)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let password = folder.path().join("password");
        std::fs::write(&password, PASSWORD).expect("a file");
        give_to_server(&[folder.path(), &password]);
        let mut postgres = Self {
            programs,
            place,
            port: free_port(),
            folder,
            server: None,
        };
        let made = postgres
            .program("initdb")
            .args(["--username", USER, "--auth=scram-sha-256", "--no-sync"])
            .args(["--locale=C", "--encoding=UTF8", "--pwfile"])
            .arg(&password)
            .args(["--pgdata", "data"])
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "{made:?}");
        postgres.let_others_connect();
        postgres.set("fsync = off");
        postgres.resume();
        Some(postgres)
    }

    /// Has commits wait for the disk, which tests do not need.
    pub fn sync_to_disk(&self) {
        self.query("ALTER SYSTEM SET fsync = on");
        self.query("SELECT pg_reload_conf()");
    }

    /// Has each flush begin so much later, as if the disk took so much longer. What comes meanwhile is flushed with it.
    pub fn delay_flushes(&self, by: Duration) {
        let micros = by.as_micros();
        self.query("ALTER SYSTEM SET commit_siblings = 0");
        self.query(&format!("ALTER SYSTEM SET commit_delay = {micros}"));
        self.query("SELECT pg_reload_conf()");
    }

    /// The address of a server that all who ask share, and that ends with this process.
    pub fn shared_url() -> Option<&'static str> {
        static URL: OnceLock<Option<String>> = OnceLock::new();
        let start = || {
            let server = Self::start("whoever shares a server")?;
            let url = server.url();
            let id = server.server.as_ref().expect("it runs").id().to_string();
            // Ends when this process does: the other end of its input is closed then.
            let end = "read -r _; kill -QUIT \"$1\"; while kill -0 \"$1\"; do sleep 0.1; done; rm -rf \"$2\"";
            let ended = Command::new("sh")
                .args(["-c", end, "sh", &id])
                .arg(server.folder.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn();
            std::mem::forget((ended.expect("a shell"), server));
            Some(url)
        };
        URL.get_or_init(start).as_deref()
    }

    /// Its address for a sink's section.
    pub fn url(&self) -> String {
        self.url_of(USER, PASSWORD)
    }

    /// The same for another user.
    pub fn url_of(&self, user: &str, password: &str) -> String {
        url(user, password, self.host(), self.port)
    }

    /// The database of a cluster in a schema of this server, which is made.
    pub async fn cluster(&self, schema: &str) -> Database {
        let database = cluster_at(&self.url(), schema);
        let mut connection = database.connect().await.expect("it connects");
        let made = postgres::make(&database, &mut connection).await;
        made.expect("it is made");
        database
    }

    /// What a statement returns: a line for each row, columns between `|`. It must succeed.
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        answered(self.client(), sql)
    }

    /// A transaction of somebody else, which has a number, and is open until this is dropped.
    pub fn begin(&self) -> OpenTransaction {
        self.begin_with("")
    }

    /// The same, which has run this statement.
    pub fn begin_with(&self, sql: &str) -> OpenTransaction {
        let mut command = self.client();
        let mut client = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql starts");
        let input = client.stdin.as_mut().expect("a pipe");
        let begin = writeln!(input, "BEGIN; {sql}; SELECT pg_current_xact_id();");
        begin.expect("it is sent");
        let mut said = [0];
        let output = client.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut said).expect("it has begun");
        OpenTransaction(client)
    }

    fn psql(&self, sql: &str) -> Output {
        self.client()
            .args(["--command", sql])
            .stdin(Stdio::null())
            .output()
            .expect("psql starts")
    }

    fn client(&self) -> Command {
        client(&self.programs, &self.url())
    }

    /// Ends the server at once, as a crash would.
    pub fn crash(&mut self) {
        self.end(Signal::QUIT);
    }

    /// Adds a line to the configuration, for the next start and all standbys.
    fn set(&self, line: &str) {
        let file = self.folder.path().join("data/postgresql.conf");
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(file)
            .expect("initdb made it");
        writeln!(file, "{line}").expect("there is room");
    }

    /// Starts it again.
    pub fn resume(&mut self) {
        let log = std::fs::File::create(self.folder.path().join("log")).expect("a file");
        let server = self
            .program("postgres")
            .args(["-D", "data", "-h", self.host()])
            .args(["-k", "", "-N", "500"])
            // What promotes a standby is a statement, which replaying may end otherwise.
            .args(["-c", "max_standby_streaming_delay=-1"])
            // Somebody else may prepare transactions.
            .args(["-c", "max_prepared_transactions=8"])
            .args(["-p", &self.port.to_string()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres starts");
        self.server = Some(server);
        let deadline = Instant::now() + STEP_MAX;
        while !self.psql("SELECT 1").status.success() {
            assert!(Instant::now() < deadline, "PostgreSQL does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = match unprivileged() {
            Some((user, group)) => {
                let mut command = self.runner("setpriv".as_ref());
                command.arg(format!("--reuid={user}"));
                command.arg(format!("--regid={group}"));
                command.arg("--clear-groups").arg(path);
                command
            }
            None => self.runner(&path),
        };
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn end(&mut self, signal: Signal) {
        if let Some(mut server) = self.server.take() {
            let id = i32::try_from(server.id()).expect("a process id");
            let _ = kill_process(Pid::from_raw(id).expect("not 0"), signal);
            let deadline = Instant::now() + STEP_MAX;
            while server.try_wait().expect("a child").is_none() {
                if Instant::now() >= deadline {
                    let _ = server.kill();
                    let _ = server.wait();
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}

/// A transaction that is open.
#[derive(Debug)]
pub struct OpenTransaction(Child);

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The database of a cluster in a schema at this address, which is there.
pub fn cluster_at(url: &str, schema: &str) -> Database {
    let options = DatabaseOptions {
        urls: vec![url.to_owned()],
        schema: schema.to_owned(),
        name: "a".to_owned(),
        durability: Durability::Local,
    };
    Database::new(&options).expect("a URL and a plain name")
}

/// What a statement returns from the server at this address, as [`Postgres::query`] has it. It must succeed.
#[track_caller]
pub fn query_at(url: &str, sql: &str) -> String {
    let programs = programs::programs().expect("PostgreSQL is installed");
    answered(client(&programs, url), sql)
}

fn client(programs: &Path, url: &str) -> Command {
    let mut command = Command::new(programs.join("psql"));
    command
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--quiet"])
        .args(["--set", "ON_ERROR_STOP=1", "--dbname", url])
        .env("PGCONNECT_TIMEOUT", "30");
    command
}

#[track_caller]
fn answered(mut client: Command, sql: &str) -> String {
    let output = client
        .args(["--command", sql])
        .stdin(Stdio::null())
        .output();
    let output = output.expect("psql starts");
    assert!(output.status.success(), "{sql}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim_end().to_owned()
}

/// What lies between Headgate and a server, and may stall.
#[derive(Debug)]
pub struct Line {
    port: u16,
    state: Arc<LineState>,
}

#[derive(Debug, Default)]
struct LineState {
    /// The server's bytes are taken and not passed on.
    stalled: AtomicBool,
    /// It stalls as soon as this was passed to the server.
    stalls_at: Mutex<Option<Vec<u8>>>,
}

impl Line {
    /// A line that does not stall.
    pub fn to(postgres: &Postgres) -> Self {
        let server = postgres.port;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state: Arc<LineState> = Arc::default();
        let of_the_line = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let copy = |stream: &TcpStream| stream.try_clone().expect("a socket");
                let [there, back] = [(); 2].map(|()| Arc::clone(&of_the_line));
                pass(copy(&client), copy(&server), move |bytes| {
                    let needle = there.stalls_at.lock().expect("no panic while held");
                    let has = |needle: &Vec<u8>| {
                        let mut windows = bytes.windows(needle.len());
                        windows.any(|window| window == needle)
                    };
                    if needle.as_ref().is_some_and(has) {
                        there.stalled.store(true, Ordering::SeqCst);
                    }
                    true
                });
                pass(server, client, move |_| {
                    !back.stalled.load(Ordering::SeqCst)
                });
            }
        });
        Self { port, state }
    }

    /// The server's address at the other end.
    pub fn url(&self) -> String {
        url(USER, PASSWORD, HERE, self.port)
    }

    /// Passes nothing to Headgate any more.
    pub fn stall(&self) {
        self.state.stalled.store(true, Ordering::SeqCst);
    }

    /// Stalls so that the next commit happens and nobody is told.
    pub fn stall_at_commit(&self) {
        self.stall_at("COMMIT");
    }

    /// Stalls as soon as the server was told something that has this text.
    pub fn stall_at(&self, text: &str) {
        *self.state.stalls_at.lock().expect("no panic while held") = Some(text.into());
    }

    /// Passes everything again; connections that missed something stay lost.
    pub fn go_on(&self) {
        *self.state.stalls_at.lock().expect("no panic while held") = None;
        self.state.stalled.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&[u8]) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if passes(&bytes[..count]) && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

fn url(user: &str, password: &str, host: &str, port: u16) -> String {
    format!("postgresql://{user}:{password}@{host}:{port}/postgres")
}

/// A port of 127.0.0.1 that nobody listens on, never the same twice. It is below those that the system gives to
/// connections and listeners of other tests, so it is free still when its server comes to bind it.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const PORTS: u32 = 12_000;
    /// Between the first ports of processes that were started one after the other.
    const APART: u32 = 1_009;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        let first = std::process::id().wrapping_mul(APART);
        let place = first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + place % PORTS).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Lets the server's programs write these, which may run as another user.
fn give_to_server(paths: &[&Path]) {
    if let Some((user, group)) = unprivileged() {
        for path in paths {
            std::os::unix::fs::chown(path, Some(user), Some(group)).expect("root may");
        }
    }
}

/// User and group for programs that refuse to run as root, if this is root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("users");
    let named = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(str::parse);
        Some((ids.next()?.ok()?, ids.next()?.ok()?))
    };
    Some(
        named("postgres")
            .or_else(|| named("nobody"))
            .expect("a user"),
    )
}
