//! The guide from Markdown to HTML, and to the sections that the search looks through: done when the program is built.
//!
//! `build.rs` writes what [`write`] makes of this folder; `lib.rs` includes it.
//!
//! **Invariant**: what stands between the tags is escaped, HTML in a page too; a comment is left out; a link leads to a page or file that is
//! served or to another site, and otherwise is text.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::slice::Iter;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

/// The pages, in the order in which they are listed: the names of their files without `.md`.
const PAGES: [&str; 21] = [
    "install",
    "connect",
    "tools",
    "presets",
    "senders",
    "send",
    "clients",
    "show",
    "feeds",
    "select",
    "configure",
    "operate",
    "watch",
    "backup",
    "cluster",
    "troubleshoot",
    "sinks",
    "recipes",
    "plugins",
    "http",
    "compare",
];

/// The files that pages show or link to: their paths as pages write them, and their media types.
const FILES: [(&str, &str); 3] = [
    ("screen.webp", "image/webp"),
    ("pages.webp", "image/webp"),
    ("../../config/default.toml", "text/plain; charset=utf-8"),
];

/// Renders the pages of a folder into the Rust of `guide.rs`, in another.
pub(crate) fn write(folder: &Path, out_dir: &Path) -> io::Result<()> {
    let mut code = String::from(
        "/// The pages, in the order in which they are listed.\npub const PAGES: &[GuidePage] = &[\n",
    );
    let mut modules = String::new();
    let path = |file: &str| folder.join(file).display().to_string();
    for name in PAGES {
        let file = path(&format!("{name}.md"));
        let page = Rendered::new(&std::fs::read_to_string(&file)?);
        // Writing to a string cannot fail.
        let _ = writeln!(code, "{}", page.code(name));
        let _ = writeln!(
            modules,
            "#[cfg_attr(doc, doc = include_str!({:?}))]\n#[doc = include_str!({file:?})]\npub mod {name} {{}}",
            path("rustdoc.md")
        );
    }
    code.push_str("];\n/// The files.\npub const FILES: &[File] = &[\n");
    for (file, content_type) in FILES {
        let _ = writeln!(
            code,
            "File {{ path: {file:?}, content_type: {content_type:?}, bytes: include_bytes!({:?}) }},",
            path(file)
        );
    }
    std::fs::write(out_dir.join("guide.rs"), code + "];\n" + &modules)
}

/// A heading with the text up to the next one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Section {
    /// Where it begins: empty at the page's own heading.
    anchor: String,
    /// 1 is the page's own.
    level: usize,
    heading: String,
    /// Without markup, in lines.
    text: String,
}

/// A page as it is shown.
#[derive(Debug)]
struct Rendered {
    html: String,
    sections: Vec<Section>,
}

impl Rendered {
    fn new(text: &str) -> Self {
        let events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
        let sections = sections(&events);
        let mut headings = sections.iter();
        let mut left_out = false;
        let shown = events
            .into_iter()
            .filter_map(|event| shown(event, &mut headings, &mut left_out));
        let mut html = String::new();
        html::push_html(&mut html, shown);
        // A cell without a text heads nothing.
        let html = html.replace("<th></th>", "<td></td>");
        Self { html, sections }
    }

    /// The page as an expression in Rust.
    fn code(&self, name: &str) -> String {
        let sections = self.sections.iter().map(|section| {
            let Section {
                anchor,
                level,
                heading,
                text,
            } = section;
            format!("Section {{ anchor: {anchor:?}, level: {level}, heading: {heading:?}, text: {text:?} }},")
        });
        let sections: String = sections.collect();
        let html = &self.html;
        format!("GuidePage {{ name: {name:?}, html: {html:?}, sections: &[{sections}] }},")
    }
}

/// An event as it is written: headings with their anchors, links with the addresses here. A link that leads nowhere is
/// left out, and `left_out` until its end.
fn shown<'a>(
    mut event: Event<'a>,
    headings: &mut Iter<'_, Section>,
    left_out: &mut bool,
) -> Option<Event<'a>> {
    match &mut event {
        Event::Start(Tag::Heading { id, .. }) => {
            let section = headings.next().filter(|section| section.level > 1);
            *id = section.map(|section| section.anchor.clone().into());
        }
        Event::Start(Tag::Link { dest_url, .. }) => {
            let served = address(dest_url);
            *left_out = served.is_none();
            *dest_url = served?.into();
        }
        Event::End(TagEnd::Link) if std::mem::take(left_out) => return None,
        Event::Start(Tag::Image { dest_url, .. }) => {
            *dest_url = address(dest_url).unwrap_or_default().into();
        }
        Event::Start(Tag::CodeBlock(_)) => {
            return Some(Event::Html("<pre tabindex=\"0\"><code>".into()));
        }
        Event::End(TagEnd::CodeBlock) => return Some(Event::Html("</code></pre>\n".into())),
        Event::Html(text) | Event::InlineHtml(text) => {
            return (!is_comment(text)).then(|| Event::Text(text.clone()));
        }
        _ => {}
    }
    Some(event)
}

/// Whether this is a comment for who writes the page, whole in its line.
fn is_comment(html: &str) -> bool {
    let html = html.trim();
    html.starts_with("<!--") && html.ends_with("-->")
}

/// Where a link of a page leads here; `None` for a file that is not served.
fn address(link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with('#') {
        return Some(link.to_owned());
    }
    if FILES.iter().any(|(path, _)| *path == link) {
        let name = link.rsplit('/').next().unwrap_or(link);
        return Some(format!("/docs/{name}"));
    }
    let (file, anchor) = match link.split_once('#') {
        Some((file, anchor)) => (file, format!("#{anchor}")),
        None => (link, String::new()),
    };
    let name = file.strip_suffix(".md")?;
    let page = PAGES.iter().find(|page| **page == name)?;
    Some(format!("/docs/{page}{anchor}"))
}

/// The sections of a page, one for each heading.
fn sections(events: &[Event<'_>]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut in_heading = false;
    for event in events {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                in_heading = true;
                sections.push(Section {
                    level: *level as usize,
                    ..Section::default()
                });
            }
            Event::End(TagEnd::Heading(_)) => {
                in_heading = false;
                if let Some(section) = sections.last_mut().filter(|section| section.level > 1) {
                    section.anchor = anchor(&section.heading);
                }
            }
            Event::Html(text) | Event::InlineHtml(text) if is_comment(text) => {}
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                if let Some(section) = sections.last_mut() {
                    match in_heading {
                        true => section.heading.push_str(text),
                        false => section.text.push_str(text),
                    }
                }
            }
            Event::SoftBreak | Event::HardBreak | Event::End(TagEnd::TableCell) => {
                if let Some(section) = sections.last_mut() {
                    section.text.push(' ');
                }
            }
            Event::End(
                TagEnd::Paragraph
                | TagEnd::CodeBlock
                | TagEnd::Item
                | TagEnd::TableRow
                | TagEnd::TableHead,
            ) => {
                if let Some(section) = sections.last_mut() {
                    section.text.push('\n');
                }
            }
            _ => {}
        }
    }
    sections
}

/// The anchor of a heading, as repository sites and rustdoc make it.
fn anchor(heading: &str) -> String {
    let characters = heading.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ => character
            .is_alphanumeric()
            .then_some(character.to_ascii_lowercase()),
    });
    characters.collect()
}

#[cfg(test)]
mod tests;
