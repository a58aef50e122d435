//! A statement that is put together from parts, each with its values.
//!
//! **Invariant**: values are bound, never written into the text, so the text stays the same and is prepared once.

use rusqlite::types::Value;
use rusqlite::{Connection, Error, Row};

/// A statement with `?` for each of its values, in their order.
#[derive(Debug, Clone, Default)]
pub struct SqlText {
    text: String,
    values: Vec<Value>,
}

impl SqlText {
    /// A statement that begins with this.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            values: Vec::new(),
        }
    }

    /// Adds a part.
    pub fn push(&mut self, part: &str) -> &mut Self {
        self.text += part;
        self
    }

    /// Adds a value.
    pub fn push_value(&mut self, value: impl Into<Value>) -> &mut Self {
        self.text.push('?');
        self.values.push(value.into());
        self
    }

    /// The text, for a plan.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads every row.
    ///
    /// # Errors
    /// SQLite's, and those of `read`.
    pub fn rows<T, E: From<Error>>(
        self,
        connection: &Connection,
        mut read: impl FnMut(&Row<'_>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let mut all = Vec::new();
        self.each(connection, |row| -> Result<bool, E> {
            all.push(read(row)?);
            Ok(true)
        })?;
        Ok(all)
    }

    /// Reads rows until `read` wants no more.
    ///
    /// # Errors
    /// SQLite's, and those of `read`.
    pub fn each<E: From<Error>>(
        self,
        connection: &Connection,
        mut read: impl FnMut(&Row<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut statement = connection.prepare_cached(&self.text)?;
        let mut rows = statement.query(rusqlite::params_from_iter(self.values))?;
        while let Some(row) = rows.next()? {
            if !read(row)? {
                break;
            }
        }
        Ok(())
    }
}
