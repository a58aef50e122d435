//! HEAD for every route with GET: players, monitors and spreadsheets send HEAD before they fetch a file.
//!
//! Each listener passes its complete routes through [`with_get`], after its document was generated from them. `Outer`
//! calls `keep_length` last.
//!
//! **Invariant**: every route that answers GET answers HEAD with the same status and headers, and without the body.

use hyper::body::Body as _;
use salvo_core::http::header::{CONTENT_LENGTH, HeaderValue};
use salvo_core::http::{Method, ResBody};
use salvo_core::routing::{FilterInfo, filters};
use salvo_core::{Request, Response, Router};

/// Adds HEAD to each route with GET, unless the route has its own HEAD.
pub fn with_get(mut router: Router) -> Router {
    let children = std::mem::take(router.routers_mut());
    let has_own = children.iter().any(|child| takes(child, &Method::HEAD));
    for child in children {
        if !has_own && takes(&child, &Method::GET) {
            let mut head = Router::with_filter(filters::head());
            head.hoops.clone_from(&child.hoops);
            head.goal.clone_from(&child.goal);
            router = router.push(head);
        }
        router = router.push(with_get(child));
    }
    router
}

/// Whether the router handles a method.
fn takes(router: &Router, method: &Method) -> bool {
    let mut filters = router.filters.iter().map(|filter| filter.info());
    filters.any(|info| matches!(info, FilterInfo::Method(one) if one == *method))
}

/// Whether the method is safe: pages of other sites can send it, and it carries no form.
pub fn only_looks(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Sets `Content-Length` of a response to HEAD, whose body is not sent. It is read from the body before that is
/// dropped, because nothing announces it afterwards.
pub(super) fn keep_length(req: &Request, res: &mut Response) {
    if *req.method() != Method::HEAD || res.body.is_none() {
        return;
    }
    let length = match &res.body {
        ResBody::Stream(_) => None,
        body => body.size_hint().exact(),
    };
    if let Some(length) = length {
        let length = HeaderValue::from(length);
        res.headers_mut().insert(CONTENT_LENGTH, length);
    }
    res.take_body();
}

#[cfg(test)]
mod tests {
    use salvo_core::{Depot, FlowCtrl, Handler, async_trait};

    use super::*;

    struct Nothing;

    #[async_trait]
    impl Handler for Nothing {
        async fn handle(&self, _: &mut Request, _: &mut Depot, _: &mut Response, _: &mut FlowCtrl) {
        }
    }

    #[test]
    fn each_route_that_takes_get_takes_head_once() {
        let count = |router: &Router, method: &Method| {
            let children = router.routers.iter();
            children.filter(|child| takes(child, method)).count()
        };
        let routes = Router::new()
            .push(
                Router::with_path("a")
                    .hoop(Nothing)
                    .get(Nothing)
                    .post(Nothing),
            )
            .push(Router::with_path("b").get(Nothing).head(Nothing))
            .push(Router::with_path("c").post(Nothing))
            .push(Router::with_path("d").push(Router::with_path("{e}").get(Nothing)));
        let routes = with_get(routes);
        let heads = |router: &Router| count(router, &Method::HEAD);
        assert_eq!(
            routes.routers.iter().map(heads).collect::<Vec<_>>(),
            [1, 1, 0, 0]
        );
        assert_eq!(heads(&routes.routers[3].routers[0]), 1);
        assert_eq!(count(&routes.routers[0], &Method::POST), 1);
    }
}
