//! Sinks: made, changed, paused, and marked to be deleted.
//!
//! Whether a section can be used was found out before.
//!
//! **Invariant**: the row of a sink goes last: as long as anything is kept for it that is to go, it is marked.

use std::sync::Arc;

use rusqlite::Connection as Database;
use serde_json::{Value, json};

use super::check::{check_addressable, require_capacity, require_free};
use super::{Changed, audit_changed, audit_created, audit_deleted};
use crate::audit::{Actor, Change};
use crate::entries::Entries;
use crate::sink::{Pause, Sink, SinkRow};
use crate::{Catalog, CatalogError, ResourceKind, Store, schema};
use base::clock::{self, Unix};
use settings::Section;

const KIND: ResourceKind = ResourceKind::Sink;

impl Catalog {
    /// The sinks that are to run, or to wait: those of the configuration, then those that were made at run time.
    pub fn sinks(&self) -> Vec<Arc<Sink>> {
        self.read(|entries| entries.sinks.clone())
    }

    pub fn sink(&self, name: &str) -> Option<Arc<Sink>> {
        self.read(|entries| {
            entries
                .sinks
                .iter()
                .find(|sink| sink.name() == name)
                .cloned()
        })
    }

    /// Those that are marked to be deleted. The next start continues with them, because a kill may have come between
    /// the mark and the end.
    pub fn sinks_to_delete(&self) -> Vec<String> {
        let store = self.store();
        let marked = store.made.sinks.iter().filter(|row| row.deleting);
        marked.map(|row| row.name.clone()).collect()
    }

    /// Makes a sink. One that is not to deliver yet is paused by whoever makes it.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing was changed then. The same holds for all that follow.
    pub fn create_sink(&self, name: &str, section: Section, actor: &Actor) -> Changed<()> {
        check_addressable(name)?;
        self.commit_sink(actor, |database, entries, rows| {
            if let Some(sink) = entries.sinks.iter().find(|sink| sink.name() == name) {
                return Err(match sink.is_declared() {
                    true => CatalogError::Declared(KIND),
                    false => CatalogError::Taken(KIND),
                });
            }
            require_free(
                KIND,
                rows.iter()
                    .any(|row| row.name == name && row.section.is_some()),
            )?;
            require_capacity(rows.len())?;
            let row = SinkRow {
                name: name.to_owned(),
                created_at: Some(Unix::now()),
                deleting: false,
                ..with_section(section.clone(), None, actor)
            };
            schema::put_sink(database, &row)?;
            Ok(Some(audit_created(KIND, name, shown(&row, None))))
        })
    }

    /// Gives a sink another section. A pause stays unless the section sets `enabled`, so that a change starts no sink
    /// that somebody stopped.
    pub fn change_sink(&self, name: &str, section: Section, actor: &Actor) -> Changed<()> {
        self.commit_sink(actor, |database, entries, rows| {
            let old = made(entries, rows, name)?;
            let row = SinkRow {
                name: name.to_owned(),
                created_at: old.created_at,
                deleting: false,
                ..with_section(section.clone(), old.pause.clone(), actor)
            };
            schema::put_sink(database, &row)?;
            let (before, after) = (shown(old, None), shown(&row, old.section.as_ref()));
            Ok(Some(audit_changed(KIND, name, before, after)))
        })
    }

    /// Pauses a sink, or lets it go on, unless it was so before. A declared one that is not enabled goes on where it is
    /// declared.
    pub fn pause_sink(&self, name: &str, paused: bool, actor: &Actor) -> Changed<()> {
        self.commit_sink(actor, |database, entries, rows| {
            let sink = entries.sinks.iter().find(|sink| sink.name() == name);
            let sink = sink.ok_or(CatalogError::NotFound(KIND))?;
            if !paused && sink.is_declared() && !sink.settings.enabled {
                return Err(CatalogError::Declared(KIND));
            }
            if paused == sink.pause.is_some() {
                return Ok(None);
            }
            let known = rows.iter().find(|row| row.name == name).cloned();
            let row = SinkRow {
                pause: paused.then(|| by(actor)),
                ..known.unwrap_or_else(|| SinkRow {
                    name: name.to_owned(),
                    section: None,
                    created_at: None,
                    deleting: false,
                    pause: None,
                })
            };
            match row.section.is_none() && row.pause.is_none() {
                true => schema::delete_sink(database, name)?,
                false => schema::put_sink(database, &row)?,
            }
            let action = if paused { "pause" } else { "resume" };
            let (before, after) = (
                paused_by(sink.pause.as_ref()),
                paused_by(row.pause.as_ref()),
            );
            Ok(Some(Change {
                action,
                ..audit_changed(KIND, name, before, after)
            }))
        })
    }

    /// Marks a sink that was made at run time: it runs no more. `gone` is what is kept for it, in numbers. A kill
    /// then finds it before the mark or after, and the next start deletes the rest.
    pub fn mark_sink(&self, name: &str, gone: Value, actor: &Actor) -> Changed<()> {
        self.commit_sink(actor, |database, entries, rows| {
            let old = rows
                .iter()
                .find(|row| row.name == name && row.section.is_some());
            let Some(old) = old.filter(|row| !row.deleting) else {
                return Err(match entries.sinks.iter().any(|sink| sink.name() == name) {
                    true => CatalogError::Declared(KIND),
                    false => CatalogError::NotFound(KIND),
                });
            };
            let row = SinkRow {
                deleting: true,
                ..old.clone()
            };
            schema::put_sink(database, &row)?;
            Ok(Some(Change {
                after: Some(gone.clone()),
                ..audit_deleted(KIND, name, shown(old, None))
            }))
        })
    }

    /// Takes away the row of a sink for which nothing is kept any more, or that another one has taken the name of. The
    /// audit log has no entry of it, because the mark has one.
    ///
    /// # Errors
    /// See [`CatalogError`].
    pub fn forget_sink(&self, name: &str) -> Changed<()> {
        let forget = |store: &Store| {
            schema::delete_sink(&store.connection, name)?;
            Ok(schema::load(&store.connection)?)
        };
        self.write_then(forget, |store, made| {
            store.made = made;
            self.publish(store);
        })
    }

    /// Runs a change of a sink in a transaction, with its entry in the audit log, if anything is changed. The rows are
    /// read within the transaction, because the lookups lack those that are marked or hidden by a declared one.
    fn commit_sink(
        &self,
        actor: &Actor,
        mut work: impl FnMut(&Database, &Entries, &[SinkRow]) -> Changed<Option<Change>>,
    ) -> Changed<()> {
        self.commit_all(actor, |database, entries| {
            let rows = schema::load(database)?.sinks;
            let change = work(database, entries, &rows)?;
            Ok(((), change.into_iter().collect()))
        })
        .map(drop)
    }
}

fn by(actor: &Actor) -> Pause {
    Pause {
        by: Arc::clone(&actor.who),
        at: Some(Unix::now()),
    }
}

/// Whether it delivers is the pause's to say, so that there is one answer.
fn with_section(mut section: Section, pause: Option<Pause>, actor: &Actor) -> SinkRow {
    let pause = match section.take("enabled") {
        Some(Value::Bool(true)) => None,
        Some(Value::Bool(false)) => Some(pause.unwrap_or_else(|| by(actor))),
        _ => pause,
    };
    SinkRow {
        name: String::new(),
        section: Some(section),
        created_at: None,
        deleting: false,
        pause,
    }
}

/// A marked one is not found, because nothing may change a sink that is about to go.
fn made<'a>(entries: &Entries, rows: &'a [SinkRow], name: &str) -> Changed<&'a SinkRow> {
    match entries.sinks.iter().find(|sink| sink.name() == name) {
        Some(sink) if sink.is_declared() => return Err(CatalogError::Declared(KIND)),
        _ => {}
    }
    let mut found = rows
        .iter()
        .filter(|row| row.section.is_some() && !row.deleting);
    let found = found.find(|row| row.name == name);
    found.ok_or(CatalogError::NotFound(KIND))
}

/// For the audit log.
fn shown(row: &SinkRow, before: Option<&Section>) -> Value {
    let section = row.section.as_ref().map(|section| section.audited(before));
    let mut shown = section.unwrap_or_default();
    if let (Some(shown), Some(pause)) = (shown.as_object_mut(), &row.pause) {
        shown.insert("paused_by".to_owned(), json!(&*pause.by));
    }
    shown
}

fn paused_by(pause: Option<&Pause>) -> Value {
    json!({
        "paused_by": pause.map(|pause| &*pause.by),
        "paused_at": pause.and_then(|pause| pause.at).map(clock::rfc3339),
    })
}
