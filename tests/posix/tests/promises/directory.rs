//! Listings: complete while names come and go, and seekable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use intarsia_posix_tests::{Mode, Random, Settings, Store, in_both_modes, is_long};
use rustix::fs::{Dir, Mode as Perm, OFlags};

fn is_complete_while_entries_go(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let count = if is_long() { 1_000_000 } else { 100_000 };
    let dir = store.path("large");
    std::fs::create_dir(&dir).unwrap();
    (0..count).for_each(|i| drop(File::create(dir.join(name(i))).unwrap()));
    let (mut random, mut removed) = (Random::new(1), BTreeSet::new());
    let mut seen = BTreeMap::new();
    for (i, entry) in std::fs::read_dir(&dir).unwrap().enumerate() {
        *seen.entry(entry.unwrap().file_name().into_string().unwrap()).or_insert(0) += 1;
        // Some that were listed already, and some that were not.
        let victim = name(usize::try_from(random.below(count as u64)).unwrap());
        if i % 4 == 0 && removed.insert(victim.clone()) {
            std::fs::remove_file(dir.join(victim)).unwrap();
        }
    }
    assert!(seen.values().all(|times| *times == 1), "a name was listed twice");
    let missing: Vec<String> =
        (0..count).map(name).filter(|n| !removed.contains(n) && !seen.contains_key(n)).collect();
    assert!(
        missing.is_empty(),
        "{} of {count} names missing, {:?}",
        missing.len(),
        missing.first()
    );
    assert_eq!(names(&dir).len(), count - removed.len());
}

fn is_complete_while_entries_come(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let dir = store.path("growing");
    std::fs::create_dir(&dir).unwrap();
    (0..2000).for_each(|i| drop(File::create(dir.join(name(i))).unwrap()));
    let mut seen = BTreeMap::new();
    for (i, entry) in std::fs::read_dir(&dir).unwrap().enumerate() {
        *seen.entry(entry.unwrap().file_name().into_string().unwrap()).or_insert(0) += 1;
        if i < 4000 {
            drop(File::create(dir.join(format!("late{i}"))).unwrap());
        }
    }
    assert!(seen.values().all(|times| *times == 1), "a name was listed twice");
    assert!((0..2000).all(|i| seen.contains_key(&name(i))));
}

fn is_seekable(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let dir = store.path("dir");
    std::fs::create_dir(&dir).unwrap();
    (0..3000).for_each(|i| drop(File::create(dir.join(name(i))).unwrap()));
    let mut listing = Dir::new(open_dir(&dir)).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = listing.read() {
        let entry = entry.unwrap();
        entries.push((entry.offset(), entry.file_name().to_owned()));
    }
    assert_eq!(entries.len(), 3002);
    let offsets: BTreeSet<i64> = entries.iter().map(|e| e.0).collect();
    assert_eq!(offsets.len(), entries.len(), "two entries with one cookie");
    // Entries before and behind go; the places stay.
    let keep = |i: usize| i.is_multiple_of(50) || (i + 1).is_multiple_of(50);
    for (i, (_, name)) in entries.iter().enumerate().skip(2) {
        if !keep(i) && !name.to_str().unwrap().starts_with('.') {
            std::fs::remove_file(dir.join(name.to_str().unwrap())).unwrap();
        }
    }
    for i in (50..3000).step_by(50) {
        let mut listing = Dir::new(open_dir(&dir)).unwrap();
        listing.seek(entries[i - 1].0).unwrap();
        let next = listing.read().unwrap().unwrap();
        assert_eq!(next.file_name(), entries[i].1.as_c_str(), "after the entry before {i}");
    }
}

/// A way to make an entry, in words and in deed.
type Maker<'a> = (&'a str, &'a dyn Fn(&Path));

/// A name that was looked up in vain is found as soon as it exists, however it came to be.
fn forgets_what_was_missing(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    std::fs::write(store.path("file"), "x").unwrap();
    let makers: [Maker<'_>; 5] = [
        ("create", &|path| drop(File::create(path).unwrap())),
        ("mkdir", &|path| std::fs::create_dir(path).unwrap()),
        ("link", &|path| std::fs::hard_link(store.path("file"), path).unwrap()),
        ("symlink", &|path| std::os::unix::fs::symlink("file", path).unwrap()),
        ("rename", &|path| std::fs::rename(store.path("file"), path).unwrap()),
    ];
    for (how, make) in makers {
        let path = store.path(format!("by-{how}"));
        assert!(!path.exists() && !path.exists(), "{how}");
        make(&path);
        assert!(path.symlink_metadata().is_ok(), "{how}");
    }
    assert!(!store.path("file").exists());
}

in_both_modes!(
    is_complete_while_entries_go,
    is_complete_while_entries_come,
    is_seekable,
    forgets_what_was_missing,
);

fn name(i: usize) -> String {
    format!("entry-{i:07}")
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn open_dir(dir: &Path) -> OwnedFd {
    rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY, Perm::empty()).unwrap()
}
