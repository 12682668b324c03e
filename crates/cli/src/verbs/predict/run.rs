//! `predict`: one configuration.

use std::time::Instant;

use intarsia_predict::configuration::Configuration;
use intarsia_predict::model::{Mishaps, Prediction};
use intarsia_predict::search::{Repeated, Repetition, Summary, repeat};
use serde_json::json;

use super::inputs::{self, Inputs};
use crate::cli::Predict;
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::verbs::given::refused;
use crate::verbs::simulate::table::number;

pub(super) fn run(arguments: &Predict) -> Outcome<Exit> {
    let inputs = inputs::read(&arguments.inputs)?;
    let configuration = configuration(&inputs.configuration, arguments);
    let started = Instant::now();
    let repetition =
        Repetition { seed: arguments.inputs.seed, runs: arguments.runs, threads: inputs.threads };
    let found = repeat(&inputs.workload, &inputs.profile, &configuration, repetition);
    let found = found.map_err(refused)?;
    let wall_seconds = started.elapsed().as_secs_f64();
    if arguments.inputs.json {
        let makespan = found.makespan_seconds();
        output::json(&json!({
            "kind": "prediction",
            "basis": inputs.basis(),
            "configuration": configuration,
            "seed": arguments.inputs.seed,
            "makespan_seconds": makespan,
            "host_seconds": makespan.mean * f64::from(configuration.hosts),
            "joules": joules(&found),
            "money": found.summary(|run| run.money),
            "uncertainty": found.uncertainty(),
            "outside": inputs.outside(&configuration),
            "first_run": found.first,
            "run": { "events": found.events(), "wall_seconds": wall_seconds },
        }))?;
    } else {
        output::data(&text(&inputs, &configuration, &found, wall_seconds))?;
    }
    Ok(Exit::Ok)
}

/// The configuration with what the flags change.
fn configuration(given: &Configuration, arguments: &Predict) -> Configuration {
    Configuration {
        hosts: arguments.hosts.unwrap_or(given.hosts),
        storage_hosts: arguments
            .storage_hosts
            .map_or(given.storage_hosts, |n| (n > 0).then_some(n)),
        placement: arguments.placement.unwrap_or(given.placement),
        chunk_bytes: arguments.chunk.map_or(given.chunk_bytes, |chunk| chunk.0),
        stripe_width: arguments.stripe_width.unwrap_or(given.stripe_width),
        copies: arguments.copies.unwrap_or(given.copies),
        scheduler: arguments.scheduler.unwrap_or(given.scheduler),
        frequency_mhz: arguments.frequency.or(given.frequency_mhz),
        tier: arguments.tier.or(given.tier),
        ..given.clone()
    }
}

fn text(
    inputs: &Inputs,
    configuration: &Configuration,
    found: &Repeated,
    wall_seconds: f64,
) -> String {
    let (first, makespan) = (&found.first, found.makespan_seconds());
    let hours = f64::from(configuration.hosts) / 3600.0;
    format!(
        "{}{configuration}\n\n\
         makespan  {}{}\n{}\
         cost      {:.4} host hours{}\n{}\n\
         Stages (metadata, read, compute and write are sums over their tasks)\n{}\n\
         Of {} that tasks read and write, {:.0} % stay on their host, {} of these in its memory; {} cross links\n\n\
         Busy      busiest  mean\n{}\n\
         Simulated: {} events in {wall_seconds:.3} s\n",
        inputs.basis_text(),
        number(makespan.mean, "s"),
        interval(makespan, "s"),
        covered(inputs, configuration, found),
        makespan.mean * hours,
        money(inputs, found),
        further(found),
        output::columns(&stages(first)),
        number(as_float(inputs.workload.moved_bytes()), "B"),
        first.bytes.local_share() * 100.0,
        number(as_float(first.bytes.from_memory), "B"),
        number(as_float(first.bytes.on_links), "B"),
        output::columns(&usage(first)),
        found.events(),
    )
}

/// Where a run lies, if anything is known of that.
fn interval(summary: Summary, unit: &str) -> String {
    summary.interval.map_or_else(String::new, |interval| {
        let (low, high) = (number(interval.low, unit), number(interval.high, unit));
        format!(" (90 % of runs: {low} to {high})")
    })
}

/// What intervals cover, what nobody knows, and in what the answer lies beyond all that was measured.
fn covered(inputs: &Inputs, configuration: &Configuration, found: &Repeated) -> String {
    let uncertainty = found.uncertainty();
    let mut lines = uncertainty.lines();
    if uncertainty.compared_runs > 0 {
        let outside = inputs.outside(configuration);
        lines.extend(
            outside.into_iter().map(|what| format!("outside of what was measured: {what}")),
        );
    }
    lines.into_iter().map(|line| format!("          {line}\n")).collect()
}

fn joules(found: &Repeated) -> Option<Summary> {
    found.summary(|run| run.energy.as_ref().map(|energy| energy.joules))
}

fn money(inputs: &Inputs, found: &Repeated) -> String {
    let paid = found.summary(|run| run.money).zip(inputs.profile.prices.as_ref());
    paid.map_or_else(String::new, |(paid, prices)| {
        format!(", {:.4} {}{}", paid.mean, prices.currency, interval(paid, ""))
    })
}

/// Energy, and what went wrong, if that is known.
fn further(found: &Repeated) -> String {
    let mut text = String::new();
    if let (Some(joules), Some(first)) = (joules(found), &found.first.energy) {
        let by = first.by_state;
        let part =
            |joules: f64| format!("{:.0} %", joules / first.joules.max(f64::MIN_POSITIVE) * 100.0);
        text.push_str(&format!(
            "energy    {}{}: idle {}, computing {}, storage {}, network {}\n",
            number(joules.mean, "J"),
            interval(joules, "J"),
            part(by.idle),
            part(by.compute),
            part(by.storage),
            part(by.network)
        ));
    }
    let runs = || found.runs().filter_map(|run| run.mishaps.as_ref());
    let of = |count: fn(&Mishaps) -> u64| {
        as_float(runs().map(count).sum()) / as_float(found.runs().count() as u64)
    };
    if runs().next().is_some() {
        text.push_str(&format!(
            "mishaps   {:.2} hosts fail, {:.2} runs of tasks are lost with them, {:.2} are slow, {:.2} tasks are run twice (mean)\n",
            of(|mishaps| mishaps.host_failures),
            of(|mishaps| mishaps.lost_runs),
            of(|mishaps| mishaps.stragglers),
            of(|mishaps| mishaps.second_runs)
        ));
        text.push_str(&format!(
            "files     {:.2} are lost with hosts, {:.2} tasks run again to make them, {:.2} inputs are brought again (mean)\n",
            of(|mishaps| mishaps.lost_files),
            of(|mishaps| mishaps.remade_tasks),
            of(|mishaps| mishaps.lost_inputs)
        ));
    }
    text
}

fn stages(first: &Prediction) -> Vec<Vec<String>> {
    let header = ["stage", "tasks", "from", "to", "metadata", "read", "compute", "write"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(first.stages.iter().map(|stage| {
        let times = [
            stage.start_seconds,
            stage.end_seconds,
            stage.metadata_seconds,
            stage.read_seconds,
            stage.compute_seconds,
            stage.write_seconds,
        ];
        let mut row = vec![stage.name.clone(), stage.tasks.to_string()];
        row.extend(times.map(|seconds| number(seconds, "s")));
        row
    }));
    rows
}

fn usage(first: &Prediction) -> Vec<Vec<String>> {
    let share = |part: f64| format!("{:.0} %", part * 100.0);
    let row = |usage: &intarsia_predict::model::Usage| {
        vec![usage.resource.to_owned(), share(usage.busiest), share(usage.mean)]
    };
    first.usage.iter().map(row).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
const fn as_float(number: u64) -> f64 {
    number as f64
}
