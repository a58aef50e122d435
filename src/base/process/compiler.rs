//! What is left to the process that compiles a component: memory, threads, and the files that it has open.
//!
//! It reads bytes that a stranger may have made. Whoever takes it over through them finds no file, no network, no other
//! process and no way to start one.
//!
//! **Invariant**: what is not listed fails with an error, and ends nothing: the list is made for the compiler of today,
//! and one that asks for more goes on without.

use std::collections::BTreeMap;

use landlock::{
    Access, AccessFs, AccessNet, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::io::Errno;
use rustix::thread::set_no_new_privs;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::linux::KNOWN;

/// System calls of this thread and those that it starts.
const ALLOWED: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Files that are open.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    // Threads.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    // Signals: its own.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Time and chance.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_nanosleep,
];

/// What the kernel holds a compiler to. One hides what the other would let through, so that both are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldCompiler {
    /// It finds no file and no port, as far as the kernel knows rules for them.
    pub files: bool,
    /// It makes no system call but those of the list.
    pub calls: bool,
}

/// Gives everything up that compiling does not take, as far as the kernel can hold it.
pub fn confine_compiler() -> HeldCompiler {
    // In this order: the filter allows none of the others.
    let _ = set_no_new_privs(true);
    let files = restrict().is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced);
    HeldCompiler {
        files,
        calls: filter().is_ok(),
    }
}

/// No file, no connection, no signal to another process.
fn restrict() -> Result<RestrictionStatus, RulesetError> {
    let nothing = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?;
    nothing.no_new_privs(true).restrict_self()
}

/// What may be called, and how; without a rule any way will do.
fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, Error> {
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let own = u64::from(std::process::id());
    let to_itself = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own)?;
    allowed.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![to_itself])?]);
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let is_thread = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(thread),
        thread,
    )?;
    allowed.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_thread])?]);
    // Its arguments lie in memory, where a filter cannot look: the C library then takes `clone`.
    allowed.insert(libc::SYS_clone3, Vec::new());
    Ok(allowed)
}

fn filter() -> Result<(), Error> {
    let arch = || TargetArch::try_from(std::env::consts::ARCH);
    let error = |errno: Errno| SeccompAction::Errno(errno.raw_os_error().unsigned_abs());
    let no_clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let unknown = SeccompFilter::new(
        no_clone3,
        SeccompAction::Allow,
        error(Errno::NOSYS),
        arch()?,
    )?;
    let unlisted = SeccompFilter::new(
        allowed()?,
        error(Errno::PERM),
        SeccompAction::Allow,
        arch()?,
    )?;
    // The second allows none that would be needed for another.
    for filter in [unknown, unlisted] {
        let program: BpfProgram = filter.try_into()?;
        apply_filter(&program)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
}
