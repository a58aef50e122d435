//! The secrets that tools sign with: keys of another form.
//!
//! **Invariant**: what verifies is made once for each key, not for each request. `Debug` shows no secret.

use std::sync::Arc;

use crate::config::{Verify, quoted};
use crate::sender::Verifier;

/// How deliveries are verified that a key has signed.
#[derive(Debug)]
pub struct Signing {
    /// As it was set.
    pub verify: Arc<Verify>,
    /// What checks deliveries.
    pub verifier: Verifier,
}

impl Signing {
    /// None where the settings do not fit, which they did when they were made: another version made them.
    pub(super) fn new(verify: Arc<Verify>, connector: &str, key: &str) -> Option<Self> {
        match verify.verifier() {
            Ok(verifier) => Some(Self { verify, verifier }),
            Err(error) => {
                tracing::error!(connector = %quoted(connector), key = %quoted(key), %error, "this key verifies nothing: its settings do not fit; rotate it, or delete it");
                None
            }
        }
    }
}
