//! Whether a settled small file gives up its backing file and becomes a record beside its inode.

/// The limits of folding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldLimits {
    /// Largest body kept inline; 0 switches folding off.
    pub inline_bytes: u64,
    /// Bytes that all inline bodies may take in the metadata engine.
    pub budget_bytes: u64,
}

/// Decides for a file of `size_bytes` while inline bodies take `inline_total_bytes`.
///
/// An empty file is always folded: it needs no body. A sparse one is judged by its length, which is
/// what the record would take.
#[must_use]
pub const fn should_fold(limits: FoldLimits, size_bytes: u64, inline_total_bytes: u64) -> bool {
    size_bytes <= limits.inline_bytes
        && inline_total_bytes.saturating_add(size_bytes) <= limits.budget_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_and_budget_both_hold() {
        let limits = FoldLimits { inline_bytes: 4096, budget_bytes: 10_000 };
        assert!(should_fold(limits, 4096, 0));
        assert!(!should_fold(limits, 4097, 0));
        assert!(!should_fold(limits, 4096, 9_000));
        assert!(should_fold(limits, 0, 10_000));
    }
}
