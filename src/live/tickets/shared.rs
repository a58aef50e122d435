//! The tickets of a cluster, in its database.
//!
//! **Invariant**: who redeems a ticket gets what its key may read by the catalog of this node, at that time. A key that was
//! revoked or rotated gives nothing.

use std::sync::Arc;

use super::{Grant, TICKET, TICKETS_OF_KEY_MAX};
use base::clock::Unix;
use catalog::{Catalog, KeyHash, Reader};
use postgres::{AccessTables, DatabaseError, TicketRow};

/// The tickets of all nodes.
#[derive(Debug)]
pub(super) struct SharedTickets {
    pub(super) tables: AccessTables,
    pub(super) catalog: Arc<Catalog>,
}

impl SharedTickets {
    /// Adds a ticket; returns its expiry.
    pub(super) async fn give(&self, ticket: KeyHash, grant: &Grant) -> Result<Unix, DatabaseError> {
        let Grant {
            reader, streams, ..
        } = grant;
        let row = TicketRow {
            name: reader.name.to_string(),
            key: reader.key.map(|key| *key.as_bytes()),
            key_ends: reader.expires_at,
            streams: streams.iter().map(ToString::to_string).collect(),
            origin: grant.origin.clone(),
        };
        (self.tables)
            .give_ticket(*ticket.as_bytes(), &row, TICKET, TICKETS_OF_KEY_MAX)
            .await
    }

    /// Removes a ticket, and returns it if its time is not over and its key can read something of it. The key is looked
    /// up now, because it may have been revoked since the ticket was given.
    pub(super) async fn take(&self, ticket: KeyHash) -> Result<Option<Grant>, DatabaseError> {
        let row = self.tables.take_ticket(*ticket.as_bytes()).await?;
        Ok(row.and_then(|row| self.grant(row)))
    }

    fn grant(&self, row: TicketRow) -> Option<Grant> {
        let mut streams: Vec<Arc<str>> = row.streams.into_iter().map(Arc::from).collect();
        let reader = match row.key {
            Some(key) => {
                let reader = self.catalog.reader_of(KeyHash::from_bytes(key))?;
                let had_some = !streams.is_empty();
                streams.retain(|one| reader.stream(one).is_some());
                if had_some && streams.is_empty() {
                    return None;
                }
                reader
            }
            None => {
                let mut reader = Reader::new(&row.name, streams.clone());
                reader.expires_at = row.key_ends;
                Arc::new(reader)
            }
        };
        Some(Grant {
            reader,
            streams,
            origin: row.origin,
        })
    }
}
