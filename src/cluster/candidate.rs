//! A node that may run the sinks.
//!
//! It asks for them a few times a second. It has them at once when nobody has, or when the owner's connection to the
//! database is gone; and when the owner's beat has not changed for as long as a lease lasts, by this node's own clock.
//!
//! **Invariant**: a node that cannot renew its claim says that it waits before another node may have the sinks.

use std::time::Duration;

use base::clock::since_boot;
use base::lease::{LASTS, Lease};
use postgres::{DatabaseError, refusal};
use replica::LogPlace;
use replica::log::{Log, LogHead};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::HandOver;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Another node runs the sinks, or none does.
    Waits,
    Runs {
        /// The number of its claim.
        fence: i64,
        /// It may begin when both files have this entry: what the owner before has settled is in them.
        from: LogPlace,
    },
}

/// How often is asked, and for how long is waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// From one question to the next of a node that waits, and of one that gets no answer.
    pub(crate) asks: Duration,
    /// From one renewal to the next.
    pub(crate) renews: Duration,
    /// An owner is replaced whose beat was the same for so long. As long as its lease lasts: it has ended its calls
    /// by then.
    pub(crate) silence: Duration,
    /// A node lets go of the sinks that had no answer for so long.
    pub(crate) lasts: Duration,
}

const PACE: Pace = Pace {
    asks: Duration::from_millis(250),
    renews: Duration::from_secs(2),
    silence: LASTS,
    lasts: LASTS,
};

/// A node that runs the sinks when it is its turn.
#[derive(Debug)]
pub struct Candidate {
    log: Log,
    pace: Pace,
    lease: Lease,
    /// Whether this node may claim the sinks, if nobody has them; none: always.
    allowed: Option<watch::Receiver<bool>>,
    role: watch::Sender<Role>,
    hand_over: HandOver,
    /// The beat of the owner, and since when it is this one. By this node's clock, because the clocks of two machines
    /// can differ.
    heard: Option<(i64, Duration)>,
}

impl Candidate {
    /// Over a log of its own.
    pub fn new(log: Log) -> Self {
        Self::with(log, PACE)
    }

    pub(crate) fn with(log: Log, pace: Pace) -> Self {
        Self {
            log,
            pace,
            lease: Lease::default(),
            allowed: None,
            role: watch::Sender::new(Role::Waits),
            hand_over: HandOver::default(),
            heard: None,
        }
    }

    /// It claims the sinks only while this says so.
    pub fn allowed_by(self, allowed: watch::Receiver<bool>) -> Self {
        let allowed = Some(allowed);
        Self { allowed, ..self }
    }

    /// It gives the sinks to another node when this says so. The lanes end first, so that no call of this node is
    /// under way when the other one begins.
    pub fn giving(self, hand_over: HandOver) -> Self {
        Self { hand_over, ..self }
    }

    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// How long it may go on doing so.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Asks until `stop`, and lets go of the sinks then: no lane runs any more.
    pub async fn run(mut self, stop: CancellationToken) {
        let hand_over = self.hand_over.clone();
        loop {
            let to = tokio::select! {
                () = self.step() => continue,
                to = hand_over.wanted() => to,
                () = stop.cancelled() => break,
            };
            let given = stop.run_until_cancelled(self.give_to(to)).await;
            hand_over.end();
            if given.is_none() {
                break;
            }
        }
        self.resign().await;
        self.log.close().await;
    }

    /// One question, and the pause behind it. A renewal is waited for only until the lease ends, because another node
    /// may have the sinks then.
    async fn step(&mut self) {
        let role = *self.role.borrow();
        let asked = match role {
            Role::Waits if !self.is_allowed() => {
                self.heard = None;
                Ok(())
            }
            Role::Waits => self.ask().await,
            Role::Runs { fence, .. } => {
                let age = self.lease.age().unwrap_or(self.pace.lasts);
                let left = self.pace.lasts.saturating_sub(age);
                let renewed = tokio::time::timeout(left, self.renew(fence)).await;
                renewed.unwrap_or(Err(DatabaseError::silent(self.pace.lasts)))
            }
        };
        let pause = match asked {
            Ok(()) if matches!(*self.role.borrow(), Role::Runs { .. }) => self.pace.renews,
            Ok(()) => self.pace.asks,
            Err(error) => {
                tracing::debug!(%error, "whether this node runs the sinks cannot be asked");
                if (self.lease.age()).is_none_or(|age| age >= self.pace.lasts) {
                    self.wait("the database does not answer");
                }
                self.pace.asks
            }
        };
        tokio::time::sleep(pause).await;
    }

    fn is_allowed(&self) -> bool {
        self.allowed
            .as_ref()
            .is_none_or(|allowed| *allowed.borrow())
    }

    /// Claims the sinks, if nobody has them, or who has them is silent.
    async fn ask(&mut self) -> Result<(), DatabaseError> {
        let head = self.log.head().await?;
        let silent = self.is_silent(&head).then_some(head.beat);
        let sent = since_boot();
        let Some(fence) = self.log.claim(silent).await? else {
            return Ok(());
        };
        // What the owner before has appended is in front of this.
        let from = self.log.head().await?.place;
        self.heard = None;
        self.lease.renew(sent);
        tracing::info!(fence, "this node runs the sinks");
        self.role.send_replace(Role::Runs { fence, from });
        Ok(())
    }

    /// The lease counts from before the question, so that it ends here before another node sees the silence.
    async fn renew(&mut self, fence: i64) -> Result<(), DatabaseError> {
        let sent = since_boot();
        match self.log.renew(fence).await {
            Ok(()) => {
                self.lease.renew(sent);
                Ok(())
            }
            Err(error) if error.is(refusal::NOT_THE_OWNER) => {
                self.wait("another node has taken them over");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the owner has given no sign of life for too long.
    fn is_silent(&mut self, head: &LogHead) -> bool {
        let now = since_boot();
        match self.heard {
            Some((beat, since)) if beat == head.beat => now >= since + self.pace.silence,
            _ => {
                self.heard = Some((head.beat, now));
                false
            }
        }
    }

    /// Stops the lanes, and gives the sinks to another node then. The claim is renewed meanwhile, so that no third node
    /// takes the sinks during a call.
    async fn give_to(&mut self, node: Uuid) {
        let Role::Runs { fence, .. } = *self.role.borrow() else {
            return;
        };
        tracing::info!("this node gives the sinks to another one");
        self.role.send_replace(Role::Waits);
        let hand_over = self.hand_over.clone();
        let mut stopped = std::pin::pin!(hand_over.lanes_stopped());
        // Calls under way end under this claim.
        while (tokio::time::timeout(self.pace.renews, &mut stopped).await).is_err() {
            if let Err(error) = self.renew(fence).await {
                tracing::debug!(%error, "the claim of the sinks cannot be renewed");
            }
        }
        self.lease.end();
        if let Err(error) = self.log.hand_over(fence, node).await {
            tracing::warn!(%error, "the sinks could not be given to another node");
        }
    }

    fn wait(&mut self, why: &str) {
        self.lease.end();
        self.heard = None;
        let before = self.role.send_replace(Role::Waits);
        if before != Role::Waits {
            tracing::warn!("this node no longer runs the sinks: {why}");
        }
    }

    /// Ends the claim, otherwise the others would wait until they find this node's connection gone.
    async fn resign(&mut self) {
        self.lease.end();
        let role = self.role.send_replace(Role::Waits);
        if let Role::Runs { fence, .. } = role
            && let Err(error) = self.log.resign(fence).await
        {
            tracing::warn!(%error, "the sinks wait until another node finds this one gone");
        }
    }
}
