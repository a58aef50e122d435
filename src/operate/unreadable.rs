//! Values of the condition that could not be read, and why.
//!
//! **Invariant**: each is named, but for those that follow from an outage of the database where that is named itself.

use delivery::ReadError;

/// A value that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// Which, and why.
    sentence: String,
    /// The database of the cluster did not answer.
    is_outage: bool,
}

/// The value, or the reason why it could not be read among the others. A reason is listed once, because a file that
/// does not answer fails several reads.
pub(super) fn seen<T>(
    result: Result<T, impl Into<ReadError>>,
    what: &str,
    unreadable: &mut Vec<Unreadable>,
) -> Option<T> {
    match result.map_err(Into::into) {
        Ok(value) => Some(value),
        Err(error) => {
            let sentence = format!("{what} cannot be read: {error}");
            let value = Unreadable {
                is_outage: error.is_outage(),
                sentence,
            };
            if !unreadable.contains(&value) {
                unreadable.push(value);
            }
            None
        }
    }
}

/// Why values could not be read. What follows from an outage is left out if something else names that, because one
/// cause is one problem.
pub(super) fn sentences(values: &[Unreadable], is_outage: bool) -> impl Iterator<Item = &str> {
    let named = values.iter();
    let named = named.filter(move |one| !(is_outage && one.is_outage));
    named.map(|one| &*one.sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::StorageError;
    use pool::PoolError;
    use postgres::DatabaseError;

    #[test]
    fn an_outage_is_named_once_and_hides_nothing_else() {
        let mut values = Vec::new();
        let database = |error| Err::<(), _>(StorageError::Database(error));
        let away = || database(DatabaseError::Away("gone".to_owned()));
        seen(away(), "the journal", &mut values);
        seen(away(), "the journal", &mut values);
        let both = away().map_err(ReadError::from);
        seen(both, "the data pool or the journal", &mut values);
        let full = DatabaseError::Full("full".to_owned());
        seen(database(full), "the journal", &mut values);
        let refused = DatabaseError::Refused {
            code: "42501".into(),
            message: "denied".into(),
        };
        seen(database(refused), "the journal", &mut values);
        seen(Err::<(), _>(PoolError::Busy), "the data pool", &mut values);
        let all: Vec<&str> = sentences(&values, false).collect();
        assert_eq!(all.len(), 5, "{all:?}");
        assert!(all[0].contains("gone") && all[1].contains("gone"));
        let besides: Vec<&str> = sentences(&values, true).collect();
        assert_eq!(besides, all[2..]);
    }
}
