//! Which locks are waited for under which others: in debug builds a second way round is an error wherever it is tried.
//!
//! Locks are told apart by where the program makes them and by what they guard: all of one such *class* have one
//! place in the order. (So have fields of one type in a structure that derives its `Default`: the derived line makes both.) The order is not written down but seen: each time a thread waits for a lock, those that it
//! holds come before it from then on, for all threads and for as long as the process lives. A thread that waits the
//! other way round, even by way of other locks, panics, whether or not somebody happens to hold what it waits for.
//! So the two threads that wait for each other need not meet for a test to find them. The Linux kernel's lockdep
//! works like this.

use std::any::type_name;
use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Where in the program a lock is made, and its class once that is known.
#[derive(Debug)]
pub(crate) struct Origin {
    made_at: &'static Location<'static>,
    /// One more than the number of the class; 0 until the lock is first taken.
    class: AtomicUsize,
}

/// All locks that one place of the program makes for one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class(usize);

/// What a class is called in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    guarded: &'static str,
    made_at: &'static Location<'static>,
}

/// Where a lock was waited for, and where the one under which it was waited for had been taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) held_at: &'static Location<'static>,
    pub(crate) waited_at: &'static Location<'static>,
}

/// What the threads of this process have done so far.
#[derive(Debug)]
struct Order {
    names: Vec<Name>,
    classes: BTreeMap<Name, Class>,
    after: BTreeMap<Class, BTreeMap<Class, Seen>>,
}

static ORDER: Mutex<Order> =
    Mutex::new(Order { names: Vec::new(), classes: BTreeMap::new(), after: BTreeMap::new() });

thread_local! {
    /// What this thread need not ask about again: the first may be held while the second is waited for.
    static KNOWN: RefCell<BTreeSet<(Class, Class)>> = const { RefCell::new(BTreeSet::new()) };
}

impl Origin {
    /// Of a lock that the caller makes.
    #[track_caller]
    pub(crate) const fn here() -> Self {
        Self { made_at: Location::caller(), class: AtomicUsize::new(0) }
    }

    /// The class of this lock, which guards a `T`.
    pub(crate) fn class<T: ?Sized>(&self) -> Class {
        if let Some(number) = self.class.load(Ordering::Relaxed).checked_sub(1) {
            return Class(number);
        }
        let class = ORDER.lock().class(Name { guarded: type_name::<T>(), made_at: self.made_at });
        self.class.store(class.0 + 1, Ordering::Relaxed);
        class
    }
}

impl Class {
    /// Notes that a lock of this class is held by a thread that waits for one of `wanted`.
    ///
    /// # Panics
    /// If one of this class was ever waited for under one of `wanted`, or under one that comes after `wanted`.
    pub(crate) fn comes_before(self, wanted: Self, seen: Seen) {
        let is_known = KNOWN.with_borrow(|known| known.contains(&(self, wanted)));
        if !is_known {
            let refused = ORDER.lock().note(self, wanted, seen).err();
            assert!(refused.is_none(), "{}", refused.unwrap_or_default());
            KNOWN.with_borrow_mut(|known| known.insert((self, wanted)));
        }
    }
}

impl Order {
    fn class(&mut self, name: Name) -> Class {
        *self.classes.entry(name).or_insert_with(|| {
            self.names.push(name);
            Class(self.names.len() - 1)
        })
    }

    /// An error says which way round was seen before.
    fn note(&mut self, held: Class, wanted: Class, seen: Seen) -> Result<(), String> {
        if held == wanted {
            let name = self.name(wanted);
            return Err(format!("{name} is waited for while another of them is held, {seen}"));
        }
        if let Some(way) = self.way(wanted, held) {
            let (held, wanted) = (self.name(held), self.name(wanted));
            return Err(format!(
                "{wanted} is waited for while {held} is held, {seen}; the other way round was seen before:{way}"
            ));
        }
        self.after.entry(held).or_default().entry(wanted).or_insert(seen);
        Ok(())
    }

    /// How `to` comes after `from`, as lines of text, if it does.
    fn way(&self, from: Class, to: Class) -> Option<String> {
        let mut came_from = BTreeMap::new();
        let mut next = vec![from];
        while let Some(class) = next.pop() {
            if class == to {
                return Some(self.told(from, to, &came_from));
            }
            for (&after, &seen) in self.after.get(&class).into_iter().flatten() {
                if let Entry::Vacant(unseen) = came_from.entry(after) {
                    unseen.insert((class, seen));
                    next.push(after);
                }
            }
        }
        None
    }

    fn told(&self, from: Class, to: Class, came_from: &BTreeMap<Class, (Class, Seen)>) -> String {
        let mut lines = String::new();
        let mut at = to;
        while at != from {
            let Some(&(before, seen)) = came_from.get(&at) else { break };
            lines.insert_str(
                0,
                &format!("\n  {} under {}, {seen}", self.name(at), self.name(before)),
            );
            at = before;
        }
        lines
    }

    fn name(&self, class: Class) -> String {
        self.names.get(class.0).map_or_else(|| "a lock".to_owned(), ToString::to_string)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock of {} that is made at {}", self.guarded, self.made_at)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(waited for at {}, the other taken at {})", self.waited_at, self.held_at)
    }
}
