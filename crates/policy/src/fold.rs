//! Whether a settled small file gives up its backing file and becomes a record beside its inode.

use crate::{FileState, Reason};

/// The limits of folding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldLimits {
    /// Largest body kept inline; 0 switches folding off.
    pub inline_bytes: u64,
    /// Bytes that all inline bodies may take in the metadata engine.
    pub budget_bytes: u64,
}

/// Decides for a file while inline bodies take `inline_total_bytes`, and says why.
///
/// A sparse file is judged by its length, which is what the record would take.
pub(crate) const fn inline_or_not(
    limits: FoldLimits,
    file: &FileState,
    inline_total_bytes: u64,
) -> Reason {
    if limits.inline_bytes == 0 || file.size_bytes > limits.inline_bytes {
        Reason::TooLarge
    } else if file.is_strict {
        Reason::Strict
    } else if inline_total_bytes.saturating_add(file.size_bytes) > limits.budget_bytes {
        Reason::InlineFull
    } else {
        Reason::FitsInline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_and_budget_both_hold() {
        let limits = FoldLimits { inline_bytes: 4096, budget_bytes: 10_000 };
        let of = |size_bytes, total| {
            inline_or_not(limits, &FileState { size_bytes, ..FileState::default() }, total)
        };
        assert_eq!(of(4096, 0), Reason::FitsInline);
        assert_eq!(of(4097, 0), Reason::TooLarge);
        assert_eq!(of(4096, 9_000), Reason::InlineFull);
        assert_eq!(of(0, 10_000), Reason::FitsInline);
        let strict = FileState { is_strict: true, ..FileState::default() };
        assert_eq!(inline_or_not(limits, &strict, 0), Reason::Strict);
        let off = FoldLimits { inline_bytes: 0, ..limits };
        assert_eq!(inline_or_not(off, &FileState::default(), 0), Reason::TooLarge);
    }
}
