//! `headgate plugin list`, and the verbs that add, replace and remove plugins of a running daemon.
//!
//! **Invariant**: an unusable plugin is listed with the reason. The command line fetches components; the daemon makes
//! no such calls.

mod archive;
mod fetch;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::de::IgnoredAny;

use super::client::{AdminArgs, Client};
use super::error::CliError;
use super::output::{cut, plain, print, shown};
use super::resource::{Column, ListArgs, Resource};
use base::text::percent_encoded;
use fetch::{Fetched, SignIn, fetch};
use wire::{PluginData, RemovedPluginData};

const PLUGINS: &str = "/api/admin/plugins";

const COLUMNS: &[Column<PluginData>] = &[
    Column::new("NAME", |one| plain(&one.name)),
    Column::new("KIND", |one| plain(&one.kind)),
    Column::new("VERSION", |one| plain(&one.version)),
    Column::new("BYTES", |one| plain(&one.bytes)),
    Column::new("ASKS FOR", |one| plain(&one.asks_for.join(", "))),
    Column::new("USED BY", |one| cut(plain(&one.used_by.join(", ")))),
    Column::new("SOURCE", |one| cut(plain(&one.source))),
    Column::new("SHA256", |one| plain(&one.sha256)),
    Column::new("ERROR", |one| cut(plain(&one.error))),
];

/// Arguments of `headgate plugin list`.
#[derive(Debug, clap::Args)]
pub struct PluginListArgs {
    #[command(flatten)]
    list: ListArgs,
}

/// Arguments of `headgate plugin add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate plugin add target/wasm32-wasip2/release/cart.wasm
  headgate plugin add https://example.com/cart-1.4.0.wasm --name cart
  headgate plugin add oci://registry.example.com/cart@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  headgate plugin add plugins.tar

The command fetches the component and sends it to the daemon.")]
pub struct PluginAddArgs {
    /// File, archive of `plugin export`, https:// URL, or oci://HOST/REPOSITORY@sha256:DIGEST
    source: String,
    /// Name that sinks use; default: the name of the file or of the repository
    #[arg(long)]
    name: Option<String>,
    /// SHA-256 that the component must have
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    #[command(flatten)]
    sign_in: SignIn,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of the verbs about one plugin.
#[derive(Debug, clap::Args)]
pub struct PluginNameArgs {
    /// Name of the plugin
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate plugin export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate plugin export cart chat --to plugins.tar

`headgate plugin add plugins.tar` adds them to another daemon.")]
pub struct PluginExportArgs {
    /// Names of the plugins
    #[arg(required = true, num_args = 1..)]
    names: Vec<String>,
    /// Archive to write
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Lists the plugins.
///
/// # Errors
/// The daemon cannot be asked.
pub async fn list(args: &PluginListArgs) -> Result<(), CliError> {
    let plugins = Resource::new(&args.list.admin, "plugin", PLUGINS)?;
    let none = "no plugins";
    plugins.list(args.list.output, none, COLUMNS).await
}

/// Adds a plugin, or replaces one that was added.
///
/// # Errors
/// The component cannot be fetched, or the daemon rejects it.
pub async fn add(args: &PluginAddArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let all = match archive::read(Path::new(&args.source))? {
        Some(_) if args.name.is_some() || args.sha256.is_some() => {
            return Err(CliError::wrong_use(
                "an archive has the names and digests of its plugins: leave --name and --sha256 out",
            ));
        }
        Some(all) => all,
        None => {
            let mut fetched = fetch(&args.source, &args.sign_in).await?;
            fetched.must_be(args.sha256.as_deref())?;
            if let Some(name) = &args.name {
                fetched.name.clone_from(name);
            }
            vec![fetched]
        }
    };
    for fetched in all {
        put(&client, fetched).await?;
    }
    Ok(())
}

/// Fetches a plugin from its source again.
///
/// # Errors
/// It cannot be fetched, or the daemon rejects it.
pub async fn update(args: &PluginNameArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let before: PluginData = client.get(&path_of(&args.name)).await?;
    let name = shown(&args.name);
    let Some(source) = before.source.filter(|source| !source.is_empty()) else {
        return Err(CliError::wrong_use(format!(
            "{name} was not added with `headgate plugin add`, so nobody knows where it comes from; add it"
        )));
    };
    if source.starts_with("oci://") {
        return Err(CliError::wrong_use(format!(
            "{name} comes from {}, whose digest never means anything else; add the new one with `headgate plugin add oci://… --name {name}`",
            shown(&source)
        )));
    }
    let mut fetched = fetch(&source, &SignIn::default()).await?;
    if before.sha256.as_deref() == Some(&*fetched.sha256()) {
        return print(&format!("{name} is up to date\n"));
    }
    fetched.name.clone_from(&args.name);
    put(&client, fetched).await
}

/// Restores the version of a plugin before its last replacement.
///
/// # Errors
/// It was never replaced, or the daemon does not answer.
pub async fn roll_back(args: &PluginNameArgs) -> Result<(), CliError> {
    let path = format!("{}/rollback", path_of(&args.name));
    let client = args.admin.client()?;
    let now: PluginData = client.change(Method::POST, &path, None).await?;
    print(&format!(
        "{} is {} again\n",
        shown(&now.name),
        identity(&now)
    ))
}

/// Removes a plugin that no sink uses.
///
/// # Errors
/// Sinks use it, or the daemon does not answer.
pub async fn remove(args: &PluginNameArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let path = path_of(&args.name);
    let gone: RemovedPluginData = client.change(Method::DELETE, &path, None).await?;
    print(&format!("{} is removed\n", shown(&gone.name)))
}

/// Writes plugins into an archive.
///
/// # Errors
/// One of them was not added, the archive cannot be written, or the daemon does not answer.
pub async fn export(args: &PluginExportArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let mut all = Vec::new();
    for name in &args.names {
        let data: PluginData = client.get(&path_of(name)).await?;
        let path = format!("{}/component", path_of(name));
        let answer = client
            .call(Method::GET, &path, HeaderMap::new(), Bytes::new())
            .await?;
        if answer.status != 200 {
            client.envelope::<IgnoredAny>(&answer)?;
        }
        all.push(Fetched {
            name: name.clone(),
            source: data.source.unwrap_or_default(),
            component: answer.body.into(),
        });
    }
    archive::write(&args.to, &all)?;
    let count = match all.len() {
        1 => "1 plugin is".to_owned(),
        count => format!("{count} plugins are"),
    };
    print(&format!("{count} in {}\n", args.to.display()))
}

async fn put(client: &Client, fetched: Fetched) -> Result<(), CliError> {
    let path = format!(
        "{}?source={}",
        path_of(&fetched.name),
        percent_encoded(&fetched.source)
    );
    let wasm = HeaderValue::from_static("application/wasm");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, wasm)]);
    let answer = client
        .call(Method::PUT, &path, headers, fetched.component)
        .await?;
    let now: PluginData = client.envelope(&answer)?.data;
    let done = match answer.status {
        201 => "added",
        _ => "replaced",
    };
    let asks_for = match &now.asks_for[..] {
        [] => String::new(),
        asks_for => format!("; a sink must grant it {}", asks_for.join(", ")),
    };
    print(&format!(
        "{} {} is {done}{asks_for}\n",
        shown(&now.name),
        identity(&now)
    ))
}

fn path_of(name: &str) -> String {
    format!("{PLUGINS}/{}", percent_encoded(name))
}

/// `1.4.0 (sha256 9f86d081884c)`
fn identity(plugin: &PluginData) -> String {
    let version = plugin.version.as_deref().unwrap_or_default();
    let sha256 = plugin.sha256.as_deref().unwrap_or_default();
    let begin: String = sha256.chars().take(12).collect();
    format!("{} (sha256 {begin})", shown(version))
}
