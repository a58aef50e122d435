//! Unit tests of `output.rs`.

use super::*;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_pipe_without_a_reader_is_noticed() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    writer.write_all(b"something").expect("there is room");
    let again = writer.try_clone().expect("another end");
    let waiting = is_closed_at_last(again.into());
    tokio::pin!(waiting);
    let patience = std::time::Duration::from_millis(20);
    let early = tokio::time::timeout(patience, &mut waiting).await;
    assert!(early.is_err(), "there is a reader");
    drop(reader);
    assert!(waiting.await);
    let file = tempfile::tempfile().expect("a file");
    assert!(!is_closed_at_last(file.into()).await);
}

#[test]
fn json_stays_json_and_loses_its_control_characters() {
    let text = "\u{1b}[2J\u{9b}2J\u{7f}\u{202e}é";
    let line = json_line(&text).expect("strings can be written");
    assert_eq!(line, "\"\\u001b[2J\\u009b2J\\u007f\\u202eé\"\n");
    assert_eq!(serde_json::from_str::<String>(&line).expect("JSON"), text);
}

#[test]
fn columns_are_aligned_and_lines_have_no_trailing_spaces() {
    let mut table = Table::new(&["NAME", "STATUS"]);
    table.row(&["größer", "ok"]);
    table.row(&["a\u{1b}", ""]);
    assert_eq!(
        table.to_string(),
        "NAME     STATUS\ngrößer   ok\na\\u{1b}\n"
    );
}

#[test]
fn a_column_that_is_empty_in_every_row_is_left_out() {
    let mut table = Table::new(&["NAME", "EXPIRES", "KEY"]);
    assert_eq!(table.to_string(), "NAME  EXPIRES  KEY\n");
    table.row(&["a", "", ""]);
    table.row(&["b", "", "k"]);
    assert_eq!(table.to_string(), "NAME  KEY\na\nb     k\n");
}
