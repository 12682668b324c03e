//! Whether a file of another host is kept here once it has been read, how much such copies may take, and which goes first.

use intarsia_types::CacheHint;

use crate::{FileState, Reason};

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
    /// What the user says of caching.
    pub hint: Option<CacheHint>,
    /// The tier that the copy would be in.
    pub room: CacheRoom,
}

/// Decides whether a file that is read wholly is to be kept, and says why.
pub(crate) const fn keep_or_not(request: &KeepRequest, file: &FileState) -> Reason {
    let KeepRequest { is_sealed, hint, room } = *request;
    let most_bytes = match hint {
        Some(CacheHint::None) => 0,
        Some(CacheHint::Limit(limit)) => limit.0,
        Some(CacheHint::Keep) => room.kept_max_bytes(),
        None => room.bytes() / SHARE_OF_ONE,
    };
    if file.size_bytes <= MIN_BYTES {
        Reason::TooSmall
    } else if file.size_bytes > most_bytes || file.size_bytes > room.kept_max_bytes() {
        Reason::TooLarge
    } else if !is_sealed {
        Reason::NotSealed
    } else if file.is_strict {
        Reason::Strict
    } else if room.tier_is_low {
        Reason::TierLow
    } else {
        Reason::WorthKeeping
    }
}

/// The room that new files and copies of other hosts' files share in a tier.
#[derive(Clone, Copy, Debug)]
pub struct CacheRoom {
    /// What is free.
    pub free_bytes: u64,
    /// What copies take.
    pub taken_bytes: u64,
    /// The tier is below its watermark.
    pub tier_is_low: bool,
}

impl CacheRoom {
    const fn bytes(self) -> u64 {
        self.free_bytes.saturating_add(self.taken_bytes)
    }

    const fn kept_max_bytes(self) -> u64 {
        self.bytes() / SHARE_OF_ALL
    }

    /// Whether copies have to go: as much stays free as they take, and below the watermark there are none.
    #[must_use]
    pub const fn is_exceeded(self) -> bool {
        let most_bytes = if self.tier_is_low { 0 } else { self.kept_max_bytes() };
        self.taken_bytes > most_bytes
    }
}

/// A copy that may have to go.
#[derive(Clone, Copy, Debug)]
pub struct Evictable<T> {
    /// Which one.
    pub copy: T,
    /// Somebody has it open: its going would free nothing.
    pub is_open: bool,
    /// A hint says that it is read again and again.
    pub is_pinned: bool,
}

/// The copy that goes first, of those that are named from the one that was used longest ago on: the first that nobody has
/// open and no hint holds, else the first that nobody has open.
pub fn choose_victim<T>(oldest_first: impl IntoIterator<Item = Evictable<T>>) -> Option<T> {
    let mut pinned = None;
    for Evictable { copy, is_open, is_pinned } in oldest_first {
        match (is_open, is_pinned) {
            (true, _) => {}
            (false, false) => return Some(copy),
            (false, true) => _ = pinned.get_or_insert(copy),
        }
    }
    pinned
}

#[cfg(test)]
mod tests {
    use intarsia_types::ByteCount;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn sized(size_bytes: u64) -> FileState {
        FileState { size_bytes, ..FileState::default() }
    }

    #[test]
    fn every_single_reason_is_enough_to_keep_nothing() {
        let room = CacheRoom { free_bytes: 7 * MIB, taken_bytes: MIB, tier_is_low: false };
        let yes = KeepRequest { is_sealed: true, hint: None, room };
        assert_eq!(keep_or_not(&yes, &sized(MIB)), Reason::WorthKeeping);
        let low = CacheRoom { tier_is_low: true, ..room };
        let limit = Some(CacheHint::Limit(ByteCount(MIB - 1)));
        for (no, reason) in [
            (KeepRequest { is_sealed: false, ..yes }, Reason::NotSealed),
            (KeepRequest { hint: Some(CacheHint::None), ..yes }, Reason::TooLarge),
            (KeepRequest { hint: limit, ..yes }, Reason::TooLarge),
            (KeepRequest { room: low, ..yes }, Reason::TierLow),
        ] {
            assert_eq!(keep_or_not(&no, &sized(MIB)), reason, "{no:?}");
        }
        assert_eq!(keep_or_not(&yes, &sized(MIN_BYTES)), Reason::TooSmall);
        assert_eq!(keep_or_not(&yes, &sized(MIB + 1)), Reason::TooLarge);
        let strict = FileState { is_strict: true, ..sized(MIB) };
        assert_eq!(keep_or_not(&yes, &strict), Reason::Strict);
    }

    #[test]
    fn who_asks_for_it_gets_more_but_never_more_than_is_left_free() {
        let room = CacheRoom { free_bytes: 8 * MIB, taken_bytes: 0, tier_is_low: false };
        let large = KeepRequest { is_sealed: true, hint: Some(CacheHint::Keep), room };
        assert_eq!(keep_or_not(&large, &sized(4 * MIB)), Reason::WorthKeeping);
        assert_eq!(keep_or_not(&large, &sized(4 * MIB + 1)), Reason::TooLarge);
        let limit = Some(CacheHint::Limit(ByteCount(5 * MIB)));
        let limited = KeepRequest { hint: limit, ..large };
        assert_eq!(keep_or_not(&limited, &sized(5 * MIB)), Reason::TooLarge);
    }

    #[test]
    fn copies_leave_as_much_free_as_they_take_and_nothing_below_the_watermark() {
        let of = |free_bytes, taken_bytes, tier_is_low| {
            CacheRoom { free_bytes, taken_bytes, tier_is_low }.is_exceeded()
        };
        assert!(!of(5, 5, false) && of(4, 6, false) && of(9, 1, true) && !of(9, 0, true));
    }

    #[test]
    fn the_oldest_goes_first_that_nobody_has_open_and_no_hint_holds() {
        let copies = |list: &[(bool, bool)]| {
            let copies: Vec<_> = list.iter().enumerate().collect();
            let of = |(copy, (is_open, is_pinned)): (usize, &(bool, bool))| Evictable {
                copy,
                is_open: *is_open,
                is_pinned: *is_pinned,
            };
            choose_victim(copies.into_iter().map(of))
        };
        assert_eq!(copies(&[(true, false), (false, true), (false, false)]), Some(2));
        assert_eq!(copies(&[(true, false), (false, true), (false, true)]), Some(1));
        assert_eq!(copies(&[(true, false), (true, true)]), None);
        assert_eq!(copies(&[]), None);
    }
}
