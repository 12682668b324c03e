//! `advise`: many configurations, and which is best.

use std::time::Instant;

use intarsia_predict::configuration::Configuration;
use intarsia_predict::search::{Advice, Grid, Options, Point, Space, Weights, advise};
use serde_json::{Value, json};

use super::inputs::{self, Inputs};
use super::what_if;
use crate::cli::{Advise, Frequency};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::verbs::analysis;
use crate::verbs::given::refused;
use crate::verbs::simulate::table::number;

/// So many of the fastest have intervals whatever `--top` says: the page of `--report` shows them.
const SHOWN: usize = 15;

pub(super) fn run(arguments: &Advise) -> Outcome<Exit> {
    if arguments.report.is_some() || arguments.search.is_some() {
        return analysis::advice_page();
    }
    let inputs = inputs::read(&arguments.inputs)?;
    let started = Instant::now();
    let options = Options {
        seed: arguments.inputs.seed,
        replications: arguments.runs,
        threads: inputs.threads,
        weights: arguments.weigh.unwrap_or(Weights::TIME),
        shown: arguments.top.max(SHOWN),
        within_seconds: arguments.within.map(|within| within.as_secs_f64()),
    };
    check_goals(&inputs, arguments)?;
    let grid = grid(&inputs, arguments);
    let listed = arguments.configurations.as_deref();
    let listed = listed.map(|path| listed_in(path, &inputs.configuration)).transpose()?;
    let space = listed.as_deref().map_or(Space::Grid(&grid), Space::Listed);
    let advice = advise(&inputs.workload, &inputs.profile, space, options).map_err(refused)?;
    let gains = what_if::gains(&inputs, arguments, &advice, (space, options))?;
    let wall_seconds = started.elapsed().as_secs_f64();
    let within = arguments.within.map(|within| advice.cheapest_within(within.as_secs_f64()));
    if arguments.inputs.json {
        let mut value = serde_json::to_value(&advice)
            .map_err(|error| Failure::general(format!("cannot write as JSON: {error}")))?;
        value["kind"] = "advice".into();
        value["basis"] = inputs.basis();
        let best = advice.points.get(advice.best);
        value["outside"] = json!(best.map(|best| inputs.outside(&best.configuration)));
        value["within"] = json!(within.flatten());
        value["what_if"] = json!(gains);
        value["run"] = json!({ "events": advice.events, "wall_seconds": wall_seconds });
        output::json(&value)?;
    } else {
        output::data(&text(&inputs, &advice, arguments, wall_seconds))?;
        output::data(&what_if::text(&advice, &gains))?;
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
    let of_file = inputs.configuration.tier;
    let tiers = if of_file.is_some() { vec![of_file] } else { usual.tiers };
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
        frequencies_mhz: frequencies(inputs, arguments),
        tiers: given(&arguments.tier.iter().copied().map(Some).collect::<Vec<_>>(), tiers),
        tries_patterns: !arguments.no_pattern_hints && arguments.placement.is_empty(),
        common: inputs.configuration.clone(),
    }
}

/// Those of the flags; `all` are those of the profile, and that for which it describes hosts.
fn frequencies(inputs: &Inputs, arguments: &Advise) -> Vec<Option<u32>> {
    let known = inputs.profile.host.frequencies.iter().map(|frequency| Some(frequency.mhz));
    let all: Vec<Option<u32>> = std::iter::once(None).chain(known).collect();
    let asked = arguments.frequency.iter().flat_map(|frequency| match frequency {
        Frequency::All => all.clone(),
        Frequency::Mhz(mhz) => vec![Some(*mhz)],
    });
    given(&asked.collect::<Vec<_>>(), vec![inputs.configuration.frequency_mhz])
}

/// Refuses to weigh what is not known.
fn check_goals(inputs: &Inputs, arguments: &Advise) -> Outcome {
    let weighs = arguments.weigh.is_some_and(|weights| weights.energy > 0.0);
    if weighs && inputs.profile.host.power.is_none() {
        return Err(Failure::usage("--weigh: the profile does not say what hosts draw")
            .with_help("add 'power' to its 'host', from a data sheet or by `intarsia seed`"));
    }
    Ok(())
}

/// The configurations of a file.
fn listed_in(path: &std::path::Path, default: &Configuration) -> Outcome<Vec<Configuration>> {
    let (name, text) = inputs::named(path)?;
    let items: Vec<Value> = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("{name}: no JSON array: {error}")))?;
    let form = json!({ "format": "intarsia-configuration", "version": 1 });
    let each = items.into_iter().enumerate().map(|(place, item)| {
        let mut whole = form.clone();
        match (whole.as_object_mut(), item) {
            (Some(whole), Value::Object(item)) => whole.extend(item),
            _ => return Err(Failure::usage(format!("{name}: [{place}]: no object"))),
        }
        Configuration::parse(&format!("{name}: [{place}]"), &whole.to_string(), default)
            .map_err(refused)
    });
    each.collect()
}

fn given<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given.to_vec() }
}

fn text(inputs: &Inputs, advice: &Advice, arguments: &Advise, wall_seconds: f64) -> String {
    let Some(best) = advice.points.get(advice.best) else { return String::new() };
    let mut text = format!("{}\nRecommended: {}\n", inputs.basis_text(), best.configuration);
    if !advice.undecided.is_empty() {
        let others = output::count(advice.undecided.len(), "other configuration");
        let again = advice.points.iter().filter(|point| point.runs > 1).count();
        let rest = if again == advice.undecided.len() + 1 && again < advice.points.len() {
            "; further ones may be as good"
        } else {
            ""
        };
        text.push_str(&format!(
            "It cannot be told from {others} (marked =), of {again} that were looked at again{rest}.\n"
        ));
    }
    advice.uncertainty.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
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
    if !advice.rules.is_empty() {
        text.push_str(
            "\nRules for a store ('intarsia up --rule RULE', or 'intarsia hint rule add')\n",
        );
        advice.rules.iter().for_each(|rule| text.push_str(&format!("  {}\n", rule.rule)));
    }
    let outside = inputs.outside(&best.configuration);
    if !outside.is_empty() {
        text.push_str("\nOutside of what was measured\n");
        outside.iter().for_each(|what| text.push_str(&format!("  {what}\n")));
    }
    let shown = shown(advice, arguments.top);
    text.push_str(&format!("\n{}", output::columns(&rows(advice, &shown))));
    text.push_str(&format!(
        "\nP: no other one is better in {}. F, C{}: {}.\n\
         Simulated: {}, {} events in {wall_seconds:.2} s\n",
        if advice.thriftiest.is_some() {
            "time, cost and energy at once"
        } else {
            "both time and cost"
        },
        if advice.thriftiest.is_some() { ", E" } else { "" },
        if advice.thriftiest.is_some() {
            "the fastest, the cheapest, the one that draws least"
        } else {
            "the fastest, the cheapest"
        },
        output::count(advice.points.len(), "configuration"),
        advice.events
    ));
    text
}

/// The fastest, the cheapest, and all that nothing beats.
fn shown(advice: &Advice, top: usize) -> Vec<usize> {
    let fastest = 0..top.min(advice.points.len());
    let mut shown: Vec<usize> = fastest.chain(advice.pareto.iter().copied()).collect();
    shown.extend([advice.best, advice.cheapest]);
    shown.extend(advice.thriftiest);
    shown.sort_unstable();
    shown.dedup();
    shown
}

fn rows(advice: &Advice, shown: &[usize]) -> Vec<Vec<String>> {
    let has_money = advice.points.iter().any(|point| point.money.is_some());
    let cost = if has_money { "money" } else { "host hours" };
    let header = ["", "makespan", "90 % of runs", cost];
    let mut header: Vec<&str> = header.to_vec();
    if advice.thriftiest.is_some() {
        header.push("energy");
    }
    header.extend(["local", "configuration"]);
    let mut rows = vec![header.into_iter().map(str::to_owned).collect()];
    rows.extend(shown.iter().map(|place| row(advice, *place, &advice.points[*place])));
    rows
}

/// Where a run lies, if anything is known of that.
fn interval(point: &Point) -> String {
    point.interval.map_or_else(String::new, |interval| {
        format!("{} - {}", number(interval.low, "s"), number(interval.high, "s"))
    })
}

fn row(advice: &Advice, place: usize, point: &Point) -> Vec<String> {
    let marks = [
        (place == advice.best && advice.best != advice.fastest, 'R'),
        (place == advice.fastest, 'F'),
        (place == advice.cheapest, 'C'),
        (Some(place) == advice.thriftiest, 'E'),
        (advice.pareto.contains(&place), 'P'),
        (advice.undecided.contains(&place), '='),
    ];
    let cost = point.money.map_or(point.host_seconds / 3600.0, |money| money.mean);
    let mut row = vec![
        marks.iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark).collect(),
        number(point.seconds, "s"),
        interval(point),
        format!("{cost:.4}"),
    ];
    if advice.thriftiest.is_some() {
        row.push(point.joules.map(|joules| number(joules.mean, "J")).unwrap_or_default());
    }
    row.extend([
        format!("{:.0} %", point.bytes.local_share() * 100.0),
        point.configuration.to_string(),
    ]);
    row
}
