//! Links for a single sign-in.
//!
//! **Invariant**: only the last invitation of each token is valid, and only once.

use std::sync::Arc;
use std::time::Duration;

use super::{Kept, SessionError, Sessions, memory, random};
use base::clock::{self, Lived, Unix};
use catalog::KeyHash;
use operate::access::{Access, Token};

/// Validity of an invitation. It is printed on a terminal or copied, so it does not stay valid.
pub(super) const INVITATION: Duration = Duration::from_mins(10);
/// Prefix of the secret of an invitation.
const INVITATION_PREFIX: &str = "once_";

/// An invitation: it signs in once.
#[derive(Debug)]
pub struct Invitation {
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
    /// The system has no random numbers, or the database does not answer.
    pub async fn invite(&self, token: &Token) -> Result<Invitation, SessionError> {
        let secret = format!("{INVITATION_PREFIX}{}", random()?);
        let hash = KeyHash::of(&secret);
        let ends_at = match &self.kept {
            Kept::Here(state) => {
                let ends_at = Lived::now() + INVITATION;
                memory::lock(state).invite(token, hash, ends_at, &self.access);
                clock::unix_of_lived(ends_at)
            }
            Kept::InDatabase(shared) => shared.invite(token, hash).await?,
        };
        Ok(Invitation { secret, ends_at })
    }

    /// Consumes an invitation and returns its token. `None`: the invitation is unknown, or it or its token has expired.
    ///
    /// # Errors
    /// The database does not answer: the invitation may be consumed.
    pub async fn accept_invitation(
        &self,
        secret: &str,
    ) -> Result<Option<Arc<Token>>, SessionError> {
        let hash = KeyHash::of(secret);
        let token = match &self.kept {
            Kept::Here(state) => memory::lock(state).accept_invitation(hash),
            // The database is not asked for wrong tokens.
            Kept::InDatabase(_) if !secret.starts_with(INVITATION_PREFIX) => None,
            Kept::InDatabase(shared) => shared.accept_invitation(hash).await?,
        };
        Ok(token.and_then(|token| self.access.with_hash(token)))
    }
}

impl memory::State {
    fn invite(&mut self, token: &Token, invitation: KeyHash, ends_at: Lived, access: &Access) {
        (self.invitations).retain(|token, _| access.with_hash(*token).is_some());
        (self.invitations).insert(token.hash(), (invitation, ends_at));
    }

    /// The digest of its token, unless its time is over.
    fn accept_invitation(&mut self, hash: KeyHash) -> Option<KeyHash> {
        let mut all = self.invitations.iter();
        let (token, _) = all.find(|(_, (invitation, _))| *invitation == hash)?;
        let token = *token;
        let (_, ends_at) = self.invitations.remove(&token)?;
        (Lived::now() < ends_at).then_some(token)
    }
}
