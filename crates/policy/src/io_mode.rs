//! Whether the kernel serves a file by itself or through the process.

use crate::{Reason, TierState};

/// How an open inode is served. One mode holds from its first open to its last release: the kernel
/// answers EIO to a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// The kernel reads and writes the backing file itself.
    Passthrough,
    /// Requests come to the process, through the kernel's page cache.
    Cached,
}

/// What is known when the first handle of an inode is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest {
    /// The tier here with its backing file, or the one that it gets because the open is for writing.
    pub tier: Option<TierState>,
    /// The open is for writing.
    pub is_written: bool,
    /// Its bytes are not kept as they are.
    pub is_encoded: bool,
    /// Writing must clear set-id bits, which the kernel leaves to the process.
    pub clears_set_id: bool,
}

/// Chooses the mode of an inode that nobody has open, and says why.
pub(crate) fn choose_io_mode(
    request: &OpenRequest,
    has_passthrough: bool,
    is_strict: bool,
) -> (IoMode, Reason) {
    let OpenRequest { tier, is_written, is_encoded, clears_set_id } = *request;
    let reason = match tier {
        _ if !has_passthrough => Reason::NoPassthrough,
        None => Reason::NoBackingFile,
        _ if is_encoded => Reason::Encoded,
        Some(tier) if !tier.is_stackable => Reason::NotStackable,
        // Every byte must be accounted before it is written.
        Some(tier) if is_written && tier.is_low => Reason::TierLow,
        _ if is_strict => Reason::Strict,
        _ if clears_set_id => Reason::SetId,
        Some(_) => return (IoMode::Passthrough, Reason::KernelServes),
    };
    (IoMode::Cached, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_reason_is_enough_to_go_through_the_process() {
        let tier = TierState::EXAMPLE;
        let yes = OpenRequest {
            tier: Some(tier),
            is_written: true,
            is_encoded: false,
            clears_set_id: false,
        };
        let of = |request: OpenRequest| choose_io_mode(&request, true, false);
        assert_eq!(of(yes), (IoMode::Passthrough, Reason::KernelServes));
        let (low, flat) =
            (TierState { is_low: true, ..tier }, TierState { is_stackable: false, ..tier });
        let only_read = OpenRequest { tier: Some(low), is_written: false, ..yes };
        assert_eq!(of(only_read).0, IoMode::Passthrough, "nothing is to be accounted");
        let no = [
            (choose_io_mode(&yes, false, false), Reason::NoPassthrough),
            (choose_io_mode(&yes, true, true), Reason::Strict),
            (of(OpenRequest { tier: Some(flat), ..yes }), Reason::NotStackable),
            (of(OpenRequest { tier: Some(low), ..yes }), Reason::TierLow),
            (of(OpenRequest { tier: None, ..yes }), Reason::NoBackingFile),
            (of(OpenRequest { is_encoded: true, ..yes }), Reason::Encoded),
            (of(OpenRequest { clears_set_id: true, ..yes }), Reason::SetId),
        ];
        for (found, reason) in no {
            assert_eq!(found, (IoMode::Cached, reason));
        }
    }
}
