//! `/settings`: the effective configuration, the data directory, and the backups.
//!
//! **Invariant**: settings are shown as `headgate config show` prints them, with masked secrets. The same function as
//! in the admin API creates a backup.

mod configuration;
mod nodes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::form_data::FormData;
use super::frame::{FormAnswer, Head, NoPage, Page, Place, WithAside, aside, token};
use super::guard::by;
use super::node::on_node;
use super::text::{as_sentence, bytes, count, grouped, plain, text, time};
use backup::BackupError;
use backup::manifest::Manifest;
use base::clock;
use configuration::Wanted;
use http::error::ApiError;
use operate::{Operator, in_background};

/// Maximum backups in the list.
const BACKUPS_MAX: usize = 50;
/// Maximum entries of the data directory that are counted, including its subdirectories.
const ENTRIES_MAX: usize = 10_000;

/// Routes that decide which node runs the sinks.
pub(super) fn of_nodes(operator: &Operator) -> Router {
    Router::with_path("settings/nodes/{name}/claim").post(nodes::ClaimOnPage(operator.clone()))
}

/// `GET /settings`
pub(super) struct Settings(pub(super) Operator);

#[handler]
impl Settings {
    async fn handle(&self, req: &Request, depot: &Depot) -> WithAside {
        page(&self.0, &Wanted::of(req), depot).await
    }
}

async fn page(operator: &Operator, wanted: &Wanted, depot: &Depot) -> WithAside {
    let backups = operator.backups.clone();
    let data_dir = PathBuf::from(&operator.about.data_dir);
    let read = move || (backups.found(), entries(&data_dir));
    let (backups, entries) = in_background(read).await;
    let news = configuration::news(operator);
    let page = Page {
        title: "Settings".to_owned(),
        place: Place::Settings,
        head: Head::default(),
        still: html! {
            (aside(&news))
            (about(operator))
            h2 #configuration { "Configuration" }
            (configuration::settings(operator, wanted))
            h2 #backups { "Backups" }
            form.panel method="post" action="/settings/back-up" {
                (token(depot))
                label for="dir" { "Directory on the daemon's machine, missing or empty" }
                div.row {
                    input.long #dir name="dir" required value=(operator.backups.suggested().to_string_lossy());
                    button { "Back up now" }
                }
                p.quiet { "Creates and verifies a consistent copy while the daemon keeps accepting requests. Use another disk to survive a disk failure. " code { "headgate restore" } " creates a data directory from it." }
            }
            (backup_table(&backups))
        },
        live: html! {
            (nodes::section(operator, depot))
            h2 #data { "Data directory" (on_node(operator)) }
            (files(operator, &entries))
        },
        old: false,
    };
    WithAside(page, news)
}

fn about(operator: &Operator) -> Markup {
    let built = if cfg!(debug_assertions) {
        "for debugging"
    } else {
        "for release"
    };
    html! {
        div.panel { dl {
            dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) ", built " (built) ", " (std::env::consts::OS) " on " (std::env::consts::ARCH) }
            @if let Some(node) = operator.node() { dt { "Node" } dd { (text(node)) } }
            dt { "Profile" } dd { (text(&operator.about.profile)) }
            dt { "Started" } dd { (time(&clock::rfc3339(operator.about.started_at))) }
            dt { "Service" } dd.mono { (text(&operator.about.service_address)) }
            dt { "Sessions" } dd { a href="/sessions" { "List of sessions" } }
            dt { "API" } dd { a href="/docs/api" { "Reference of the admin API" } ", " a href="/openapi.json" { "openapi.json" }
                @if !operator.about.service_address.starts_with("unix:") {
                    ". The service listener has its own at " code { (text(&format!("{}/docs/api", operator.about.service_address))) }
                }
            }
        } }
    }
}

fn backup_table(backups: &[(PathBuf, Manifest)]) -> Markup {
    html! {
        @if backups.is_empty() {
            p.panel { "No backups: the data directory contains none, and none was created since the start." }
        } @else {
            div.table { table {
                thead { tr { th { "Created" } th { "Directory" } th.number { "Size" } th { "Contents" } th { "Version" } } }
                tbody { @for (path, manifest) in backups.iter().take(BACKUPS_MAX) { tr {
                    td.tight data-label="Made" { (time(&manifest.made_at)) }
                    td.mono data-label="Folder" { (text(&path.to_string_lossy())) }
                    td.number data-label="Size" { (bytes(manifest.bytes())) }
                    td data-label="Contents" { "all requests up to number " (grouped(manifest.highest_seq.get())) }
                    td data-label="Version" { (text(&manifest.version)) }
                } } }
            } }
            @if backups.len() > BACKUPS_MAX {
                p.quiet { (count((backups.len() - BACKUPS_MAX) as u64, "older backup")) " not shown." }
            }
        }
    }
}

/// The entries of a directory: name, and bytes with everything below it. Unreadable entries are left out.
fn entries(folder: &Path) -> Vec<(String, u64)> {
    let mut left = ENTRIES_MAX;
    let read = folder.read_dir().into_iter().flatten().flatten();
    let entries = read.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, bytes_below(&entry.path(), &mut left))
    });
    // Files that SQLite creates next to a database are added to it.
    let mut all = BTreeMap::<String, u64>::new();
    for (name, bytes) in entries {
        let whole = name.strip_suffix("-wal").or(name.strip_suffix("-shm"));
        *all.entry(whole.unwrap_or(&name).to_owned()).or_default() += bytes;
    }
    all.into_iter().collect()
}

fn bytes_below(path: &Path, left: &mut usize) -> u64 {
    let mut waiting = vec![path.to_owned()];
    let mut bytes = 0;
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if *left == 0 {
            break;
        }
        *left -= 1;
        if metadata.is_dir() {
            let entries = path.read_dir().into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        } else {
            bytes += metadata.len();
        }
    }
    bytes
}

fn files(operator: &Operator, entries: &[(String, u64)]) -> Markup {
    let all = entries.iter().map(|(_, bytes)| bytes).sum();
    let free = u64::try_from(operator.metrics.disk_free_bytes.get()).unwrap_or_default();
    html! {
        div.panel { dl {
            dt { "Folder" } dd.mono { (text(&operator.about.data_dir)) }
            dt { "Size" } dd { (bytes(all)) }
            dt { "Free" } dd { (bytes(free)) " on its disk" }
            dt { "Durability" } dd { (operator.about.durability) @match operator.about.durability {
                "fsync" => ": a 202 means on disk",
                "standby" => ": a 202 means on a standby of the database, too",
                "local" => ": a failover can lose acknowledged requests",
                _ => ": a power failure can lose requests",
            } }
        } }
        div.table { table {
            thead { tr { th { "Entry" } th.number { "Size" } } }
            tbody { @for (name, size) in entries { tr {
                td.mono data-label="Entry" { (text(name)) }
                td.number data-label="Size" { (bytes(*size)) }
            } } }
        } }
    }
}

/// `POST /settings/back-up`
pub(super) struct BackUp(pub(super) Operator);

#[handler]
impl BackUp {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let dir = FormData::of(depot).and_then(|form| form.get("dir"));
        let dir = dir.unwrap_or_default().trim();
        let made = self.0.back_up(dir, by(req)).await.map_err(no_page)?;
        Ok(FormAnswer::Done(
            "/settings".to_owned(),
            sentence(dir, &made),
        ))
    }
}

fn sentence(dir: &str, made: &Manifest) -> String {
    format!(
        "Backup created and verified in {}: {}, {}, all requests up to number {}.",
        plain(dir),
        count(made.files.len() as u64, "file"),
        bytes(made.bytes()),
        grouped(made.highest_seq.get())
    )
}

fn no_page(error: BackupError) -> NoPage {
    let error = ApiError::from(error);
    NoPage::from(ApiError {
        message: as_sentence(&error.message),
        ..error
    })
}
