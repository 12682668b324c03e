//! Listings while names move.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{Namespace, RenameMode};
use intarsia_types::{Error, InodeId, Result};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::common::{at, dir};
use super::hooked::Hooked;
use super::world::{NAMES, Pauses, World, make, write};

/// Where a name is that one thread moves, for others to compare with what they see.
#[derive(Default)]
struct Moved {
    /// Odd while it is being moved.
    turn: AtomicU32,
    /// The directory, by its number from 1 on; 0 when there is no such name.
    place: AtomicU32,
}

impl Moved {
    /// Where it is, with the turn in which it is there.
    fn settled(&self) -> Option<(u32, u32)> {
        let turn = self.turn.load(Ordering::SeqCst);
        turn.is_multiple_of(2).then(|| (turn, self.place.load(Ordering::SeqCst)))
    }

    fn change(&self, make: impl FnOnce(u32) -> u32) {
        self.turn.fetch_add(1, Ordering::SeqCst);
        let place = make(self.place.load(Ordering::SeqCst));
        self.place.store(place, Ordering::SeqCst);
        self.turn.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tries until others leave it enough of the processor.
fn patiently<T>(attempt: impl Fn() -> Result<T>) -> T {
    loop {
        match attempt() {
            Err(Error::Busy(_)) => thread::yield_now(),
            outcome => return outcome.unwrap(),
        }
    }
}

/// Counts down when its thread ends, also if that panics.
struct Leaves<'l>(&'l AtomicU32);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn move_about(host: &Namespace, dirs: &[InodeId], moved: &Moved, name: &[u8], seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let index = |place: u32| dirs[place as usize - 1];
    let count = u32::try_from(dirs.len()).unwrap();
    for now in 0..60 {
        let to = random.random_range(1..=count);
        moved.change(|place| match place {
            0 => {
                let inode = patiently(|| make(host, index(to), name, at(now)));
                patiently(|| write(host, &inode, now));
                to
            }
            place if random.random_range(0..5) == 0 => {
                patiently(|| host.unlink(index(place), name, |_| false, at(now)));
                0
            }
            place => {
                let (from, mode) = (index(place), RenameMode::Replace);
                patiently(|| host.rename(from, name, index(to), name, mode, |_| false, at(now)));
                to
            }
        });
        if random.random_range(0..3) == 0 {
            thread::sleep(Duration::from_micros(random.random_range(0..2000)));
        }
    }
}

fn names_in(host: &Namespace, dir: InodeId, limit: usize, has_attributes: bool) -> Vec<Vec<u8>> {
    let (mut names, mut after) = (Vec::new(), 0);
    loop {
        let page: Vec<_> = match has_attributes {
            true => {
                let page = host.list_plus(dir, after, limit, |_| ()).unwrap();
                page.into_iter().map(|(entry, ..)| entry).collect()
            }
            false => host.list(dir, after, limit).unwrap(),
        };
        let Some(last) = page.last() else { return names };
        after = last.cookie;
        names.extend(page.into_iter().map(|entry| entry.name));
    }
}

#[test]
fn a_name_that_stays_meanwhile_is_in_every_listing() {
    let rounds = std::env::var("ROUNDS").map_or(2, |n| n.parse().unwrap());
    for round in 0..rounds {
        let world = World::over(3, Hooked::new(Arc::new(MemoryEngine::new(5)), Pauses::new(round)));
        let born =
            |n: u8| world.at(0).create(InodeId::ROOT, &[b'A' + n], dir(), at(0)).unwrap().ino;
        let dirs: Vec<InodeId> = (0..4).map(born).collect();
        let moved: Vec<Moved> = NAMES.iter().map(|_| Moved::default()).collect();
        let (left, looks) = (AtomicU32::new(4), AtomicU32::new(0));
        thread::scope(|scope| {
            for n in 0..4_usize {
                let (world, dirs, moved, left) = (&world, &dirs, &moved, &left);
                scope.spawn(move || {
                    let _leaves = Leaves(left);
                    let seed = round * 100 + n as u64;
                    move_about(world.at(n % 2 * 2), dirs, &moved[n], NAMES[n], seed);
                });
            }
            for (n, host) in (0..).zip([1, 1, 1, 0, 2]) {
                let (host, dirs, moved, left, looks) =
                    (world.at(host), &dirs, &moved, &left, &looks);
                scope.spawn(move || {
                    let mut random = Xoshiro256PlusPlus::seed_from_u64(round * 100 + 50 + n);
                    while left.load(Ordering::SeqCst) > 0 {
                        looks.fetch_add(
                            look_about(host, dirs, moved, &mut random),
                            Ordering::SeqCst,
                        );
                    }
                });
            }
        });
        assert!(looks.load(Ordering::SeqCst) > 100, "{looks:?} names stayed");
    }
}

/// Uses a directory as a host does, and compares a listing with where names are that stayed where they were; of how many.
fn look_about(
    host: &Namespace,
    dirs: &[InodeId],
    moved: &[Moved],
    random: &mut Xoshiro256PlusPlus,
) -> u32 {
    let (place, dir) = (1..).zip(dirs).nth(random.random_range(0..dirs.len())).unwrap();
    let choice = random.random_range(0..6);
    match choice {
        0 => drop(host.lease_directory(*dir)),
        1 => drop(host.fetch_directory(*dir)),
        2 => drop(host.lookup(*dir, NAMES.choose(random).unwrap())),
        _ => {
            let before: Vec<_> = moved.iter().map(Moved::settled).collect();
            let names = names_in(host, *dir, random.random_range(1..8), choice == 3);
            let stayed =
                NAMES.iter().zip(moved).zip(before).filter_map(|((name, moved), before)| {
                    before.filter(|_| moved.settled() == before).map(|(_, at)| (name, at))
                });
            return stayed
                .map(|(name, at)| {
                    let is_listed = names.iter().any(|listed| listed == name);
                    assert_eq!(is_listed, at == place, "{name:?} in {place}, which is in {at}");
                })
                .count()
                .try_into()
                .unwrap();
        }
    }
    0
}
