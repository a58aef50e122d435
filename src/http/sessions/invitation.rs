//! Links for a single sign-in.
//!
//! **Invariant**: only the last invitation of each token is valid, and only once.

use std::sync::Arc;
use std::time::Duration;

use super::{Sessions, random};
use base::clock::{self, Lived, Unix};
use catalog::KeyHash;
use operate::access::Token;

/// Validity of an invitation.
const INVITATION: Duration = Duration::from_mins(10);
/// Prefix of the secret of an invitation.
const INVITATION_PREFIX: &str = "once_";

/// An invitation: it signs in once.
#[derive(Debug)]
pub struct Invitation {
    /// Its secret.
    pub(super) secret: String,
    /// Its expiry.
    pub ends_at: Unix,
}

impl Invitation {
    /// The path of the sign-in page, below the address of the admin listener. The secret is in the fragment, which
    /// browsers do not send.
    pub fn path(&self) -> String {
        format!("/sign-in#{}", self.secret)
    }
}

impl Sessions {
    /// Creates an invitation of this token, valid for ten minutes. An earlier invitation of the token becomes invalid.
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

    /// Consumes an invitation and returns its token. `None`: the invitation is unknown, or it or its token has expired.
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
