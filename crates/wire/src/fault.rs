//! An error on its way to another node: the same kind and errno arrive there.

use intarsia_types::{Error, InodeId};
use serde::{Deserialize, Serialize};

/// Longest text that is sent along; a longer one is cut.
const MAX_TEXT_BYTES: usize = 4096;

/// [`Error`] in numbers. Variants are only ever appended, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// 0
    NotFound,
    /// 1
    Exists,
    /// 2
    NotDirectory,
    /// 3
    IsDirectory,
    /// 4
    NotEmpty,
    /// 5
    Invalid(String),
    /// 6
    NotPermitted,
    /// 7
    AccessDenied,
    /// 8
    NameTooLong,
    /// 9
    TooManyLinks,
    /// 10
    NoAttribute,
    /// 11
    Range,
    /// 12
    TooBig(String),
    /// 13
    FileTooLarge,
    /// 14
    NoSpace(String),
    /// 15
    ReadOnly(String),
    /// 16: the text is for the log; [`Error::NotSupported`] holds fixed texts only.
    NotSupported(String),
    /// 17
    BadHandle,
    /// 18
    NoData,
    /// 19
    CrossDevice,
    /// 20
    Busy(String),
    /// 21
    Corrupt {
        /// The inode concerned.
        ino: InodeId,
        /// What was damaged.
        what: String,
    },
    /// 22
    Engine(String),
    /// 23: the operating system failed there.
    Io {
        /// What was tried.
        what: String,
        /// The errno, where the system gave one.
        errno: Option<i32>,
        /// The system's text, where it gave no errno.
        text: String,
    },
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        match error {
            Error::NotFound => Self::NotFound,
            Error::Exists => Self::Exists,
            Error::NotDirectory => Self::NotDirectory,
            Error::IsDirectory => Self::IsDirectory,
            Error::NotEmpty => Self::NotEmpty,
            Error::Invalid(text) => Self::Invalid(cut(text)),
            Error::NotPermitted => Self::NotPermitted,
            Error::AccessDenied => Self::AccessDenied,
            Error::NameTooLong => Self::NameTooLong,
            Error::TooManyLinks => Self::TooManyLinks,
            Error::NoAttribute => Self::NoAttribute,
            Error::Range => Self::Range,
            Error::TooBig(text) => Self::TooBig(cut(text)),
            Error::FileTooLarge => Self::FileTooLarge,
            Error::NoSpace(text) => Self::NoSpace(cut(text)),
            Error::ReadOnly(text) => Self::ReadOnly(cut(text)),
            Error::NotSupported(text) => Self::NotSupported(cut(text)),
            Error::BadHandle => Self::BadHandle,
            Error::NoData => Self::NoData,
            Error::CrossDevice => Self::CrossDevice,
            // Only the host that runs a file knows of it.
            Error::Running => Self::Io {
                what: error.to_string(),
                errno: Some(error.errno()),
                text: String::new(),
            },
            Error::Busy(text) => Self::Busy(cut(text)),
            Error::Corrupt { ino, what } => Self::Corrupt { ino: *ino, what: cut(what) },
            Error::Engine(text) => Self::Engine(cut(text)),
            Error::Io { what, source } => Self::Io {
                what: cut(what),
                errno: source.raw_os_error(),
                text: match source.raw_os_error() {
                    Some(_) => String::new(),
                    None => cut(&source.to_string()),
                },
            },
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotFound => Self::NotFound,
            Fault::Exists => Self::Exists,
            Fault::NotDirectory => Self::NotDirectory,
            Fault::IsDirectory => Self::IsDirectory,
            Fault::NotEmpty => Self::NotEmpty,
            Fault::Invalid(text) => Self::Invalid(text),
            Fault::NotPermitted => Self::NotPermitted,
            Fault::AccessDenied => Self::AccessDenied,
            Fault::NameTooLong => Self::NameTooLong,
            Fault::TooManyLinks => Self::TooManyLinks,
            Fault::NoAttribute => Self::NoAttribute,
            Fault::Range => Self::Range,
            Fault::TooBig(text) => Self::TooBig(text),
            Fault::FileTooLarge => Self::FileTooLarge,
            Fault::NoSpace(text) => Self::NoSpace(text),
            Fault::ReadOnly(text) => Self::ReadOnly(text),
            Fault::NotSupported(_) => Self::NotSupported("the peer does not offer it"),
            Fault::BadHandle => Self::BadHandle,
            Fault::NoData => Self::NoData,
            Fault::CrossDevice => Self::CrossDevice,
            Fault::Busy(text) => Self::Busy(text),
            Fault::Corrupt { ino, what } => Self::Corrupt { ino, what },
            Fault::Engine(text) => Self::Engine(text),
            Fault::Io { what, errno, text } => Self::Io {
                what,
                source: match errno {
                    Some(errno) => std::io::Error::from_raw_os_error(errno),
                    None => std::io::Error::other(text),
                },
            },
        }
    }
}

fn cut(text: &str) -> String {
    let end = (0..=text.len().min(MAX_TEXT_BYTES)).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_errno_survive_the_way() {
        let text = || "why".to_owned();
        let all = [
            Error::NotFound,
            Error::Exists,
            Error::NotDirectory,
            Error::IsDirectory,
            Error::NotEmpty,
            Error::Invalid(text()),
            Error::NotPermitted,
            Error::AccessDenied,
            Error::NameTooLong,
            Error::TooManyLinks,
            Error::NoAttribute,
            Error::Range,
            Error::TooBig(text()),
            Error::FileTooLarge,
            Error::NoSpace(text()),
            Error::ReadOnly(text()),
            Error::NotSupported("why"),
            Error::BadHandle,
            Error::NoData,
            Error::CrossDevice,
            Error::Busy(text()),
            Error::Corrupt { ino: InodeId(9), what: text() },
            Error::Engine(text()),
            Error::Io { what: text(), source: std::io::Error::from_raw_os_error(110) },
            Error::Io { what: text(), source: std::io::Error::other("no errno") },
        ];
        for error in all {
            let back = Error::from(Fault::from(&error));
            assert_eq!(back.errno(), error.errno());
            assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&error));
            if !matches!(error, Error::NotSupported(_)) {
                assert_eq!(back.to_string(), error.to_string());
            }
        }
    }

    #[test]
    fn a_text_without_end_is_cut_between_characters() {
        let Fault::Busy(text) = Fault::from(&Error::Busy("ü".repeat(5000))) else { panic!() };
        assert_eq!(text.len(), MAX_TEXT_BYTES);
    }
}
