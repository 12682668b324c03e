//! One run: from a seed to a verdict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use intarsia_history::check::{Rules, check};
use intarsia_history::client::Workload;
use intarsia_history::event::{Outcome, Record};
use intarsia_sync::simulation::{Failure, Settings};
use intarsia_sync::{Instant, Simulation};
use intarsia_transport::{DeploymentKey, Link, Network};
use intarsia_types::ByteCount;
use serde::{Deserialize, Serialize};

use crate::account::{self, Account};
use crate::cluster::{self, Cluster, Load};
use crate::disks::Disks;
use crate::faults::{self, Pace};
use crate::host::{Care, Deployment};
use crate::metadata::Metadata;
use crate::others::Others;
use crate::parts::Parts;
use crate::uses::Uses;
use crate::{look, rest, sameness, writers};

/// How long clients may still be at something after everything was mended.
const REST: Duration = Duration::from_secs(180);
/// The longest that a call may take while things break, several at once among them.
const LIMIT_MS: u64 = 12_000;
/// The same where a host was slow: one that lives is waited for up to a minute.
const SLOW_LIMIT_MS: u64 = 75_000;
/// Partitions of the metadata.
const PARTITIONS: u16 = 5;

/// What a run is made of; all but the seed can be left to the seed.
#[derive(Clone, Debug)]
pub struct Choices {
    /// From which everything follows.
    pub seed: u64,
    /// For how long clients work, in simulated seconds.
    pub seconds: u64,
    /// What is not left out of what the seed says.
    pub parts: Parts,
    /// A kind of fault that counts as a violation: for tests of what is done about violations.
    pub must_not_break: Option<String>,
    /// Told when the simulation cannot go on.
    pub on_failure: fn(&Failure),
    /// Where the records of the clients go, if they are to be kept.
    pub records: Option<PathBuf>,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// From which it follows.
    pub seed: u64,
    /// Hosts.
    pub hosts: u8,
    /// How long it was on its own clock, in seconds.
    pub virtual_s: f64,
    /// How often another thread's turn came.
    pub switches: u64,
    /// The same for two runs that did the same.
    pub fingerprint: u64,
    /// What clients did.
    pub operations: usize,
    /// How many calls failed, by call and error number.
    pub failures: BTreeMap<String, usize>,
    /// The longest call, in milliseconds.
    pub slowest_ms: u64,
    /// How many faults of each kind.
    pub faults: BTreeMap<String, u64>,
    /// Commits that fail-overs took back before anybody was told that they were made.
    pub lost_commits: u64,
    /// How often somebody had been shown one of these.
    pub dirty_reads: u64,
    /// What it was made of.
    pub account: Account,
    /// What must not be.
    pub violations: Vec<String>,
}

impl Report {
    /// Of a run that does not come to its end.
    #[must_use]
    pub fn unfinished(seed: u64, why: String) -> Self {
        let mut report = Self { seed, violations: vec![why], ..Self::default() };
        report.take_account();
        report
    }

    fn take_account(&mut self) {
        self.account = account::so_far();
        for broken in self.account.broken.values() {
            *self.faults.entry(broken.kind.clone()).or_default() += 1;
        }
    }
}

/// Runs a cluster below `home`, an empty directory.
///
/// # Errors
/// The simulation cannot be made.
pub fn run(choices: &Choices, home: &Path) -> Result<Report, String> {
    sameness::seed(choices.seed);
    let key = DeploymentKey::generate().map_err(|e| e.to_string())?;
    let key = DeploymentKey::from_pem(key.as_bytes()).map_err(|e| e.to_string())?;
    let settings = Settings {
        seed: choices.seed,
        switch_one_in: [8, 32, 128, 1024]
            [usize::try_from(draw(choices.seed, 0x9e37_79b9_7f4a_7c15, 4)).unwrap_or(0)],
        end: Duration::from_secs(choices.seconds) * 20 + REST * 8,
        on_failure: choices.on_failure,
    };
    let run = Simulation::run(settings, |simulation| judged(choices, home, key, simulation));
    let (report, finished) = run.map_err(|failure| failure.what)?;
    Ok(Report {
        virtual_s: finished.took.as_secs_f64(),
        switches: finished.switches,
        fingerprint: finished.fingerprint,
        ..report
    })
}

/// Draws one of so many from the seed alone, so that what the simulation draws stays the same.
const fn draw(seed: u64, salt: u64, bound: u64) -> u64 {
    (seed.wrapping_mul(salt) >> 33) % bound
}

fn judged(choices: &Choices, home: &Path, key: DeploymentKey, simulation: &Simulation) -> Report {
    let hosts = u8::try_from(2 + simulation.below(3)).unwrap_or(2);
    let mut report = Report { seed: choices.seed, hosts, ..Report::default() };
    if let Err(violation) = worked(choices, home, key, simulation, &mut report) {
        report.violations.push(violation);
    }
    if let Some(kind) =
        choices.must_not_break.as_ref().filter(|kind| report.faults.contains_key(*kind))
    {
        report.violations.push(format!("{kind} was not to break"));
    }
    report
}

fn worked(
    choices: &Choices,
    home: &Path,
    key: DeploymentKey,
    simulation: &Simulation,
    report: &mut Report,
) -> Result<(), String> {
    let network = Network::default();
    let slowest = [200, 500, 5000][usize::try_from(simulation.below(3)).unwrap_or(0)];
    network.set_usual(Link { max_delay: Duration::from_micros(slowest), ..Link::default() });
    let inline = [0, 1, 4][usize::try_from(simulation.below(3)).unwrap_or(0)];
    let metadata = Metadata::new(PARTITIONS);
    let care = match simulation.below(6) {
        0 | 1 => Care::Safe,
        2 => Care::Frail,
        _ => Care::Usual,
    };
    let disks = Disks::begin(care != Care::Usual);
    let replicas = match care {
        Care::Usual => u16::try_from(1 + simulation.below(2)).unwrap_or(1),
        Care::Safe => 2,
        Care::Frail => 1,
    };
    let uses = Uses::draw(simulation, report.hosts, replicas);
    let deployment = Deployment {
        metadata: Arc::clone(&metadata),
        network: network.clone(),
        key,
        disks: disks.clone(),
        care,
        promises: Arc::default(),
        replicas,
        has_hints: draw(choices.seed, 0xd1b5_4a32_d192_ed03, 2) == 0,
        inline_bytes: ByteCount::kib(inline),
        others: Arc::new(Others::draw(choices.seed, care, uses.has_room())),
        uses,
        // A host that is emptied takes a copy of each of its files along, and so what a loss of power leaves.
        is_operated: care == Care::Usual && simulation.below(3) == 0,
    };
    let others = deployment.others.kinds();
    tracing::info!(uses = ?deployment.uses, ?care, ?others, is_operated = deployment.is_operated, "how the store is used");
    let begun = Instant::now();
    let load = Load {
        seed: choices.seed,
        // Only what was never seen half written can be told from what the power took.
        workload: if care == Care::Safe || simulation.below(2) == 0 {
            Workload::Replacing
        } else {
            Workload::Mixed
        },
        clients_per_host: u16::try_from(1 + simulation.below(2)).unwrap_or(1),
        pause: Duration::from_millis(1 + simulation.below(40)),
        pace: if draw(choices.seed, 0xa076_1d64_78bd_642f, 3) == 0 {
            Pace::Stormy
        } else {
            Pace::Calm
        },
        begun,
        end: begun + Duration::from_secs(choices.seconds),
    };
    let Parts { faults, programs } = choices.parts.clone();
    let cluster = Cluster::start_all(report.hosts, home, simulation, deployment, load, programs)?;
    let broken = faults::break_until(load, &faults, &cluster);
    report.take_account();
    broken?;
    network.mend();
    metadata.mend();
    disks.mend();
    cluster.await_programs(load.end.max(Instant::now()) + REST)?;
    cluster.keep_all_hosts()?;
    cluster.keep_unread()?;
    let left = look::everywhere(&cluster, &cluster::of_clients().collect::<Vec<_>>(), report);
    let unrest = rest::await_rest(&cluster);
    // What waits for copies is shown by its home alone until it has some.
    let others = cluster.deployment.others.directories().iter().map(|(name, _)| name.clone());
    let written: Vec<_> = [writers::DIRECTORY.to_owned()].into_iter().chain(others).collect();
    let written = look::everywhere(&cluster, &written, report);
    let let_go = cluster.await_programs(Instant::now() + REST);
    if let Some(directory) = &choices.records {
        cluster.keep_records(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    let losses = metadata.losses();
    (report.lost_commits, report.dirty_reads) = (losses.commits, losses.dirty_reads.len() as u64);
    judge_history(&cluster, &since(begun, &losses.dirty_reads), report)?;
    left?;
    written?;
    let_go?;
    report.violations.extend(unrest?);
    for host in &cluster.hosts {
        host.close().map_err(|e| format!("closing {}: {e}", host.name))?;
    }
    report.violations.extend(records_disagree(&metadata)?);
    Ok(())
}

/// Times as programs tell them.
fn since(begun: Instant, times: &[Instant]) -> Vec<u64> {
    let since = |at: &Instant| at.saturating_duration_since(begun).as_nanos();
    times.iter().map(|at| u64::try_from(since(at)).unwrap_or(u64::MAX)).collect()
}

fn judge_history(
    cluster: &Cluster,
    dirty_reads: &[u64],
    report: &mut Report,
) -> Result<(), String> {
    let has_faults = !report.faults.is_empty();
    let was_slow = report.faults.keys().any(|fault| faults::makes_slow(fault));
    let rules = Rules {
        limit_ms: match (has_faults, was_slow) {
            (false, _) => 10_000,
            (true, false) => LIMIT_MS,
            (true, true) => SLOW_LIMIT_MS,
        },
        may_fail: has_faults,
        may_die: has_faults,
        names_may_wait: true,
        opens_may_be_undone: cluster.deployment.uses.has_stripes(),
        // A disk that lost its power may lack what no close has acknowledged.
        holes_may_show: cluster.deployment.uses.has_stripes()
            || cluster.deployment.care == Care::Safe,
    };
    let mut records = cluster.records()?;
    records.iter_mut().for_each(|record| forget_dirty_reads(record, dirty_reads));
    if cluster.deployment.care == Care::Frail {
        records.iter_mut().for_each(forget_contents);
    }
    let verdict = check(&records, rules);
    report.operations = verdict.operations;
    report.slowest_ms = verdict.slowest_ms;
    report.failures =
        verdict.failures.iter().map(|((call, errno), n)| (format!("{call} {errno}"), *n)).collect();
    report.violations.extend(verdict.violations);
    cluster.deployment.others.findings.judge(rules.limit_ms, has_faults, report);
    Ok(())
}

/// Takes from a record what was read of files: the power may have taken any of it.
fn forget_contents(record: &mut Record) {
    for event in &mut record.events {
        event.outcome.take_if(|outcome| matches!(outcome, Outcome::Content(_) | Outcome::Size(_)));
    }
}

/// Takes from a record what was seen while somebody was shown what a fail-over took back: others may see it undone until it is
/// made again.
fn forget_dirty_reads(record: &mut Record, dirty_reads: &[u64]) {
    for event in &mut record.events {
        let is_dirty = dirty_reads.iter().any(|at| (event.start..=event.end).contains(at));
        let is_change =
            |outcome: &Outcome| matches!(outcome, Outcome::Done | Outcome::Failed { .. });
        event.outcome.take_if(|outcome| is_dirty && !is_change(outcome));
    }
}

/// What the check of the metadata finds.
fn records_disagree(metadata: &Arc<Metadata>) -> Result<Vec<String>, String> {
    let report = metadata.namespace()?.check(false, &mut |_| {}).map_err(|e| e.to_string())?;
    Ok(report.findings.iter().map(|finding| format!("check: {finding}")).collect())
}
