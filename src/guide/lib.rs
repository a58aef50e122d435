//! The guide: pages for the people who run Headgate and send to it.
//!
//! A page is a Markdown file in this folder, and is read in three places: in the repository, here in the crate's
//! documentation, and under `/docs` of both listeners. The build renders the pages (`render.rs`), so that `http`
//! serves them as they are.
//!
//! Pages link to each other and to files of the repository by reference (`[Send]`, defined at the end of the page). In
//! this documentation the same references are defined first, in `rustdoc.md`, and lead to its own pages.
//!
//! **Invariant**: every page is in [`PAGES`], every file that pages show in [`FILES`]; both are public and the same for
//! everybody.
#![deny(unsafe_code)]
#![allow(
    rustdoc::bare_urls,
    reason = "addresses that readers enter into tools are no links"
)]

#[cfg(test)]
mod render;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuidePage {
    /// The name of its file without `.md`, and of its address below `/docs/`.
    pub name: &'static str,
    /// The whole page.
    pub html: &'static str,
    /// What the search looks through: the page's own heading comes first.
    pub sections: &'static [Section],
}

/// A heading with the text up to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Where it begins: empty at the page's own heading.
    pub anchor: &'static str,
    /// 1 is the page's own.
    pub level: usize,
    /// Without markup.
    pub heading: &'static str,
    /// Without markup, in lines.
    pub text: &'static str,
}

impl GuidePage {
    /// Its own heading.
    pub fn title(&self) -> &'static str {
        self.sections
            .first()
            .map_or(self.name, |section| section.heading)
    }

    /// Its first paragraph.
    pub fn lead(&self) -> &'static str {
        let text = self.sections.first().map(|section| section.text);
        text.and_then(|text| text.lines().next())
            .unwrap_or_default()
    }
}

/// A file that pages show or link to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its path as pages write it.
    pub path: &'static str,
    /// The media type.
    pub content_type: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

impl File {
    /// The last part of its path, which is its address below `/docs/`.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

// `PAGES`, `FILES`, and a module of this documentation for each page.
include!(concat!(env!("OUT_DIR"), "/guide.rs"));
