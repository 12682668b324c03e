//! `predict`: one configuration.

use std::time::Instant;

use intarsia_predict::configuration::Configuration;
use intarsia_predict::model::{Mishaps, Prediction, predict};
use intarsia_predict::search::replicate;
use intarsia_predict::search::{Summary, summarise};
use serde_json::json;

use super::inputs::{self, Inputs};
use crate::cli::Predict;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::verbs::given::refused;
use crate::verbs::simulate::table::number;

pub(super) fn run(arguments: &Predict) -> Outcome<Exit> {
    let inputs = inputs::read(&arguments.inputs)?;
    let configuration = configuration(&inputs.configuration, arguments);
    let started = Instant::now();
    let runs = replicate(arguments.runs.into(), inputs.threads, |run| {
        predict(&inputs.workload, &inputs.profile, &configuration, arguments.inputs.seed + run)
    });
    let runs: Vec<Prediction> = runs.into_iter().collect::<Result<_, _>>().map_err(refused)?;
    let wall_seconds = started.elapsed().as_secs_f64();
    let Some(first) = runs.first() else { return Err(Failure::general("no run")) };
    let makespan = summarise(runs.iter().map(|run| run.makespan_seconds));
    if arguments.inputs.json {
        output::json(&json!({
            "kind": "prediction",
            "basis": inputs.basis(),
            "configuration": configuration,
            "seed": arguments.inputs.seed,
            "makespan_seconds": makespan,
            "host_seconds": makespan.mean * f64::from(configuration.hosts),
            "joules": over_runs(&runs, |run| run.energy.as_ref().map(|energy| energy.joules)),
            "money": over_runs(&runs, |run| run.money),
            "first_run": first,
            "run": { "events": runs.iter().map(|run| run.events).sum::<u64>(), "wall_seconds": wall_seconds },
        }))?;
    } else {
        output::data(&text(&inputs, &configuration, &runs, makespan, wall_seconds))?;
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
        ..given.clone()
    }
}

fn text(
    inputs: &Inputs,
    configuration: &Configuration,
    runs: &[Prediction],
    makespan: Summary,
    wall_seconds: f64,
) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let interval = makespan.half_width.map_or_else(String::new, |half_width| {
        format!(
            " ± {} over {}",
            number(half_width, "s"),
            output::count(makespan.runs as usize, "run")
        )
    });
    let hours = makespan.mean * f64::from(configuration.hosts) / 3600.0;
    format!(
        "{}{configuration}\n\n\
         makespan  {}{interval}\ncost      {hours:.4} host hours{}\n{}\n\
         Stages (metadata, read, compute and write are sums over their tasks)\n{}\n\
         Of {} that tasks read and write, {:.0} % stay on their host, {} of these in its memory; {} cross links\n\n\
         Busy      busiest  mean\n{}\n\
         Simulated: {} events in {wall_seconds:.3} s\n",
        inputs.basis_text(),
        number(makespan.mean, "s"),
        money(inputs, runs),
        further(runs),
        output::columns(&stages(first)),
        number(as_float(inputs.workload.moved_bytes()), "B"),
        first.bytes.local_share() * 100.0,
        number(as_float(first.bytes.from_memory), "B"),
        number(as_float(first.bytes.on_links), "B"),
        output::columns(&usage(first)),
        first.events,
    )
}

/// The mean over all runs of what is known of each.
fn over_runs(runs: &[Prediction], of: impl Fn(&Prediction) -> Option<f64>) -> Option<Summary> {
    let values: Option<Vec<f64>> = runs.iter().map(of).collect();
    values.map(|values| summarise(values.into_iter()))
}

fn money(inputs: &Inputs, runs: &[Prediction]) -> String {
    let paid = over_runs(runs, |run| run.money).zip(inputs.profile.prices.as_ref());
    paid.map_or_else(String::new, |(paid, prices)| {
        format!(", {:.4} {}{}", paid.mean, prices.currency, plus_minus(paid, ""))
    })
}

fn plus_minus(summary: Summary, unit: &str) -> String {
    let half = summary.half_width;
    half.map_or_else(String::new, |half| format!(" ± {}", number(half, unit)))
}

/// Energy, and what went wrong, if that is known.
fn further(runs: &[Prediction]) -> String {
    let mut text = String::new();
    let energy = over_runs(runs, |run| run.energy.as_ref().map(|energy| energy.joules));
    if let (Some(joules), Some(Some(first))) = (energy, runs.first().map(|run| &run.energy)) {
        let by = first.by_state;
        let part =
            |joules: f64| format!("{:.0} %", joules / first.joules.max(f64::MIN_POSITIVE) * 100.0);
        text.push_str(&format!(
            "energy    {}{}: idle {}, computing {}, storage {}, network {}\n",
            number(joules.mean, "J"),
            plus_minus(joules, "J"),
            part(by.idle),
            part(by.compute),
            part(by.storage),
            part(by.network)
        ));
    }
    let of = |count: fn(&Mishaps) -> u64| {
        let counts = runs.iter().filter_map(|run| run.mishaps.as_ref()).map(count);
        as_float(counts.sum()) / as_float(runs.len() as u64)
    };
    if runs.iter().any(|run| run.mishaps.is_some()) {
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
