//! What an operator can do, who does it, and until when it holds.
//!
//! **Invariant**: an act is data: the same one does the same to the same state.

use std::sync::Arc;

use uuid::Uuid;

use base::clock::{Lived, Unix};

/// Who acts.
#[derive(Debug, Clone)]
pub struct Author {
    /// Whose acts these are, for undo and for repeats. Apart from the shown name, because a token and a key can have
    /// the same one.
    pub operator: Arc<str>,
    /// What others read: a bare name.
    pub name: Arc<str>,
    /// Where the call came from.
    pub client: String,
    pub request_id: Uuid,
}

/// When an override or a hold ends. A span counts in uptime, because nobody can set that clock; a time of day needs the
/// wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// In time lived.
    Lived(Lived),
    /// By the wall clock.
    Wall(Unix),
}

impl Until {
    pub(crate) fn of_columns(lived: Option<i64>, wall: Option<i64>) -> Option<Self> {
        match (lived, wall) {
            (Some(lived), _) => Some(Self::Lived(Lived::from_column(lived))),
            (None, Some(wall)) => Some(Self::Wall(Unix::from_column(wall))),
            (None, None) => None,
        }
    }

    /// For the columns `until_lived` and `until_wall`.
    pub(super) fn columns(until: Option<Self>) -> (Option<i64>, Option<i64>) {
        match until {
            Some(Self::Lived(lived)) => (Some(lived.to_column()), None),
            Some(Self::Wall(wall)) => (None, Some(wall.to_column())),
            None => (None, None),
        }
    }

    pub(super) fn is_over(self) -> bool {
        match self {
            Self::Lived(lived) => lived <= Lived::now(),
            Self::Wall(wall) => wall <= Unix::now(),
        }
    }

    /// By the wall clock.
    pub fn time(self) -> Unix {
        match self {
            Self::Lived(lived) => base::clock::unix_of_lived(lived),
            Self::Wall(wall) => wall,
        }
    }
}

/// The verb. Names of fields are texts; keys are those of items.
#[derive(Debug, Clone)]
pub enum Act {
    /// These values are shown instead of the source's.
    Override {
        key: String,
        /// The JSON text of a flat object.
        fields: String,
        until: Option<Until>,
        /// Also of an item or a field that is not there. It must be said, otherwise a misspelled name would make a
        /// field.
        create: bool,
    },
    /// The sum is shown instead of the source's value.
    Add {
        key: String,
        field: String,
        /// A JSON number.
        step: String,
        /// None: the one that is there stays.
        until: Option<Option<Until>>,
        create: bool,
    },
    /// Overrides end: of these fields, of the item, of the stream.
    Release {
        key: Option<String>,
        fields: Option<Vec<String>>,
    },
    /// What is shown stays: of these keys, or of the stream.
    Hold {
        keys: Option<Vec<String>>,
        /// None: that of a hold that is there stays.
        until: Option<Option<Until>>,
    },
    /// What waits is shown.
    Take { keys: Option<Vec<String>> },
    /// Holds end.
    Resume { keys: Option<Vec<String>> },
    /// The operator's newest act, as if it had not been made; or it is taken off the list unchanged.
    Undo { skip: bool },
    /// The item is put as data.
    Put {
        key: String,
        /// The JSON text of the flat object.
        fields: String,
    },
}

impl Act {
    /// What it is called.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Override { .. } => "override",
            Self::Add { .. } => "add",
            Self::Release { .. } => "release",
            Self::Hold { .. } => "hold",
            Self::Take { .. } => "take",
            Self::Resume { .. } => "resume",
            Self::Undo { .. } => "undo",
            Self::Put { .. } => PUT,
        }
    }
}

pub(super) const PUT: &str = "PUT";
