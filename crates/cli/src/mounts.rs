//! The mount table, and what state a mount of ours is in.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use crate::config::path::resolved;
use crate::exit::{Failure, Outcome};
use crate::process;

/// How long a healthy mount may take to answer `statfs`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(crate) id: u64,
    /// `major:minor` of the device.
    pub(crate) device: String,
    pub(crate) mount_point: PathBuf,
    pub(crate) kind: String,
    pub(crate) source: String,
    /// The user who mounted it, where the kernel says.
    pub(crate) user: Option<u32>,
}

/// Whether a mount answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It does.
    Alive,
    /// Its process is gone.
    Dead,
    /// No answer in time.
    Hung,
}

impl MountEntry {
    /// Who has to do what this user may not, if that is so.
    pub(crate) fn check_user(&self) -> Outcome {
        let me = rustix::process::geteuid().as_raw();
        match self.user {
            Some(user) if me != 0 && user != me => {
                let who = if user == 0 { "root".to_owned() } else { format!("user {user}") };
                let mount = self.mount_point.display();
                Err(Failure::general(format!(
                    "the store at {mount} is {who}'s, and you are user {me}"
                ))
                .with_help(format!("ask {who} for it; 'df {mount}' shows how full it is")))
            }
            _ => Ok(()),
        }
    }

    /// Whether Intarsia mounted it: the helper program gives it a type of its own, the bare system
    /// call does not, but the source always starts with our name and the store's.
    pub(crate) fn is_ours(&self) -> bool {
        let store = self.source.strip_prefix("intarsia-");
        let is_store = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_hexdigit());
        self.kind == "fuse.intarsia" || (self.kind == "fuse" && store.is_some_and(is_store))
    }
}

/// The whole mount table of this process.
pub(crate) fn table() -> Vec<MountEntry> {
    table_of("self")
}

/// The mount on exactly this path; where several lie on each other, the one on top.
pub(crate) fn at(path: &Path) -> Option<MountEntry> {
    table().into_iter().rev().find(|m| m.mount_point == path)
}

/// The mount in which a path lies.
pub(crate) fn carrying(path: &Path) -> Option<MountEntry> {
    let path = std::path::absolute(path).ok()?;
    let above = table().into_iter().rev().filter(|m| path.starts_with(&m.mount_point));
    above.max_by_key(|m| m.mount_point.components().count())
}

/// The mounts below this path.
pub(crate) fn below(path: &Path) -> Vec<MountEntry> {
    let is_below = |m: &MountEntry| m.mount_point != path && m.mount_point.starts_with(path);
    table().into_iter().filter(is_below).collect()
}

/// Whether a path, also a link of /proc, leads to this device. The file system itself is not asked.
pub(crate) fn is_on(path: &Path, device: &str) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let Ok(stat) = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::empty()) else {
        return false;
    };
    format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor) == device
}

/// The mount table of a process, as /proc calls it; empty if we may not read it.
pub(crate) fn table_of(process: &str) -> Vec<MountEntry> {
    let path = Path::new("/proc").join(process).join("mountinfo");
    std::fs::read(path).map(|t| parse(&t)).unwrap_or_default()
}

fn parse(table: &[u8]) -> Vec<MountEntry> {
    table.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|b| *b == b' ');
    let text = |f: &[u8]| String::from_utf8_lossy(f).into_owned();
    let id = text(fields.next()?).parse().ok()?;
    let device = text(fields.nth(1)?);
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    fields.find(|f| *f == b"-")?;
    let kind = text(fields.next()?);
    let source = text(&unescape(fields.next()?));
    let options = text(fields.next().unwrap_or_default());
    let user = options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
    Some(MountEntry { id, device, mount_point, kind, source, user })
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'\\').then(|| octal(tail)).flatten();
        plain.push(code.unwrap_or(first));
        rest = if code.is_some() { tail.get(3..).unwrap_or_default() } else { tail };
    }
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..3)?;
    digits.iter().try_fold(0u8, |value, d| {
        let digit = d.checked_sub(b'0').filter(|d| *d < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

/// The path that the mount table shows for `path`, also where the last part is a dead mount.
pub(crate) fn canonical(path: &Path) -> std::io::Result<PathBuf> {
    let path: PathBuf = std::path::absolute(path)?.components().collect();
    if at(&path).is_some() {
        return Ok(path);
    }
    let given = path.clone();
    let real = process::bounded(ANSWER_TIMEOUT, move || resolved(&given));
    Ok(real.unwrap_or(path))
}

/// Asks the mount for its space, with a bound; attributes the kernel could answer from memory.
pub(crate) fn health(mount_point: &Path) -> Health {
    let path = mount_point.to_owned();
    match process::bounded(ANSWER_TIMEOUT, move || rustix::fs::statvfs(&path)) {
        None => Health::Hung,
        Some(Err(Errno::NOTCONN | Errno::CONNABORTED)) => Health::Dead,
        Some(_) => Health::Alive,
    }
}

/// Takes the mount out of the tree at once; what is still open stays open until its holders end.
pub(crate) fn detach(mount_point: &Path) -> Outcome {
    if process::has_sys_admin() {
        return rustix::mount::unmount(mount_point, rustix::mount::UnmountFlags::DETACH)
            .map_err(|e| Failure::io(format!("detach {}", mount_point.display()), &e.into()));
    }
    fusermount(mount_point, &["-u", "-z"])
}

/// Unmounts, refusing when it is busy.
pub(crate) fn unmount(mount_point: &Path) -> Outcome {
    if !process::has_sys_admin() {
        return fusermount(mount_point, &["-u"]);
    }
    match rustix::mount::unmount(mount_point, rustix::mount::UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(Failure::busy(format!("{} is busy", mount_point.display()))),
        Err(e) => Err(Failure::io(format!("unmount {}", mount_point.display()), &e.into())),
    }
}

fn fusermount(mount_point: &Path, arguments: &[&str]) -> Outcome {
    at(mount_point).map_or(Ok(()), |mount| mount.check_user())?;
    let program = process::find_program("fusermount3").ok_or_else(|| {
        Failure::general("fusermount3 was not found, and unmounting without root needs it")
            .with_help("install the package fuse3")
    })?;
    let output = std::process::Command::new(program)
        .args(arguments)
        .arg("--")
        .arg(mount_point)
        .output()
        .map_err(|e| Failure::io("run fusermount3", &e))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.contains("busy") {
        return Err(Failure::busy(message));
    }
    Err(Failure::general(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_kernels_table() {
        let line = b"36 35 0:52 / /mnt/my\\040store rw,nosuid shared:7 - fuse.intarsia intarsia rw,user_id=0";
        let entry = parse_line(line).unwrap();
        assert_eq!(entry.mount_point, Path::new("/mnt/my store"));
        assert_eq!((entry.id, entry.device.as_str(), entry.user), (36, "0:52", Some(0)));
        assert!(entry.is_ours());
        let bare = MountEntry { kind: "fuse".into(), source: "intarsia-0123abcd".into(), ..entry };
        assert!(bare.is_ours());
        assert!(!MountEntry { source: "/data/intarsia-x".into(), ..bare }.is_ours());
        assert!(table().iter().any(|m| m.mount_point == Path::new("/")));
    }

    #[test]
    fn the_topmost_mount_counts() {
        assert_eq!(at(Path::new("/proc")).map(|m| m.kind).as_deref(), Some("proc"));
        assert_eq!(health(Path::new("/proc")), Health::Alive);
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_line(&line);
            let _ = unescape(&line);
        }
    }
}
