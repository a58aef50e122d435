//! Paths of pages of version 0.1, which lead to the paths of today. Version 0.3 removes them.
//!
//! **Invariant**: the rest of the path and the query stay the same, and the answer is a path of this site. What the new
//! path needs is checked there.

use salvo_core::http::StatusCode;
use salvo_core::http::header::{HeaderValue, LOCATION};
use salvo_core::{Request, Response, Router, handler};

/// How old paths begin, and how they begin today.
const MOVED: [(&str, &str); 2] = [
    ("/sources", "/connectors"),
    ("/new/source", "/new/connector"),
];

/// Routes of the old paths.
pub(super) fn routes() -> Router {
    let moved = |path: &str| Router::with_path(path).get(Moved).post(Moved);
    Router::new()
        .push(moved("sources"))
        .push(moved("sources/{**rest}"))
        .push(moved("new/source"))
}

/// The path of today, with the query; `None`: the path has not moved.
fn moved(path: &str, query: Option<&str>) -> Option<String> {
    let (rest, now) = MOVED.iter().find_map(|(old, now)| {
        let rest = path.strip_prefix(old)?;
        (rest.is_empty() || rest.starts_with('/')).then_some((rest, now))
    })?;
    let query = query.map(|query| format!("?{query}"));
    Some(format!("{now}{rest}{}", query.unwrap_or_default()))
}

/// A link, or a form of a page that was loaded before an upgrade: 308 keeps method and body.
struct Moved;

#[handler]
impl Moved {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let path = moved(req.uri().path(), req.uri().query());
        let path = path.and_then(|path| HeaderValue::from_str(&path).ok());
        match path {
            Some(path) => {
                res.status_code(StatusCode::PERMANENT_REDIRECT);
                res.headers_mut().insert(LOCATION, path);
            }
            None => {
                res.status_code(StatusCode::NOT_FOUND);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn old_paths_lead_to_those_of_today_with_rest_and_query() {
        for (old, query, now) in [
            ("/sources", None, "/connectors"),
            ("/sources", Some("sort=name"), "/connectors?sort=name"),
            (
                "/sources/a%2Fb/keys/main",
                Some("tab=keys"),
                "/connectors/a%2Fb/keys/main?tab=keys",
            ),
            (
                "/new/source",
                Some("tool=stripe"),
                "/new/connector?tool=stripe",
            ),
        ] {
            assert_eq!(moved(old, query).as_deref(), Some(now));
        }
        for path in ["/", "/sourcesx", "/new/sources", "/connectors"] {
            assert_eq!(moved(path, None), None, "{path}");
        }
    }
}
