//! `/read-keys/{name}/revoke` and `…/delete`: revoking and deleting a read key.
//!
//! **Invariant**: the page asks for confirmation first.

use std::sync::Arc;

use maud::html;
use salvo_core::{Depot, Request, handler};

use super::find_changeable;
use crate::form::Typed;
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::key::Ending;
use crate::paths;
use crate::text::text;
use catalog::ReadKey;
use operate::Operator;

/// `/read-keys/{name}/revoke`, or `delete`
pub(super) struct EndReadKey(pub(super) Operator, pub(super) Ending);

#[handler]
impl EndReadKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let key = find_changeable(&self.0, req)?;
        let ending = self.1;
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = Typed::new(depot, "", &[]);
            return Ok(typed.show(page(&key, ending, &typed)));
        };
        let name = Arc::clone(&key.name);
        let ended = typed.submit(&self.0, req, &[], move |catalog, by| match ending {
            Ending::Revoke => catalog.revoke_read_key(&name, by),
            Ending::Delete => catalog.delete_read_key(&name, by),
        });
        if ended.await?.is_none() {
            return Ok(typed.show(page(&key, ending, &typed)));
        }
        let done = match ending {
            Ending::Revoke => "revoked",
            Ending::Delete => "deleted",
        };
        let flash = format!("The read key {} is {done}.", key.name);
        Ok(FormAnswer::Done("/renderers".to_owned(), flash))
    }
}

fn page(key: &ReadKey, ending: Ending, typed: &Typed) -> FormPage {
    let (title, does) = match ending {
        Ending::Revoke => ("Revoke", "Revoke the read key"),
        Ending::Delete => ("Delete", "Delete the read key"),
    };
    let what = html! {
        p {
            "Screens with the read key " strong { (text(&key.name)) } " will be disconnected, and the key will be rejected. "
            @match ending {
                Ending::Revoke => "It stays in the list. This cannot be undone.",
                Ending::Delete => "It is no longer listed. This cannot be undone.",
            }
        }
    };
    FormPage {
        title: format!("{title} {}?", key.name),
        place: Place::Renderers,
        content: typed.question(&what, does, &paths::read_key(&key.name)),
    }
}
