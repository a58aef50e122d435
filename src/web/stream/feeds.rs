//! `/streams/{name}/feeds`: the URLs of a stream's feeds for programs that poll, the choice of columns, and a key for
//! the feeds.
//!
//! **Invariant**: a key that is created here reads only this stream, and the page says that it is allowed in URLs. The
//! key is shown once, in the URLs.

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};

use super::find_stream;
use crate::form::{self, NAME, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::key::shown_once;
use crate::paths;
use crate::snippets;
use crate::text::{plain, segment, text, text_of};
use base::text::visible_lines;
use catalog::Stream;
use feed::{Choice, Format, Preview, entry};
use http::sessions::IssuedKey;
use operate::Operator;

/// Maximum columns that can be chosen here; a URL can name any.
const COLUMNS_MAX: usize = 100;
/// Maximum characters of a sample.
const SAMPLE_CHARS_MAX: usize = 60;
/// Maximum characters of the preview.
const PREVIEW_CHARS_MAX: usize = 4_000;

/// For each program: the format of its feed, the query in addition to the columns, and how it sends the key.
const PROGRAMS: [(&str, &str, &str, Key); 15] = [
    ("vMix", "json", "", Key::InUrl),
    ("Viz Flowics", "json", "", Key::InUrl),
    ("Xibo", "csv", "", Key::AsPassword),
    (
        "BrightSign (user variables)",
        "rss",
        "shape=fields&limit=1",
        Key::InUrl,
    ),
    ("SpinetiX", "csv", "", Key::InUrl),
    ("DAKboard, TRMNL", "json", "", Key::AsPassword),
    ("Google Sheets", "csv", "", Key::InUrl),
    ("Excel", "csv", "bom", Key::AsPassword),
    ("LibreOffice Calc", "csv", "safe", Key::InUrl),
    ("Grafana Infinity", "json", "", Key::InHeader),
    ("Home Assistant", "json", "shape=one", Key::AsPassword),
    ("Node-RED", "json", "", Key::AsPassword),
    ("Companion, one value", "txt", "limit=1", Key::InHeader),
    ("XML, XPath /items/item", "xml", "", Key::InUrl),
    ("RSS readers", "rss", "", Key::InUrl),
];

/// How a program sends the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    InUrl,
    AsPassword,
    InHeader,
}

/// `/streams/{name}/feeds`
pub(super) struct Feeds(pub(super) Operator);

#[handler]
impl Feeds {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let stream = find_stream(&self.0, req)?;
        let path = format!("{}/feeds", paths::stream(&stream.name));
        let Some(mut typed) = Typed::sent(depot) else {
            let issued = shown_once::take(req, depot).await?;
            let typed = Typed::new(depot, "", &[("fields", chosen(req))]);
            let page = page(&self.0, req, &stream, (&path, &typed), issued.as_ref());
            return Ok(typed.show(page.await?));
        };
        let key = settings::ReadKey {
            name: typed.name(),
            description: Some("Feeds of this stream, in URLs".to_owned()),
            streams: vec![stream.name.to_string()],
            allow_in_url: true,
            ..::settings::ReadKey::default()
        };
        let created = typed.submit(&self.0, req, &[], |catalog, by| {
            catalog.create_read_key(key, by)
        });
        let Some((secret, key)) = created.await? else {
            let page = page(&self.0, req, &stream, (&path, &typed), None);
            return Ok(typed.show(page.await?));
        };
        let path = match typed.raw("fields") {
            "" => path,
            fields => format!("{path}?fields={}", segment(fields)),
        };
        Ok(FormAnswer::Issued(IssuedKey::new(path, &key.name, secret)))
    }
}

/// The columns in the form or in the URL of the page; empty: all.
fn chosen(req: &mut Request) -> String {
    if let Some(fields) = req.query::<String>("fields") {
        return fields;
    }
    let list = |name: &str| req.queries().get_vec(name).cloned().unwrap_or_default();
    let rows = list("place").into_iter().zip(list("field")).zip(list("as"));
    let mut columns: Vec<(u32, String)> = rows
        .filter_map(|((place, field), name)| {
            Some((place.trim().parse().ok()?, entry(&field, name.trim())))
        })
        .collect();
    columns.sort_by_key(|(place, _)| *place);
    let columns: Vec<String> = columns.into_iter().map(|(_, column)| column).collect();
    columns.join(",")
}

async fn page(
    operator: &Operator,
    req: &Request,
    stream: &Stream,
    (path, typed): (&str, &Typed),
    issued: Option<&IssuedKey>,
) -> Result<FormPage, NoPage> {
    let preview = Preview::read(&operator.pool, &stream.name).await?;
    let fields = typed.raw("fields");
    let base = snippets::address(operator, req).feed_base(&stream.name);
    let new_key = html! {
        input type="hidden" name="fields" value=(fields);
        p { "Creates a read key for this stream that is allowed in URLs, for programs that cannot set a header. URLs are kept in logs and histories, so create a key for each program, and revoke it when the program is no longer used." }
        (typed.input(NAME, 64, true))
        (form::buttons("Create a key for these URLs", &paths::stream(&stream.name)))
    };
    Ok(FormPage {
        title: format!("Feeds of {}", plain(&stream.name)),
        place: Place::Streams,
        content: html! {
            p { "For programs that poll a URL: a table. The guide lists all URL options: " a href="/docs/feeds" { "Feeds" } "." }
            (typed.problems())
            @if let Some(issued) = issued { div.panel.made { (shown_once::panel(issued, "read key")) } }
            h2 { "URLs" }
            (urls(&base, fields, issued))
            h2 { "Columns" }
            (columns(&preview, path, fields))
            h2 { "First lines" }
            @for (name, format) in [("CSV", Format::Csv), ("JSON", Format::Json)] {
                details open[format == Format::Csv] { summary { (name) } pre tabindex="0" { code { (visible_lines(&first_chars(&preview.first_rows(format, fields)))) } } }
            }
            h2 { "A key" }
            (typed.form(path, &new_key))
        },
    })
}

fn first_chars(text: &str) -> String {
    text.chars().take(PREVIEW_CHARS_MAX).collect()
}

fn urls(base: &str, fields: &str, issued: Option<&IssuedKey>) -> Markup {
    let secret = issued.map_or("rk_live_…", |issued| issued.secret.expose());
    let columns = (!fields.is_empty()).then(|| format!("fields={}", segment(fields)));
    html! {
        div.table data-once[issued.is_some()] { table {
            thead { tr { th { "Program" } th { "URL" } th { "Key" } } }
            tbody { @for (place, (program, ending, more, key)) in PROGRAMS.iter().enumerate() {
                @let token = (*key == Key::InUrl).then(|| format!("token={secret}"));
                @let more = (!more.is_empty()).then(|| (*more).to_owned());
                @let query: Vec<String> = columns.clone().into_iter().chain(more).chain(token).collect();
                @let mark = if query.is_empty() { "" } else { "?" };
                tr {
                    td data-label="Program" { (program) }
                    td data-label="URL" { div.copy {
                        code id={ "url-" (place) } { (base) "." (ending) (mark) (query.join("&")) }
                        button.plain type="button" data-copy={ "url-" (place) } { "Copy" }
                    } }
                    td data-label="Key" { @match key {
                        Key::InUrl => "in the URL",
                        Key::AsPassword => "Basic: any user, the key is the password",
                        Key::InHeader => "the header Authorization: Bearer",
                    } }
                }
            } }
        } }
    }
}

/// All columns, with a sample each. A number is the position of a column; columns without one are left out. With a
/// script, users drag columns or move them with buttons, and the script writes the numbers.
fn columns(preview: &Preview, path: &str, fields: &str) -> Markup {
    let choices = preview.choices(fields);
    html! {
        form method="get" action=(path) {
            p.quiet { "Number the columns that you want: 1, 2 and so on. Rename them if the program needs other names, such as Headline.Text for vMix. Without numbers, all columns are included." span data-moves hidden { " Or drag them into order, or move them with the arrows: fields below the chosen ones are left out." } }
            @if !fields.is_empty() { p { "Now: " code { (text(fields)) } " · " a href=(path) { "All columns" } } }
            div.table { table {
                thead { tr { th { "Position" } th { "Field" } th { "Sample" } th { "Name" } } }
                tbody #columns { @for choice in choices.iter().take(COLUMNS_MAX) { (column(choice)) } }
            } }
            p.quiet #moved role="status" {}
            @if choices.len() > COLUMNS_MAX { p.quiet { "The first " (COLUMNS_MAX) " fields are listed; a URL can name any field." } }
            p.row { button { "Show" } }
        }
    }
}

fn column(choice: &Choice) -> Markup {
    let field = &choice.field;
    let shown = plain(field);
    let is_usual = !matches!(field.as_str(), "_updated_at" | "_position");
    html! { tr data-usual[is_usual] data-field=(shown) {
        td data-label="Position" { div.place {
            span data-moves hidden {
                span.grip title="Drag" aria-hidden="true" { "⠿" }
                button.plain type="button" data-move="up" aria-label={ "Move " (shown) " up" } { "↑" }
                button.plain type="button" data-move="down" aria-label={ "Move " (shown) " down" } { "↓" }
            }
            input name="place" type="text" inputmode="numeric" maxlength="4" size="3" value=[choice.place] aria-label={ "Place of " (shown) };
            input type="hidden" name="field" value=(field);
        } }
        td data-label="Field" { (text(field)) }
        td data-label="Sample" { (text_of(&choice.sample, SAMPLE_CHARS_MAX)) }
        td data-label="Name" { input name="as" type="text" maxlength="128" size="20" value=[(!choice.name.is_empty()).then_some(&choice.name)] aria-label={ "Name of " (shown) }; }
    } }
}
