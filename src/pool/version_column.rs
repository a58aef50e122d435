//! Versions as they stand in the file.
//!
//! **Invariant**: rows of files up to format 8 are read as they are: a number is thousandths there.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};

use item::Version;

/// A version in a column. Numbers of older formats are read too, so that an upgrade rewrites no row.
pub(super) struct Column(pub(super) Version);

impl FromSql for Column {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let version = match value {
            ValueRef::Integer(thousandths) => Version::from_thousandths(thousandths),
            ValueRef::Blob(bytes) => {
                let bytes = bytes.try_into();
                Version::from_bytes(bytes.map_err(|_| FromSqlError::InvalidType)?)
            }
            _ => return Err(FromSqlError::InvalidType),
        };
        Ok(Self(version))
    }
}

impl ToSql for Column {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>, rusqlite::Error> {
        Ok(self.0.to_bytes().to_vec().into())
    }
}

pub(super) fn version(row: &Row<'_>, at: usize) -> Result<Option<Version>, rusqlite::Error> {
    Ok(row.get::<_, Option<Column>>(at)?.map(|column| column.0))
}

/// A version of a row and its text, which stands in the next column, if it is known.
pub(super) fn with_text(
    row: &Row<'_>,
    at: usize,
) -> Result<Option<(Version, String)>, rusqlite::Error> {
    let Some(version) = version(row, at)? else {
        return Ok(None);
    };
    let text: Option<String> = row.get(at + 1)?;
    Ok(Some((version, text.unwrap_or_else(|| version.to_string()))))
}
