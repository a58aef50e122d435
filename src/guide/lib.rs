//! The guide: pages for the people who run Headgate and send to it.
//!
//! A page is a Markdown file in this folder, and is read in three places: in the repository, here in the crate's
//! documentation, and under `/docs` of both listeners, where `http` renders it.
//!
//! Pages link to each other and to files of the repository by reference (`[Send]`, defined at the end of the page). In
//! this documentation the same references are defined first, in `rustdoc.md`, and lead to its own pages.
//!
//! **Invariant**: every page is in [`PAGES`], every file that pages show in [`FILES`]; both are public and the same for
//! everybody.
#![deny(unsafe_code)]

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The name of its file without `.md`, and of its address below `/docs/`.
    pub name: &'static str,
    /// Markdown: one heading, a paragraph that says what the page is for, and the rest.
    pub text: &'static str,
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

/// The files.
pub const FILES: [File; 3] = [
    File {
        path: "screen.webp",
        content_type: "image/webp",
        bytes: include_bytes!("screen.webp"),
    },
    File {
        path: "pages.webp",
        content_type: "image/webp",
        bytes: include_bytes!("pages.webp"),
    },
    File {
        path: "../../config/default.toml",
        content_type: "text/plain; charset=utf-8",
        bytes: include_bytes!("../../config/default.toml"),
    },
];

/// Declares the pages, in the order in which they are listed: a module of this documentation for each.
macro_rules! pages {
    ($($name:ident)*) => {
        /// The pages, in the order in which they are listed.
        pub const PAGES: &[Page] = &[$(Page {
            name: stringify!($name),
            text: include_str!(concat!(stringify!($name), ".md")),
        }),*];
        $(
            #[cfg_attr(doc, doc = include_str!("rustdoc.md"))]
            #[doc = include_str!(concat!(stringify!($name), ".md"))]
            pub mod $name {}
        )*
    };
}

pages! { install connect tools send clients show feeds configure operate watch backup troubleshoot sinks plugins http compare }
