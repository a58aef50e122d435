//! Unit tests of `process/linux.rs`.

use std::fs;
use std::io::ErrorKind;

use super::*;

#[test]
fn what_is_not_within_reach_is_gone_for_the_thread_and_what_it_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["read", "write", "change", "sockets", "else"] {
        fs::create_dir(at(name)).expect("a folder");
        fs::write(at(name).join("file"), "text").expect("a file");
    }
    let reach = Reach {
        read: vec![at("read"), at("missing")],
        write: vec![at("write")],
        change: vec![at("change")],
        sockets: vec![at("sockets")],
        run: Vec::new(),
    };
    assert!(reach.may_read(&at("read/file")) && reach.may_read(&at("write/file")));
    assert!(!reach.may_read(&at("else/file")) && reach.may_read(&at("else/none")));
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let status = restrict(&reach).expect("rules of a form that Landlock knows");
            if status.ruleset == RulesetStatus::NotEnforced {
                return None;
            }
            let denied = |done: std::io::Result<()>| {
                done.err().map(|error| error.kind()) == Some(ErrorKind::PermissionDenied)
            };
            let read = |name: &str| fs::read(at(name)).map(drop);
            let write = |name: &str| fs::write(at(name), "other");
            let bind = |name: &str| std::os::unix::net::UnixListener::bind(at(name)).map(drop);
            Some([
                read("read/file").is_ok(),
                read("write/file").is_ok(),
                write("write/new").is_ok(),
                fs::rename(at("write/new"), at("write/newer")).is_ok(),
                write("change/file").is_ok(),
                bind("sockets/socket").is_ok(),
                denied(read("else/file")),
                denied(write("read/file")),
                denied(write("read/new")),
                denied(write("change/new")),
                denied(write("else/new")),
                denied(bind("write/socket")),
                denied(fs::rename(at("write/newer"), at("else/newer"))),
                denied(std::process::Command::new("/bin/true").status().map(drop)),
            ])
        });
        thread.join().expect("no panic")
    });
    match done {
        Some(done) => assert_eq!(done, [true; 14]),
        None => eprintln!("SKIPPED: this kernel has no Landlock"),
    }
}

#[test]
fn only_what_may_be_run_is_run_and_nobody_else_is_talked_to() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["read", "write", "run"] {
        fs::create_dir(at(name)).expect("a folder");
        fs::copy("/bin/true", at(name).join("program")).expect("a program");
    }
    let libraries = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].map(Into::into);
    let reach = Reach {
        read: vec![at("read")],
        write: vec![at("write")],
        run: libraries.into_iter().chain([at("run")]).collect(),
        ..Reach::default()
    };
    // A socket of somebody else that has a name and no file.
    let name = format!("headgate-{}", at("socket").display());
    let name = SocketAddr::from_abstract_name(name).expect("a name");
    let _listener = UnixListener::bind_addr(&name).expect("a socket");
    UnixStream::connect_addr(&name).expect("it is reached before");
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let status = restrict(&reach).expect("rules of a form that Landlock knows");
            if status.ruleset != RulesetStatus::FullyEnforced {
                return None;
            }
            let kind = |error: std::io::Error| error.kind() == ErrorKind::PermissionDenied;
            let run = |name: &str| std::process::Command::new(at(name)).status();
            let change = |file| fs::OpenOptions::new().write(true).open(file);
            Some([
                run("run/program").is_ok_and(|status| status.success()),
                run("read/program").is_err_and(kind),
                run("write/program").is_err_and(kind),
                fs::write(at("run/new"), "").is_err_and(kind),
                change(at("run/program")).is_err_and(kind),
                UnixStream::connect_addr(&name).is_err_and(kind),
            ])
        });
        thread.join().expect("no panic")
    });
    match done {
        Some(done) => assert_eq!(done, [true; 6]),
        None => eprintln!("SKIPPED: this kernel has no Landlock, or an older one"),
    }
}
