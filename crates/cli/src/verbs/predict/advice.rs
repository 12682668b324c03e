//! `advise`: many configurations, and which is best.

use std::time::Instant;

use intarsia_predict::search::{Advice, Grid, Options, Point, advise};
use serde_json::json;

use super::inputs::{self, Inputs};
use crate::cli::Advise;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::verbs::analysis;
use crate::verbs::given::refused;
use crate::verbs::simulate::table::number;

pub(super) fn run(arguments: &Advise) -> Outcome<Exit> {
    if arguments.report.is_some() {
        return analysis::advice_page();
    }
    let inputs = inputs::read(&arguments.inputs)?;
    let started = Instant::now();
    let options = Options {
        seed: arguments.inputs.seed,
        replications: arguments.runs,
        threads: inputs.threads,
    };
    let grid = grid(&inputs, arguments);
    let advice = advise(&inputs.workload, &inputs.profile, &grid, options).map_err(refused)?;
    let wall_seconds = started.elapsed().as_secs_f64();
    let within = arguments.within.map(|within| advice.cheapest_within(within.as_secs_f64()));
    if arguments.inputs.json {
        let mut value = serde_json::to_value(&advice)
            .map_err(|error| Failure::general(format!("cannot write as JSON: {error}")))?;
        value["kind"] = "advice".into();
        value["basis"] = inputs.basis();
        let best = advice.points.get(advice.fastest);
        value["outside"] = json!(best.map(|best| inputs.outside(&best.configuration)));
        value["within"] = json!(within.flatten());
        value["run"] = json!({ "events": advice.events, "wall_seconds": wall_seconds });
        output::json(&value)?;
    } else {
        output::data(&text(&inputs, &advice, arguments, wall_seconds))?;
    }
    for why in &advice.refused {
        output::warn(&format!("left out: {why}"));
    }
    match within {
        Some(None) => {
            output::warn("no configuration ends within the time that is given");
            Ok(Exit::Degraded)
        }
        _ => Ok(Exit::Ok),
    }
}

/// What is usual, but for what the flags say.
fn grid(inputs: &Inputs, arguments: &Advise) -> Grid {
    let usual = Grid::usual(&inputs.profile);
    Grid {
        hosts: given(&arguments.hosts, usual.hosts),
        storage_hosts: given(
            &arguments.storage_hosts.iter().map(|hosts| hosts.0).collect::<Vec<_>>(),
            usual.storage_hosts,
        ),
        placements: given(&arguments.placement, usual.placements),
        chunk_bytes: given(
            &arguments.chunk.iter().map(|chunk| chunk.0).collect::<Vec<_>>(),
            usual.chunk_bytes,
        ),
        stripe_widths: given(&arguments.stripe_width, usual.stripe_widths),
        copies: given(&arguments.copies, usual.copies),
        schedulers: given(&arguments.scheduler, usual.schedulers),
        common: inputs.configuration.clone(),
    }
}

fn given<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given.to_vec() }
}

fn text(inputs: &Inputs, advice: &Advice, arguments: &Advise, wall_seconds: f64) -> String {
    let Some(best) = advice.points.get(advice.fastest) else { return String::new() };
    let mut text = format!("{}\nRecommended: {}\n", inputs.basis_text(), best.configuration);
    if !advice.undecided.is_empty() {
        let others = output::count(advice.undecided.len(), "other configuration");
        text.push_str(&format!("It cannot be told from {others} (marked =).\n"));
    }
    if let Some(within) = arguments.within
        && let Some(place) = advice.cheapest_within(within.as_secs_f64())
    {
        let cheap = &advice.points[place].configuration;
        text.push_str(&format!(
            "Cheapest within {}: {cheap}\n",
            humantime::format_duration(within)
        ));
    }
    text.push_str("\nWhy\n");
    advice.reasons.iter().for_each(|reason| text.push_str(&format!("  {reason}\n")));
    let outside = inputs.outside(&best.configuration);
    if !outside.is_empty() {
        text.push_str("\nOutside of what was measured\n");
        outside.iter().for_each(|what| text.push_str(&format!("  {what}\n")));
    }
    let shown = shown(advice, arguments.top);
    text.push_str(&format!("\n{}", output::columns(&rows(advice, &shown))));
    text.push_str(&format!(
        "\nP: no other one is both faster and cheaper. F, C: the fastest, the cheapest. ± covers 95 %.\n\
         Simulated: {}, {} events in {wall_seconds:.2} s\n",
        output::count(advice.points.len(), "configuration"),
        advice.events
    ));
    text
}

/// The fastest, the cheapest, and all that nothing beats.
fn shown(advice: &Advice, top: usize) -> Vec<usize> {
    let fastest = 0..top.min(advice.points.len());
    let mut shown: Vec<usize> = fastest.chain(advice.pareto.iter().copied()).collect();
    shown.push(advice.cheapest);
    shown.sort_unstable();
    shown.dedup();
    shown
}

fn rows(advice: &Advice, shown: &[usize]) -> Vec<Vec<String>> {
    let header = ["", "makespan", "±", "host hours", "local", "configuration"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(shown.iter().map(|place| row(advice, *place, &advice.points[*place])));
    rows
}

fn row(advice: &Advice, place: usize, point: &Point) -> Vec<String> {
    let marks = [
        (place == advice.fastest, 'F'),
        (place == advice.cheapest, 'C'),
        (advice.pareto.contains(&place), 'P'),
        (advice.undecided.contains(&place), '='),
    ];
    vec![
        marks.iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark).collect(),
        number(point.seconds, "s"),
        point.half_width_seconds.map(|half| number(half, "s")).unwrap_or_default(),
        format!("{:.4}", point.host_seconds / 3600.0),
        format!("{:.0} %", point.bytes.local_share() * 100.0),
        point.configuration.to_string(),
    ]
}
