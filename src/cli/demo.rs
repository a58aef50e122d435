//! `headgate demo`: a daemon that shows itself. Makes a data folder with a stream, a connector and a
//! key, serves, sends itself a payload, shows it in the pool, and keeps serving.
//!
//! **Invariant**: everything goes the way that a user's own request goes: over HTTP, with a key,
//! through the journal and the sink.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::Client;
use super::confine::Confined;
use super::error::CliError;
use super::logging::{self, print};
use super::output::{Table, shown};
use super::port::Ports;
use super::{serve, with_fitting_sinks};
use crate::daemon::Daemon;
use base::process;
use base::text::shell_quoted;
use catalog::key::{KeyKind, generate};
use item::{field_name, members};
use pool::{Item, PageLimit};
use settings::{Loaded, Secret, Sources};
use wire::{ReceiptData, RequestState, Status};

const PAYLOAD: &str = include_str!("../../examples/payloads/scoreboard.json");
const STREAM: &str = "scoreboard";
const ITEM_KEY: &str = "match_id";
/// The match of the payload that the printed page shows, and the printed request changes.
const MATCH: &str = "hcl-2025-r09-m3";
/// The fields that people want to see first.
const TEAMS: [&str; 4] = ["home.name", "home.score", "away.score", "away.name"];
/// How much of the pool is shown.
const SHOWN: PageLimit = PageLimit {
    rows: 20,
    bytes: 64 << 10,
};

/// Arguments of `headgate demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate demo
  headgate demo --data-dir /tmp/demo")]
pub struct DemoArgs {
    /// Directory for the demo's data and configuration
    #[arg(long, value_name = "DIR", default_value = "data/demo")]
    data_dir: PathBuf,
    /// Send the sample data, print it, and stop
    #[arg(long)]
    once: bool,
}

/// Runs the verb.
///
/// # Errors
/// As `headgate serve`.
pub fn run(args: &DemoArgs) -> Result<(), CliError> {
    process::keep_files_private();
    let config_file = write_config(&args.data_dir)?;
    let loaded = load(&config_file).and_then(with_fitting_sinks)?;
    logging::start(&loaded.settings.log)?;
    process::take_open_files();
    let ports = Ports::of(&loaded.settings);
    let confined = Confined::by(&loaded)?;
    serve::run_to_end(&loaded.settings.runtime, async {
        let signals = super::signals::Signals::new()?;
        let (daemon, files) = serve::start(&loaded, &ports).await?;
        show(&loaded, &daemon, &config_file).await?;
        if args.once {
            let done = daemon.run(std::future::ready(())).await;
            return done.map_err(serve::failed);
        }
        print("\nServing until Ctrl-C.\n");
        serve::invite(&daemon).await?;
        let load = || confined.look_at(load(&config_file).and_then(with_fitting_sinks));
        serve::run_until_signalled(daemon, files, signals, load, || None).await
    })
}

/// Writes the demo's configuration, once: its key stays the same from run to run.
fn write_config(data_dir: &Path) -> Result<PathBuf, CliError> {
    let failed = |error: &dyn std::fmt::Display| {
        CliError::failed(format!(
            "cannot create {}: {error}; choose another directory with --data-dir",
            data_dir.display()
        ))
    };
    // For this user only: a key lies in it.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .map_err(|error| failed(&error))?;
    let folder = std::fs::canonicalize(data_dir).map_err(|error| failed(&error))?;
    let path = folder.join("demo.toml");
    if path.exists() {
        return Ok(path);
    }
    let key = generate(KeyKind::Ingest).map_err(|error| failed(&error))?;
    let read_key = generate(KeyKind::Read).map_err(|error| failed(&error))?;
    let text = format!(
        r#"# Written by `headgate demo`. A sidecar's configuration looks like this.

[storage]
data_dir = {folder:?}

[[streams]]
name = "{STREAM}"
on_update = "merge"  # an update changes the fields that it names

[[connectors]]
name = "demo"
kind = "webhook"
item_key = "{ITEM_KEY}"
keys = [{{ name = "main", stream = "{STREAM}", secret = "{key}" }}]

[[read_keys]]
name = "page"
streams = ["{STREAM}"]
secret = "{read_key}"
"#,
        key = key.expose(),
        read_key = read_key.expose(),
    );
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| failed(&error))?;
    file.write_all(text.as_bytes())
        .map_err(|error| failed(&error))?;
    Ok(path)
}

/// The demo's settings: its file, and free ports where the usual ones are taken.
fn load(config_file: &Path) -> Result<Loaded, CliError> {
    let mut env = Vec::new();
    for (section, port) in [("SERVER", 8080), ("ADMIN", 8081)] {
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            env.push((
                format!("HEADGATE_{section}__LISTEN"),
                "127.0.0.1:0".to_owned(),
            ));
        }
    }
    env.push(("HEADGATE_LOG__LEVEL".to_owned(), "warn".to_owned()));
    let sources = Sources {
        // Not the user's folder: a demo does not depend on the files there.
        working_dir: config_file.parent().map(Path::to_owned).unwrap_or_default(),
        config_file: Some(config_file.to_owned()),
        env,
        options: Vec::new(),
    };
    settings::load(&sources).map_err(|problems| {
        CliError::wrong_use(format!(
            "{problems}\ndelete {} to start over",
            config_file.display()
        ))
    })
}

async fn show(loaded: &Loaded, daemon: &Daemon, config_file: &Path) -> Result<(), CliError> {
    let key = ingest_key(loaded, config_file)?;
    let service = &daemon.service_address;
    let client = Client::new(service, key)?;
    let path = format!("/api/webhook/{STREAM}");
    let id = send_payload(&client, &path).await?;
    print(&format!(
        "\nSent examples/payloads/scoreboard.json: 202, request {id}\n"
    ));
    wait_until_processed(&client, &id).await?;
    print_pool(daemon).await?;
    let data_dir = daemon.data_dir.to_string_lossy();
    let quoted_dir = shell_quoted(&data_dir);
    let pool = shell_quoted(&format!("{data_dir}/pool.db"));
    let authorization = shell_quoted(&format!("Authorization: Bearer {key}"));
    let admin = &daemon.admin_address;
    let read_key = loaded.settings.read_keys.first();
    if let Some(read_key) = read_key.and_then(|key| key.secret.as_ref()) {
        let read_key = read_key.reveal();
        print(&format!(
            "\nOpen this page, it follows every change:\n\n  {service}/render/{STREAM}?template=scoreboard&key={MATCH}#{read_key}\n\n\
             All of its matches, in a table:\n\n  {service}/render/{STREAM}?fields={}#{read_key}\n",
            TEAMS.join(",")
        ));
    }
    print(&format!(
        r#"
Score a goal, and see it on the page:

  curl -i {service}{path} \
    -H {authorization} \
    -H 'Content-Type: application/json' \
    -d '{{"match_id": "{MATCH}", "home": {{"score": 3}}}}'

See it in the pool:

  sqlite3 -header -column {pool} 'SELECT match_id, "home.name", "home.score", "away.score", "away.name" FROM stream_{STREAM}'

Follow it in the terminal:

  headgate tail {STREAM} --url {service} --admin-url {admin} --data-dir {quoted_dir}

See the request log:

  headgate requests --admin-url {admin} --data-dir {quoted_dir}

Service        {service}
Admin API      {admin}  (token in {data_dir}/admin.token)
Configuration  {config}
"#,
        config = config_file.display()
    ));
    Ok(())
}

/// The first ingest key of the demo's configuration.
fn ingest_key<'a>(loaded: &'a Loaded, config_file: &Path) -> Result<&'a str, CliError> {
    let connectors = loaded.settings.connectors.iter();
    let mut keys = connectors.flat_map(|connector| &connector.keys);
    let secret = keys.find_map(|key| key.secret.as_ref());
    secret.map(Secret::reveal).ok_or_else(|| {
        CliError::wrong_use(format!(
            "{} has no key with a secret; delete it to start over",
            config_file.display()
        ))
    })
}

/// Sends the demo's payload; returns the id of the request.
async fn send_payload(client: &Client, path: &str) -> Result<String, CliError> {
    let payload = serde_json::from_str(PAYLOAD)
        .map_err(|error| CliError::failed(format!("the demo's payload: {error}")))?;
    let receipt: ReceiptData = client
        .change(reqwest::Method::POST, path, Some(&payload))
        .await
        .map_err(|error| CliError::failed(error.to_string()))?;
    Ok(receipt.request_id)
}

async fn wait_until_processed(client: &Client, id: &str) -> Result<(), CliError> {
    for _ in 0..500 {
        let state: RequestState = client
            .get(&format!("/api/requests/{id}"))
            .await
            .map_err(|error| CliError::failed(error.to_string()))?;
        if state.status == Status::Processed.as_str() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(CliError::failed(
        "the request was accepted, but the data pool did not receive it within 10 s; see the log above",
    ))
}

async fn print_pool(daemon: &Daemon) -> Result<(), CliError> {
    let items = daemon
        .operator
        .pool
        .items(STREAM, None, SHOWN)
        .await
        .map_err(|error| CliError::failed(error.to_string()))?;
    let mut table = Table::new(&["key", TEAMS[0], TEAMS[1], TEAMS[2], TEAMS[3]]);
    for Item { key, fields, .. } in &items {
        let value = |wanted: &str| {
            let mut members = members(fields).map(|(name, value)| (field_name(name), value));
            let found = members.find(|(name, _)| name == wanted);
            found.map_or_else(String::new, |(_, value)| shown(&field_name(value)).into())
        };
        let [home, home_score, away_score, away] = TEAMS.map(value);
        table.row(&[&shown(key), &home, &home_score, &away_score, &away]);
    }
    print(&format!("In the data pool:\n\n{table}"));
    Ok(())
}
