//! Whether a file of another host is kept here once it has been read, and how much such copies may take.

use intarsia_types::CacheHint;

/// A copy may take this part of the room that new files and copies share.
const SHARE_OF_ONE: u64 = 8;
/// All copies together may take this part of it, so that as much is free as they take.
const SHARE_OF_ALL: u64 = 2;
/// A smaller file comes whole with the answer to its opening, which is as quick.
const MIN_BYTES: u64 = 128 << 10;

/// What is known when a file of another host is opened for reading.
#[derive(Clone, Copy, Debug)]
pub struct KeepRequest {
    /// The content is summed, so nobody may write to it without taking that back first.
    pub is_sealed: bool,
    /// Reads of this file must be verified.
    pub is_strict: bool,
    /// What the user says of caching.
    pub hint: Option<CacheHint>,
    /// Length of the file.
    pub size_bytes: u64,
    /// Room in the tier for new files and copies: what is free and what copies take.
    pub room_bytes: u64,
    /// The tier is below its watermark.
    pub tier_is_low: bool,
}

/// Decides whether a file that is read wholly is to be kept.
#[must_use]
pub const fn should_keep(request: &KeepRequest) -> bool {
    let KeepRequest { is_sealed, is_strict, hint, size_bytes, room_bytes, tier_is_low } = *request;
    let most_bytes = match hint {
        Some(CacheHint::None) => 0,
        Some(CacheHint::Limit(limit)) => limit.0,
        Some(CacheHint::Keep) => kept_max_bytes(room_bytes),
        None => room_bytes / SHARE_OF_ONE,
    };
    let is_worth_it = size_bytes > MIN_BYTES && size_bytes <= most_bytes;
    is_worth_it
        && is_sealed
        && !is_strict
        && !tier_is_low
        && size_bytes <= kept_max_bytes(room_bytes)
}

/// What all copies in a tier may take together.
#[must_use]
pub const fn kept_max_bytes(room_bytes: u64) -> u64 {
    room_bytes / SHARE_OF_ALL
}

#[cfg(test)]
mod tests {
    use intarsia_types::ByteCount;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn every_single_reason_is_enough_to_keep_nothing() {
        let yes = KeepRequest {
            is_sealed: true,
            is_strict: false,
            hint: None,
            size_bytes: MIB,
            room_bytes: 8 * MIB,
            tier_is_low: false,
        };
        assert!(should_keep(&yes));
        for no in [
            KeepRequest { is_sealed: false, ..yes },
            KeepRequest { is_strict: true, ..yes },
            KeepRequest { hint: Some(CacheHint::None), ..yes },
            KeepRequest { hint: Some(CacheHint::Limit(ByteCount(MIB - 1))), ..yes },
            KeepRequest { size_bytes: MIN_BYTES, ..yes },
            KeepRequest { size_bytes: MIB + 1, ..yes },
            KeepRequest { tier_is_low: true, ..yes },
        ] {
            assert!(!should_keep(&no), "{no:?}");
        }
    }

    #[test]
    fn who_asks_for_it_gets_more_but_never_more_than_is_left_free() {
        let large = KeepRequest {
            is_sealed: true,
            is_strict: false,
            hint: Some(CacheHint::Keep),
            size_bytes: 4 * MIB,
            room_bytes: 8 * MIB,
            tier_is_low: false,
        };
        assert!(should_keep(&large));
        assert!(!should_keep(&KeepRequest { size_bytes: 4 * MIB + 1, ..large }));
        let limit = Some(CacheHint::Limit(ByteCount(5 * MIB)));
        assert!(!should_keep(&KeepRequest { hint: limit, size_bytes: 5 * MIB, ..large }));
    }
}
