//! How many requests of each kind the kernel has sent.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

macro_rules! requests {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// A kind of kernel request.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Op { $($variant),* }

        const NAMES: &[&str] = &[$($name),*];
    };
}

requests! {
    Lookup = "lookup", Forget = "forget", GetAttr = "getattr", SetAttr = "setattr",
    ReadLink = "readlink", MkNod = "mknod", MkDir = "mkdir", Unlink = "unlink", RmDir = "rmdir",
    SymLink = "symlink", Rename = "rename", Link = "link", Open = "open", Read = "read",
    Write = "write", Flush = "flush", Release = "release", FSync = "fsync", OpenDir = "opendir",
    ReadDir = "readdir", ReadDirPlus = "readdirplus", ReleaseDir = "releasedir",
    FSyncDir = "fsyncdir", StatFs = "statfs", SetXattr = "setxattr", GetXattr = "getxattr",
    ListXattr = "listxattr", RemoveXattr = "removexattr", Create = "create",
    FAllocate = "fallocate", Lseek = "lseek", CopyFileRange = "copy_file_range",
}

/// One counter for each kind of request.
#[derive(Debug)]
pub(crate) struct Counts([AtomicU64; NAMES.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Counts {
    pub(crate) fn add(&self, op: Op) {
        self.0[op as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces `file` in one step, so that a reader never sees half of it.
    pub(crate) fn save(&self, file: &Path) -> io::Result<()> {
        let draft = file.with_extension("draft");
        fs::write(&draft, self.to_json())?;
        fs::rename(&draft, file)
    }

    fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (name, counter) in NAMES.iter().zip(&self.0) {
            let comma = if json.len() > 1 { ", " } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(json, "{comma}\"{name}\": {}", counter.load(Ordering::Relaxed));
        }
        json + "}\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_counted_under_its_name() {
        let counts = Counts::default();
        counts.add(Op::Lookup);
        counts.add(Op::CopyFileRange);
        counts.add(Op::CopyFileRange);
        let json = counts.to_json();
        assert!(json.starts_with("{\"lookup\": 1, \"forget\": 0"), "{json}");
        assert!(json.ends_with("\"copy_file_range\": 2}\n"), "{json}");
    }
}
