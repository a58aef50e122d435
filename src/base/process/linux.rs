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
mod tests;
