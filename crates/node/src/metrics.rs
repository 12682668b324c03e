//! Counters and latency histograms, with labels bounded by the number of operations.

pub(crate) mod hinted;
pub(crate) mod last_told;
pub(crate) mod outlived;
mod wishes;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_sync::Instant;

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

/// Upper bounds of the latency buckets in microseconds; the last bucket is unbounded.
const BUCKETS_US: [u64; 12] =
    [5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000, 100_000, 1_000_000];

#[derive(Debug, Default)]
struct OpMetrics {
    errors: AtomicU64,
    total_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
}

/// What the node counts.
#[derive(Debug)]
pub struct Metrics {
    ops: Vec<OpMetrics>,
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
            ops: Op::ALL.iter().map(|_| OpMetrics::default()).collect(),
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
        self.observe(timer.op, timer.start.elapsed(), is_ok);
    }

    /// Counts requests that need no answer.
    pub fn count(&self, op: Op, n: u64) {
        if let Some(m) = self.ops.get(op as usize) {
            m.buckets[0].fetch_add(n, Ordering::Relaxed);
        }
    }

    fn observe(&self, op: Op, took: Duration, is_ok: bool) {
        let Some(m) = self.ops.get(op as usize) else { return };
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.iter().position(|us| ns <= us * 1000).unwrap_or(BUCKETS_US.len());
        m.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        m.total_ns.fetch_add(ns, Ordering::Relaxed);
        if !is_ok {
            m.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        Op::ALL.iter().map(|op| self.requests_of(*op)).sum()
    }

    /// Requests of one kind so far.
    #[must_use]
    pub fn requests_of(&self, op: Op) -> u64 {
        self.ops
            .get(op as usize)
            .map_or(0, |m| m.buckets.iter().map(|b| b.load(Ordering::Relaxed)).sum())
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
        let mut requests = String::new();
        let mut errors = String::new();
        let mut latency = String::new();
        for (op, m) in Op::ALL.iter().zip(&self.ops) {
            let counts: Vec<u64> = m.buckets.iter().map(|b| b.load(Ordering::Relaxed)).collect();
            let total: u64 = counts.iter().sum();
            if total == 0 {
                continue;
            }
            let op = op.name();
            let failed = m.errors.load(Ordering::Relaxed);
            let _ = writeln!(requests, "intarsia_fuse_requests_total{{op=\"{op}\"}} {total}");
            let _ = writeln!(errors, "intarsia_fuse_errors_total{{op=\"{op}\"}} {failed}");
            render_histogram(&mut latency, op, &counts, m.total_ns.load(Ordering::Relaxed));
        }
        header(out, "fuse_requests_total", "counter", "Kernel requests answered");
        out.push_str(&requests);
        header(out, "fuse_errors_total", "counter", "Kernel requests answered with an errno");
        out.push_str(&errors);
        header(out, "fuse_latency_seconds", "histogram", "Time from request to answer");
        out.push_str(&latency);
    }
}

#[allow(clippy::cast_precision_loss, reason = "a metric in seconds is a float by convention")]
fn render_histogram(out: &mut String, op: &str, counts: &[u64], total_ns: u64) {
    let mut seen = 0;
    for (bound, count) in BUCKETS_US.iter().zip(counts) {
        seen += count;
        let le = *bound as f64 / 1e6;
        let _ =
            writeln!(out, "intarsia_fuse_latency_seconds_bucket{{op=\"{op}\",le=\"{le}\"}} {seen}");
    }
    let total: u64 = counts.iter().sum();
    let seconds = total_ns as f64 / 1e9;
    let _ =
        writeln!(out, "intarsia_fuse_latency_seconds_bucket{{op=\"{op}\",le=\"+Inf\"}} {total}");
    let _ = writeln!(out, "intarsia_fuse_latency_seconds_sum{{op=\"{op}\"}} {seconds}");
    let _ = writeln!(out, "intarsia_fuse_latency_seconds_count{{op=\"{op}\"}} {total}");
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
        metrics.observe(Op::Lookup, Duration::from_micros(7), true);
        metrics.observe(Op::Lookup, Duration::from_secs(9), false);
        let mut out = String::new();
        metrics.render(&mut out);
        assert!(out.contains("intarsia_fuse_requests_total{op=\"lookup\"} 2"), "{out}");
        assert!(out.contains("intarsia_fuse_errors_total{op=\"lookup\"} 1"));
        assert!(out.contains("{op=\"lookup\",le=\"0.00001\"} 1"));
        assert!(out.contains("{op=\"lookup\",le=\"1\"} 1"));
        assert!(out.contains("{op=\"lookup\",le=\"+Inf\"} 2"));
    }
}
