//! What would make two runs of one seed differ: random numbers of the system.
#![expect(unsafe_code, reason = "the symbol that the standard library asks is defined here")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use intarsia_sync::simulation;

static SEED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Bytes that the thread was given.
    static GIVEN: Cell<u64> = const { Cell::new(0) };
}

/// From now on "random" bytes of the system follow from `seed`, for each thread on its own: what one thread asks changes
/// nothing for another.
pub fn seed(seed: u64) {
    SEED.store(seed, Ordering::SeqCst);
}

/// The standard library, and all crates that ask the C library, take their random numbers from here.
///
/// # Safety
/// As `getrandom(2)`: `buffer` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, len: usize, _flags: u32) -> isize {
    let thread = simulation::thread_number().map_or(0, |number| number as u64 + 1);
    for at in 0..len {
        let given = GIVEN.replace(GIVEN.get() + 1);
        let byte = mix(mix(SEED.load(Ordering::SeqCst) ^ thread << 40) ^ given).to_le_bytes()[0];
        // SAFETY: the caller says that there is room.
        unsafe { buffer.add(at).write(byte) };
    }
    isize::try_from(len).unwrap_or(0)
}

/// The finalizer of SplitMix64.
pub(crate) const fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Closes all descriptors of files below `directory`, as the end of a process would: leases and locks on them end.
///
/// # Errors
/// The list of descriptors cannot be read.
pub fn close_files_below(directory: &std::path::Path) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let nothing = std::fs::File::open("/dev/null")?;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let number = entry.file_name().to_string_lossy().parse::<i32>();
        if let (true, Ok(number)) = (target.starts_with(directory), number) {
            // SAFETY: the number stays valid for whoever holds it; it names another file.
            unsafe { libc::dup2(nothing.as_raw_fd(), number) };
        }
    }
    Ok(())
}
