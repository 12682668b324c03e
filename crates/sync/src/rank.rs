//! The order in which locks are taken, asserted in debug builds; in others it costs nothing.
//!
//! A lock made with a [`Rank`] may be waited for only by a thread that holds none of the same or a higher rank. Who tries
//! and does not wait may take it in any order. Before another host or the metadata engine is asked something,
//! [`may_ask_others`] asserts that no lock is held that the answer may need: neither one whose rank forbids it nor one
//! without a rank, since whoever else wants it would wait for the answer too. Before a wait that may be as long as whole
//! files take on the network, [`may_wait_long`] asserts that none is held at all.

#[cfg(debug_assertions)]
use std::cell::RefCell;
#[cfg(debug_assertions)]
use std::fmt;
#[cfg(debug_assertions)]
use std::panic::Location;

/// A lock's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    place: u8,
    name: &'static str,
    may_ask: bool,
    is_shared: bool,
}

impl Rank {
    /// Of a lock that may be held while another host is asked something: whatever that host asks of this one
    /// meanwhile is answered without it.
    #[must_use]
    pub const fn held_while_asking(place: u8, name: &'static str) -> Self {
        Self { place, name, may_ask: true, is_shared: false }
    }

    /// Of each of several locks: a thread may hold more than one, if it takes them in the order in which they lie.
    #[must_use]
    pub const fn of_several(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Whether a thread that holds one of `self` may not wait for one of `wanted`.
    #[cfg(debug_assertions)]
    fn forbids(self, wanted: Self) -> bool {
        self.place > wanted.place || (self.place == wanted.place && !wanted.is_shared)
    }

    /// Of a lock that is held for a moment, while no other host is asked.
    #[must_use]
    pub const fn held_briefly(place: u8, name: &'static str) -> Self {
        Self { place, name, may_ask: false, is_shared: false }
    }
}

/// A lock that this thread holds, and where it took it.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug)]
struct Held {
    rank: Option<Rank>,
    at: &'static Location<'static>,
}

#[cfg(debug_assertions)]
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.rank.map_or("a lock without a rank", |rank| rank.name);
        write!(f, "{name} (taken at {})", self.at)
    }
}

#[cfg(debug_assertions)]
thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// Asserts that this thread holds no lock that must not be held while somebody else is asked.
///
/// # Panics
/// In debug builds, if it does.
#[track_caller]
pub fn may_ask_others() {
    #[cfg(debug_assertions)]
    HELD.with_borrow(|held| {
        let found = held.iter().find(|held| !held.rank.is_some_and(|rank| rank.may_ask));
        let name = found.map(ToString::to_string).unwrap_or_default();
        assert!(found.is_none(), "somebody else is asked while {name} is held");
    });
}

/// Asserts that this thread holds no lock at all: it is about to wait for as long as other hosts need for whole files.
///
/// # Panics
/// In debug builds, if it holds one.
#[track_caller]
pub fn may_wait_long() {
    #[cfg(debug_assertions)]
    HELD.with_borrow(|held| {
        let name = held.first().map(ToString::to_string).unwrap_or_default();
        assert!(held.is_empty(), "other hosts are waited for while {name} is held");
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
                let is_late = |held: &&Held| held.rank.is_some_and(|of| of.forbids(rank));
                let found = held.iter().find(is_late);
                let name = found.map(ToString::to_string).unwrap_or_default();
                assert!(found.is_none(), "{} is waited for while {name} is held", rank.name);
            });
        }
    }

    /// This thread has the lock.
    #[track_caller]
    #[inline]
    pub(crate) fn take(self) {
        #[cfg(debug_assertions)]
        {
            let taken = Held { rank: self.0, at: Location::caller() };
            HELD.with_borrow_mut(|held| held.push(taken));
        }
    }

    /// This thread lets go of the lock.
    #[inline]
    pub(crate) fn let_go(self) {
        // A thread that ends may have let go of its list already.
        #[cfg(debug_assertions)]
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|other| other.rank == self.0) {
                held.remove(at);
            }
        });
    }
}
