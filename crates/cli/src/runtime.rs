//! The one door to the node and the mount; no other file of this crate names their crates.

mod files;

use std::cell::RefCell;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use intarsia_cluster::supervision::Holding;
use intarsia_meta::allowance;
use intarsia_mount::{Look, Mount, MountOptions};
#[cfg(test)]
pub(crate) use intarsia_node::Place;
pub(crate) use intarsia_node::{
    CheckOptions, Detail, MoveReport, Moved, OVERFLOW_NAME, RECORDS_DIRECTORY, tier_found_at,
};
use intarsia_node::{
    ClosingMode, ClosingProgress, HostPresence, MoveOptions, MoveProgress, Node, NodeOptions,
    Transfer,
};
use intarsia_policy::Speeds;
use intarsia_types::{ByteCount, Durability, Error, NodeId, Rule, RuleSet};
use serde::Serialize;
use serde_json::{Value, json};

use crate::assembly::Assembly;
use crate::config::Settings;
use crate::deployment::Membership;
use crate::ending::EndOrder;
use crate::exit::{Exit, Failure, Outcome};
use crate::failpoint;
use crate::holders::{Survey, is_held_elsewhere};
use crate::mounts::{self, MountEntry};
use crate::output;
use crate::remains;

/// The node's own defaults, for settings that nobody gave.
pub(crate) struct Defaults {
    pub(crate) durability: Durability,
    pub(crate) interval: Duration,
    pub(crate) inline_limit: ByteCount,
    pub(crate) inline_budget: ByteCount,
    pub(crate) watermark: ByteCount,
    pub(crate) cache: ByteCount,
    pub(crate) replicas: u16,
    pub(crate) copy_rate: ByteCount,
    pub(crate) record_limit: ByteCount,
}

pub(crate) fn defaults(dir: &Path) -> Defaults {
    let options = NodeOptions::new(dir);
    Defaults {
        durability: options.durability,
        interval: Duration::from_millis(options.interval_ms),
        inline_limit: options.inline_bytes,
        inline_budget: options.inline_budget,
        watermark: options.watermark,
        cache: options.cache,
        replicas: options.replicas,
        copy_rate: options.copy_rate,
        record_limit: options.record_limit,
    }
}

/// Joins the other hosts of the deployment, for a store of several.
pub(crate) fn join(
    settings: &Settings,
    assembly: Option<&Assembly>,
) -> Outcome<Option<Membership>> {
    let Some(dir) = &settings.deployment else { return Ok(None) };
    let joined = Membership::join(dir, &settings.name, &settings.dir, settings.wait, assembly);
    joined.map(Some).map_err(|e| failure(&e))
}

/// How long the metadata servers of a host that leaves may stay as they are before they are given up.
const METADATA_PATIENCE: Duration = Duration::from_secs(45);
/// Between two looks at them.
const METADATA_PAUSE: Duration = Duration::from_millis(500);
/// Other hosts see sooner than a host itself that its last metadata server is gone; it looks again within this time.
const METADATA_GONE: Duration = Duration::from_secs(5);

/// An open store.
pub(crate) struct Store {
    node: Arc<Node>,
    /// In a store of several hosts.
    membership: Mutex<Option<Membership>>,
}

impl Store {
    /// Opens the store, or founds it.
    pub(crate) fn open(settings: &Settings, membership: Option<Membership>) -> Outcome<Self> {
        let (root_uid, root_gid, root_perm) = root_owner(&settings.mount);
        let options = NodeOptions {
            tiers: settings.tiers.clone(),
            name: NodeId(settings.name.clone()),
            durability: settings.durability,
            interval_ms: u64::try_from(settings.interval.as_millis()).unwrap_or(u64::MAX),
            inline_bytes: settings.inline_limit,
            inline_budget: settings.inline_budget,
            watermark: settings.watermark,
            cache: settings.cache,
            passthrough: settings.passthrough,
            directory_leases: settings.directory_leases,
            rules: settings.rule_set()?,
            replicas: settings.replicas,
            copy_rate: settings.copy_rate,
            record: settings.record,
            record_limit: settings.record_limit,
            root_uid,
            root_gid,
            root_perm,
            lower: settings.lower.clone(),
            overflow: settings.overflow,
            cluster: membership.as_ref().map(|m| m.options.clone()),
            ..NodeOptions::new(&settings.dir)
        };
        let _insistence = allowance::insist(Instant::now() + settings.wait);
        let node = Node::open(options).map_err(|e| failure(&e))?;
        failpoint::reach("node:store-opened");
        let mut membership = membership;
        if let Some(membership) = &mut membership {
            let told = membership.tell_of_hosts(&node).and_then(|()| {
                failpoint::reach("node:hosts-told");
                membership.follow_hosts()
            });
            failpoint::reach("node:published");
            if let Err(error) = told {
                let _ = node.close();
                return Err(failure(&error));
            }
        }
        Ok(Self { node, membership: Mutex::new(membership) })
    }

    /// The state, with stable field names.
    pub(crate) fn status(&self) -> Outcome<Value> {
        let mut status = value(&self.node.status().map_err(|e| failure(&e))?)?;
        let redundancy = self.with_membership(Membership::redundancy).flatten();
        status["metadata_servers"] = value(&redundancy)?;
        status["record"] = value(&self.node.recorder().status())?;
        Ok(status)
    }

    /// Prometheus text.
    pub(crate) fn metrics(&self) -> String {
        self.node.metrics()
    }

    pub(crate) fn rules(&self) -> Vec<String> {
        self.node.rules().rules().iter().map(ToString::to_string).collect()
    }

    pub(crate) fn set_rules(&self, rules: &[String]) -> Outcome {
        let parse = |text: &String| {
            text.parse::<Rule>()
                .map_err(|e: intarsia_types::RuleError| Failure::usage(e.to_string()))
        };
        self.node.set_rules(RuleSet::new(rules.iter().map(parse).collect::<Outcome<_>>()?));
        Ok(())
    }

    /// Begins or ends to record what programs do; how that stands then. Without a detail only the latter.
    pub(crate) fn record(&self, detail: Option<Detail>) -> Outcome<Value> {
        let status = match detail {
            Some(detail) => self.node.record(detail).map_err(|e| failure(&e))?,
            None => self.node.recorder().status(),
        };
        value(&status)
    }

    /// Verifies the store, and mends it if asked to.
    pub(crate) fn check(
        &self,
        options: CheckOptions,
        progress: &mut dyn FnMut(Value),
    ) -> Outcome<Value> {
        let report = self
            .node
            .check(options, &mut |p| progress(json!({ "stage": p.stage, "records": p.records })))
            .map_err(|e| failure(&e))?;
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        Ok(json!({
            "is_clean": report.is_clean(),
            "inodes": report.inodes,
            "names": report.names,
            "orphans": report.orphans,
            "findings": findings,
        }))
    }

    /// Mends what is left of names that are gone; what it has mended, in words.
    pub(crate) fn mend(&self) -> Outcome<Option<String>> {
        let options = CheckOptions { repair: true, content: false };
        let report = self.node.check(options, &mut |_| {}).map_err(|e| failure(&e))?;
        report.findings.iter().for_each(|finding| tracing::warn!(%finding, "mended"));
        let count = report.findings.len();
        Ok((count > 0).then(|| {
            format!(
                "{} led to names that are gone; the log says what became of each.",
                output::count(count, "record")
            )
        }))
    }

    /// Tells every file whose only bytes are at lost hosts, and removes it if asked to.
    pub(crate) fn lost(&self, forget: bool, progress: &mut dyn FnMut(Value)) -> Outcome<Value> {
        let progress = RefCell::new(progress);
        let say = |message: Value| (progress.borrow_mut())(message);
        let mut each = |file| say(json!({ "file": file }));
        let mut count = |records| say(json!({ "records": records }));
        let summary = self.node.lost_files(forget, &mut each, &mut count);
        // Without metadata nobody can say that nothing is lost.
        let unknown = |error: &Error| Failure { exit: Exit::Degraded, ..failure(error) };
        value(
            &summary.map_err(|e| {
                if matches!(e, Error::Engine(_)) { unknown(&e) } else { failure(&e) }
            })?,
        )
    }

    /// What would have to move between hosts so that they are equally full, or as full as they are fast; or between the
    /// tiers of this host, if there are speeds of them.
    pub(crate) fn plan_balance(&self, speeds: &Speeds, tiers: &Speeds<String>) -> Outcome<Value> {
        let plan = if tiers.is_empty() {
            self.node.plan_balance(speeds).map(|plan| transfers(&plan))
        } else {
            self.node.plan_tiers(tiers).map(|plan| transfers(&plan))
        };
        Ok(json!({ "transfers": plan.map_err(|e| failure(&e))? }))
    }

    /// Moves files until that is so.
    pub(crate) fn balance(
        &self,
        speeds: &Speeds,
        tiers: &Speeds<String>,
        bytes_per_s: Option<u64>,
        progress: &mut dyn FnMut(Value),
    ) -> Outcome<MoveReport> {
        let mut show = |moved: MoveProgress| progress(json!(moved));
        let options = MoveOptions { bytes_per_s };
        let report = if tiers.is_empty() {
            self.node.balance(speeds, options, &mut show)
        } else {
            self.node.balance_tiers(tiers, options, &mut show)
        };
        report.map_err(|e| failure(&e))
    }

    /// Moves files back that have moved.
    pub(crate) fn move_back(
        &self,
        moved: &[Moved],
        bytes_per_s: Option<u64>,
        progress: &mut dyn FnMut(Value),
    ) -> Outcome<MoveReport> {
        let mut show = |moved: MoveProgress| progress(json!(moved));
        let report = self.node.move_back(moved, MoveOptions { bytes_per_s }, &mut show);
        report.map_err(|e| failure(&e))
    }

    /// Moves a host's files to the others.
    pub(crate) fn empty_host(
        &self,
        host: &str,
        bytes_per_s: Option<u64>,
        progress: &mut dyn FnMut(Value),
    ) -> Outcome<Value> {
        let host = NodeId(host.into());
        // It may have come a moment ago.
        self.node.meet_members().map_err(|e| failure(&e))?;
        let known = self.node.host_presences().unwrap_or_default();
        let is_up = known.iter().any(|known| known.name == host && known.is_alive);
        if is_up {
            self.check_may_leave(&host, &known)?;
        }
        let mut show = |moved: MoveProgress| progress(json!(moved));
        let report = self.node.empty_host(&host, MoveOptions { bytes_per_s }, &mut show);
        let report = report.map_err(|e| failure(&e))?;
        failpoint::reach("leave:emptied");
        // Servers of a lost host are made up for without anybody asking.
        let metadata_left = if is_up { self.move_metadata(&host, progress) } else { None };
        let mut report = value(&report)?;
        if let Some(description) = self.with_membership(Membership::description) {
            description.forget(&host).map_err(|e| failure(&e))?;
            report["metadata_left"] = metadata_left.into();
            let redundancy = self.with_membership(Membership::redundancy).flatten();
            report["metadata_servers"] = value(&redundancy)?;
        }
        Ok(report)
    }

    /// What the membership says, as long as there is one. Nothing that waits for the metadata is done here: a node that
    /// stops needs the membership too.
    fn with_membership<T>(&self, ask: impl FnOnce(&Membership) -> T) -> Option<T> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(ask)
    }

    /// The metadata of a store of several hosts is on two of them at least.
    fn check_may_leave(&self, leaving: &NodeId, known: &[HostPresence]) -> Outcome {
        let needs_two = self.with_membership(Membership::has_replicas).unwrap_or_default();
        let stays =
            |host: &&HostPresence| host.is_alive && !host.is_leaving && host.name != *leaving;
        let staying: Vec<&str> =
            known.iter().filter(stays).map(|host| host.name.0.as_str()).collect();
        if !needs_two || staying.len() > 1 {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{leaving} cannot leave: the metadata of this store is on two hosts at least, and only {} would be up",
            staying.first().unwrap_or(&"none")
        ))
        .with_help("bring another host of the store up, or have one join with 'intarsia up --join', first"))
    }

    /// Waits until the metadata servers of a host that leaves are on others; what is still there when nothing moves any
    /// more.
    fn move_metadata(&self, host: &NodeId, progress: &mut dyn FnMut(Value)) -> Option<String> {
        let mut before: Option<(Option<Holding>, Instant)> = None;
        loop {
            let holding = self.with_membership(|membership| membership.holding(host))?;
            if holding.as_ref().is_some_and(Holding::is_vacant) {
                return None;
            }
            let said = holding.as_ref().map_or_else(
                || "the metadata servers are not heard of".to_owned(),
                ToString::to_string,
            );
            match &before {
                Some((last, since)) if *last == holding => {
                    if since.elapsed() > METADATA_PATIENCE {
                        return Some(said);
                    }
                }
                _ => before = Some((holding, Instant::now())),
            }
            progress(json!({ "doing": "moving metadata", "left": said }));
            std::thread::sleep(METADATA_PAUSE);
        }
    }

    /// Takes back that a host is to leave.
    pub(crate) fn keep_host(&self, host: &str) -> Outcome<Value> {
        self.node.keep_host(&NodeId(host.into())).map_err(|e| failure(&e))?;
        Ok(Value::Null)
    }

    /// Whether metadata is here that no other host would have without this one, should it leave the store now.
    fn is_needed_for_metadata(&self) -> bool {
        let deadline = Instant::now() + METADATA_GONE;
        let holds = || self.with_membership(Membership::holds_metadata).unwrap_or_default();
        while holds() {
            if !self.node.is_leaving() || Instant::now() > deadline {
                return true;
            }
            std::thread::sleep(METADATA_PAUSE);
        }
        false
    }

    /// Brings everything to rest; the store can be opened again after it. `progress` hears what is done.
    pub(crate) fn close(&self, order: EndOrder, progress: &mut dyn FnMut(Value)) -> Outcome {
        let mode = if order.discard { ClosingMode::Discard } else { ClosingMode::Keep };
        let mut tell = |now: ClosingProgress| progress(closing(now));
        if self.is_needed_for_metadata() {
            self.node.stay_member();
        }
        let closed = self.node.close_with(mode, &mut tell).map_err(|e| failure(&e));
        failpoint::reach("node:closed");
        let membership = self.membership.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(membership) = membership else { return closed };
        if order.keep_servers {
            membership.leave_servers();
            return closed;
        }
        if order.takes_back {
            return closed.and(membership.take_back().map_err(|e| failure(&e)));
        }
        progress(json!({ "doing": "waiting for the other hosts to stop" }));
        closed.and(membership.leave().map_err(|e| failure(&e)))
    }
}

/// A store that programs work in.
pub(crate) struct Mounted {
    mount: Mount,
    /// As it is in the mount table.
    entry: Option<MountEntry>,
}

impl Mounted {
    pub(crate) fn start(store: &Store, settings: &Settings) -> Outcome<Self> {
        let options = MountOptions {
            mount_point: settings.mount.clone(),
            event_loops: settings.event_loops,
            allow_other: settings.allow_other,
            passthrough: settings.passthrough,
            read_only: settings.read_only,
        };
        let mount = Mount::start(&store.node, &options).map_err(|e| failure(&e))?;
        Ok(Self { mount, entry: mounts::at(&settings.mount) })
    }

    /// Waits until somebody has unmounted it and nobody uses a copy of it. `held` hears who does.
    pub(crate) fn wait(&self, held: impl Fn(&Survey)) -> Outcome {
        let look = |before| {
            self.entry.as_ref().map_or(Look::Used, |entry| remains::look(before, entry, &held))
        };
        self.mount.wait(look).map_err(|e| failure(&e))
    }

    /// Unmounts, or fails with [`Exit::Busy`](crate::exit::Exit::Busy). A mount that somebody else
    /// has put in the place of a detached one is left alone.
    pub(crate) fn unmount(&self) -> Outcome {
        let there = mounts::at(self.mount.mount_point());
        if there.map(|m| m.id) != self.entry.as_ref().map(|m| m.id) {
            return Err(Failure::not_running("the mount is detached already"));
        }
        if self.entry.as_ref().is_some_and(is_held_elsewhere) {
            let mount_point = self.mount.mount_point().display();
            return Err(Failure::busy(format!("a copy of the mount {mount_point} is in use")));
        }
        self.mount.unmount().map_err(|e| failure(&e))
    }

    /// Whether the kernel serves local files by itself, and why or why not.
    pub(crate) fn mode(&self) -> Value {
        serde_json::to_value(self.mount.mode()).unwrap_or(Value::Null)
    }
}

/// A new store's root directory takes after the directory that it is mounted on.
fn root_owner(mount: &Path) -> (u32, u32, u16) {
    match std::fs::metadata(mount) {
        Ok(meta) => {
            let perm = u16::try_from(meta.permissions().mode() & 0o7777).unwrap_or(0o755);
            (meta.uid(), meta.gid(), perm)
        }
        Err(_) => {
            let user = rustix::process::geteuid().as_raw();
            (user, rustix::process::getegid().as_raw(), 0o755)
        }
    }
}

/// What a node that closes is doing, in the fields that are shown.
fn closing(now: ClosingProgress) -> Value {
    let mut doing = json!({ "doing": now.step.as_str(), "files_left": now.files_left });
    if now.bytes_left > 0 {
        doing["bytes_done"] = now.bytes_done.into();
        doing["bytes_total"] = (now.bytes_done + now.bytes_left).into();
    }
    if now.metadata_silent_ms >= 1000 {
        let seconds = now.metadata_silent_ms / 1000;
        doing["doing"] =
            format!("{}, without an answer of the metadata for {seconds} s", now.step.as_str())
                .into();
    }
    doing
}

fn value(answer: &impl Serialize) -> Outcome<Value> {
    serde_json::to_value(answer).map_err(|e| Failure::general(format!("an answer: {e}")))
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::Busy(_) => Failure::busy(error.to_string()),
        Error::Invalid(why) => Failure::usage(why.clone()),
        _ => Failure::general(error.to_string()),
    }
}

fn transfers<P: Serialize>(plan: &[Transfer<P>]) -> Vec<Value> {
    plan.iter().map(|t| json!({ "from": t.from, "to": t.to, "bytes": t.bytes })).collect()
}
