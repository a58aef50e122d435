//! `/streams/{name}/export.csv`: all items of a stream as a file; with a form, the selected items.
//!
//! **Invariant**: the file is the same as in the admin API. The link on the page requests values that no spreadsheet
//! evaluates.

use salvo_core::{Depot, Request, Response, Router, handler};

use super::find_stream;
use super::item::selected_keys;
use super::items::escaped;
use crate::frame::NoPage;
use crate::paths;
use feed::export;
use operate::Operator;

/// Routes of the exports, which change nothing.
pub(crate) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::with_path("streams/{name}/export.{format}")
        .get(ExportStream(p()))
        .post(ExportSelected(p()))
}

/// `GET /streams/{name}/export.{format}`
struct ExportStream(Operator);

#[handler]
impl ExportStream {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), NoPage> {
        answer(&self.0, req, res).await
    }
}

/// `POST /streams/{name}/export.{format}`: a URL is too short for many keys.
struct ExportSelected(Operator);

#[handler]
impl ExportSelected {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
    ) -> Result<(), NoPage> {
        let keys: Vec<String> = selected_keys(depot)?
            .iter()
            .map(|key| escaped(key))
            .collect();
        req.queries_mut().insert("key".to_owned(), keys.join(","));
        answer(&self.0, req, res).await
    }
}

async fn answer(operator: &Operator, req: &mut Request, res: &mut Response) -> Result<(), NoPage> {
    let stream = find_stream(operator, req)?;
    let format = paths::param(req, "format");
    Ok(export::answer(&operator.pool, &stream.name, &format, req, res).await?)
}
