//! `/streams/{name}/export.csv`: all items of a stream, or those that are selected, as a file.
//!
//! **Invariant**: it is what the admin API exports; the link on the page asks for values that no spreadsheet computes.

use salvo_core::{Request, Response, handler};

use super::find_stream;
use super::items::escaped;
use crate::frame::NoPage;
use crate::paths;
use feed::export;
use operate::Operator;

/// `GET /streams/{name}/export.{format}`
pub(super) struct ExportStream(pub(super) Operator);

#[handler]
impl ExportStream {
    async fn handle(&self, req: &mut Request, res: &mut Response) -> Result<(), NoPage> {
        let stream = find_stream(&self.0, req)?;
        let format = paths::param(req, "format");
        // Of selected items their keys, each as it is.
        if let Some(keys) = req.queries_mut().remove("key") {
            let keys: Vec<String> = keys.iter().map(|key| escaped(key)).collect();
            req.queries_mut().insert("key".to_owned(), keys.join(","));
        }
        let pool = &self.0.pool;
        Ok(export::answer(pool, &stream.name, &format, req, res).await?)
    }
}
