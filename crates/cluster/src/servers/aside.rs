//! What a server had is set aside when it begins anew, and is put back where no other copy is left.
//!
//! Both are rows of steps, each of which happens or does not, and whoever takes them may be killed after any. So a row
//! is made from what lies there, and goes on where the last one has ended. Where the data lies tells how far that is:
//!
//! - in the server's directory: nothing is set aside yet, or all is put back;
//! - in [`ASIDE`]: one copy is on its way from one to the other, and the directory may hold the rest of it;
//! - in both: what is aside is all there, and the server has begun to copy anew.
//!
//! What tells that a copy is whole ([`COMPLETE`]) is moved last and removed first, so nothing less is taken for one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use intarsia_types::{Error, Result};

use super::{ASIDE, COMPLETE, DATA, INCOMPLETE, LOCK, LOG, has_data, take_over};
use crate::private;

/// One change of what lies in the directory of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Makes a directory, unless it is there.
    Make(PathBuf),
    Move {
        from: PathBuf,
        to: PathBuf,
    },
    /// Removes a file, or a directory with all in it.
    Remove(PathBuf),
}

impl Step {
    fn take(&self) -> Result<()> {
        match self {
            Self::Make(dir) => private::make_dir(dir),
            Self::Move { from, to } => std::fs::rename(from, to)
                .map_err(|e| Error::io(format!("move {} to {}", from.display(), to.display()), e)),
            Self::Remove(path) => {
                let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
                let remove = if is_dir { std::fs::remove_dir_all } else { std::fs::remove_file };
                remove(path).map_err(|e| Error::io(format!("remove {}", path.display()), e))
            }
        }
    }
}

/// Sets data and name of a server aside, whose directory this is and which does not run; its log stays. What was set aside
/// before stays instead, unless the server has become whole since.
pub(super) fn set_aside(dir: &Path) -> Result<()> {
    setting_aside(dir)?.iter().try_for_each(Step::take)
}

/// Puts back what a server had before it began to copy, whose directory this is. One that still runs there is ended first.
/// What it had copied since, which is not everything, is set aside instead.
///
/// # Errors
/// Of the file system, and when a server there cannot be ended.
pub fn restore_aside(dir: &Path) -> Result<()> {
    let _claim = take_over(dir, "restoring")?;
    putting_back(dir)?.iter().try_for_each(Step::take)
}

/// Removes a copy, if one is there.
pub(super) fn remove(copy: &Path) -> Result<()> {
    removing(copy).iter().try_for_each(Step::take)
}

fn removing(copy: &Path) -> Vec<Step> {
    let parts = [copy.join(COMPLETE), copy.to_owned()];
    parts.into_iter().filter(|part| part.exists()).map(Step::Remove).collect()
}

fn setting_aside(dir: &Path) -> Result<Vec<Step>> {
    let aside = dir.join(ASIDE);
    let (is_here, mut is_aside) = (has_data(dir), has_data(&aside));
    let mut steps = Vec::new();
    if is_here && is_aside && dir.join(COMPLETE).exists() {
        // Only the removal of the older copy was cut short.
        steps.extend(removing(&aside));
        is_aside = false;
    }
    if is_here && !is_aside {
        steps.push(Step::Make(aside.clone()));
    }
    let mut names = contents(dir)?;
    if is_here && is_aside {
        // All of it goes, and the data tells until then that it is not the rest of the other copy.
        names.reverse();
    }
    for name in names {
        let (from, to) = (dir.join(&name), aside.join(&name));
        let is_moved = match (is_here, is_aside) {
            (true, is_aside) => !is_aside,
            // The rest of that copy, or what a server had made that was ended before it had data.
            (false, true) => !to.exists(),
            (false, false) => false,
        };
        steps.push(if is_moved { Step::Move { from, to } } else { Step::Remove(from) });
    }
    Ok(steps)
}

fn putting_back(dir: &Path) -> Result<Vec<Step>> {
    let (aside, incomplete) = (dir.join(ASIDE), dir.join(INCOMPLETE));
    let mut steps = Vec::new();
    if has_data(&aside) && has_data(dir) {
        if has_data(&incomplete) {
            steps.extend(removing(&incomplete));
        }
        steps.push(Step::Make(incomplete.clone()));
        // The data goes last: without it, what lies in the directory is of the copy that is put back.
        let names = contents(dir)?.into_iter().rev();
        steps.extend(names.map(|name| moved(dir, &incomplete, &name)));
    }
    if !aside.exists() {
        return Ok(steps);
    }
    let mut names = names_in(&aside)?;
    names.sort_by_key(|name| (name == COMPLETE, name == DATA));
    steps.extend(names.iter().map(|name| moved(&aside, dir, name)));
    steps.push(Step::Remove(aside));
    Ok(steps)
}

fn moved(from: &Path, to: &Path, name: &OsStr) -> Step {
    Step::Move { from: from.join(name), to: to.join(name) }
}

/// What a server has in its directory, beside its log, its claim and what was set aside: the data first, and what tells
/// that it is whole last.
fn contents(dir: &Path) -> Result<Vec<OsString>> {
    let stays = |name: &OsString| [LOG, LOCK, ASIDE, INCOMPLETE].iter().any(|own| name == *own);
    let mut names = names_in(dir)?;
    names.retain(|name| !stays(name));
    names.sort_by_key(|name| (name != DATA, name == COMPLETE));
    Ok(names)
}

fn names_in(dir: &Path) -> Result<Vec<OsString>> {
    let entries = std::fs::read_dir(dir).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<std::io::Result<_>>()
    });
    entries.map_err(|e| Error::io(format!("directory {}", dir.display()), e))
}

#[cfg(test)]
mod tests {
    use super::super::kept::kept;
    use super::super::tests::holder_of;
    use super::super::{Kept, MAP, RECORD, is_complete};
    use super::*;

    /// A host with one server.
    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir(host.dir()).unwrap();
            for name in [LOG, LOCK] {
                host.write(name, "");
            }
            host
        }

        fn dir(&self) -> PathBuf {
            self.0.path().join("0")
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.dir().join(name), text).unwrap();
        }

        /// What a server has by this name, all of it or not.
        fn with(self, name: &str, is_whole: bool) -> Self {
            std::fs::create_dir_all(self.dir().join(DATA)).unwrap();
            for part in [format!("{DATA}/log").as_str(), MAP, RECORD, "redis.conf"] {
                self.write(part, name);
            }
            if is_whole {
                self.write(COMPLETE, "");
            }
            self
        }

        /// As it is when a whole copy was set aside and a second one is not whole yet.
        fn copying() -> Self {
            let host = Self::new().with("first", true);
            set_aside(&host.dir()).unwrap();
            host.with("second", false)
        }

        /// The data that lies in a directory below, or in that of the server.
        fn data(&self, below: &str) -> Option<String> {
            std::fs::read_to_string(self.dir().join(below).join(DATA).join("log")).ok()
        }

        fn kept(&self) -> Kept {
            kept(self.0.path()).into_iter().next().unwrap_or_default()
        }

        /// The name of the copy that counts, with what it knew of the Cluster.
        fn counts(&self) -> Option<(String, String)> {
            let kept = self.kept();
            let data = match &kept.aside {
                Some(_) => self.data(ASIDE),
                None if kept.is_complete => self.data(""),
                None => None,
            };
            Some((data?, kept.aside.map_or(kept.map, |aside| aside.map)))
        }
    }

    fn both(name: &str) -> Option<(String, String)> {
        Some((name.into(), name.into()))
    }

    type Row = fn(&Path) -> Result<Vec<Step>>;

    /// Cuts a row of steps short after each of them, and has `then` look at each host that this leaves, with the number
    /// of the steps that were taken.
    fn cut_short(make: impl Fn() -> Host, row: Row, then: impl Fn(&Host, usize)) {
        let all = row(&make().dir()).unwrap().len();
        for taken in 0..=all {
            let host = make();
            let steps = row(&host.dir()).unwrap();
            steps.iter().take(taken).try_for_each(Step::take).unwrap();
            then(&host, taken);
        }
        assert!(all > 2, "{all} steps");
    }

    #[test]
    fn what_a_server_had_is_set_aside_once_and_not_deleted() {
        let host = Host::copying();
        let has = |path: &str| host.dir().join(path).exists();
        assert!(has("aside/appendonlydir") && has("aside/nodes.conf") && has(LOG) && has(LOCK));
        // It died again: what is whole is what lies aside.
        set_aside(&host.dir()).unwrap();
        assert!(!has(DATA) && !has(MAP));
        assert_eq!((host.data(ASIDE), host.counts()), (Some("first".into()), both("first")));
    }

    #[test]
    fn what_is_set_aside_counts_wherever_that_is_cut_short_and_the_next_one_goes_on() {
        let whole = || Host::new().with("first", true);
        cut_short(whole, setting_aside, |host, taken| {
            assert_eq!(host.counts(), both("first"), "after {taken} steps");
            set_aside(&host.dir()).unwrap();
            assert_eq!((host.data(""), host.counts()), (None, both("first")), "{taken} steps");
        });
    }

    #[test]
    fn a_copy_that_is_not_whole_gives_way_wherever_that_is_cut_short() {
        cut_short(Host::copying, setting_aside, |host, taken| {
            assert_eq!(host.counts(), both("first"), "after {taken} steps");
            set_aside(&host.dir()).unwrap();
            assert_eq!((host.data(""), host.counts()), (None, both("first")), "{taken} steps");
        });
    }

    #[test]
    fn what_was_set_aside_is_put_back_wherever_that_was_cut_short_before() {
        cut_short(Host::copying, putting_back, |host, taken| {
            assert_eq!(host.counts(), both("first"), "after {taken} steps");
            restore_aside(&host.dir()).unwrap();
            assert!(is_complete(&host.dir()) && !host.dir().join(ASIDE).exists());
            assert_eq!(host.counts(), both("first"), "after {taken} steps and all of them");
            let incomplete = host.data(INCOMPLETE);
            assert_eq!(incomplete.as_deref(), Some("second"), "after {taken} steps");
        });
    }

    #[test]
    fn a_move_in_one_direction_may_follow_one_that_was_cut_short_in_the_other() {
        cut_short(Host::copying, putting_back, |host, taken| {
            set_aside(&host.dir()).unwrap();
            assert_eq!((host.data(""), host.counts()), (None, both("first")), "{taken} steps");
        });
        let whole = || Host::new().with("first", true);
        cut_short(whole, setting_aside, |host, taken| {
            restore_aside(&host.dir()).unwrap();
            assert_eq!((host.data(ASIDE), host.counts()), (None, both("first")), "{taken} steps");
        });
    }

    #[test]
    fn a_copy_that_became_whole_is_set_aside_in_place_of_the_older_one() {
        let whole = || Host::copying().with("second", true);
        cut_short(whole, setting_aside, |host, taken| {
            assert_eq!(host.counts(), both("second"), "after {taken} steps");
            set_aside(&host.dir()).unwrap();
            assert_eq!((host.data(""), host.counts()), (None, both("second")), "{taken} steps");
        });
    }

    #[test]
    fn what_was_not_whole_when_it_was_set_aside_does_not_count() {
        let host = Host::new().with("first", false);
        set_aside(&host.dir()).unwrap();
        assert_eq!(kept(host.0.path()), []);
    }

    #[test]
    fn a_server_that_runs_is_ended_before_an_older_copy_takes_its_place() {
        let host = Host::copying();
        let mut server = holder_of(&host.dir());
        restore_aside(&host.dir()).unwrap();
        assert!(server.try_wait().unwrap().is_some(), "it runs on files that were moved");
        assert_eq!(host.counts(), both("first"));
    }
}
