//! Giving memory back after a burst.
//!
//! The allocator keeps what was freed for the next burst; on a machine that renders it belongs to the
//! renderer.
#![expect(unsafe_code, reason = "one call of the C library; argued there")]

/// Returns free memory to the system. Takes about a millisecond.
#[cfg(target_env = "gnu")]
pub(super) fn trim() {
    // SAFETY: `malloc_trim` has no precondition and may be called from any thread at any time
    // (malloc_trim(3), "MT-Safe"); it only releases pages that the allocator itself has free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other C libraries decide for themselves.
#[cfg(not(target_env = "gnu"))]
pub(super) fn trim() {}
