//! Cases of our own: a few of each part of the grammar, and of what stands beside it.
//!
//! **Invariant**: a name says by its first letter whether RFC 8259 allows the text.

const CASES: &[(&str, &[u8])] = &[
    // What a whole text may be.
    ("y_text_object", b"{}"),
    ("y_text_array", b"[]"),
    ("y_text_string", b"\"alone\""),
    ("y_text_number", b"-12.5e3"),
    ("y_text_null", b"null"),
    ("y_text_white_space_around", b" \t\r\n[1] \t\r\n"),
    ("n_text_empty", b""),
    ("n_text_white_space_only", b" \n"),
    ("n_text_two_values", b"[1] [2]"),
    ("n_text_bracket_after", b"[1]]"),
    ("n_text_form_feed_around", b"\x0c[1]"),
    ("n_text_no_break_space_around", b"\xc2\xa0[1]"),
    ("n_text_nul_after", b"[1]\0"),
    ("n_text_comment", b"[1] // one"),
    ("n_text_comment_inside", b"{\"a\": /* one */ 1}"),
    ("n_text_no_json_at_all", b"hello"),
    // Literals.
    ("y_literals", b"[true, false, null]"),
    ("n_literal_capital", b"[True]"),
    ("n_literal_cut", b"[nul]"),
    ("n_literal_longer", b"[nullx]"),
    ("n_literal_undefined", b"[undefined]"),
    // Numbers.
    ("y_number_zero", b"[0, -0, 0.0, 0e0]"),
    ("y_number_fraction", b"[1.25]"),
    ("y_number_exponents", b"[1e5, 1E5, 1e+5, 1e-5, 1.5e05]"),
    (
        "y_number_many_digits",
        b"[12345678901234567890123456789012345678901234567890]",
    ),
    (
        "y_number_tiny",
        b"[0.00000000000000000000000000000000000000000000000001]",
    ),
    ("i_number_beyond_doubles", b"[1e999, -1e999, 1e-999]"),
    ("n_number_leading_zero", b"[012]"),
    ("n_number_leading_plus", b"[+1]"),
    ("n_number_leading_point", b"[.5]"),
    ("n_number_trailing_point", b"[1.]"),
    ("n_number_point_before_exponent", b"[1.e5]"),
    ("n_number_empty_exponent", b"[1e]"),
    ("n_number_sign_only", b"[-]"),
    ("n_number_hexadecimal", b"[0x1F]"),
    ("n_number_not_a_number", b"[NaN]"),
    ("n_number_infinity", b"[-Infinity]"),
    ("n_number_underscore", b"[1_000]"),
    ("n_number_other_digits", b"[\xd9\xa1]"),
    // Strings.
    ("y_string_escapes", br#"["\" \\ \/ \b \f \n \r \t"]"#),
    ("y_string_hexadecimal_escape", br#"["\u00e9\u00E9"]"#),
    ("y_string_pair_of_surrogates", br#"["\ud83d\ude00"]"#),
    ("y_string_escaped_nul", br#"["\u0000"]"#),
    ("y_string_utf8", "[\"é€😀\u{2028}\u{7f}\"]".as_bytes()),
    ("i_string_lone_high_surrogate", br#"["\ud83d"]"#),
    ("i_string_lone_low_surrogate", br#"["\ude00"]"#),
    ("i_string_encoded_surrogate", b"[\"\xed\xa0\x80\"]"),
    ("i_string_overlong", b"[\"\xc0\xaf\"]"),
    ("i_string_not_utf8", b"[\"\xff\"]"),
    ("n_string_unclosed", b"[\"a]"),
    ("n_string_single_quotes", b"['a']"),
    ("n_string_unknown_escape", br#"["\x41"]"#),
    ("n_string_short_escape", br#"["\u00e"]"#),
    ("n_string_escape_at_end", br#"["\"#),
    ("n_string_line_feed", b"[\"a\nb\"]"),
    ("n_string_nul", b"[\"a\0b\"]"),
    // Arrays and objects.
    ("y_array_nested", b"[[[]], [[1], []]]"),
    ("n_array_trailing_comma", b"[1,]"),
    ("n_array_no_comma", b"[1 2]"),
    ("n_array_leading_comma", b"[,1]"),
    ("n_array_unclosed", b"[1"),
    ("n_array_closed_as_object", b"[1}"),
    ("y_object_nested", br#"{"a": {"b": {"c": [{}]}}}"#),
    ("y_object_empty_name", br#"{"": 1}"#),
    ("y_object_same_name_twice", br#"{"a": 1, "a": 2}"#),
    ("y_object_same_path_twice", br#"{"a": {"b": 1}, "a.b": 2}"#),
    ("n_object_trailing_comma", br#"{"a": 1,}"#),
    ("n_object_bare_name", b"{a: 1}"),
    ("n_object_number_as_name", b"{1: 1}"),
    ("n_object_no_colon", br#"{"a" 1}"#),
    ("n_object_no_value", br#"{"a":}"#),
    ("n_object_unclosed", br#"{"a": 1"#),
    // Encodings.
    ("i_encoding_byte_order_mark", b"\xef\xbb\xbf{}"),
    ("i_encoding_utf16", b"\xff\xfe{\0}\0"),
];

/// The cases by name.
pub(super) fn all() -> Vec<(String, Vec<u8>)> {
    let deep = |open: &str, close: &str, levels: usize| {
        [open.repeat(levels), close.repeat(levels)].concat()
    };
    let deep = [
        ("y_deep_arrays", deep("[", "]", 800)),
        ("y_deep_arrays_over_the_limit", deep("[", "]", 2_000)),
        ("n_deep_arrays_unclosed", "[".repeat(100_000)),
        ("n_deep_objects_unclosed", "{\"a\":".repeat(10_000)),
    ];
    let deep = deep.map(|(name, text)| (name.to_owned(), text.into_bytes()));
    let cases = CASES
        .iter()
        .map(|(name, text)| ((*name).to_owned(), text.to_vec()));
    cases.chain(deep).collect()
}
