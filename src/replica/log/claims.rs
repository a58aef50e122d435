//! Who runs the sinks: the claim of it, which stands at the head of the log.
//!
//! **Invariant**: a claim has a number, and what is settled under another one than the newest is not appended.

use postgres::{DatabaseCall, DatabaseError};
use uuid::Uuid;

use super::{Log, column, unexpected};

const CALL: DatabaseCall = DatabaseCall::Claim;

impl Log {
    /// Takes the sinks; the number of the claim, or none if another node has them. Give the owner's beat as
    /// [`LogHead::beat`](super::LogHead::beat) has it once it has been the same for 6 s by a clock of this node that
    /// counts sleep; without it only sinks are taken that nobody has. A beat that this node has watched decides,
    /// because no clock of a node is compared with that of another one.
    ///
    /// # Errors
    /// The database's; call it again if it is away: the same node gets the same number.
    pub async fn claim(&mut self, beat: Option<i64>) -> Result<Option<i64>, DatabaseError> {
        let claim = sqlx::query("SELECT claim($1, $2)")
            .bind(self.node)
            .bind(beat);
        let row = self.ask(CALL, claim).await?;
        let row = row
            .first()
            .ok_or_else(|| unexpected("claim answered nothing"))?;
        column(row, 0)
    }

    /// Says that the node lives which runs the sinks. Each entry with its fence says so, too.
    ///
    /// # Errors
    /// The database's; [`refusal::NOT_THE_OWNER`](postgres::refusal::NOT_THE_OWNER).
    pub async fn renew(&mut self, fence: i64) -> Result<(), DatabaseError> {
        let renew = sqlx::query("SELECT renew($1, $2)")
            .bind(self.node)
            .bind(fence);
        self.ask(CALL, renew).await.map(drop)
    }

    /// Lets go of the sinks, so that another node need not wait.
    ///
    /// # Errors
    /// The database's.
    pub async fn resign(&mut self, fence: i64) -> Result<(), DatabaseError> {
        let resign = sqlx::query("SELECT resign($1, $2)")
            .bind(self.node)
            .bind(fence);
        self.ask(CALL, resign).await.map(drop)
    }

    /// Gives the sinks to another node, which claims them next.
    ///
    /// # Errors
    /// The database's; [`refusal::NOT_THE_OWNER`](postgres::refusal::NOT_THE_OWNER).
    pub async fn hand_over(&mut self, fence: i64, to: Uuid) -> Result<(), DatabaseError> {
        let hand_over = sqlx::query("SELECT hand_over($1, $2, $3)");
        let hand_over = hand_over.bind(self.node).bind(fence).bind(to);
        self.ask(CALL, hand_over).await.map(drop)
    }
}
