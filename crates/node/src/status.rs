//! What the node reports about itself, about where files are, and about files that were lost.
//!
//! Owns nothing: each report is made when somebody asks.
//! Asks the rooms that it tells of, the namespace for records, and `membership` for what other hosts report.
//! Promises that the names of the fields stay the same, and that a report is given also while the metadata does not
//! answer, of what is known then.

pub(crate) mod lost;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_meta::{Inode, MemberState, MemberTier, Namespace};
use intarsia_store::Space;
use intarsia_sync::Instant;
use intarsia_types::{Attr, Durability, HintKey, Layout, NodeId, Result, TierClass};
use serde::Serialize;

use crate::background::queue::Queue;
use crate::body::Bodies;
use crate::cache::remote_cache::{RemoteCache, RemoteCacheStatus};
use crate::cache::spread::Spreads;
use crate::inode::live::LiveTable;
use crate::inode::reclaiming::Reclaimer;
use crate::members::Members;
use crate::membership::cluster::{Cluster, in_words};
use crate::membership::sight::ask_for_report;
use crate::metrics::hinted::Hinted;
use crate::metrics::outlived::Outlived;
use crate::metrics::{Metrics, RequestTimes, header, sample};
use crate::replication::Replicas;
use crate::replication::copies::Copies;
use crate::space::hints::own_hints;
use crate::space::inode_count::InodeCount;
use crate::space::tiers::Tiers;

/// One tier in a [`Status`].
#[derive(Clone, Debug, Serialize)]
pub struct TierStatus {
    /// Number of the tier.
    pub tier: u16,
    /// Its directory.
    pub dir: PathBuf,
    /// What it is made of.
    pub class: TierClass,
    /// The file system below.
    pub file_system: String,
    /// Whether the kernel's passthrough can stand on it.
    pub is_stackable: bool,
    /// Whether new files go elsewhere.
    pub is_low: bool,
    /// Whether the space in use has been counted since the last unclean stop.
    pub is_counted: bool,
    /// Capacity, use and what is left.
    #[serde(flatten)]
    pub space: Space,
}

/// The state of a node. Field names are stable.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The host.
    pub node: String,
    /// The store's own name.
    pub store: String,
    /// The store's directory.
    pub dir: PathBuf,
    /// The process.
    pub pid: u32,
    /// Version of this program.
    pub version: &'static str,
    /// What an acknowledged close survives.
    pub durability: String,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Inodes of every kind, the root included; none while the metadata does not answer.
    pub inodes: Option<u64>,
    /// Why the metadata does not answer, if it does not. What is told of other hosts is then what was known last.
    pub metadata_trouble: Option<String>,
    /// Kernel requests answered.
    pub requests: u64,
    /// What they took, by kind: times of the store as its clients see them.
    pub request_times: Vec<RequestTimes>,
    /// What requests of other hosts took here, by kind: times of this host as a server.
    pub served_times: Vec<RequestTimes>,
    /// Opens served by the kernel alone.
    pub opens_passthrough: u64,
    /// Opens served through the process.
    pub opens_cached: u64,
    /// Inodes that are open or not settled.
    pub live_inodes: usize,
    /// Closed files that have not settled yet.
    pub unsettled: usize,
    /// Settled files whose content has not been summed yet.
    pub not_yet_checksummed: usize,
    /// Files that have fewer copies on other hosts than they should.
    pub waiting_for_copies: u64,
    /// Their bytes.
    pub waiting_for_copies_bytes: u64,
    /// Bytes of memory that the metadata engine holds.
    pub metadata_memory_bytes: u64,
    /// Bytes of disk that the metadata engine holds.
    pub metadata_disk_bytes: u64,
    /// What is kept of other hosts' files.
    pub remote_cache: RemoteCacheStatus,
    /// The tiers.
    pub tiers: Vec<TierStatus>,
    /// The lower file system, if the store lies over one.
    pub lower: Option<PathBuf>,
    /// All hosts of a store of several, this one among them.
    pub hosts: Vec<HostStatus>,
}

/// The state of a host that does not answer, when nobody can say what became of it.
const SILENT: &str = "silent";

/// A host of the store in a [`Status`].
#[derive(Clone, Debug, Serialize)]
pub struct HostStatus {
    /// Its name.
    pub host: String,
    /// What it is doing: joining, serving, leaving, stopped or lost; silent, when the metadata does not answer and the
    /// host takes no connection either.
    pub state: &'static str,
    /// Since when.
    pub since: String,
    /// Where it serves the others.
    pub address: Option<std::net::SocketAddr>,
    /// What its tiers may hold.
    pub capacity_bytes: u64,
    /// What they can still take.
    pub free_bytes: u64,
}

/// Where a file is and what is in force for it.
#[derive(Clone, Debug, Serialize)]
pub struct Location {
    /// The path within the store.
    pub path: String,
    /// The hosts that hold it, heaviest first.
    pub nodes: Vec<String>,
    /// How it is kept.
    pub layout: &'static str,
    /// Number of its tier, if it has a backing file.
    pub tier: Option<u16>,
    /// Its backing file, if it has one.
    pub backing_file: Option<String>,
    /// Its length.
    pub size_bytes: u64,
    /// Whether sums of its content are stored.
    pub checksummed: bool,
    /// Its own hints.
    pub hints: Vec<LocatedHint>,
}

/// A hint of a located file.
#[derive(Clone, Debug, Serialize)]
pub struct LocatedHint {
    /// Name.
    pub name: HintKey,
    /// Value.
    pub value: String,
    /// Whether this store acts on it.
    pub acted_upon: bool,
}

/// Says what there is to say of this host and of its store, asking the rooms.
pub(crate) struct Reporter {
    /// The name of this host.
    pub(crate) me: NodeId,
    pub(crate) store: String,
    pub(crate) dir: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) started: Instant,
    pub(crate) members: Members,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) inode_count: InodeCount,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) remote_cache: Arc<RemoteCache>,
    pub(crate) spreads: Arc<Spreads>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    /// The finalizer's.
    pub(crate) queue: Arc<Queue>,
    pub(crate) counters: Arc<Metrics>,
    pub(crate) hinted: Arc<Hinted>,
    pub(crate) outlived: Arc<Outlived>,
}

impl Reporter {
    /// The node's state now.
    ///
    /// # Errors
    /// The engine's own.
    pub(crate) fn status(&self) -> Result<Status> {
        self.reclaimer.account_writers();
        let counted = ask_for_report(|| self.namespace.counts());
        let metadata_trouble = counted.as_ref().err().map(ToString::to_string);
        let silent = match &self.cluster {
            Some(cluster) if metadata_trouble.is_some() => cluster.silent_hosts(),
            _ => Vec::new(),
        };
        let engine = self.namespace.engine_stats();
        let (unsettled, not_yet_checksummed, _) = self.queue.backlog();
        let copies = self.replicas.queue.backlog();
        Ok(Status {
            node: self.me.0.clone(),
            store: self.store.clone(),
            dir: self.dir.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION"),
            durability: self.durability.to_string(),
            uptime_s: self.started.elapsed().as_secs(),
            inodes: counted.ok().map(|counts| counts.inodes),
            metadata_trouble,
            requests: self.counters.requests(),
            request_times: self.counters.request_times(),
            served_times: self.counters.served_times(),
            opens_passthrough: self.counters.opens_passthrough.load(Ordering::Relaxed),
            opens_cached: self.counters.opens_cached.load(Ordering::Relaxed),
            live_inodes: self.live.len(),
            unsettled,
            not_yet_checksummed,
            waiting_for_copies: copies.files,
            waiting_for_copies_bytes: copies.bytes,
            metadata_memory_bytes: engine.memory_bytes,
            metadata_disk_bytes: engine.disk_bytes,
            remote_cache: self.remote_cache.status(),
            tiers: self.tier_status(),
            lower: self.bodies.lower.path().map(std::path::Path::to_owned),
            hosts: self.host_status(&silent),
        })
    }

    fn host_status(&self, silent: &[NodeId]) -> Vec<HostStatus> {
        let members = self.cluster.as_ref().map(|cluster| cluster.members()).unwrap_or_default();
        members
            .into_iter()
            .map(|(node, member)| HostStatus {
                state: if silent.contains(&node) { SILENT } else { member.state.name() },
                host: node.0,
                since: in_words(member.since),
                address: member.address,
                capacity_bytes: member.tiers.iter().map(|tier| tier.capacity_bytes).sum(),
                free_bytes: member.tiers.iter().map(|tier| tier.free_bytes).sum(),
            })
            .collect()
    }

    fn tier_status(&self) -> Vec<TierStatus> {
        self.tiers
            .iter()
            .map(|t| TierStatus {
                tier: t.id().0,
                dir: t.dir().to_path_buf(),
                class: t.class(),
                file_system: t.file_system().kind.clone(),
                is_stackable: t.file_system().is_stackable,
                is_low: t.is_low(),
                is_counted: t.is_counted(),
                space: t.space(),
            })
            .collect()
    }

    /// Space and inodes for `statfs`: capacity, use and free bytes, of all hosts that are alive, and inodes in use. What
    /// is told of other hosts is at most some beats old, and so is the number of inodes that hosts share. A file system
    /// that several tiers share counts as each of them says.
    ///
    /// # Errors
    /// The engine's own.
    pub(crate) fn space(&self) -> Result<(Space, u64)> {
        self.reclaimer.account_writers();
        let inodes = self.inode_count.get(|| Ok(self.namespace.counts()?.inodes))?;
        Ok((self.store_space(), inodes))
    }

    fn store_space(&self) -> Space {
        let Some(cluster) = &self.cluster else { return self.tiers.space() };
        let mut total = Space::default();
        let mut add = |tiers: &[MemberTier], takes_files: bool| {
            for tier in tiers {
                total.capacity_bytes += tier.capacity_bytes;
                total.used_bytes += tier.capacity_bytes.saturating_sub(tier.free_bytes);
                total.free_bytes += if takes_files { tier.free_bytes } else { 0 };
            }
        };
        add(&self.remote_cache.tier_reports(), true);
        for (node, member) in cluster.members() {
            if node != self.me && member.state.is_alive() {
                add(&member.tiers, member.state != MemberState::Leaving);
            }
        }
        total
    }

    /// Where a file is whose record and attributes are known, and which has this path within the store.
    ///
    /// # Errors
    /// The engine's own.
    pub(crate) fn location(&self, path: &str, inode: &Inode, attr: &Attr) -> Result<Location> {
        let backing = inode.layout.backing();
        let hints = own_hints(&self.namespace, inode)?;
        Ok(Location {
            path: path.to_owned(),
            nodes: self.copies.hosts_of(inode)?.into_iter().map(|host| host.0).collect(),
            layout: inode.layout.name(),
            tier: backing.map(|b| b.tier.0),
            backing_file: backing.map(|b| b.file.to_string()),
            size_bytes: attr.size_bytes,
            checksummed: inode.checksummed || inode.layout == Layout::Inline,
            hints: hints
                .iter()
                .map(|(name, value)| LocatedHint {
                    name,
                    value: value.to_owned(),
                    acted_upon: name.is_acted_upon_as(value, self.members.is_shared()),
                })
                .collect(),
        })
    }

    /// The counters in Prometheus text form.
    pub(crate) fn metrics(&self) -> String {
        let mut out = String::new();
        header(&mut out, "build_info", "gauge", "Version of the running program");
        out.push_str(concat!(
            "intarsia_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1\n"
        ));
        self.counters.render(&mut out);
        if let Some(cluster) = &self.cluster {
            let help = "Bytes of files asked of other hosts";
            sample(&mut out, "remote_read_bytes_total", "counter", help, cluster.asked_bytes());
            self.counters.render_served(&mut out);
            self.render_remote_cache(&mut out);
            self.spreads.render(&mut out);
            self.hinted.render(&mut out);
            self.outlived.render(&mut out);
        }
        self.render_engine(&mut out);
        self.render_tiers(&mut out);
        let (unsettled, unsummed, unreclaimed) = self.queue.backlog();
        sample(
            &mut out,
            "unsettled_files",
            "gauge",
            "Closed files not settled yet",
            unsettled as u64,
        );
        sample(
            &mut out,
            "unsummed_files",
            "gauge",
            "Settled files not summed yet",
            unsummed as u64,
        );
        sample(
            &mut out,
            "unreclaimed_files",
            "gauge",
            "Removed files still on disk",
            unreclaimed as u64,
        );
        self.render_copies(&mut out);
        sample(
            &mut out,
            "live_inodes",
            "gauge",
            "Inodes open or not settled",
            self.live.len() as u64,
        );
        out
    }

    fn render_remote_cache(&self, out: &mut String) {
        let RemoteCacheStatus { files, bytes, hits, misses } = self.remote_cache.status();
        for (name, kind, help, value) in [
            ("remote_cache_files", "gauge", "Files of other hosts kept here", files as u64),
            ("remote_cache_bytes", "gauge", "Disk use of files of other hosts kept here", bytes),
            ("remote_cache_hits_total", "counter", "Opens served by such files", hits),
            ("remote_cache_misses_total", "counter", "Opens of other hosts' files not so", misses),
        ] {
            sample(out, name, kind, help, value);
        }
    }

    fn render_engine(&self, out: &mut String) {
        let e = self.namespace.engine_stats();
        for (name, help, value) in [
            ("engine_commits_total", "Metadata commits applied", e.commits),
            ("engine_conflicts_total", "Metadata commits refused by a condition", e.conflicts),
            ("engine_gets_total", "Metadata point reads", e.gets),
            ("engine_cache_hits_total", "Metadata point reads answered by the cache", e.cache_hits),
            ("engine_scans_total", "Metadata scans", e.scans),
            ("engine_syncs_total", "Times that the metadata journal was forced to disk", e.syncs),
        ] {
            sample(out, name, "counter", help, value);
        }
        sample(
            out,
            "engine_memory_bytes",
            "gauge",
            "Memory of the metadata engine",
            e.memory_bytes,
        );
        sample(out, "engine_disk_bytes", "gauge", "Disk use of the metadata engine", e.disk_bytes);
    }

    fn render_copies(&self, out: &mut String) {
        if !self.members.is_shared() {
            return;
        }
        let (waiting, counts) = (self.replicas.queue.backlog(), &self.replicas.counts);
        for (name, help, value) in [
            (
                "waiting_for_copies_files",
                "Files with fewer copies than they should have",
                waiting.files,
            ),
            ("waiting_for_copies_bytes", "Bytes of such files", waiting.bytes),
        ] {
            sample(out, name, "gauge", help, value);
        }
        for (name, help, value) in [
            ("copies_made_total", "Copies made on other hosts", &counts.made),
            ("copies_made_bytes_total", "Bytes of copies made on other hosts", &counts.made_bytes),
            ("copies_failed_total", "Copies that another host could not take", &counts.failed),
            ("copies_repaired_total", "Files whole again after a host was lost", &counts.repaired),
        ] {
            sample(out, name, "counter", help, value.load(Ordering::Relaxed));
        }
    }

    fn render_tiers(&self, out: &mut String) {
        use std::fmt::Write as _;
        let tiers = self.tier_status();
        for (name, help, value) in [
            (
                "tier_capacity_bytes",
                "What the tier may hold",
                (|s| s.capacity_bytes) as fn(&Space) -> u64,
            ),
            ("tier_used_bytes", "What its backing files take", |s| s.used_bytes),
            ("tier_free_bytes", "What it can still take", |s| s.free_bytes),
        ] {
            header(out, name, "gauge", help);
            for t in &tiers {
                let v = value(&t.space);
                let _ = writeln!(
                    out,
                    "intarsia_{name}{{tier=\"{}\",class=\"{}\"}} {v}",
                    t.tier, t.class
                );
            }
        }
    }
}
