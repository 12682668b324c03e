//! What one host has dealt to the others and to itself, so that files which are dealt one by one are balanced by their bytes.

use std::collections::BTreeMap;

use intarsia_types::NodeId;

/// Bytes of dealt files, by host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dealt(BTreeMap<NodeId, u64>);

impl Dealt {
    /// A file of so many bytes, or of about so many, went to `node`.
    pub fn add(&mut self, node: &NodeId, bytes: u64) {
        match self.0.get_mut(node) {
            Some(dealt) => *dealt = dealt.saturating_add(bytes),
            None => _ = self.0.insert(node.clone(), bytes),
        }
    }

    /// So many of the bytes that were added for `node` did not go there.
    pub fn take_back(&mut self, node: &NodeId, bytes: u64) {
        if let Some(dealt) = self.0.get_mut(node) {
            *dealt = dealt.saturating_sub(bytes);
        }
    }

    /// What went to `node`.
    #[must_use]
    pub fn bytes_of(&self, node: &NodeId) -> u64 {
        self.0.get(node).copied().unwrap_or(0)
    }
}
