//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// Calls `probe` until it gives a value.
///
/// # Panics
/// After `deadline`, saying what was waited for.
pub fn wait_for<T>(what: &str, deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < end, "{what} did not happen within {deadline:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
