//! Unit tests of `process/compiler.rs`.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use super::*;

/// How something fails in a thread that has given up what `give_up` says.
fn errno(
    give_up: fn(),
    done: impl FnOnce() -> std::io::Result<()> + Send + 'static,
) -> Option<i32> {
    let thread = std::thread::spawn(move || {
        give_up();
        done().err().and_then(|error| error.raw_os_error())
    });
    thread.join().expect("no panic")
}

/// Each of the two must hold alone: together one hides what the other lets through.
#[test]
fn the_filter_alone_lets_no_file_be_named_and_no_socket_be_made() {
    let alone = || {
        set_no_new_privs(true).expect("the kernel knows it");
        filter().expect("a filter");
    };
    let permission = Some(Errno::PERM.raw_os_error());
    let open = || File::open("/of/no/such/name").map(drop);
    assert_eq!(errno(alone, open), permission);
    let look = || fs::metadata("/").map(drop);
    assert_eq!(errno(alone, look), permission);
    let list = || fs::read_dir("/").map(drop);
    assert_eq!(errno(alone, list), permission);
    let socket = || UnixDatagram::unbound().map(drop);
    assert_eq!(errno(alone, socket), permission);
    let remove = || fs::remove_file("/of/no/such/name");
    assert_eq!(errno(alone, remove), permission);
}

#[test]
fn the_rules_of_the_kernel_alone_keep_files_and_ports_from_it() {
    let status = std::thread::spawn(|| restrict().expect("rules that Landlock knows"));
    if status.join().expect("no panic").ruleset != RulesetStatus::FullyEnforced {
        eprintln!("SKIPPED: this kernel has no Landlock, or an older one");
        return;
    }
    let alone = || {
        let _ = restrict();
    };
    let denied = Some(Errno::ACCESS.raw_os_error());
    let read = || File::open("/etc/passwd").map(drop);
    assert_eq!(errno(alone, read), denied);
    let make = || File::create("/tmp/headgate-of-a-compiler").map(drop);
    assert_eq!(errno(alone, make), denied);
    let list = || fs::read_dir("/etc").map(drop);
    assert_eq!(errno(alone, list), denied);
    let listen = || TcpListener::bind("127.0.0.1:0").map(drop);
    assert_eq!(errno(alone, listen), denied);
}

/// What a filter cannot be asked without doing it.
#[test]
fn nothing_that_reaches_others_is_on_the_list_and_what_could_has_a_rule() {
    let rules = allowed().expect("rules");
    for call in [
        libc::SYS_accept4,
        libc::SYS_bind,
        libc::SYS_bpf,
        libc::SYS_chdir,
        libc::SYS_connect,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_io_uring_setup,
        libc::SYS_ioctl,
        libc::SYS_kill,
        libc::SYS_linkat,
        libc::SYS_memfd_create,
        libc::SYS_mount,
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
        libc::SYS_prctl,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
        libc::SYS_recvfrom,
        libc::SYS_renameat2,
        libc::SYS_seccomp,
        libc::SYS_sendto,
        libc::SYS_setns,
        libc::SYS_setuid,
        libc::SYS_shmget,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_tkill,
        libc::SYS_unlinkat,
        libc::SYS_unshare,
    ] {
        assert!(!rules.contains_key(&call), "{call}");
    }
    // Signals to itself, and no process beside it.
    for call in [libc::SYS_tgkill, libc::SYS_clone] {
        assert!(
            rules.get(&call).is_some_and(|rules| !rules.is_empty()),
            "{call}"
        );
    }
}

/// What a thread can still do; the process of the tests goes on as it was.
#[test]
fn a_compiler_has_memory_and_threads_and_what_is_open_and_nothing_else() {
    let mut open = tempfile::tempfile().expect("a file");
    let knows_files = std::thread::spawn(|| {
        restrict().is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
    });
    let held = HeldCompiler {
        files: knows_files.join().expect("no panic"),
        calls: true,
    };
    let done = std::thread::spawn(move || {
        assert_eq!(confine_compiler(), held);
        let memory = vec![1_u8; 64 << 20]
            .iter()
            .map(|one| u64::from(*one))
            .sum::<u64>();
        let thread = std::thread::spawn(|| 7).join();
        let refused = |done: std::io::Result<()>| done.is_err();
        [
            memory == 64 << 20,
            thread.is_ok_and(|seven| seven == 7),
            open.write_all(b"text").is_ok(),
            refused(std::fs::File::open("/etc/hostname").map(drop)),
            refused(std::fs::File::open("/proc/self/status").map(drop)),
            refused(std::fs::File::create("/tmp/headgate-of-a-compiler").map(drop)),
            refused(TcpListener::bind("127.0.0.1:0").map(drop)),
            refused(std::os::unix::net::UnixStream::pair().map(drop)),
            refused(std::process::Command::new("/bin/true").status().map(drop)),
            rustix::process::test_kill_process(rustix::process::getpid()).is_err(),
        ]
    });
    assert_eq!(done.join().expect("no panic"), [true; 10]);
}
