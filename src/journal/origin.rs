//! What delivery needs of a request, in a few bytes beside its payload.
//!
//! The writer stores it with the payload (`journal/file/group.rs`). Lanes read the log entry; a repair reads this when the page
//! with the log entry is gone.
//!
//! **Invariant**: what cannot be read whole is nothing.

use uuid::Uuid;

use super::log::{LogEntry, Outcome};
use base::clock::Unix;

/// Outcome, time and id.
const HEAD_BYTES: usize = 1 + 8 + 16;
/// Between connector and stream: no name contains it.
const BETWEEN: u8 = 0;

/// Where a payload comes from, and where it goes. It is stored twice, because a page of the log can be lost and its
/// payload not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// UUIDv7.
    pub request_id: Uuid,
    /// When it arrived.
    pub received_at: Unix,
    /// [`Outcome::Accepted`] or [`Outcome::Removed`].
    pub outcome: Outcome,
    /// Name of the connector.
    pub connector: String,
    /// Name of the stream.
    pub stream: String,
}

impl Origin {
    /// Writes what is to be known of an entry, and nothing else, into `bytes`.
    pub(super) fn pack(entry: &LogEntry, bytes: &mut Vec<u8>) {
        let head = (entry.outcome, entry.received_at, entry.request_id);
        write(bytes, head, (&entry.connector, &entry.stream));
    }

    /// The same of what was read.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let head = (self.outcome, self.received_at, self.request_id);
        write(bytes, head, (&self.connector, &self.stream));
    }

    /// Reads it back.
    pub fn unpack(bytes: &[u8]) -> Option<Self> {
        let (head, names) = bytes.split_at_checked(HEAD_BYTES)?;
        let (outcome, head) = head.split_first()?;
        let (received_at, id) = head.split_first_chunk::<8>()?;
        let (connector, stream) = std::str::from_utf8(names)
            .ok()?
            .split_once(char::from(BETWEEN))?;
        let outcome = Outcome::from_code(i64::from(*outcome));
        Some(Self {
            request_id: Uuid::from_slice(id).ok()?,
            received_at: Unix::from_ms(u64::from_le_bytes(*received_at)),
            outcome: (outcome.action().is_some() && bytes[0] == outcome.code().to_le_bytes()[0])
                .then_some(outcome)?,
            connector: connector.to_owned(),
            stream: stream.to_owned(),
        })
    }
}

fn write(
    bytes: &mut Vec<u8>,
    (outcome, received_at, request_id): (Outcome, Unix, Uuid),
    (connector, stream): (&str, &str),
) {
    bytes.clear();
    bytes.push(outcome.code().to_le_bytes()[0]);
    bytes.extend_from_slice(&received_at.ms().to_le_bytes());
    bytes.extend_from_slice(request_id.as_bytes());
    bytes.extend_from_slice(connector.as_bytes());
    bytes.push(BETWEEN);
    bytes.extend_from_slice(stream.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECEIVED: Unix = Unix::from_ms(1 << 41);

    #[test]
    fn what_is_packed_is_read_back_and_half_of_it_is_nothing() {
        for outcome in [Outcome::Accepted, Outcome::Removed] {
            let id = Uuid::now_v7();
            let entry = LogEntry::of(id, RECEIVED, "größe".into(), "orders".into(), outcome);
            let mut bytes = vec![7; 3];
            Origin::pack(&entry, &mut bytes);
            let origin = Origin {
                request_id: id,
                received_at: RECEIVED,
                outcome,
                connector: "größe".to_owned(),
                stream: "orders".to_owned(),
            };
            assert_eq!(Origin::unpack(&bytes), Some(origin));
            let names = bytes.len() - "orders".len();
            for end in 0..names {
                assert_eq!(Origin::unpack(&bytes[..end]), None, "{end}");
            }
            for wrong in [1, 2, 3, 5, 6, 255] {
                bytes[0] = wrong;
                assert_eq!(Origin::unpack(&bytes), None, "{wrong}");
            }
        }
    }
}
