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
mod tests;
