//! What is measured in each replication.

use intarsia_des::Tally;

use super::energy::{Bill, NodeSeconds, Prices};
use super::ledger::{Category, ratio};
use super::scheduler::Scheduler;
use super::setup::Setup;
use super::study::Outcome;

pub(super) const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A quantity of one replication; none when it has no meaning there.
pub(super) type Measure = fn(&Setup, &Outcome) -> Option<f64>;

/// Name, unit and measure, in order of interest.
pub(super) const MEASURES: [(&str, &str, Measure); 23] = [
    ("efficiency", "share", |_, o| Some(o.ledger.share(Category::Up))),
    ("checkpoint_share", "share", |_, o| Some(o.ledger.share(Category::Checkpoint))),
    ("lost_share", "share", |_, o| Some(o.ledger.share(Category::Lost))),
    ("boot_share", "share", |_, o| Some(o.ledger.share(Category::Boot))),
    ("restore_share", "share", |_, o| Some(o.ledger.share(Category::Restore))),
    ("repair_share", "share", |_, o| Some(o.ledger.share(Category::Repair))),
    ("verify_share", "share", |_, o| Some(o.ledger.share(Category::Verify))),
    ("utilisation", "share", |_, o| {
        Some(1.0 - ratio(o.ledger.node_nanos(Category::Idle), o.ledger.total()))
    }),
    ("jobs_finished", "1", |_, o| count(o.counts.finished)),
    ("jobs_backfilled", "1", |s, o| {
        count(o.counts.backfilled).filter(|_| s.scheduler != Scheduler::Fcfs)
    }),
    ("reservations_missed", "1", |s, o| {
        count(o.counts.reservations_missed).filter(|_| s.scheduler != Scheduler::Fcfs)
    }),
    ("failures", "1", |_, o| count(o.counts.failures)),
    ("idle_failures", "1", |_, o| count(o.counts.idle_failures)),
    ("interruptions", "1", |_, o| count(o.counts.interruptions)),
    ("silent_errors_found", "1", |s, o| {
        s.silent.as_ref().and_then(|_| count(o.counts.errors_found))
    }),
    ("silent_errors_irrecoverable", "1", |s, o| {
        s.silent.as_ref().and_then(|_| count(o.counts.errors_irrecoverable))
    }),
    ("wrong_results", "1", |s, o| s.silent.as_ref().and_then(|_| count(o.counts.wrong_results))),
    ("stretch", "1", |_, o| mean(&o.counts.stretches)),
    ("wait_time", "s", |s, o| mean(&o.counts.waits).filter(|_| s.workload.has_arrivals())),
    ("energy", "J", |s, o| Some(bill(s, o)?.joules)),
    ("useful_energy_share", "share", |s, o| bill(s, o).map(|b| b.useful_joules / b.joules)),
    ("power", "W", |s, o| Some(bill(s, o)?.joules / s.horizon.as_secs_f64())),
    ("cost", "money", |s, o| {
        bill(s, o).map(|bill| bill.money).filter(|_| s.prices != Prices::default())
    }),
];

/// Energy and money of a replication; none when the scenario says nothing about power.
fn bill(setup: &Setup, outcome: &Outcome) -> Option<Bill> {
    Some(node_seconds(outcome).bill(&setup.power?, &setup.prices))
}

/// The ledger as the account of energy wants it: verifications and unsettled work draw what work
/// does.
fn node_seconds(outcome: &Outcome) -> NodeSeconds {
    let seconds = |categories: &[Category]| {
        categories.iter().map(|c| ratio(outcome.ledger.node_nanos(*c), NANOS_PER_SECOND)).sum()
    };
    NodeSeconds {
        up: seconds(&[Category::Up]),
        lost: seconds(&[Category::Lost, Category::Verify, Category::Unsettled]),
        checkpoint: seconds(&[Category::Checkpoint, Category::Restore]),
        boot: seconds(&[Category::Boot]),
        idle: seconds(&[Category::Repair, Category::Idle]),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of events in a replication")]
fn count(number: u64) -> Option<f64> {
    Some(number as f64)
}

fn mean(tally: &Tally) -> Option<f64> {
    (tally.count() > 0).then(|| tally.mean())
}
