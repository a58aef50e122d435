//! Payloads that cannot be read, quarantined for a person to look at.
//!
//! The writer puts them here when a lane has met one (`journal/file/group.rs`), a repair when it knows of one; it gives them
//! up between groups.
//!
//! **Invariant**: what is kept is bounded, and nothing is given up that a sink has not passed.

use base::order::Seq;
use rusqlite::Connection;

/// The most that are kept. Each is of use to a person only, so a damaged disk must not fill the file with them.
const ROWS_MAX: i64 = 10_000;
/// Bytes of all of them.
const BYTES_MAX: i64 = 64 << 20;

/// Gives up those whose log entries are gone, and the oldest if there are too many. Every sink has the requests up to
/// `released`.
pub(super) fn give_up(connection: &Connection, released: Seq) -> Result<(), rusqlite::Error> {
    give_up_beyond(connection, released, ROWS_MAX, BYTES_MAX)
}

fn give_up_beyond(
    connection: &Connection,
    released: Seq,
    rows_max: i64,
    bytes_max: i64,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "DELETE FROM quarantine WHERE seq <= ?1 AND (seq < (SELECT min(seq) FROM requests) OR seq <= (
                 SELECT max(seq) FROM (
                     SELECT seq, row_number() OVER newest AS number,
                         sum(coalesce(length(items), 0)) OVER newest AS bytes
                     FROM quarantine WINDOW newest AS (ORDER BY seq DESC))
                 WHERE number > ?2 OR bytes > ?3))",
        )?
        .execute([released.to_column(), rows_max, bytes_max])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_and_never_before_every_sink_has_passed_them() {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(
                "CREATE TABLE requests (seq INTEGER PRIMARY KEY);
                 CREATE TABLE quarantine (seq INTEGER PRIMARY KEY, reason TEXT NOT NULL, crc32 INTEGER, items BLOB);
                 INSERT INTO requests VALUES (3), (9);
                 INSERT INTO quarantine SELECT value, 'no', 1, zeroblob(100)
                     FROM json_each('[1, 2, 3, 4, 5, 6, 7, 8]');",
            )
            .expect("tables");
        let left = |released, rows_max, bytes_max| -> String {
            let released = Seq::new(released);
            give_up_beyond(&connection, released, rows_max, bytes_max).expect("it is given up");
            let sql = "SELECT group_concat(seq, '') FROM quarantine";
            connection
                .query_row(sql, [], |row| row.get(0))
                .expect("some")
        };
        assert_eq!(
            left(1, 100, 10_000),
            "2345678",
            "the entry of 2 is gone, but a sink needs it"
        );
        assert_eq!(left(8, 100, 10_000), "345678");
        assert_eq!(left(8, 5, 10_000), "45678");
        assert_eq!(left(8, 5, 350), "678");
        assert_eq!(left(6, 1, 10), "78");
    }
}
