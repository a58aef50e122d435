//! Whether the kernel says that the wall clock is synchronized.
//!
//! **Invariant**: a kernel that does not answer, and any other system, has no synchronized clock.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "one call of the C library; argued there")
)]

#[cfg(target_os = "linux")]
pub(super) fn is_synchronized() -> bool {
    // SAFETY: `timex` has integers only, for which zeros are values, and `modes` of 0 has the call change nothing and fill
    // the structure, which lives until it returns (adjtimex(2)).
    let (state, status) = unsafe {
        let mut clock: libc::timex = std::mem::zeroed();
        let state = libc::adjtimex(&raw mut clock);
        (state, clock.status)
    };
    state >= 0 && state != libc::TIME_ERROR && status & libc::STA_UNSYNC == 0
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_synchronized() -> bool {
    false
}
