//! Clients that poll several nodes of a cluster: their entity tags can be of a state that the copy of this node lacks.
//!
//! **Invariant**: a client that sends the tag of a state is not answered with an older one: the answer waits for the copy,
//! and is 503 if that does not get there. A pool that nobody else changes has every state that it ever gave out.

use std::time::Duration;

use super::error::ApiError;
use super::reader::Readers;
use super::tag;
use base::order::ChangeSeq;
use catalog::Reader;
use pool::Position;
use salvo_core::http::header::HeaderMap;

/// Longest wait for the copy. A copy is behind by less, unless its node is cut off.
const WAIT_MAX: Duration = Duration::from_secs(1);
const BEHIND: &str = "the copy of this node does not have the state yet that If-None-Match names; retry after a second, or omit the header";

impl Readers {
    /// The newest change of which the tags of a request know, in the epoch of this pool; none: there is no such tag, or
    /// nobody but this daemon changes the pool.
    pub fn newest_known(&self, reader: &Reader, headers: &HeaderMap) -> Option<ChangeSeq> {
        if !self.pool.is_logged() {
            return None;
        }
        let epoch = reader.epoch(self.pool.epoch());
        let known = tag::named(headers).filter_map(position_in);
        let known = known.filter(|position| position.epoch == epoch);
        known.map(|position| position.seq).max()
    }

    /// Returns when the copy has this change.
    ///
    /// # Errors
    /// 503: it does not have it in time.
    pub async fn reach(&self, seq: ChangeSeq) -> Result<(), ApiError> {
        let mut head = self.pool.changes().watch();
        let reached = tokio::time::timeout(WAIT_MAX, head.wait_for(|head| *head >= seq)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ApiError::busy(BEHIND)),
        }
    }
}

/// The position of a tag: it is the tag, or stands behind the digest of a feed.
fn position_in(tag: &str) -> Option<Position> {
    Position::parse(tag.rsplit('-').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_of_items_and_one_of_a_feed_have_a_position() {
        for (tag, seq) in [
            ("7:12", Some(12)),
            ("0123abcd-7:12", Some(12)),
            ("0123abcd", None),
            ("7:12-0123abcd", None),
            ("", None),
        ] {
            let position = position_in(tag);
            assert_eq!(position.map(|position| position.seq.get()), seq, "{tag}");
        }
    }
}
