//! The database that nodes share.
//!
//! **Invariant**: no message holds a URL.

use super::Validator;
use crate::{Engine, Settings, checks};

impl Validator<'_> {
    /// Resolves the URLs, and sees whether the engine has those that it needs.
    pub(super) fn cluster(&mut self, settings: &mut Settings) {
        let cluster = &mut settings.cluster;
        if let Some(name) = &cluster.name {
            cluster.node.clone_from(name);
        }
        let path = "cluster.urls";
        for (index, secret) in cluster.urls.iter_mut().enumerate() {
            let element = format!("{path}[{index}]");
            let place = match self.origins.of(&element) {
                Some(_) => element,
                None => path.to_owned(),
            };
            match secret.resolve(&self.env) {
                Ok(()) => self.secret_shape(&place, secret, checks::postgres_urls),
                Err(error) => self.problem(&place, error.to_string()),
            }
        }
        let needs_urls = settings.storage.engine == Engine::Postgres;
        if needs_urls && cluster.urls.is_empty() && !self.origins.was_refused(path) {
            let message = "\"postgres\" requires the URL of the database; set cluster.urls = [\"postgresql://user:password@host:5432/database\"], or cluster.urls = { env = \"…\" }";
            self.problem("storage.engine", message.to_owned());
        }
    }
}
