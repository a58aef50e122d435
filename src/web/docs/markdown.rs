//! A page of the guide from Markdown to HTML, and to the sections that the search looks through.
//!
//! **Invariant**: what stands between the tags is escaped, HTML in a page too; a link leads to a page or file that is
//! served here or to another site, and otherwise is text.

use std::slice::Iter;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

use crate::guide::{FILES, PAGES, Page};

/// A heading with the text up to the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// The name of the page.
    pub(super) page: &'static str,
    /// Where it begins: empty at the page's own heading.
    pub(super) anchor: String,
    /// 1 is the page's own.
    pub(super) level: usize,
    pub(super) heading: String,
    /// Without markup, in lines.
    pub(super) text: String,
}

/// A page as it is shown.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) page: Page,
    /// HTML.
    pub(super) html: String,
    pub(super) sections: Vec<Section>,
}

impl Rendered {
    pub(super) fn new(page: Page) -> Self {
        let events: Vec<Event<'_>> = Parser::new_ext(page.text, Options::ENABLE_TABLES).collect();
        let sections = sections(page.name, &events);
        let mut headings = sections.iter();
        let mut left_out = false;
        let shown = events
            .into_iter()
            .filter_map(|event| shown(event, &mut headings, &mut left_out));
        let mut html = String::new();
        html::push_html(&mut html, shown);
        Self {
            page,
            html,
            sections,
        }
    }

    /// Its own heading.
    pub(super) fn title(&self) -> &str {
        self.sections
            .first()
            .map_or(self.page.name, |section| &section.heading)
    }

    /// Its first paragraph.
    pub(super) fn lead(&self) -> &str {
        let text = self.sections.first().map(|section| section.text.as_str());
        text.and_then(|text| text.lines().next())
            .unwrap_or_default()
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
            return Some(Event::Text(text.clone()));
        }
        _ => {}
    }
    Some(event)
}

/// Where a link of a page leads here; `None` for a file that is not served.
fn address(link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with('#') {
        return Some(link.to_owned());
    }
    if let Some(file) = FILES.iter().find(|file| file.path == link) {
        return Some(format!("/docs/{}", file.name()));
    }
    let (file, anchor) = match link.split_once('#') {
        Some((file, anchor)) => (file, format!("#{anchor}")),
        None => (link, String::new()),
    };
    let name = file.strip_suffix(".md")?;
    let page = PAGES.iter().find(|page| page.name == name)?;
    Some(format!("/docs/{}{anchor}", page.name))
}

/// The sections of a page, one for each heading.
fn sections(page: &'static str, events: &[Event<'_>]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut in_heading = false;
    for event in events {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                in_heading = true;
                sections.push(Section {
                    page,
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
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn page(text: &'static str) -> Rendered {
        Rendered::new(Page { name: "x", text })
    }

    #[test]
    fn what_stands_in_a_page_is_text_and_links_lead_where_something_is() {
        let rendered = page(
            "# A <b> title\n\nLead.\n\n## How & why, `x`\n\n<script>no</script>\n\n[there][1] [file][2] [gone][3] [out][4]\n\n```sh\na < b\n```\n\n[1]: send.md#retries\n[2]: ../../config/default.toml\n[3]: ../../examples/payloads\n[4]: https://example.com\n",
        );
        for part in [
            "<h2 id=\"how--why-x\">",
            "href=\"/docs/send#retries\"",
            "href=\"/docs/default.toml\"",
            "&lt;script&gt;",
            " gone ",
            "href=\"https://example.com\"",
            "<pre tabindex=\"0\"><code>a &lt; b",
        ] {
            assert!(rendered.html.contains(part), "{part}\n{}", rendered.html);
        }
        assert!(!rendered.html.contains("examples/payloads"));
        assert_eq!(
            (rendered.title(), rendered.lead()),
            ("A <b> title", "Lead.")
        );
        assert_eq!(rendered.sections[1].anchor, "how--why-x");
    }

    #[test]
    fn every_link_of_the_guide_leads_somewhere() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide");
        let pages: Vec<Rendered> = PAGES.iter().copied().map(Rendered::new).collect();
        let mut anchors = BTreeSet::new();
        for section in pages.iter().flat_map(|page| &page.sections) {
            let new = anchors.insert(format!("/docs/{}#{}", section.page, section.anchor));
            assert!(new, "two sections of {} have one anchor", section.page);
        }
        for rendered in &pages {
            let name = rendered.page.name;
            assert!(!rendered.lead().is_empty(), "{name} says what it is for");
            for event in Parser::new_ext(rendered.page.text, Options::ENABLE_TABLES) {
                let (Event::Start(Tag::Link { dest_url, .. })
                | Event::Start(Tag::Image { dest_url, .. })) = event
                else {
                    continue;
                };
                if dest_url.starts_with("https://") {
                    continue;
                }
                let file = dest_url.split('#').next().unwrap_or_default();
                assert!(folder.join(file).exists(), "{name}: {dest_url}");
                let own = address(&dest_url).map(|to| match to.starts_with('#') {
                    true => format!("/docs/{name}{to}"),
                    false => to,
                });
                if let Some(to) = own.filter(|to| to.contains('#')) {
                    assert!(anchors.contains(&to), "{name}: {dest_url} ({to})");
                }
            }
            // A reference without a definition is shown as it is written.
            assert!(!rendered.html.contains("]["), "{name}");
        }
    }
}
