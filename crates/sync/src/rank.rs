//! The order in which locks are taken, asserted in debug builds; in others it costs nothing.
//!
//! A lock made with a [`Rank`] may be waited for only by a thread that holds none of the same or a higher rank. Who tries
//! and does not wait may take it in any order. Before another host is asked something, [`may_ask_others`] asserts that no
//! lock is held that the answer may need.

#[cfg(debug_assertions)]
use std::cell::RefCell;

/// A lock's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    place: u8,
    name: &'static str,
    may_ask: bool,
}

impl Rank {
    /// Of a lock that may be held while another host is asked something: whatever that host asks of this one
    /// meanwhile is answered without it.
    #[must_use]
    pub const fn held_while_asking(place: u8, name: &'static str) -> Self {
        Self { place, name, may_ask: true }
    }

    /// Of a lock that is held for a moment, while no other host is asked.
    #[must_use]
    pub const fn held_briefly(place: u8, name: &'static str) -> Self {
        Self { place, name, may_ask: false }
    }
}

#[cfg(debug_assertions)]
thread_local! {
    static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
}

/// Asserts that this thread holds no lock that must not be held while another host is asked.
///
/// # Panics
/// In debug builds, if it does.
#[track_caller]
pub fn may_ask_others() {
    #[cfg(debug_assertions)]
    HELD.with_borrow(|held| {
        let found = held.iter().find(|rank| !rank.may_ask);
        assert!(found.is_none(), "another host is asked while {found:?} is held");
    });
}

/// The rank of one lock, if it has one; nothing at all where no order is asserted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot(#[cfg(debug_assertions)] Option<Rank>);

impl Slot {
    pub(crate) const NONE: Self = Self(
        #[cfg(debug_assertions)]
        None,
    );

    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "no order is asserted"))]
    pub(crate) const fn new(rank: Rank) -> Self {
        Self(
            #[cfg(debug_assertions)]
            Some(rank),
        )
    }

    /// This thread is about to wait for the lock.
    #[track_caller]
    #[inline]
    pub(crate) fn await_turn(self) {
        #[cfg(debug_assertions)]
        if let Some(rank) = self.0 {
            HELD.with_borrow(|held| {
                let found = held.iter().find(|other| other.place >= rank.place);
                assert!(found.is_none(), "{rank:?} is waited for while {found:?} is held");
            });
        }
    }

    /// This thread has the lock.
    #[inline]
    pub(crate) fn take(self) {
        #[cfg(debug_assertions)]
        if let Some(rank) = self.0 {
            HELD.with_borrow_mut(|held| held.push(rank));
        }
    }

    /// This thread lets go of the lock.
    #[inline]
    pub(crate) fn let_go(self) {
        #[cfg(debug_assertions)]
        if let Some(rank) = self.0 {
            // A thread that ends may have let go of its list already.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|other| *other == rank) {
                    held.remove(at);
                }
            });
        }
    }
}
