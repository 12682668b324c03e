//! Bytes that the kernel moves by itself: what can be known of them when the file is closed.

use intarsia_trace::{Access, Counted, How};

/// What the kernel counts for a process: bytes in its calls of read and write, of whatever file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessIo {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

impl ProcessIo {
    pub(super) fn of(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        Some(Self { read_bytes: field("rchar:")?, written_bytes: field("wchar:")? })
    }

    pub(super) const fn since(self, earlier: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

/// What is known of a file that the kernel served by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) access: Access,
    pub(super) opened_bytes: u64,
    pub(super) closed_bytes: u64,
    /// What the process moved meanwhile, of all its files.
    pub(super) moved: Option<ProcessIo>,
}

impl Served {
    /// Bytes read: at most once the whole file.
    pub(super) fn read(self) -> Counted {
        if !self.access.reads {
            return Counted::default();
        }
        let most = self.opened_bytes.max(self.closed_bytes);
        match self.moved {
            Some(moved) => Counted { bytes: moved.read_bytes.min(most), how: How::Process },
            // What was in the file when it was opened; nothing of one that is new.
            None => Counted { bytes: self.opened_bytes, how: How::Assumed },
        }
    }

    /// Bytes written: what is new of the file, or what the process wrote meanwhile.
    pub(super) fn written(self) -> Counted {
        if !self.access.writes {
            return Counted::default();
        }
        if self.access.is_new || self.access.truncates {
            return Counted { bytes: self.closed_bytes, how: How::Length };
        }
        let growth = self.closed_bytes.saturating_sub(self.opened_bytes);
        match self.moved {
            Some(moved) => {
                let bytes = moved.written_bytes.min(self.closed_bytes).max(growth);
                Counted { bytes, how: How::Process }
            }
            None => Counted { bytes: growth, how: How::Growth },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: Access = Access {
        reads: true,
        writes: false,
        is_new: false,
        truncates: false,
        is_passthrough: true,
    };
    const WRITES: Access = Access { reads: false, writes: true, ..READS };

    fn served(access: Access, lengths: (u64, u64), moved: Option<(u64, u64)>) -> Served {
        let moved =
            moved.map(|(read_bytes, written_bytes)| ProcessIo { read_bytes, written_bytes });
        Served { access, opened_bytes: lengths.0, closed_bytes: lengths.1, moved }
    }

    #[test]
    fn a_file_is_read_once_or_as_far_as_its_process_read() {
        let of = |moved| served(READS, (100, 100), moved).read();
        assert_eq!(of(None), Counted { bytes: 100, how: How::Assumed });
        assert_eq!(of(Some((40, 0))), Counted { bytes: 40, how: How::Process });
        assert_eq!(of(Some((999, 0))), Counted { bytes: 100, how: How::Process });
        assert_eq!(served(WRITES, (100, 100), None).read(), Counted::default());
    }

    #[test]
    fn a_new_file_was_written_as_long_as_it_is() {
        let new = Access { is_new: true, ..WRITES };
        let counted = served(new, (0, 70), Some((0, 999))).written();
        assert_eq!(counted, Counted { bytes: 70, how: How::Length });
        let grown = served(WRITES, (100, 130), None).written();
        assert_eq!(grown, Counted { bytes: 30, how: How::Growth });
        let over = served(WRITES, (100, 130), Some((0, 60))).written();
        assert_eq!(over, Counted { bytes: 60, how: How::Process });
        assert_eq!(served(WRITES, (100, 130), Some((0, 0))).written().bytes, 30);
        assert_eq!(served(READS, (100, 100), None).written(), Counted::default());
    }

    #[test]
    fn what_the_kernel_counts_is_read() {
        let text = "rchar: 2012\nwchar: 0\nsyscr: 7\nsyscw: 0\nread_bytes: 4096\n";
        let expected = ProcessIo { read_bytes: 2012, written_bytes: 0 };
        assert_eq!(ProcessIo::parse(text), Some(expected));
        assert_eq!(ProcessIo::parse("rchar: x\n"), None);
        assert!(ProcessIo::of(std::process::id()).is_some());
    }
}
