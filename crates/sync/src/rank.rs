//! The order in which locks are taken, asserted in debug builds; in others it costs nothing.
//!
//! A lock made with a [`Rank`] may be waited for only by a thread that holds none of the same or a higher rank. All
//! locks, with a rank or without, have to be waited for in one order, which is [seen](crate::order) as the program runs.
//! Who tries and does not wait may take a lock in any order. Before another host or the metadata engine is asked something,
//! [`may_ask_others`] asserts that no lock is held that the answer may need: neither one whose rank forbids it nor one
//! without a rank, since whoever else wants it would wait for the answer too. Before a wait that may be as long as whole
//! files take on the network, [`may_wait_long`] asserts that none is held at all.

#[cfg(debug_assertions)]
use std::cell::RefCell;
#[cfg(debug_assertions)]
use std::fmt;
#[cfg(debug_assertions)]
use std::panic::Location;

#[cfg(debug_assertions)]
use crate::order::{Class, Origin, Seen};

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
    class: Class,
    rank: Option<Rank>,
    at: &'static Location<'static>,
}

#[cfg(debug_assertions)]
impl Held {
    /// Asserts that this thread may wait for `wanted`, at `wanted.at`, while it has this lock.
    fn may_be_held(self, wanted: Self) {
        let ranks = self.rank.zip(wanted.rank);
        let is_late = ranks.is_some_and(|(rank, wanted)| rank.forbids(wanted));
        assert!(!is_late, "{} is waited for while {self} is held", wanted.name());
        let is_one_of_several = ranks.is_some_and(|(rank, wanted)| rank == wanted);
        if !is_one_of_several {
            self.class.comes_before(wanted.class, Seen { held_at: self.at, waited_at: wanted.at });
        }
    }

    fn name(self) -> &'static str {
        self.rank.map_or("a lock without a rank", |rank| rank.name)
    }
}

#[cfg(debug_assertions)]
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (taken at {})", self.name(), self.at)
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

/// A lock's place among all locks: its rank, if it has one, and where it was made. Nothing at all where no order is asserted.
#[derive(Debug)]
pub(crate) struct Slot {
    #[cfg(debug_assertions)]
    rank: Option<Rank>,
    #[cfg(debug_assertions)]
    origin: Origin,
}

impl Slot {
    /// Of a lock that the caller makes.
    #[track_caller]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "no order is asserted"))]
    pub(crate) const fn new(rank: Option<Rank>) -> Self {
        Self {
            #[cfg(debug_assertions)]
            rank,
            #[cfg(debug_assertions)]
            origin: Origin::here(),
        }
    }

    /// This thread is about to wait for the lock, which guards a `T`.
    #[track_caller]
    #[inline]
    pub(crate) fn await_turn<T: ?Sized>(&self) {
        #[cfg(debug_assertions)]
        {
            let wanted = self.held::<T>();
            HELD.with_borrow(|all| all.iter().for_each(|held| held.may_be_held(wanted)));
        }
    }

    /// This thread has the lock.
    #[track_caller]
    #[inline]
    pub(crate) fn take<T: ?Sized>(&self) {
        #[cfg(debug_assertions)]
        {
            let taken = self.held::<T>();
            HELD.with_borrow_mut(|held| held.push(taken));
        }
    }

    /// This thread lets go of the lock.
    #[inline]
    pub(crate) fn let_go<T: ?Sized>(&self) {
        // A thread that ends may have let go of its list already.
        #[cfg(debug_assertions)]
        let _ = HELD.try_with(|held| {
            let class = self.origin.class::<T>();
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|other| other.class == class) {
                held.remove(at);
            }
        });
    }

    #[cfg(debug_assertions)]
    #[track_caller]
    fn held<T: ?Sized>(&self) -> Held {
        Held { class: self.origin.class::<T>(), rank: self.rank, at: Location::caller() }
    }
}
