//! What lies on the disks of a host whose servers do not run.

use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{ASIDE, COMPLETE, MAP, has_data, is_complete};

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
    is_there.then(|| Kept { number, has_data, is_complete, map: map_of(dir), since_s, aside })
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
    let map = if aside.join(MAP).exists() { map_of(&aside) } else { map_of(dir) };
    Some(Aside { map, since_s })
}

/// What the server in a directory last knew of the Cluster; empty where there is none.
#[must_use]
pub fn map_of(dir: &Path) -> String {
    std::fs::read_to_string(dir.join(MAP)).unwrap_or_default()
}

/// Whether all that was set aside is in its place again but for what says that it is complete.
pub(super) fn is_put_back(dir: &Path) -> bool {
    let aside = dir.join(ASIDE);
    aside.join(COMPLETE).exists() && !has_data(&aside)
}

#[cfg(test)]
mod tests {
    use super::super::DATA;
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
}
