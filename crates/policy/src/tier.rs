//! In which tier of a host bytes are to be.

use intarsia_types::{TierClass, TierId};

use crate::{FileState, Home, Reason};

/// What the decision needs to know of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierState {
    /// The tier.
    pub id: TierId,
    /// What it is made of.
    pub class: TierClass,
    /// Bytes it may hold.
    pub capacity_bytes: u64,
    /// Bytes it can still take.
    pub free_bytes: u64,
    /// Whether it is below its watermark.
    pub is_low: bool,
    /// Whether it is only for what no other tier has room for.
    pub is_overflow: bool,
    /// Whether the kernel can serve files of its file system by itself, where it serves any.
    pub is_stackable: bool,
}

impl TierState {
    #[cfg(test)]
    pub(crate) const EXAMPLE: Self = Self {
        id: TierId(0),
        class: TierClass::Ssd,
        capacity_bytes: 1000,
        free_bytes: 1000,
        is_low: false,
        is_overflow: false,
        is_stackable: true,
    };

    /// Whether it takes new files: it is above its watermark, and not full.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        !self.is_low && self.free_bytes > 0
    }

    /// Whether it takes new files while others do too: it has room, and is no overflow.
    #[must_use]
    pub const fn is_roomy(&self) -> bool {
        self.has_room() && !self.is_overflow
    }
}

/// Chooses a tier for a new file: the class asked for, else the fastest; when all are below their
/// watermarks the overflow, if there is one, else the one with most room. A hint is advice, so it never fails a create
/// that another tier could serve.
///
/// `tiers` is in the order of the configuration, which decides between equals. `None` only for no tiers.
pub(crate) fn choose_tier(tiers: &[TierState], wanted: Option<TierClass>) -> Option<TierId> {
    let roomy = || tiers.iter().filter(|t| t.is_roomy());
    let of_class = wanted.and_then(|class| roomy().find(|t| t.class == class));
    let nearest = || {
        // With a class asked for, the next slower one is closer to the wish than a faster one.
        roomy().min_by_key(|t| (wanted.is_some_and(|w| t.class < w), t.class))
    };
    let overflow = || tiers.iter().find(|t| t.has_room() && t.is_overflow);
    let last_resort = || tiers.iter().max_by_key(|t| t.free_bytes);
    of_class.or_else(nearest).or_else(overflow).or_else(last_resort).map(|t| t.id)
}

/// The tier that a file in the tier `from` changes to by its hint. It stays where it is of the class that is asked for, and
/// where no tier of that class has room for it: a hint is advice.
pub(crate) fn change_tier(tiers: &[TierState], from: TierId, file: &FileState) -> (Home, Reason) {
    let is_wanted = |tier: &TierState| file.class.is_none_or(|class| tier.class == class);
    if tiers.iter().any(|tier| tier.id == from && is_wanted(tier)) {
        return (Home::Unchanged, Reason::PutThere);
    }
    let fits = |tier: &&TierState| {
        is_wanted(tier) && tier.is_roomy() && tier.free_bytes >= file.size_bytes
    };
    match tiers.iter().find(fits) {
        Some(tier) => (Home::Here(tier.id), Reason::RoomHere),
        None => (Home::Unchanged, Reason::ClassFull),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(id: u16, class: TierClass, free_bytes: u64, is_low: bool) -> TierState {
        TierState { id: TierId(id), class, free_bytes, is_low, ..TierState::EXAMPLE }
    }

    #[test]
    fn the_wish_then_the_fastest_then_the_roomiest() {
        let memory = tier(0, TierClass::Memory, 10, false);
        let ssd = tier(1, TierClass::Ssd, 100, false);
        let disk = tier(2, TierClass::Disk, 1000, false);
        assert_eq!(choose_tier(&[disk, ssd, memory], None), Some(TierId(0)));
        assert_eq!(choose_tier(&[disk, ssd, memory], Some(TierClass::Disk)), Some(TierId(2)));
        let full_ssd = TierState { is_low: true, ..ssd };
        assert_eq!(choose_tier(&[memory, full_ssd, disk], Some(TierClass::Ssd)), Some(TierId(2)));
        let full = [TierState { is_low: true, ..memory }, full_ssd];
        assert_eq!(choose_tier(&full, Some(TierClass::Memory)), Some(TierId(1)));
        assert_eq!(choose_tier(&[], None), None);
    }

    #[test]
    fn the_overflow_is_used_when_nothing_else_has_room_and_not_before() {
        let disk = tier(0, TierClass::Disk, 100, false);
        let full = TierState { is_low: true, ..disk };
        let overflow = TierState { is_overflow: true, ..tier(1, TierClass::Memory, 1000, false) };
        assert_eq!(choose_tier(&[overflow, disk], Some(TierClass::Memory)), Some(TierId(0)));
        assert_eq!(choose_tier(&[full, overflow], None), Some(TierId(1)));
        let both_full = [full, TierState { is_low: true, free_bytes: 5, ..overflow }];
        assert_eq!(choose_tier(&both_full, None), Some(TierId(0)), "the roomiest");
    }

    #[test]
    fn a_file_changes_to_a_tier_of_the_class_that_its_hint_asks_for_if_that_has_room() {
        let ssd = tier(1, TierClass::Ssd, 100, false);
        let disk = tier(2, TierClass::Disk, 100, false);
        let other_disk = tier(3, TierClass::Disk, 1000, false);
        let changes = |tiers: &[TierState], class, size_bytes| {
            let file = FileState { class, size_bytes, ..FileState::default() };
            change_tier(tiers, TierId(1), &file)
        };
        let all = [ssd, disk, other_disk];
        let to_disk = Some(TierClass::Disk);
        let moves_to = |id| (Home::Here(TierId(id)), Reason::RoomHere);
        let stays = |reason| (Home::Unchanged, reason);
        assert_eq!(changes(&all, to_disk, 100), moves_to(2));
        assert_eq!(changes(&all, to_disk, 101), moves_to(3));
        assert_eq!(changes(&all, to_disk, 1001), stays(Reason::ClassFull));
        assert_eq!(changes(&[ssd], to_disk, 1), stays(Reason::ClassFull));
        assert_eq!(changes(&all, Some(TierClass::Ssd), 1), stays(Reason::PutThere));
        assert_eq!(changes(&all, None, 1), stays(Reason::PutThere));
        let low = TierState { is_low: true, ..disk };
        assert_eq!(changes(&[ssd, low], to_disk, 1), stays(Reason::ClassFull));
    }

    #[test]
    fn the_order_of_the_configuration_decides_between_equals() {
        let a = tier(7, TierClass::Ssd, 5, false);
        let b = tier(3, TierClass::Ssd, 500, false);
        assert_eq!(choose_tier(&[a, b], None), Some(TierId(7)));
    }
}
