//! Links that sign in once.
//!
//! **Invariant**: of each token the last invitation counts, and it is used up by whoever comes with it.

use std::sync::Arc;
use std::time::Duration;

use super::{Sessions, random};
use base::clock::{self, Lived, Unix};
use catalog::KeyHash;
use operate::access::Token;

/// How long an invitation can be used.
const INVITATION: Duration = Duration::from_mins(10);
/// What an invitation begins with.
const INVITATION_PREFIX: &str = "once_";

/// What signs in once.
#[derive(Debug)]
pub struct Invitation {
    /// Its secret.
    pub(super) secret: String,
    /// Until when.
    pub ends_at: Unix,
}

impl Invitation {
    /// The path that signs in, below the address of the admin listener. The secret stands in the fragment: no server is
    /// asked for it.
    pub fn path(&self) -> String {
        format!("/sign-in#{}", self.secret)
    }
}

impl Sessions {
    /// What signs in once, within ten minutes, as with this token. An earlier one of the token ends.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn invite(&self, token: &Token) -> Result<Invitation, getrandom::Error> {
        let secret = format!("{INVITATION_PREFIX}{}", random()?);
        let ends_at = Lived::now() + INVITATION;
        let mut state = self.lock();
        let access = &self.access;
        (state.invitations).retain(|token, _| access.with_hash(*token).is_some());
        (state.invitations).insert(token.hash(), (KeyHash::of(&secret), ends_at));
        Ok(Invitation {
            secret,
            ends_at: clock::unix_of_lived(ends_at),
        })
    }

    /// Uses an invitation up: the token that gave it. None: it is no invitation, its time is over, or its token's.
    pub fn accept_invitation(&self, secret: &str) -> Option<Arc<Token>> {
        let hash = KeyHash::of(secret);
        let mut state = self.lock();
        let mut all = state.invitations.iter();
        let (token, _) = all.find(|(_, (invitation, _))| *invitation == hash)?;
        let token = *token;
        let (_, ends_at) = state.invitations.remove(&token)?;
        match Lived::now() < ends_at {
            true => self.access.with_hash(token),
            false => None,
        }
    }
}
