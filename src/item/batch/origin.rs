//! Where the items of a batch lie, and what a batch is known by.
//!
//! **Invariant**: the same items have the same id, whenever and however they are delivered; no others have it. What belongs
//! to a filling, or comes after it, has another one than before.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{Action, Batch, Span, short};
use base::order::ItemPosition;

/// Where the items of a batch lie until a sink has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum BatchOrigin {
    /// In the journal.
    #[default]
    Journal,
    /// In the data pool: they were dead letters, and somebody sent them again.
    Letters,
    /// In the data pool: they are a page of a filling.
    Fill,
    /// In the data pool: they are the newest there.
    Latest,
    /// Nowhere yet: the sink has made them in this call.
    Made,
}

impl BatchOrigin {
    /// As it is stored.
    pub fn to_column(self) -> i64 {
        match self {
            Self::Journal => 0,
            Self::Letters => 1,
            Self::Fill => 2,
            Self::Latest => 3,
            Self::Made => 4,
        }
    }

    /// What is stored, read.
    pub fn from_column(column: i64) -> Self {
        match column {
            0 => Self::Journal,
            1 => Self::Letters,
            3 => Self::Latest,
            _ => Self::Fill,
        }
    }
}

/// A filling of a sink with what the data pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// 1 for the first one of the sink.
    pub number: u32,
    /// Random: no other filling has it, of whatever sink and in whatever life of the file. A receiver would take the
    /// items of a second filling for repeats otherwise.
    pub id: u64,
}

/// Consecutive items of one request.
#[derive(Debug)]
struct Run {
    request_id: Uuid,
    start: ItemPosition,
    end: ItemPosition,
}

impl Batch {
    /// The same batch, of a sink that was filled so the last time.
    #[must_use]
    pub fn in_fill(self, fill: Option<Fill>) -> Self {
        Self { fill, ..self }
    }

    /// The filling that it belongs to, or comes after.
    pub fn fill(&self) -> Option<Fill> {
        self.fill
    }

    /// The same for the same items, whenever and however they are delivered, and for no others: made of the ids of their
    /// requests and of their positions there.
    pub fn id(&self) -> String {
        let runs = self.runs(Span::ALL);
        let mut id = match &runs[..] {
            [] => "empty".to_owned(),
            [run] => format!("{}.{}-{}", run.request_id, run.start, run.end),
            [first, ..] => format!(
                "{}.{}-{}",
                first.request_id,
                first.start,
                short(&digest_of(&runs))
            ),
        };
        if let Some(digest) = self.of_fill(Span::ALL, &digest_of(&runs)) {
            id.push('~');
            id.push_str(&short(&digest));
        }
        if let Some(suffix) = &self.suffix {
            id.push_str(suffix);
        }
        id
    }

    /// Tells the items of a range from all others, of other daemons too. `None` if there are none.
    pub fn identity(&self, span: Span) -> Option<[u8; 32]> {
        let runs = self.runs(span);
        if runs.is_empty() {
            return None;
        }
        let digest = digest_of(&runs);
        Some(self.of_fill(span, &digest).unwrap_or(digest))
    }

    /// The digest of items in the filling; none without one. Of a page each item counts as it was then. Each text
    /// follows its length, so that no two pages have the same bytes.
    fn of_fill(&self, span: Span, items: &[u8; 32]) -> Option<[u8; 32]> {
        let fill = self.fill?;
        let mut digest = Sha256::new();
        digest.update(fill.id.to_be_bytes());
        digest.update(items);
        if matches!(self.origin, BatchOrigin::Fill | BatchOrigin::Latest) {
            for (slice, position, item) in self.range(span) {
                digest.update(slice.entry.seq.get().to_be_bytes());
                digest.update(position.get().to_be_bytes());
                // What leaves the selection and comes back does so with one change.
                if item.action == Action::Remove {
                    digest.update(b"removed");
                }
                for text in [&*slice.entry.stream, item.key] {
                    digest.update((text.len() as u64).to_be_bytes());
                    digest.update(text);
                }
            }
        }
        Some(digest.finalize().into())
    }

    /// The items of a range as runs that are as long as they can be: how they were cut before does not matter.
    fn runs(&self, span: Span) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let (mut skip, mut left) = (span.start, span.count);
        for slice in self.slices.iter() {
            let skipped = slice.len().min(skip);
            skip -= skipped;
            let taken = (slice.len() - skipped).min(left);
            left -= taken;
            let request_id = slice.entry.request_id;
            let start = slice.base + slice.start + skipped;
            match runs.last_mut() {
                _ if taken == 0 => {}
                Some(last) if last.request_id == request_id && last.end == start => {
                    last.end = last.end + taken;
                }
                _ => runs.push(Run {
                    request_id,
                    start,
                    end: start + taken,
                }),
            }
        }
        runs
    }
}

fn digest_of(runs: &[Run]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for run in runs {
        digest.update(run.request_id.as_bytes());
        digest.update(run.start.get().to_be_bytes());
        digest.update(run.end.get().to_be_bytes());
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests;
