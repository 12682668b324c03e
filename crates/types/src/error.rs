//! What can go wrong, by what the caller does about it. The errno of each kind stands here and nowhere else.

use crate::InodeId;

/// The result of an operation on the store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation. `errno()` is the whole mapping to POSIX.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such name or inode.
    #[error("no such file or directory")]
    NotFound,
    /// The name exists already.
    #[error("file exists")]
    Exists,
    /// The operation needs a directory.
    #[error("not a directory")]
    NotDirectory,
    /// The operation does not take a directory.
    #[error("is a directory")]
    IsDirectory,
    /// The directory holds entries.
    #[error("directory not empty")]
    NotEmpty,
    /// A directory cannot move below itself, or an argument makes no sense.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// The owner or a privilege is needed.
    #[error("operation not permitted")]
    NotPermitted,
    /// The permission bits forbid it.
    #[error("permission denied")]
    AccessDenied,
    /// A name longer than 255 bytes.
    #[error("file name too long")]
    NameTooLong,
    /// Too many hard links.
    #[error("too many links")]
    TooManyLinks,
    /// No such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The buffer is too small for the value.
    #[error("buffer too small")]
    Range,
    /// A value or file beyond the limit.
    #[error("too big: {0}")]
    TooBig(String),
    /// File size limit.
    #[error("file too large")]
    FileTooLarge,
    /// A tier is full.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The store or tier does not take writes.
    #[error("read-only: {0}")]
    ReadOnly(String),
    /// The operation is not offered here.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The handle does not allow it.
    #[error("bad file descriptor")]
    BadHandle,
    /// A seek beyond the data.
    #[error("no data beyond that offset")]
    NoData,
    /// The rename crosses stores.
    #[error("not on this store")]
    CrossDevice,
    /// The file runs as a program.
    #[error("text file busy")]
    Running,
    /// Another holder is in the way.
    #[error("busy: {0}")]
    Busy(String),
    /// Stored bytes do not match their checksum or cannot be decoded.
    #[error("corrupt: {what} of inode {ino}")]
    Corrupt {
        /// The inode concerned.
        ino: InodeId,
        /// What was damaged.
        what: String,
    },
    /// The metadata engine failed.
    #[error("metadata engine: {0}")]
    Engine(String),
    /// The operating system failed below us.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's own error.
        source: std::io::Error,
    },
}

/// Linux errno values (asm-generic), spelt out so that this crate needs no libc.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EIO: i32 = 5;
    pub(super) const E2BIG: i32 = 7;
    pub(super) const EBADF: i32 = 9;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EEXIST: i32 = 17;
    pub(super) const EXDEV: i32 = 18;
    pub(super) const ENOTDIR: i32 = 20;
    pub(super) const EISDIR: i32 = 21;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ENFILE: i32 = 23;
    pub(super) const EMFILE: i32 = 24;
    pub(super) const ETXTBSY: i32 = 26;
    pub(super) const EFBIG: i32 = 27;
    pub(super) const ENOSPC: i32 = 28;
    pub(super) const EROFS: i32 = 30;
    pub(super) const EMLINK: i32 = 31;
    pub(super) const ERANGE: i32 = 34;
    pub(super) const ENAMETOOLONG: i32 = 36;
    pub(super) const ENOTEMPTY: i32 = 39;
    pub(super) const ENODATA: i32 = 61;
    pub(super) const ENXIO: i32 = 6;
    pub(super) const EOPNOTSUPP: i32 = 95;
    pub(super) const EDQUOT: i32 = 122;
}

impl Error {
    /// Wraps a system error with what was tried. A full disk keeps its own kind, and so does what a program asks for in vain.
    #[must_use]
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        let what = what.into();
        match source.raw_os_error() {
            Some(errno::ENOSPC | errno::EDQUOT) => Self::NoSpace(what),
            Some(errno::EROFS) => Self::ReadOnly(what),
            Some(errno::EFBIG) => Self::FileTooLarge,
            _ => Self::Io { what, source },
        }
    }

    /// The errno that a program sees. This table is the only one.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => errno::ENOENT,
            Self::Exists => errno::EEXIST,
            Self::NotDirectory => errno::ENOTDIR,
            Self::IsDirectory => errno::EISDIR,
            Self::NotEmpty => errno::ENOTEMPTY,
            Self::Invalid(_) => errno::EINVAL,
            Self::NotPermitted => errno::EPERM,
            Self::AccessDenied => errno::EACCES,
            Self::NameTooLong => errno::ENAMETOOLONG,
            Self::TooManyLinks => errno::EMLINK,
            Self::NoAttribute => errno::ENODATA,
            Self::Range => errno::ERANGE,
            Self::TooBig(_) => errno::E2BIG,
            Self::FileTooLarge => errno::EFBIG,
            Self::NoSpace(_) => errno::ENOSPC,
            Self::ReadOnly(_) => errno::EROFS,
            Self::NotSupported(_) => errno::EOPNOTSUPP,
            Self::BadHandle => errno::EBADF,
            Self::NoData => errno::ENXIO,
            Self::CrossDevice => errno::EXDEV,
            Self::Running => errno::ETXTBSY,
            Self::Busy(_) => errno::EBUSY,
            Self::Corrupt { .. } | Self::Engine(_) => errno::EIO,
            Self::Io { source, .. } => match source.raw_os_error() {
                // The limit is the node's, not that of the program that asks.
                Some(errno::EMFILE) => errno::ENFILE,
                other => other.unwrap_or(errno::EIO),
            },
        }
    }

    /// Whether the failure is the store's fault and belongs in the log at error level.
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Engine(_) | Self::Io { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_below_is_no_space() {
        let e = Error::io("write", std::io::Error::from_raw_os_error(28));
        assert_eq!(e.errno(), 28);
        assert!(!e.is_internal());
        assert_eq!(Error::io("x", std::io::Error::from_raw_os_error(5)).errno(), 5);
    }

    #[test]
    fn a_file_longer_than_the_disk_below_can_have_is_no_fault_of_the_store() {
        let e = Error::io("allocate", std::io::Error::from_raw_os_error(27));
        assert_eq!(e.errno(), 27);
        assert!(!e.is_internal());
    }

    #[test]
    fn the_nodes_limit_of_open_files_is_not_told_as_the_programs_own() {
        let e = Error::io("open", std::io::Error::from_raw_os_error(24));
        assert_eq!(e.errno(), 23, "ENFILE");
    }
}
