//! Presets tried as `preset test` tries them, and printed.

use super::MOMENT;
use crate::format::{Draft, resolve_all};
use crate::presets::FILES;
use crate::{Preset, PresetOrigin, Trial, Tried, preset, presets, questions, vectors};

/// What is wrong with a preset when it is tried.
fn wrong(preset: &'static Preset) -> Vec<String> {
    let mut tried = questions(preset);
    tried.extend(vectors(preset));
    for trial in Trial::all(preset).unwrap_or_else(|error| panic!("{}: {error}", preset.name)) {
        let of_samples = preset.samples.iter();
        tried.extend(of_samples.flat_map(|sample| trial.of_sample(sample, "7f0c-1e8a", MOMENT)));
    }
    let wrong = tried.into_iter().filter_map(|Tried { what, wrong }| {
        let wrong = wrong?;
        Some(format!("{what}: {wrong}"))
    });
    wrong.collect()
}

/// A preset of a text, alive for ever, as those of the program are.
fn of(text: &str) -> &'static Preset {
    let draft = Draft::parse("mine", PresetOrigin::Own("mine.toml".to_owned()), text);
    let read = draft.and_then(|draft| draft.resolve(preset));
    Box::leak(Box::new(read.expect(text)))
}

#[test]
fn every_preset_of_the_program_passes() {
    let all = presets().into_iter().flat_map(|preset| {
        let wrong = wrong(preset).into_iter();
        wrong.map(|wrong| format!("{}: {wrong}", preset.name))
    });
    assert_eq!(all.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn every_kind_of_secret_is_tried() {
    let secrets = |name: &str| -> Vec<String> {
        let all = Trial::all(preset(name).expect(name)).expect(name);
        all.into_iter().map(|trial| trial.secret).collect()
    };
    let [text, signing, _] = secrets("gitlab").try_into().expect("three");
    assert!(!text.starts_with("whsec_") && signing.starts_with("whsec_"));
    let [secret, public] = secrets("standard").try_into().expect("two");
    assert!(secret.starts_with("whsec_") && public.starts_with("whpk_"));
    assert_eq!(secrets("sns"), [""; 0]);
    assert_ne!(secrets("github"), secrets("github"));
}

#[test]
fn a_vector_that_says_otherwise_is_told() {
    let github = preset("github").expect("a row");
    let vector = github.vectors.first().expect("one");
    let of = |change: &dyn Fn(&mut crate::SentDelivery)| {
        let mut vector = vector.clone();
        change(&mut vector);
        vector.checked(github)
    };
    assert_eq!(of(&|_| ()), Ok(()));
    let error = of(&|vector| vector.body.push(b'\n')).expect_err("another body");
    assert!(error.ends_with("does not match"), "{error}");
    let error = of(&|vector| vector.headers.clear()).expect_err("no signature");
    assert!(error.contains("X-Hub-Signature-256 is missing"), "{error}");
}

#[test]
fn a_wrong_answer_to_a_question_is_told() {
    let text = "title = \"A\"\n[[handshakes]]\nmethod = \"GET\"\ncheck = \"none\"\n\
                when = { \"query:challenge\" = \"*\" }\nanswer = { text = \"{query:challenge}\" }\n\
                sample = { query = { challenge = \"abc\" }, expect = { text = \"abd\" } }\n";
    assert_eq!(
        questions(of(text))[0].wrong.as_deref(),
        Some("the answer is `abc`")
    );
    assert_eq!(questions(of(&text.replace("abd", "abc")))[0].wrong, None);
}

#[test]
fn what_is_printed_reads_back_as_the_same() {
    for preset in presets() {
        let text = preset.to_toml();
        let draft = Draft::parse("another", PresetOrigin::BuiltIn, &text);
        let draft = draft.unwrap_or_else(|error| panic!("{}: {error}\n{text}", preset.name));
        let read = resolve_all(&[draft], |_| None);
        let read = read.unwrap_or_else(|(_, error)| panic!("{}: {error}\n{text}", preset.name));
        assert_eq!(read, std::slice::from_ref(preset), "{text}");
        assert!(!text.contains("extends"), "{text}");
    }
    assert_eq!(presets().len(), FILES.len());
}

#[test]
fn odd_texts_are_printed_so_that_they_read_back() {
    let text = r#"
title = "a \"b\" \\ 'c' \u007f \u0001 ö"
secret_hint = "two\nlines"
source = ""
id = [["body:a", "header:X-B"]]
item_key = { first = [["a", "labels.\"x.y\""], ["@delivery"]] }
answer = { status = 200, json = { a = [1, 2.5, true, { "b c" = "d" }] } }
[verify]
signature = ["header:X-A", "query:s"]
signed = "{{{ts}}}{body}'"
timestamp = "header:X-T"
[[samples]]
event = "e"
body = "a\r\nb'''\n"
[[vectors]]
secret = "s"
body_base64 = "//8="
valid = false
"#;
    let read = of(text);
    let printed = read.to_toml();
    assert_eq!(*of(&printed), *read, "{printed}");
}

#[test]
fn a_token_that_was_captured_keeps_the_time_at_which_it_was_seen() {
    let preset = preset("livekit").expect("a preset");
    assert!(preset.vectors[0].sent_at(preset).is_some());
}
