//! What tells a damaged file from a full disk, a busy file or a failed write.
//!
//! **Invariant**: what another program or the machine may have done is no damage.

use rusqlite::{Error, ErrorCode, ffi};

/// Whether an error means that the file is damaged: SQLite says so, a table is not what its
/// owner made it, a row stands in the way that no statement expects, or a value is not of its column's type.
pub fn is_damage(error: &Error) -> bool {
    match error {
        Error::SqliteFailure(failure, message) => {
            is_damage_code(failure.extended_code)
                || failure.code == ErrorCode::ConstraintViolation
                || (failure.code == ErrorCode::Unknown && is_about_tables(message.as_deref()))
        }
        Error::SqlInputError { error, msg, .. } => {
            is_damage_code(error.extended_code) || is_about_tables(Some(msg))
        }
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::InvalidColumnName(_)
        | Error::InvalidColumnIndex(_)
        | Error::Utf8Error(..) => true,
        _ => false,
    }
}

/// Whether damage is what an error comes from: its source, or the source of that.
pub fn is_behind(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .any(|error| error.downcast_ref::<Error>().is_some_and(is_damage))
}

/// Whether a file that cannot be opened for this may be damaged: all but what the machine or another program may have
/// done: a full disk is no reason to repair a file.
pub fn may_be_damage(error: &Error) -> bool {
    let is_sql = |code| matches!(code, ErrorCode::Unknown | ErrorCode::TypeMismatch);
    match error {
        Error::SqliteFailure(failure, _) => is_sql(failure.code) || is_damage(error),
        Error::SqlInputError { .. } | Error::QueryReturnedNoRows => true,
        _ => is_damage(error),
    }
}

fn is_damage_code(code: i32) -> bool {
    matches!(code & 0xff, ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB)
}

/// Statements are fixed and tables are made before they run: what is missing was damaged.
fn is_about_tables(message: Option<&str>) -> bool {
    let message = message.unwrap_or_default();
    let has_not = |what: &str| message.starts_with("table ") && message.contains(what);
    message.starts_with("no such table")
        || message.starts_with("no such column")
        || has_not(" has no column named ")
        || has_not(" columns but ")
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_statement_that_does_not_fit_the_tables_means_damage() {
        let connection = Connection::open_in_memory().expect("a database");
        let make = "CREATE TABLE payloads (seq INTEGER PRIMARY KEY, crc30 INTEGER NOT NULL)";
        connection.execute_batch(make).expect("a table");
        for (sql, is) in [
            ("INSERT INTO payloads (seq, crc32) VALUES (1, 2)", true),
            ("INSERT INTO payloads VALUES (1, 2, 3)", true),
            ("UPDATE payloads SET crc32 = 1", true),
            ("SELECT crc32 FROM payloads", true),
            ("SELECT seq FROM payload", true),
            ("INSERT INTO payloads (seq, crc30) VALUES (1, NULL)", true),
            ("SELECT load_extension('x')", false),
        ] {
            let error = connection.execute_batch(sql).expect_err(sql);
            assert_eq!(is_damage(&error), is, "{sql}: {error}");
        }
    }
}
