//! The curves whose points are made of requests to a daemon.
//!
//! Called by the bench's main file.
//!
//! **Invariant:** every item has a revision that was not sent before, so that each is a real update.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Growing;
use super::curve::Point;
use super::place::Place;
use super::tables;
use crate::Result;
use crate::ingest::load::{Source, Written};

/// Connections of the points whose number of them does not grow.
const CONNECTIONS: u64 = 32;
/// The same where bodies may be large: together they are less than what may wait of one key.
const FEW_CONNECTIONS: u64 = 8;
/// Bytes of a body whose size does not grow.
const BODY_BYTES: usize = 200;
/// Items that requests name, where their number does not grow: one for each key at least.
const ITEMS: u64 = 10_000;
/// Items of an array that fills the data pool: just under 1 MB.
const ARRAY_ITEMS: u64 = 4_500;

/// The point with so many.
pub(super) fn point(growing: Growing, folder: &Path, x: u64, time: Duration) -> Result<Point> {
    let revisions = Arc::new(AtomicU64::new(1_000_000_000));
    let (keys, items, connections) = match growing {
        Growing::Connections => (1, ITEMS, x),
        Growing::Items => (1, x, CONNECTIONS),
        Growing::Streams | Growing::Connectors | Growing::Keys => (x, ITEMS, CONNECTIONS),
        Growing::Body => (1, 1, FEW_CONNECTIONS),
        _ => (1, ITEMS, CONNECTIONS),
    };
    let tables = match growing {
        Growing::Streams => tables::streams(x),
        Growing::Connectors => tables::connectors(x),
        Growing::Sinks => tables::sinks(x),
        _ => tables::keys(keys),
    };
    let mut place = Place::start(folder, &tables)?;
    match growing {
        Growing::Items => {
            let requests = items.div_ceil(ARRAY_ITEMS);
            place.fill(vec![arrays(items, Arc::clone(&revisions))], requests)?;
        }
        Growing::Body => {}
        _ => {
            // One after the other, so that no point has more new items than another.
            let requests = ITEMS.div_ceil(CONNECTIONS);
            let pick = |connection| {
                let mut next = connection * requests;
                move || {
                    next += 1;
                    (next - 1) % ITEMS
                }
            };
            place.fill(objects(CONNECTIONS, keys, &revisions, pick), requests)?;
        }
    }
    if growing == Growing::Body {
        let bytes = usize::try_from(x)?;
        let units = (x as f64 / 1_024.0).max(1.0 / 1_024.0);
        return place.load(x, time, units, || bodies(connections, bytes, &revisions));
    }
    let units = if growing == Growing::Sinks {
        x as f64
    } else {
        1.0
    };
    place.load(x, time, units, || {
        objects(connections, keys, &revisions, |connection| {
            let mut random = (connection + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            move || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 16) % items
            }
        })
    })
}

/// Objects of one size from each connection. `pick` makes what names the items of one of them; an item is always sent
/// with the same key.
fn objects<P: FnMut() -> u64 + 'static>(
    connections: u64,
    keys: u64,
    revisions: &Arc<AtomicU64>,
    pick: impl Fn(u64) -> P,
) -> Vec<Source> {
    let secrets: Arc<[String]> = (0..keys).map(tables::secret).collect();
    let each = |connection: u64| {
        let (revisions, secrets) = (Arc::clone(revisions), Arc::clone(&secrets));
        let mut pick = pick(connection);
        Source::Written(Written::by(move |buffer| {
            let item = pick();
            let body = object(item, revisions.fetch_add(1, Ordering::Relaxed));
            let secret = &secrets[(item % keys) as usize];
            request(buffer, secret, "X-Item-Key: id\r\n", &body);
        }))
    };
    (0..connections).map(each).collect()
}

/// Every item once, in arrays, from one connection.
fn arrays(items: u64, revisions: Arc<AtomicU64>) -> Source {
    let secret = tables::secret(0);
    let mut next = 0;
    Source::Written(Written::by(move |buffer| {
        let end = items.min(next + ARRAY_ITEMS);
        let objects =
            (next..end).map(|item| object(item, revisions.fetch_add(1, Ordering::Relaxed)));
        let body = format!("[{}]", objects.collect::<Vec<_>>().join(","));
        next = end;
        request(buffer, &secret, "X-Item-Key: id\r\n", &body);
    }))
}

/// Bodies of exactly so many bytes, all for the one item that position 0 identifies.
fn bodies(connections: u64, bytes: usize, revisions: &Arc<AtomicU64>) -> Vec<Source> {
    let secret: Arc<str> = tables::secret(0).into();
    let each = |_| {
        let (revisions, secret) = (Arc::clone(revisions), Arc::clone(&secret));
        Source::Written(Written::by(move |buffer| {
            // In four digits, and never the same as the one before.
            let number = 1_000 + revisions.fetch_add(1, Ordering::Relaxed) % 9_000;
            let mut body = format!("{{\"a\":{number}}}");
            if bytes > body.len() {
                body.pop();
                body.push_str(",\"t\":\"");
                body.extend(std::iter::repeat_n(
                    'x',
                    bytes.saturating_sub(body.len() + 2),
                ));
                body.push_str("\"}");
            }
            request(buffer, &secret, "", &body);
        }))
    };
    (0..connections).map(each).collect()
}

/// An object of [`BODY_BYTES`].
fn object(item: u64, revision: u64) -> String {
    let mut body = format!("{{\"id\":\"{item:09}\",\"revision\":{revision},\"text\":\"");
    let rest = BODY_BYTES - body.len() - "\"}".len();
    body.extend(std::iter::repeat_n('x', rest));
    body.push_str("\"}");
    body
}

fn request(buffer: &mut Vec<u8>, secret: &str, headers: &str, body: &str) {
    let head = format!(
        "POST /api/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n\
         Content-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    buffer.extend_from_slice(head.as_bytes());
    buffer.extend_from_slice(body.as_bytes());
}
