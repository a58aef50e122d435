//! The frame of every page: head, navigation, HTTP headers.
//!
//! **Invariant**: a page loads nothing from other servers, and runs only the scripts and styles that are embedded in
//! the program. It is never cached, and cannot be shown in a frame.

mod no_page;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use salvo_core::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::http::{Method, ResBody, StatusCode};
use salvo_core::{Depot, Request, Response, Writer, async_trait};

use super::form_data::FORM_TOKEN;
use super::guard;
use super::key::shown_once;
use super::text::{plain, text, text_of};
use catalog::KeyHash;
use catalog::key::KeyText;
use http::sessions::{IssuedKey, Visitor};
pub(super) use no_page::NoPage;
use settings::ADMIN;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Prevents htmx from adding its own style and from evaluating text as script.
const HTMX: &str = r#"{"includeIndicatorStyles": false, "allowEval": false, "allowScriptTags": false, "historyCacheSize": 0, "selfRequestsOnly": true}"#;
const HX_REQUEST: HeaderName = HeaderName::from_static("hx-request");
const X_SEEN: HeaderName = HeaderName::from_static("x-seen");

/// Maximum characters of a message about a write.
const SENTENCE_CHARS_MAX: usize = 2_000;

/// The entries of the navigation.
const PLACES: [(Place, &str, &str); 7] = [
    (Place::Overview, "/", "Overview"),
    (Place::Streams, "/streams", "Streams"),
    (Place::Connectors, "/connectors", "Connectors"),
    (Place::Sinks, "/sinks", "Sinks"),
    (Place::Renderers, "/renderers", "Screens"),
    (Place::Audit, "/audit", "Audit log"),
    (Place::Settings, "/settings", "Settings"),
];

/// Entries that fit into the navigation of a phone.
const ON_A_PHONE: usize = 4;

/// The entry of the navigation to which a page belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Connectors,
    Streams,
    Sinks,
    Renderers,
    Audit,
    Settings,
    /// Not in the navigation.
    Search,
}

/// The part next to the name of a page: its state and its actions.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// The parent pages: URL and name.
    pub(super) above: Vec<(String, String)>,
    /// Badges, followed by one quiet sentence.
    pub(super) state: Markup,
    /// Links and buttons; a highlighted one is the last.
    pub(super) actions: Markup,
}

/// A page of the navigation.
#[derive(Debug)]
pub(super) struct Page {
    /// The title of the window and the heading.
    pub(super) title: String,
    /// Its entry in the navigation.
    pub(super) place: Place,
    /// The part next to the heading. It is updated with `live`.
    pub(super) head: Head,
    /// Content that does not change while the page is open.
    pub(super) still: Markup,
    /// Content that follows the daemon. The browser requests it every two seconds, unless `old`.
    pub(super) live: Markup,
    /// The page shows the past, which does not change.
    pub(super) old: bool,
}

/// A page with a form.
#[derive(Debug)]
pub(super) struct FormPage {
    /// The title of the window and the heading.
    pub(super) title: String,
    /// Its entry in the navigation.
    pub(super) place: Place,
    /// The form and the content around it.
    pub(super) content: Markup,
}

/// A page with a second live part inside of its still part, at the place that [`aside`] marks.
pub(super) struct WithAside(pub(super) Page, pub(super) Markup);

/// Responses of a page with a form.
pub(super) enum FormAnswer {
    /// The change was made: the next page, and its message.
    Done(String, String),
    /// A key was created; a page shows it once.
    Issued(IssuedKey),
    /// The form: requested, or sent with errors.
    Form(StatusCode, FormPage),
}

impl FormAnswer {
    /// A key was created: the page at `path` shows its text once, if the key has one.
    pub(super) fn made(path: String, key: &str, secret: Option<KeyText>) -> Self {
        match secret {
            Some(secret) => Self::Issued(IssuedKey::new(path, key, secret)),
            None => Self::Done(
                path,
                format!("The key {key} verifies signatures from now on."),
            ),
        }
    }
}

#[async_trait]
impl Writer for Page {
    async fn write(self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        answer(req, depot, res, &self, &html! {}).await;
    }
}

#[async_trait]
impl Writer for WithAside {
    async fn write(self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        answer(req, depot, res, &self.0, &self.1).await;
    }
}

#[async_trait]
impl Writer for FormAnswer {
    async fn write(self, _: &mut Request, depot: &mut Depot, res: &mut Response) {
        let Some(visitor) = Visitor::of(depot) else {
            return;
        };
        match self {
            Self::Done(path, flash) => {
                visitor.set_flash(flash).await;
                go(res, &path);
            }
            Self::Issued(key) => {
                let (path, name) = (key.path.clone(), key.key.clone());
                match visitor.keep_issued_key(key).await {
                    Ok(()) => go(res, &path),
                    Err(error) => shown_once::failed(&name, &error, res),
                }
            }
            Self::Form(status, form) => {
                let page = Page {
                    title: form.title,
                    place: form.place,
                    head: Head::default(),
                    still: form.content,
                    live: html! {},
                    old: true,
                };
                let head = head(&page, depot);
                write(res, status, whole(&page, &head, &html! {}, visitor, None));
            }
        }
    }
}

/// Answers with a page; to a poll, with its live parts if they have changed.
async fn answer(req: &mut Request, depot: &Depot, res: &mut Response, page: &Page, aside: &Markup) {
    let Some(visitor) = Visitor::of(depot) else {
        return;
    };
    let head = head(page, depot);
    let digest = KeyHash::of(&format!("{}{}{}", head.0, page.live.0, aside.0)).to_string();
    let path = req.uri().path_and_query();
    let live = live(path.map_or("/", |path| path.as_str()), &digest, page);
    if is_poll(req) {
        let seen = req.headers().get(X_SEEN).map(HeaderValue::as_bytes);
        if seen == Some(digest.as_bytes()) {
            res.status_code(StatusCode::NO_CONTENT);
            return;
        }
        let aside = html! { @if !aside.0.is_empty() { div #aside hx-swap-oob="true" { (aside) } } };
        let head = html! { header #head hx-swap-oob="true" { (head) } };
        return write(res, StatusCode::OK, html! { (live) (head) (aside) });
    }
    let flash = match *req.method() {
        Method::HEAD => None,
        _ => visitor.take_flash().await,
    };
    write(
        res,
        StatusCode::OK,
        whole(page, &head, &live, visitor, flash),
    );
}

/// Whether the request is a poll of a page's live parts.
pub(super) fn is_poll(req: &Request) -> bool {
    req.headers().contains_key(HX_REQUEST)
}

/// The place of the second live part of a [`WithAside`].
pub(super) fn aside(aside: &Markup) -> Markup {
    html! { div #aside { (aside) } }
}

/// A page with navigation, and the message about the last write.
fn whole(
    page: &Page,
    head: &Markup,
    live: &Markup,
    visitor: &Visitor,
    flash: Option<String>,
) -> Markup {
    let content = html! {
        header.top {
            a.brand href="/" { "Headgate" }
            nav aria-label="Pages" {
                @for (place, path, name) in PLACES {
                    a href=(path) aria-current=[(place == page.place).then_some("page")] { (name) }
                }
                // On a phone: the entries that do not fit into the navigation.
                details.rest {
                    summary { "More" }
                    div { @for (place, path, name) in PLACES.into_iter().skip(ON_A_PHONE) {
                        a href=(path) aria-current=[(place == page.place).then_some("page")] { (name) }
                    } }
                }
            }
            @if page.place != Place::Search { (search_form("")) }
            form.out method="post" action="/sign-out" {
                (form_token(visitor))
                @if &*visitor.token.name != ADMIN { span.quiet { (visitor.token.name) ", " (visitor.token.role.as_str()) } " " }
                button.plain { "Sign out" }
            }
        }
        // The style hides forms from viewers, who cannot send any.
        main data-role=(visitor.token.role.as_str()) {
            p #lost.problem role="alert" hidden { "Connection lost, retrying. This page shows the last known state." }
            @if let Some(flash) = flash { p.said role="status" tabindex="-1" autofocus { (text_of(&flash, SENTENCE_CHARS_MAX)) } }
            header #head { (head) }
            (page.still)
            (live)
        }
        footer { "Headgate " (env!("CARGO_PKG_VERSION")) " · " span #zone { "times are in UTC" } " · " a href="/docs" { "Documentation" } }
    };
    document(&page.title, &content)
}

/// Name, state and actions. The overview has its own list of problems.
fn head(page: &Page, depot: &Depot) -> Markup {
    let Head {
        above,
        state,
        actions,
    } = &page.head;
    html! {
        @if !above.is_empty() {
            p.above-it { @for (path, name) in above { a href=(path) { (text(name)) } " / " } }
        }
        div.name {
            h1 { bdi { (text(&page.title)) } }
            @if !state.0.is_empty() { div.state { (state) } }
            @if !actions.0.is_empty() { div.actions { (actions) } }
        }
        @if page.place != Place::Overview { (guard::database_away(depot)) }
    }
}

/// A menu for rare actions.
pub(super) fn more(content: &Markup) -> Markup {
    html! { details.menu.more { summary.button.plain { "More" } div { (content) } } }
}

/// The search box.
pub(super) fn search_form(query: &str) -> Markup {
    html! {
        form.find role="search" action="/search" {
            input type="search" name="q" value=(query) maxlength="512" aria-label="Search keys, requests, names and errors" placeholder="Search everything" aria-keyshortcuts="/";
            kbd aria-hidden="true" { "/" }
        }
    }
}

fn live(path: &str, digest: &str, page: &Page) -> Markup {
    let headers = format!(r#"{{"X-Seen": "{digest}"}}"#);
    html! {
        @if page.old {
            div #live { (page.live) }
        } @else {
            div #live hx-get=(path) hx-trigger="every 2s" hx-swap="outerHTML" hx-headers=(headers) { (page.live) }
        }
    }
}

/// The form token, in every form that changes something.
fn form_token(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(FORM_TOKEN) value=(visitor.form_token); }
}

/// The form token, for handlers that build their own forms.
pub(super) fn token(depot: &Depot) -> Markup {
    Visitor::of(depot).map(form_token).unwrap_or_default()
}

/// A button that changes something, in a form that only reads: it sends the form token itself.
pub(super) fn posting(
    depot: &Depot,
    (address, question): (&str, Option<&str>),
    label: &str,
) -> Markup {
    let token = Visitor::of(depot).map(|visitor| &*visitor.form_token);
    let class = if question.is_some() {
        "danger"
    } else {
        "plain"
    };
    html! {
        button class=(class) formmethod="post" formaction=(address) name=(FORM_TOKEN) value=[token] data-confirm=[question] { (label) }
    }
}

/// Redirects to a page.
pub(super) fn go(res: &mut Response, path: &str) {
    res.status_code(StatusCode::SEE_OTHER);
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    res.headers_mut().insert(LOCATION, path);
}

/// Answers with a message.
pub(super) fn notice(res: &mut Response, status: StatusCode, title: &str, sentence: &str) {
    let content = html! {
        h1 { (title) }
        p { (text_of(sentence, SENTENCE_CHARS_MAX)) }
        p { a href="/" { "To the overview" } }
    };
    bare(res, status, title, &content);
}

/// Answers with a page without navigation.
pub(super) fn bare(res: &mut Response, status: StatusCode, title: &str, content: &Markup) {
    let content = html! {
        main.bare { p.brand { "Headgate" } (content) }
    };
    write(res, status, document(title, &content));
}

fn document(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(PreEscaped(HTMX.replace('"', "&quot;")));
                title { (plain(title)) " · Headgate" }
                link rel="icon" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/web.css";
                link rel="stylesheet" href="/assets/grid.css";
                script src="/assets/htmx.js" defer {}
                script src="/assets/web.js" defer {}
                script src="/assets/grid.js" defer {}
            }
            body { (content) }
        }
    }
}

fn write(res: &mut Response, status: StatusCode, page: Markup) {
    res.status_code(status);
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: browsers would then send writes with the origin `null`.
        (REFERRER_POLICY, "same-origin"),
    ] {
        res.headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    res.replace_body(ResBody::Once(page.into_string().into()));
}
