//! What finding costs beside a long log: the search box, and the first rows of a list of items.
//!
//! The items are filled in bulk into the file that the daemon made, as many as `--items` says, in one stream.
//!
//! **Invariant:** only the crate's own functions search and list.

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use headgate::daemon::Daemon;
use operate::search::SearchPage;
use pool::PageLimit;

use super::fill::Filled;
use crate::Result;
use crate::aim::Aim;
use crate::table::Table;
use crate::times::Times;

/// The stream of the items.
pub(super) const STREAM: &str = "orders";
const SEARCHES: usize = 20;
const SEARCH_MS_MAX: f64 = 1_000.0;
const LISTS: usize = 50;
const LIST_MS_MAX: f64 = 100.0;
/// Hits of a page, as the search box asks for.
const HITS: u32 = 20;
/// Rows of a page.
const ROWS: PageLimit = PageLimit {
    rows: 51,
    bytes: 1 << 20,
};

/// Fills the pool of a stopped daemon with items `o-00000000` and so on.
pub(super) fn fill(data: &Path, items: u64) -> Result<()> {
    let mut pool = Connection::open(data.join("pool.db"))?;
    pool.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")?;
    let transaction = pool.transaction()?;
    let mut insert = transaction.prepare(
        "INSERT INTO items (stream, key, fields, seq, created_at, updated_at, request_id, accepted_seq, position)
         VALUES (?1, ?2, ?3, ?4, '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', '', ?4, 0)",
    )?;
    for item in 0..items {
        let fields = format!(
            r#"{{"id":"o-{item:08}","customer.name":"Customer {}","total":{}.50,"status":"paid"}}"#,
            item % 1_000,
            item % 500
        );
        let key = format!("o-{item:08}");
        insert.execute(rusqlite::params![
            STREAM,
            key,
            fields,
            (item + 1).cast_signed()
        ])?;
    }
    drop(insert);
    transaction.execute(
        "INSERT OR REPLACE INTO stream_sizes (stream, items, bytes)
         SELECT stream, count(*), sum(octet_length(key) + octet_length(fields)) FROM items GROUP BY stream",
        [],
    )?;
    transaction.execute(
        "INSERT INTO change_log (stream, seq, previous, total, visible, keys)
         SELECT stream, max(seq), min(seq) - 1, max(seq), 1, json_group_array(key) FROM items GROUP BY stream, (seq - 1) / 256",
        [],
    )?;
    transaction.commit()?;
    pool.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Searches and lists; the aims are the slowest of each.
pub(super) async fn bench(daemon: &Daemon, filled: &Filled, items: u64) -> Result<[Aim; 2]> {
    println!("\nwith {items} items, ms\n");
    let key = format!("o-{:08}", items / 3);
    let texts = [
        ("a key", key.as_str(), "item"),
        ("the beginning of 10 keys", &key[..key.len() - 1], "item"),
        ("the beginning of every key", "o-", "item"),
        ("a request id", filled.id.as_str(), "request"),
        ("the beginning of an idempotency key", "order-00", ""),
        ("words of an error", "has no field", "request"),
        ("a connector", "source-7", ""),
        ("what is nowhere", "nothing has this text", ""),
    ];
    let mut table = Table::new(&["search", "hits", "p50", "p99", "goes on"]);
    let mut slowest = 0.0_f64;
    for (name, text, kind) in texts {
        let mut micros = Vec::new();
        let mut page = SearchPage::default();
        for _ in 0..SEARCHES {
            let begun = Instant::now();
            page = daemon.operator.search(text, None, HITS).await?;
            micros.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        if !page.hits.iter().any(|hit| hit.kind == kind) && !kind.is_empty() {
            return Err(format!("{text:?} finds no {kind}").into());
        }
        let times = Times::from_micros(micros);
        slowest = slowest.max(times.p99);
        table.row(vec![
            name.to_owned(),
            page.hits.len().to_string(),
            format!("{:.2}", times.p50),
            format!("{:.2}", times.p99),
            (if page.next.is_some() { "yes" } else { "no" }).to_owned(),
        ]);
    }
    table.print();
    Ok([
        Aim::at_most(
            "p99 of a search, slowest text",
            slowest,
            SEARCH_MS_MAX,
            " ms",
        ),
        Aim::at_most(
            "p99 of the first rows of a list",
            lists(daemon, &key).await?,
            LIST_MS_MAX,
            " ms",
        ),
    ])
}

/// The first rows of the list of items, in each order; the slowest p99.
async fn lists(daemon: &Daemon, key: &str) -> Result<f64> {
    let pool = &daemon.operator.pool;
    let mut table = Table::new(&["first rows", "rows", "p50", "p99"]);
    let mut slowest = 0.0_f64;
    for order in ["newest first", "by key", "by key, behind a third"] {
        let mut micros = Vec::new();
        let mut rows = 0;
        for _ in 0..LISTS {
            let begun = Instant::now();
            let some = match order {
                "newest first" => pool.newest_items(STREAM, None, ROWS).await?,
                "by key" => pool.items_with_prefix(STREAM, "", None, ROWS).await?,
                _ => pool.items_with_prefix(STREAM, "", Some(key), ROWS).await?,
            };
            micros.push(begun.elapsed().as_secs_f64() * 1e6);
            rows = some.len();
        }
        let times = Times::from_micros(micros);
        slowest = slowest.max(times.p99);
        table.row(vec![
            order.to_owned(),
            rows.to_string(),
            format!("{:.2}", times.p50),
            format!("{:.2}", times.p99),
        ]);
    }
    println!();
    table.print();
    Ok(slowest)
}
