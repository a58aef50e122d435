//! Unit tests of `explain.rs`.

use super::*;

#[test]
fn what_is_no_component_is_named() {
    for (bytes, words) in [
        (&b""[..], "empty"),
        (b"fn main() {}", "a text file"),
        ("é".repeat(400).as_bytes(), "a text file"),
        (b"\x7fELF\xff\xfe\x00\x01", "no WebAssembly"),
        (b"\0asm\x01\0\0\0", "a core module"),
        (b"\0asm what follows is nothing", "damaged"),
        (b"\0asm", "damaged"),
    ] {
        let said = of_bytes(bytes).expect("it is none");
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(of_bytes(b"\0asm\x0d\0\x01\0and so on"), None);
}

#[test]
fn what_a_component_asks_for_or_lacks_is_named() {
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let sink = "headgate:sink/sink@1.2.0";
    for (imports, exports, words) in [
        (
            &["headgate:sink/pool@2.0.0"][..],
            &[sink][..],
            "another world",
        ),
        (
            &["headgate:sink/pool@1.3.0"],
            &[sink],
            "headgate:sink/pool@1.3.0",
        ),
        (&[], &["headgate:sink/sink@2.0.0"], "another world"),
        (&["wasi:filesystem/types@0.2.3"], &[sink], "wasi:filesystem"),
        (&["wasi:sockets/tcp@0.2.3"], &[sink], "wasi:sockets"),
        (
            &[],
            &[],
            "lacks the export headgate:sink/sink@1.2.0, and has nothing",
        ),
        (&[], &["wasi:cli/run@0.2.0"], "and has wasi:cli/run@0.2.0"),
    ] {
        let said = sentence(&names(imports), &names(exports)).expect("a sentence");
        assert!(said.contains(words), "{words}: {said}");
    }
    let older = names(&["headgate:sink/pool@1.0.0", "wasi:io/error@0.2.0"]);
    assert_eq!(
        sentence(&older, &names(&["headgate:sink/sink@1.0.0"])),
        None
    );
}
