//! The allocator, and giving memory back after a burst: what it has freed, and pages of the program itself.
//!
//! An allocator keeps what was freed for the next burst; on a machine that renders it belongs to the renderer. Decision
//! 005 says why it is this one. And most of a program's code runs once, at its start or for one page of the admin.
#![expect(
    unsafe_code,
    reason = "an allocator, its options, one call of it, and one of the kernel; argued there"
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

    /// Two arenas, whose free pages go back to the system within a second, also while there is work. Before that, up to
    /// 16 arenas of the C library held 72 MB, of which 33 were in use.
    const OPTIONS: &CStr = c"narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0";

    // SAFETY: the only symbol of this name that is not weak, and of the type that jemalloc declares: a pointer to a
    // text that ends with a zero, and lives as long as the program. jemalloc reads it before `main`, and never writes
    // it.
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

/// Unmaps the code and the constants of the program. What runs next is mapped again from the page cache, 64 KiB with
/// each fault, in a microsecond; what only the start needed is not.
#[cfg(target_os = "linux")]
pub(super) fn unmap_program() {
    // SAFETY: it calls `unmap_segments` with what it promises, and has no other precondition.
    unsafe {
        libc::dl_iterate_phdr(Some(unmap_segments), std::ptr::null_mut());
    }
}

/// Other systems decide for themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn unmap_program() {}

/// # Safety
/// `object` describes a loaded object.
#[cfg(target_os = "linux")]
unsafe extern "C" fn unmap_segments(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut libc::c_void,
) -> libc::c_int {
    /// Of all Linux systems that the program is built for, or a multiple.
    const PAGE: usize = 4 << 10;
    // SAFETY: the caller's promise; the linker wrote the headers, and they last as long as the object.
    let (base, headers) = unsafe {
        let object = &*object;
        let count = usize::from(object.dlpi_phnum);
        (
            object.dlpi_addr,
            std::slice::from_raw_parts(object.dlpi_phdr, count),
        )
    };
    let constant =
        (headers.iter()).filter(|one| one.p_type == libc::PT_LOAD && one.p_flags & libc::PF_W == 0);
    for header in constant {
        let Ok(at) = usize::try_from(base + header.p_vaddr) else {
            continue;
        };
        let begin = at & !(PAGE - 1);
        let bytes = usize::try_from(header.p_memsz).unwrap_or(0) + (at - begin);
        // SAFETY: nothing can write to these pages, so that each of them is what the file of the program says
        // (madvise(2): a later access of a private file mapping is served from the file). Where the system's pages are
        // larger and this is none, the call changes nothing.
        unsafe {
            libc::madvise(begin as *mut libc::c_void, bytes, libc::MADV_DONTNEED);
        }
    }
    // The first object is the program.
    1
}
