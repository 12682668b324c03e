//! Files that this host deals over all hosts, balanced by their bytes. The length of a file is known only once it is closed.
//! Until then it counts for the average of those that were closed before it was made.

use std::collections::HashMap;

use intarsia_policy::Dealt;
use intarsia_sync::Mutex;
use intarsia_types::{InodeId, NodeId};

use crate::ranks::DEALT;

/// Most open files that are remembered. Further ones count for the length that was guessed, also after they are closed.
const OPEN_MAX: usize = 4096;
/// What a file counts for, in bytes, while none has been closed.
const FIRST_BYTES: u64 = 1 << 20;

/// What this host has dealt to each host, itself among them.
pub(crate) struct Dealing(Mutex<State>);

#[derive(Default)]
struct State {
    dealt: Dealt,
    /// The host of each open file, and for how many bytes the file counts.
    open: HashMap<InodeId, (NodeId, u64)>,
    closed_files: u64,
    closed_bytes: u64,
}

impl Default for Dealing {
    fn default() -> Self {
        Self(Mutex::ranked(DEALT, State::default()))
    }
}

impl Dealing {
    /// What went to each host so far.
    pub(crate) fn dealt(&self) -> Dealt {
        self.0.lock().dealt.clone()
    }

    /// A new file went to `node`.
    pub(crate) fn note(&self, ino: InodeId, node: &NodeId) {
        let mut state = self.0.lock();
        let bytes = state.closed_bytes.checked_div(state.closed_files).unwrap_or(FIRST_BYTES);
        let bytes = bytes.max(1);
        state.dealt.add(node, bytes);
        if state.open.len() < OPEN_MAX {
            state.open.insert(ino, (node.clone(), bytes));
        }
    }

    /// A file was closed that may have been dealt; it is `size_bytes` long.
    pub(crate) fn closed(&self, ino: InodeId, size_bytes: u64) {
        let mut state = self.0.lock();
        let Some((node, guessed_bytes)) = state.open.remove(&ino) else { return };
        state.closed_files += 1;
        state.closed_bytes = state.closed_bytes.saturating_add(size_bytes);
        state.dealt.add(&node, size_bytes);
        state.dealt.take_back(&node, guessed_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_for_what_it_has_become_and_before_for_what_others_have() {
        let dealing = Dealing::default();
        let [a, b] = ["a", "b"].map(|name| NodeId(name.into()));
        let of = |node: &NodeId| dealing.dealt().bytes_of(node);
        dealing.note(InodeId(1), &a);
        assert_eq!((of(&a), of(&b)), (FIRST_BYTES, 0));
        dealing.closed(InodeId(1), 100);
        dealing.closed(InodeId(1), 5000);
        assert_eq!(of(&a), 100, "it counts once");
        dealing.note(InodeId(2), &b);
        assert_eq!(of(&b), 100);
        dealing.closed(InodeId(2), 300);
        dealing.note(InodeId(3), &a);
        assert_eq!((of(&a), of(&b)), (300, 300));
    }
}
