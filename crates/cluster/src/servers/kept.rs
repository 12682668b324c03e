//! What lies on the disks of a host whose servers do not run.

use std::path::Path;
use std::time::UNIX_EPOCH;

use intarsia_types::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{ASIDE, COMPLETE, DATA, INCOMPLETE, MAP, contents, has_data, is_complete};
use crate::private;

/// A server whose data lies on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its number on its host.
    pub number: u16,
    /// Whether it would start with data.
    pub has_data: bool,
    /// Whether it had all of its shard.
    pub is_complete: bool,
    /// What it knew of the Cluster, as in `nodes.conf`.
    pub map: String,
    /// When it last wrote that down, in seconds since 1970.
    pub since_s: i64,
    /// What it had before it began to copy; only while it has not copied everything.
    pub aside: Option<Aside>,
}

/// A copy of a shard that was set aside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aside {
    /// What the server knew of the Cluster then.
    pub map: String,
    /// When it was set aside, in seconds since 1970.
    pub since_s: i64,
}

/// The servers whose data lies in directories below `parent`, by number.
#[must_use]
pub fn kept(parent: &Path) -> Vec<Kept> {
    let dirs = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let mut kept: Vec<Kept> = dirs
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter_map(|(number, dir)| kept_in(number, &dir))
        .collect();
    kept.sort_unstable_by_key(|one| one.number);
    kept
}

/// Whether a server below `parent` has ever been one of several: others may rely on what it holds.
#[must_use]
pub fn has_any_formed(parent: &Path) -> bool {
    let others = |map: &str| map.lines().filter(|line| !line.starts_with("vars ")).count();
    kept(parent).iter().any(|one| others(&one.map) > 1)
}

fn kept_in(number: u16, dir: &Path) -> Option<Kept> {
    let is_complete = is_complete(dir);
    let aside = if is_complete { None } else { aside_in(dir) };
    let has_data = has_data(dir);
    let is_there = has_data || aside.is_some();
    let since_s = changed_s(&dir.join(MAP)).unwrap_or_default();
    is_there.then(|| Kept { number, has_data, is_complete, map: map_in(dir), since_s, aside })
}

/// When a file or directory was last changed, in seconds since 1970.
fn changed_s(path: &Path) -> Option<i64> {
    let changed = std::fs::metadata(path).and_then(|meta| meta.modified()).ok()?;
    let since = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

fn aside_in(dir: &Path) -> Option<Aside> {
    let aside = dir.join(ASIDE);
    // Where setting it aside was cut short, some of it is still in its place.
    let is_half_moved = has_data(&aside) && !has_data(dir) && dir.join(COMPLETE).exists();
    let is_whole = has_data(&aside) && aside.join(COMPLETE).exists();
    if !is_half_moved && !is_whole {
        return None;
    }
    let since_s = changed_s(&aside)?;
    let map = if aside.join(MAP).exists() { map_in(&aside) } else { map_in(dir) };
    Some(Aside { map, since_s })
}

fn map_in(dir: &Path) -> String {
    std::fs::read_to_string(dir.join(MAP)).unwrap_or_default()
}

/// Puts back what a server had before it began to copy, whose directory this is. It must not run. What it had copied since,
/// which is not everything, is set aside instead.
///
/// # Errors
/// Of the file system.
pub fn restore_aside(dir: &Path) -> Result<()> {
    let aside = dir.join(ASIDE);
    let failed = |e| Error::io(format!("restore {}", aside.display()), e);
    let is_half_moved = !has_data(dir) && dir.join(COMPLETE).exists();
    if has_data(&aside) && !is_half_moved {
        let incomplete = dir.join(INCOMPLETE);
        if incomplete.exists() {
            std::fs::remove_dir_all(&incomplete).map_err(failed)?;
        }
        private::make_dir(&incomplete)?;
        for entry in contents(dir).map_err(failed)? {
            std::fs::rename(entry.path(), incomplete.join(entry.file_name())).map_err(failed)?;
        }
    }
    // The data comes after all else, and then what says that it is complete: cut short, it is known all the same.
    let mut entries: Vec<_> = std::fs::read_dir(&aside).map_err(failed)?.flatten().collect();
    let order = |name: &std::ffi::OsStr| (name == COMPLETE, name == DATA);
    entries.sort_by_key(|entry| order(&entry.file_name()));
    for entry in entries {
        std::fs::rename(entry.path(), dir.join(entry.file_name())).map_err(failed)?;
    }
    std::fs::remove_dir(&aside).map_err(failed)
}

/// Whether all that was set aside is in its place again but for what says that it is complete.
pub(super) fn is_put_back(dir: &Path) -> bool {
    let aside = dir.join(ASIDE);
    aside.join(COMPLETE).exists() && !has_data(&aside)
}

#[cfg(test)]
mod tests {
    use super::super::set_aside;
    use super::*;

    fn begin(dir: &Path, map: &str) {
        std::fs::create_dir(dir.join(DATA)).unwrap();
        std::fs::write(dir.join(MAP), map).unwrap();
    }

    #[test]
    fn a_server_of_several_is_told_from_one_that_knows_itself_alone() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("0");
        std::fs::create_dir(&dir).unwrap();
        let (own, end) = ("a 10.0.0.1:7401@7402 myself,master - 0 0 1 connected\n", "vars 1\n");
        begin(&dir, &format!("{own}{end}"));
        assert!(!has_any_formed(parent.path()));
        let other = "b 10.0.0.2:7401@7402 master - 0 0 2 connected 0-16383\n";
        std::fs::write(dir.join(MAP), format!("{own}{other}{end}")).unwrap();
        assert!(has_any_formed(parent.path()));
    }

    #[test]
    fn what_was_set_aside_is_seen_until_all_is_copied_and_can_be_put_back() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("1");
        std::fs::create_dir(&dir).unwrap();
        begin(&dir, "first");
        std::fs::write(dir.join(COMPLETE), "").unwrap();
        assert_eq!(
            (kept(parent.path())[0].is_complete, &kept(parent.path())[0].aside),
            (true, &None)
        );
        set_aside(&dir).unwrap();
        // Also before it has anything again.
        assert_eq!(kept(parent.path())[0].aside.as_ref().unwrap().map, "first");
        begin(&dir, "second");
        let [one] = &kept(parent.path())[..] else { panic!("one server") };
        assert_eq!((one.number, one.is_complete, one.map.as_str()), (1, false, "second"));
        assert_eq!(one.aside.as_ref().unwrap().map, "first");
        restore_aside(&dir).unwrap();
        let [one] = &kept(parent.path())[..] else { panic!("one server") };
        assert_eq!((one.is_complete, one.map.as_str(), &one.aside), (true, "first", &None));
        assert!(dir.join(INCOMPLETE).join(DATA).exists() && !dir.join(ASIDE).exists());
    }

    #[test]
    fn what_was_not_complete_when_it_was_set_aside_does_not_count() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("0");
        std::fs::create_dir(&dir).unwrap();
        begin(&dir, "first");
        set_aside(&dir).unwrap();
        assert_eq!(kept(parent.path()), []);
    }
}
