//! Counters and latency histograms, as Prometheus reads them.
//!
//! Owns the counts since the start of the node.
//! Asks nobody: whoever does something counts it here.
//! Promises that counting cannot fail, and that the number of labels is bounded by the kinds of operations.

pub(crate) mod hinted;
pub(crate) mod last_told;
mod latency;
pub(crate) mod outlived;
mod wishes;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use intarsia_sync::{Instant, RwLock};

use latency::Latency;
pub use latency::{RequestTimes, TimeBucket};

macro_rules! operations {
    ($($variant:ident => $name:literal),+ $(,)?) => {
        /// A kind of kernel request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names say it all")]
        pub enum Op { $($variant),+ }

        impl Op {
            /// Every kind, in the order of the variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used as a label.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

operations! {
    Lookup => "lookup", Forget => "forget", GetAttr => "getattr", SetAttr => "setattr",
    ReadLink => "readlink", MkNod => "mknod", MkDir => "mkdir", Unlink => "unlink",
    RmDir => "rmdir", SymLink => "symlink", Rename => "rename", Link => "link", Open => "open",
    Create => "create", Read => "read", Write => "write", Flush => "flush", Release => "release",
    FSync => "fsync", OpenDir => "opendir", ReadDir => "readdir", ReadDirPlus => "readdirplus",
    ReleaseDir => "releasedir", FSyncDir => "fsyncdir", StatFs => "statfs", SetXattr => "setxattr",
    GetXattr => "getxattr", ListXattr => "listxattr", RemoveXattr => "removexattr",
    FAllocate => "fallocate", LSeek => "lseek", CopyFileRange => "copy_file_range",
    GetLock => "getlk", SetLock => "setlk", Locate => "locate", Tag => "tag",
}

/// What the node counts.
#[derive(Debug)]
pub struct Metrics {
    ops: Vec<Latency>,
    /// Requests of other hosts, by the names of their kinds.
    served: RwLock<BTreeMap<&'static str, Latency>>,
    /// Opens served by the kernel's passthrough.
    pub opens_passthrough: AtomicU64,
    /// Opens served through the process.
    pub opens_cached: AtomicU64,
    /// Bytes read through the process.
    pub read_bytes: AtomicU64,
    /// Bytes written through the process.
    pub written_bytes: AtomicU64,
    /// Files settled: nobody can write to them any more.
    pub settled: AtomicU64,
    /// Small files moved beside their inode.
    pub folded: AtomicU64,
    /// Backing files emptied for another owner.
    pub recycled: AtomicU64,
    /// Files whose content was summed.
    pub summed: AtomicU64,
    /// Reads refused because of a wrong checksum.
    pub checksum_failures: AtomicU64,
    /// Bytes read from backing files to sum them; holes are not read.
    pub summed_bytes: AtomicU64,
    /// New files that another host took in, for want of room here.
    pub born_elsewhere: AtomicU64,
    /// New files that were born where their hints wish them.
    pub placed_as_hinted: AtomicU64,
    /// New files that were not born where their hints wish them.
    pub placed_otherwise: AtomicU64,
    /// New files of other hosts that this one took in.
    pub taken_in: AtomicU64,
    /// Writes that got ENOSPC.
    pub refused_for_room: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self {
            ops: Op::ALL.iter().map(|_| Latency::default()).collect(),
            served: RwLock::default(),
            opens_passthrough: zero(),
            opens_cached: zero(),
            read_bytes: zero(),
            written_bytes: zero(),
            settled: zero(),
            folded: zero(),
            recycled: zero(),
            summed: zero(),
            checksum_failures: zero(),
            summed_bytes: zero(),
            born_elsewhere: zero(),
            placed_as_hinted: zero(),
            placed_otherwise: zero(),
            taken_in: zero(),
            refused_for_room: zero(),
        }
    }
}

/// Runs from the arrival of a request to its answer.
#[derive(Debug)]
pub struct OpTimer {
    op: Op,
    start: Instant,
}

impl OpTimer {
    /// When the request came.
    #[must_use]
    pub const fn started(&self) -> Instant {
        self.start
    }
}

impl Metrics {
    /// Starts timing a request.
    #[must_use]
    pub fn start(op: Op) -> OpTimer {
        OpTimer { op, start: Instant::now() }
    }

    /// Counts an answered request.
    pub fn finish(&self, timer: &OpTimer, is_ok: bool) {
        if let Some(latency) = self.ops.get(timer.op as usize) {
            latency.observe(timer.start.elapsed(), is_ok);
        }
    }

    /// Counts requests that need no answer.
    pub fn count(&self, op: Op, n: u64) {
        if let Some(latency) = self.ops.get(op as usize) {
            latency.count(n);
        }
    }

    /// Counts a request of another host that was answered.
    pub(crate) fn served(&self, kind: &'static str, came: Instant, is_ok: bool) {
        let took = came.elapsed();
        if let Some(latency) = self.served.read().get(kind) {
            return latency.observe(took, is_ok);
        }
        self.served.write().entry(kind).or_default().observe(took, is_ok);
    }

    /// What requests of programs took, by kind; kinds that never came are left out.
    pub(crate) fn request_times(&self) -> Vec<RequestTimes> {
        let ops = Op::ALL.iter().zip(&self.ops);
        ops.filter_map(|(op, latency)| latency.times(op.name())).collect()
    }

    /// The same of requests of other hosts.
    pub(crate) fn served_times(&self) -> Vec<RequestTimes> {
        let served = self.served.read();
        served.iter().filter_map(|(kind, latency)| latency.times(kind)).collect()
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        Op::ALL.iter().map(|op| self.requests_of(*op)).sum()
    }

    /// Requests of one kind so far.
    #[must_use]
    pub fn requests_of(&self, op: Op) -> u64 {
        self.ops.get(op as usize).map_or(0, Latency::requests)
    }

    /// The requests in Prometheus text form; kinds that never came are left out.
    pub(crate) fn render(&self, out: &mut String) {
        self.render_requests(out);
        let counters = [
            (
                "opens_passthrough_total",
                "Opens served by kernel passthrough",
                &self.opens_passthrough,
            ),
            ("opens_cached_total", "Opens served through the process", &self.opens_cached),
            ("read_bytes_total", "Bytes read through the process", &self.read_bytes),
            ("written_bytes_total", "Bytes written through the process", &self.written_bytes),
            ("settled_total", "Files that nobody can write to any more", &self.settled),
            ("folded_total", "Small files moved beside their inode", &self.folded),
            ("recycled_total", "Backing files emptied for another owner", &self.recycled),
            ("summed_total", "Files whose content was summed", &self.summed),
            (
                "checksum_failures_total",
                "Reads refused for a wrong checksum",
                &self.checksum_failures,
            ),
            ("summed_bytes_total", "Bytes read to sum files, holes left out", &self.summed_bytes),
            (
                "files_born_elsewhere_total",
                "New files that other hosts took in for want of room here",
                &self.born_elsewhere,
            ),
            (
                "files_placed_as_hinted_total",
                "New files that were born where their hints wish them",
                &self.placed_as_hinted,
            ),
            (
                "files_placed_otherwise_total",
                "New files that were not born where their hints wish them",
                &self.placed_otherwise,
            ),
            ("files_taken_in_total", "New files of other hosts taken in here", &self.taken_in),
            (
                "writes_refused_for_room_total",
                "Writes that got ENOSPC for want of room in the tiers",
                &self.refused_for_room,
            ),
        ];
        for (name, help, value) in counters {
            sample(out, name, "counter", help, value.load(Ordering::Relaxed));
        }
    }

    fn render_requests(&self, out: &mut String) {
        let (mut requests, mut errors) = (String::new(), String::new());
        let times = self.request_times();
        for RequestTimes { kind, count, errors: failed, .. } in &times {
            let _ = writeln!(requests, "intarsia_fuse_requests_total{{op=\"{kind}\"}} {count}");
            let _ = writeln!(errors, "intarsia_fuse_errors_total{{op=\"{kind}\"}} {failed}");
        }
        header(out, "fuse_requests_total", "counter", "Kernel requests answered");
        out.push_str(&requests);
        header(out, "fuse_errors_total", "counter", "Kernel requests answered with an errno");
        out.push_str(&errors);
        header(out, "fuse_latency_seconds", "histogram", "Time from request to answer");
        times.iter().for_each(|of_kind| of_kind.render(out, "fuse_latency_seconds", "op"));
    }

    /// Requests of other hosts in Prometheus text form.
    pub(crate) fn render_served(&self, out: &mut String) {
        let help = "Time from a request of another host to its answer";
        header(out, "peer_latency_seconds", "histogram", help);
        let times = self.served_times();
        times.iter().for_each(|of_kind| of_kind.render(out, "peer_latency_seconds", "kind"));
    }
}

pub(crate) fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP intarsia_{name} {help}\n# TYPE intarsia_{name} {kind}");
}

pub(crate) fn sample(out: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    header(out, name, kind, help);
    let _ = writeln!(out, "intarsia_{name} {value}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn operations_stand_at_their_own_number() {
        for (i, op) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, i);
        }
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_in_infinity() {
        let metrics = Metrics::default();
        let lookup = &metrics.ops[Op::Lookup as usize];
        lookup.observe(Duration::from_micros(7), true);
        lookup.observe(Duration::from_secs(9), false);
        let mut out = String::new();
        metrics.render(&mut out);
        assert!(out.contains("intarsia_fuse_requests_total{op=\"lookup\"} 2"), "{out}");
        assert!(out.contains("intarsia_fuse_errors_total{op=\"lookup\"} 1"));
        assert!(out.contains("{op=\"lookup\",le=\"0.00001\"} 1"));
        assert!(out.contains("{op=\"lookup\",le=\"1\"} 1"));
        assert!(out.contains("{op=\"lookup\",le=\"+Inf\"} 2"));
    }

    #[test]
    fn requests_of_other_hosts_are_told_by_kind() {
        let metrics = Metrics::default();
        for is_ok in [true, false] {
            metrics.served("open part", Instant::now(), is_ok);
        }
        metrics.served("read", Instant::now(), true);
        let told = metrics.served_times();
        let counts: Vec<_> = told.iter().map(|t| (t.kind, t.count, t.errors)).collect();
        assert_eq!(counts, [("open part", 2, 1), ("read", 1, 0)]);
        let mut out = String::new();
        metrics.render_served(&mut out);
        assert!(out.contains("peer_latency_seconds_count{kind=\"open part\"} 2"), "{out}");
    }
}
