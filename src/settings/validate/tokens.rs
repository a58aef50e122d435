//! The tokens of the admin listener: each has a name and a secret of its own.
//!
//! **Invariant**: no message holds a token.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::Validator;
use crate::problem::quoted;
use crate::secret::Unresolved;
use crate::{ADMIN, Settings, checks};

impl Validator<'_> {
    /// The admin token, or where it is kept.
    pub(crate) fn admin_token(&mut self, settings: &mut Settings) {
        let path = "admin.token";
        settings.admin.token_file = settings.storage.data_dir.join("admin.token");
        let Some(mut token) = settings.admin.token.take() else {
            return;
        };
        match token.resolve(&self.env) {
            Ok(()) => {
                self.secret_shape(path, &token, checks::admin_token);
                settings.admin.token = Some(token);
            }
            // The daemon makes it there at its first start.
            Err(Unresolved::NoFile(file)) => settings.admin.token_file = file,
            Err(error) => self.problem(path, error.to_string()),
        }
    }

    /// Every token has a name and a secret of its own.
    pub(super) fn admin_tokens(&mut self, settings: &mut Settings) {
        let mut digests = HashMap::new();
        if let Some(token) = &settings.admin.token {
            let digest = <[u8; 32]>::from(Sha256::digest(token.reveal()));
            digests.insert(digest, "admin.token".to_owned());
        }
        for (index, token) in settings.admin.tokens.iter_mut().enumerate() {
            let path = format!("admin.tokens[{index}]");
            if token.name == ADMIN {
                let message = "\"admin\" is the name of admin.token; choose another".to_owned();
                self.problem(&format!("{path}.name"), message);
            }
            if !self.resolve(&path, &mut token.secret, checks::admin_token) {
                continue;
            }
            let Some(digest) = token.digest() else {
                continue;
            };
            if let Some(other) = digests.get(&digest) {
                let message =
                    format!("the same token as {other}; every token needs its own secret");
                self.problem(&path, message);
            } else {
                let shown = self.locate(&path, String::new()).path;
                digests.insert(digest, format!("{shown} ({})", quoted(&token.name)));
            }
        }
    }
}
