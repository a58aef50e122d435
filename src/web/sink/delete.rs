//! `/sinks/{name}/delete`: deleting a sink that was created at run time.
//!
//! **Invariant**: pending data of the sink is deleted only if the form confirms it.

use maud::html;
use salvo_core::{Depot, Request, handler};

use crate::form::{Field, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::guard::by;
use crate::paths::{self, param};
use crate::text::{as_sentence, plain, text};
use catalog::ResourceKind;
use operate::{OperateError, Operator};

/// `/sinks/{name}/delete`
pub(super) struct DeleteSink(pub(super) Operator);

#[handler]
impl DeleteSink {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let name = param(req, "name");
        let sink = self.0.catalog.sink(&name).ok_or(OperateError::NoSink)?;
        if !sink.shadows {
            NoPage::if_declared(sink.created_at, ResourceKind::Sink)?;
        }
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = Typed::new(depot, "", &[]);
            return Ok(typed.show(page(&name, &typed)));
        };
        let discard = typed.is_ticked("discard");
        match self.0.delete_sink(&name, discard, by(req)).await {
            Ok(_) => {
                let flash = format!("The sink {} is deleted.", plain(&name));
                Ok(FormAnswer::Done("/sinks".to_owned(), flash))
            }
            Err(error @ OperateError::NotEmpty(_)) => {
                typed.reject("discard", as_sentence(&error.to_string()));
                Ok(typed.show(page(&name, &typed)))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn page(name: &str, typed: &Typed) -> FormPage {
    let discard = Field {
        name: "discard",
        label: "Delete its backlog too",
        hint: "Its undelivered requests, retries and dead letters are deleted, too. This cannot be undone.",
    };
    let what = html! {
        p { "The sink " strong { (text(name)) } " is deleted. A sink with the same name that is created later is a new one." }
        (typed.tick(discard))
    };
    FormPage {
        title: format!("Delete {}?", plain(name)),
        place: Place::Sinks,
        content: typed.question(&what, "Delete the sink", &paths::sink(name)),
    }
}
