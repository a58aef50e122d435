//! `/connectors/{name}/keys/{key}/revoke` and `…/delete`: revoking and deleting an ingest key.
//!
//! **Invariant**: the page asks for confirmation first.

use std::sync::Arc;

use maud::html;
use salvo_core::{Depot, Request, handler};

use super::find_key;
use crate::form::Typed;
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::key::Ending;
use crate::paths;
use crate::text::text;
use catalog::IngestKey;
use operate::Operator;

/// `/connectors/{name}/keys/{key}/revoke`, or `delete`
pub(super) struct EndKey(pub(super) Operator, pub(super) Ending);

#[handler]
impl EndKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let key = find_key(&self.0, req)?;
        let ending = self.1;
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = Typed::new(depot, "", &[]);
            return Ok(typed.show(page(&key, ending, &typed)));
        };
        let (id, name) = (Arc::clone(&key.connector), key.name.clone());
        let ended = typed.submit(&self.0, req, &[], move |catalog, by| match ending {
            Ending::Revoke => catalog.revoke_key(&id, &name, by),
            Ending::Delete => catalog.delete_key(&id, &name, by),
        });
        if ended.await?.is_none() {
            return Ok(typed.show(page(&key, ending, &typed)));
        }
        let flash = match ending {
            Ending::Revoke => {
                let left = still_working(&self.0, &key);
                format!("The key {} is revoked.{left}", key.name)
            }
            Ending::Delete => format!("The key {} is deleted.", key.name),
        };
        Ok(FormAnswer::Done(paths::connector(&key.connector), flash))
    }
}

/// Older keys of a name that are still valid after the newest was revoked.
fn still_working(operator: &Operator, key: &IngestKey) -> String {
    let connector = operator.catalog.connector(&key.connector);
    let older = connector.as_ref().map(|one| one.older_keys(&key.name));
    let older = older.unwrap_or_default();
    let names: Vec<&str> = older.iter().map(|key| &*key.name).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" An older key is still valid: {one}."),
        many => format!(
            " {} older keys are still valid: {}.",
            many.len(),
            many.join(", ")
        ),
    }
}

fn page(key: &IngestKey, ending: Ending, typed: &Typed) -> FormPage {
    let name =
        html! { strong { (text(&key.name)) } " (" span.mono { (text(&key.prefix())) "…" } ")" };
    let (title, does, what) = match ending {
        Ending::Revoke => (
            format!("Revoke {}?", key.name),
            "Revoke the key",
            html! { p { "Requests with the key " (name) " will be rejected, including those in progress. The key stays in the list. This cannot be undone." } },
        ),
        Ending::Delete => (
            format!("Delete {}?", key.name),
            "Delete the key",
            html! { p { "Requests with the key " (name) " will be rejected, and the key is no longer listed. This cannot be undone." } },
        ),
    };
    FormPage {
        title,
        place: Place::Connectors,
        content: typed.question(&what, does, &paths::ingest_key(key)),
    }
}
