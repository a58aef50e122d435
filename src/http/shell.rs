//! Texts in commands that people paste into a shell.
//!
//! The pages and the documentation of the API show such commands.
//!
//! **Invariant**: what is quoted is one word of a POSIX shell: it runs, expands and obeys nothing of it.

/// A text as one word.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_is_quoted_is_one_word() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(
            quoted("it's $HOME `id` \\ \"x\""),
            r#"'it'\''s $HOME `id` \ "x"'"#
        );
    }
}
