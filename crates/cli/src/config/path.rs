//! Paths as people write them, and where things lie by default.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The value of an XDG variable, else the usual place below the home directory.
pub(crate) fn xdg(variable: &str, below_home: &str) -> Option<PathBuf> {
    // The XDG specification says that a relative path is to be ignored.
    let set = std::env::var_os(variable).map(PathBuf::from).filter(|p| p.is_absolute());
    set.or_else(|| home().map(|h| h.join(below_home)))
}

fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|h| h.is_absolute())
}

/// Makes a path absolute: `~/` is the home directory, anything relative starts at `base` or here.
pub(crate) fn absolute(text: &str, base: Option<&Path>) -> std::io::Result<PathBuf> {
    let expanded = match (text.strip_prefix("~/"), home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ if text == "~" => home().unwrap_or_else(|| text.into()),
        _ => base.map_or_else(|| text.into(), |b| b.join(text)),
    };
    std::path::absolute(expanded)
}

/// Refuses a path in which a symbolic link of another user leads on: that user decides where it ends, and changes it.
pub(crate) fn check_links(path: &Path) -> Result<(), String> {
    let me = rustix::process::geteuid().as_raw();
    let of_others = path.ancestors().filter_map(|part| {
        let meta = part.symlink_metadata().ok()?;
        let is_foreign = meta.is_symlink() && meta.uid() != 0 && meta.uid() != me;
        is_foreign.then(|| (part, meta.uid()))
    });
    match of_others.last() {
        None => Ok(()),
        Some((link, uid)) => Err(format!(
            "'{}' is a symbolic link of user {uid}, who may change where it leads; name the directory itself",
            link.display()
        )),
    }
}

/// The path with the links in its existing part followed.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let path: PathBuf = path.components().collect();
    let existing = path.ancestors().find_map(|a| Some((a, a.canonicalize().ok()?)));
    match existing {
        Some((ancestor, real)) => path
            .strip_prefix(ancestor)
            .map_or_else(|_| path.clone(), |rest| real.join(rest).components().collect()),
        None => path.clone(),
    }
}

/// Where a store is mounted when nobody says.
pub(crate) fn default_mount() -> PathBuf {
    match home().filter(|_| !crate::process::is_root()) {
        Some(home) => home.join("intarsia"),
        None => "/mnt/intarsia".into(),
    }
}

/// Where the store mounted there keeps its data when nobody says.
pub(crate) fn default_dir(mount: &Path) -> PathBuf {
    let state = match crate::process::is_root() {
        true => None,
        false => xdg("XDG_STATE_HOME", ".local/state"),
    };
    state.unwrap_or_else(|| "/var/lib".into()).join("intarsia").join(escaped(mount))
}

/// One name for a path: `/data/my-run` becomes `data-my%2drun`; no two paths share a name.
pub(crate) fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut name = String::with_capacity(text.len());
    for c in text.trim_start_matches('/').chars() {
        match c {
            '/' => name.push('-'),
            '-' => name.push_str("%2d"),
            '%' => name.push_str("%25"),
            c if c.is_control() => name.push_str(&format!("%{:02x}", u32::from(c))),
            c => name.push(c),
        }
    }
    if name.is_empty() { "root".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_where_their_author_stands() {
        let base = Some(Path::new("/etc/intarsia"));
        assert_eq!(absolute("tier", base).unwrap(), Path::new("/etc/intarsia/tier"));
        assert_eq!(absolute("/x/./y", base).unwrap(), Path::new("/x/y"));
        assert!(absolute("x", None).unwrap().is_absolute());
        assert!(!absolute("~/x", None).unwrap().to_string_lossy().contains('~'));
    }

    #[test]
    fn names_of_paths_do_not_collide() {
        let paths = ["/a/b", "/a-b", "/a%2db", "/a/-b", "/a-/b", "/"];
        let names: std::collections::BTreeSet<_> =
            paths.iter().map(|p| escaped(Path::new(p))).collect();
        assert_eq!(names.len(), paths.len(), "{names:?}");
    }
}
