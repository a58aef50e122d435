//! The allocator, and giving memory back after a burst.
//!
//! An allocator keeps what was freed for the next burst; on a machine that renders it belongs to the renderer. Decision
//! 005 says why it is this one.
#![expect(
    unsafe_code,
    reason = "an allocator, its options, one call of it; argued there"
)]

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
pub(super) use jemalloc::trim;

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod jemalloc {
    use std::ffi::{CStr, c_char};
    use std::ptr;

    use tikv_jemalloc_sys::mallctl;
    use tikv_jemallocator::Jemalloc;

    #[global_allocator]
    static ALLOCATOR: Jemalloc = Jemalloc;

    /// Two arenas, whose free pages go back to the system within a second, also while there is work.
    const OPTIONS: &CStr = c"narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0";

    // SAFETY: the only symbol of this name that is not weak, and of the type that jemalloc declares: a pointer to a text
    // that ends with a zero, and lives as long as the program. jemalloc reads it before `main`, and never writes it.
    #[unsafe(export_name = "malloc_conf")]
    static MALLOC_CONF: &c_char = unsafe { &*OPTIONS.as_ptr() };

    /// Returns free memory of all arenas to the system.
    pub(in crate::daemon) fn trim() {
        // 4096 is `MALLCTL_ARENAS_ALL`.
        let command = c"arena.4096.purge";
        // SAFETY: the name ends with a zero, and this command neither reads nor writes a value: all pointers may be
        // null. It may be called from any thread.
        unsafe {
            mallctl(
                command.as_ptr(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            );
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn jemalloc_has_read_the_options() {
            let mut arenas = 0_u32;
            let mut size = size_of::<u32>();
            // SAFETY: the option is a 32-bit number, and so is what it is written to; the size says so.
            let code = unsafe {
                mallctl(
                    c"opt.narenas".as_ptr(),
                    (&raw mut arenas).cast(),
                    &raw mut size,
                    ptr::null_mut(),
                    0,
                )
            };
            assert_eq!((code, arenas), (0, 2));
        }
    }
}

/// Returns free memory to the system. Takes about a millisecond.
#[cfg(all(
    target_env = "gnu",
    not(all(target_os = "linux", target_arch = "x86_64"))
))]
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
