//! Draws from the seed.

use intarsia_sync::simulation;

/// One of these; none of none.
pub(crate) fn pick<T: Copy>(items: &[T]) -> Option<T> {
    let drawn = simulation::below(items.len() as u64);
    items.get(usize::try_from(drawn).ok()?).copied()
}
