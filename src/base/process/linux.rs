//! What Linux holds a process to: Landlock over the file system, no new privileges, no core dump and no debugger.
//!
//! **Invariant**: holds for the thread that calls it, and for all that it starts.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
    path_beneath_rules,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::set_no_new_privs;

use super::{Held, Reach};

/// The version of Landlock whose rights are given up; an older kernel has fewer of them.
pub(super) const KNOWN: ABI = ABI::V6;

/// No core dump, no debugger of the same user, no new privileges.
pub(super) fn give_up_privileges() {
    // Programs that take core dumps get one whatever the limit is, but not of a process like this.
    let dumpable = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let privileges = set_no_new_privs(true);
    for (what, done) in [("debuggers", dumpable), ("new privileges", privileges)] {
        if let Err(error) = done {
            tracing::warn!(%error, "cannot disable {what}");
        }
    }
}

/// Gives all files up but `reach`.
pub(super) fn files(reach: &Reach) -> Held {
    let status = match restrict(reach) {
        Ok(status) => status,
        Err(error) => return Held::Nothing(error.to_string()),
    };
    match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced, _) => Held::Whole,
        (RulesetStatus::PartiallyEnforced, _) => Held::Part,
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
            Held::Nothing("it is switched off in this kernel".to_owned())
        }
        (RulesetStatus::NotEnforced, _) => Held::Nothing("this kernel does not have it".to_owned()),
    }
}

fn restrict(reach: &Reach) -> Result<RestrictionStatus, RulesetError> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let never = make_bitflags!(AccessFs::{
        Execute | MakeChar | MakeBlock | MakeFifo | MakeSock | IoctlDev
    });
    let write: BitFlags<AccessFs> = AccessFs::from_all(KNOWN) & !never;
    let change = read | AccessFs::WriteFile | AccessFs::Truncate;
    let sockets = make_bitflags!(AccessFs::{MakeSock | RemoveFile | ReadDir});
    let run = read | AccessFs::Execute;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(&reach.read, read))?
        .add_rules(path_beneath_rules(&reach.write, write))?
        .add_rules(path_beneath_rules(&reach.change, change))?
        .add_rules(path_beneath_rules(&reach.sockets, sockets))?
        .add_rules(path_beneath_rules(&reach.run, run))?
        .restrict_self()
}

#[cfg(test)]
mod tests {
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
}
