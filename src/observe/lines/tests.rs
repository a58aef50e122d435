//! Unit tests of `lines.rs`.

use std::io::{PipeReader, Read as _, pipe};
use std::os::fd::OwnedFd;

use super::*;

fn full() -> File {
    let full = File::options().write(true).open("/dev/full");
    full.expect("a device that is always full")
}

fn piped() -> (PipeReader, File) {
    let (reader, writer) = pipe().expect("a pipe");
    (reader, File::from(OwnedFd::from(writer)))
}

fn over(standard: File, error: File) -> Arc<Lines> {
    Lines::over(standard, error, Counter::default()).expect("a thread")
}

/// Waits until the thread is done with everything.
fn settle(lines: &Lines) {
    let is_done = || {
        let state = lines.state();
        state.done == state.given
    };
    while !is_done() {
        lines.flush();
    }
}

#[test]
fn lines_come_out_in_order_each_where_it_belongs() {
    let ((mut out, standard), (mut err, error)) = (piped(), piped());
    let lines = over(standard, error);
    for line in ["one\n", "two\n"] {
        lines.write(Output::Error, line.as_bytes());
        lines.write(Output::Standard, line.as_bytes());
    }
    settle(&lines);
    let mut said = [0; 8];
    for from in [&mut out, &mut err] {
        from.read_exact(&mut said).expect("two lines");
        assert_eq!(&said, b"one\ntwo\n");
    }
    assert_eq!(lines.dropped.get(), 0);
    assert_eq!(lines.problem(), None);
}

#[test]
fn a_full_disk_and_a_reader_that_is_gone_cost_lines_and_nothing_else() {
    let (gone, error) = piped();
    drop(gone);
    let lines = over(full(), error);
    lines.write(Output::Standard, b"one\n");
    settle(&lines);
    let problem = lines.problem().expect("a problem");
    assert!(problem.contains("standard output"), "{problem}");
    assert!(problem.contains("No space left"), "{problem}");
    lines.write(Output::Error, b"two\n");
    lines.write(Output::Error, b"three\n");
    settle(&lines);
    let problem = lines.problem().expect("a problem");
    assert!(problem.contains("(3 since the start)"), "{problem}");
    assert!(problem.contains("standard error"), "{problem}");
    assert!(problem.contains("Broken pipe"), "{problem}");
    assert_eq!(lines.dropped.get(), 3);
}

#[test]
fn a_pipe_that_nobody_reads_holds_nobody_up_and_is_used_again_once_it_is_read() {
    const LINE: &[u8] = &[b'x'; 1_000];
    const COUNT: usize = 2_000;
    let (mut reader, error) = piped();
    let lines = over(full(), error);
    // More than the pipe and the memory for lines hold: each of these calls returns.
    for _ in 0..COUNT {
        lines.write(Output::Error, LINE);
    }
    let dropped = lines.dropped.get();
    assert!(dropped > 0);
    let problem = lines.problem().expect("a problem");
    assert!(problem.contains("nothing reads it"), "{problem}");
    assert!(lines.state().blocked);
    let kept = COUNT - usize::try_from(dropped).expect("small");
    let mut said = vec![0; kept * LINE.len()];
    reader.read_exact(&mut said).expect("what was kept");
    settle(&lines);
    assert!(!lines.state().blocked);
    lines.write(Output::Error, b"\n");
    settle(&lines);
    assert_eq!(lines.dropped.get(), dropped);
}

#[test]
fn a_line_after_one_that_was_cut_off_begins_a_line() {
    let (mut reader, file) = piped();
    let mut target = Target { file, torn: true };
    target.write(b"two\n").expect("space");
    target.write(b"three\n").expect("space");
    drop(target);
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("text");
    assert_eq!(said, "\ntwo\nthree\n");
}
