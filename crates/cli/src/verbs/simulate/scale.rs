//! `simulate scale`: one study for each number of nodes, and the calibration of constants.

use std::path::Path;
use std::time::Instant;

use intarsia_simulate::progress::Progress;
use intarsia_simulate::report::Study;
use intarsia_simulate::scale::calibration::{Calibration, Measurements, PUBLISHED};
use intarsia_simulate::scale::study::{Findings, ScaleStudy};
use intarsia_simulate::scale::{io500, node_counts, study as read_study};
use intarsia_simulate::scenario::Document;
use serde_json::{Value, json};

use super::{progress, study, table};
use crate::cli::SimulateScale;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::verbs::given;

pub(super) fn run(arguments: &SimulateScale) -> Outcome<Exit> {
    if arguments.io500 {
        show_references(arguments.study.json)?;
        return Ok(Exit::Ok);
    }
    let (mut document, _) = study::document(&study::SCALE, &arguments.study)?;
    if !arguments.nodes.is_empty() {
        let counts: Vec<String> = arguments.nodes.iter().map(ToString::to_string).collect();
        document.set(&format!("nodes.count=[{}]", counts.join(","))).map_err(given::refused)?;
    }
    if let Some(points) = &arguments.calibrate {
        calibrate(points, &document, arguments.study.json)?;
        return Ok(Exit::Ok);
    }
    // All of them are read before the first one runs: a refusal comes at once.
    let counts = node_counts(&document).map_err(given::refused)?;
    let studies = counts.iter().map(|count| of_count(&document, *count));
    let studies: Vec<ScaleStudy> = studies.collect::<Outcome<_>>()?;
    if arguments.study.dry_run {
        study::show_scenario(&scenario_of_all(&studies), &arguments.study)?;
        return Ok(Exit::Ok);
    }
    let outcomes: Vec<Simulated> = studies.iter().map(|s| simulate(s, arguments)).collect();
    show(&outcomes, arguments)?;
    Ok(Exit::Ok)
}

fn of_count(document: &Document, count: u32) -> Outcome<ScaleStudy> {
    let mut document = document.clone();
    document
        .set(&format!("nodes.count={count}"))
        .and_then(|()| read_study(&document))
        .map_err(given::refused)
}

/// What a study found and what that took.
struct Simulated {
    nodes: u32,
    findings: Findings,
    wall_seconds: f64,
    /// The largest resident memory of this process so far, where the system tells.
    peak_bytes: Option<u64>,
}

fn simulate(scale: &ScaleStudy, arguments: &SimulateScale) -> Simulated {
    let started = Instant::now();
    let counters = Progress::default();
    let threads = given::threads(arguments.study.threads);
    let findings = progress::watch(&counters, || scale.findings(threads, &counters));
    Simulated {
        nodes: scale.nodes,
        findings,
        wall_seconds: started.elapsed().as_secs_f64(),
        peak_bytes: peak_bytes(),
    }
}

/// From `/proc`, which counts in KiB.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The scenario that gives all of these: they differ in the number of nodes alone.
fn scenario_of_all(studies: &[ScaleStudy]) -> toml::Table {
    let mut scenario = studies.first().map(|s| s.scenario().clone()).unwrap_or_default();
    if studies.len() > 1 {
        let counts: Vec<i64> = studies.iter().map(|s| s.nodes.into()).collect();
        let nodes = toml::Table::from_iter([("count".to_owned(), counts.into())]);
        scenario.insert("nodes".to_owned(), nodes.into());
    }
    scenario
}

fn show(outcomes: &[Simulated], arguments: &SimulateScale) -> Outcome {
    if arguments.study.json {
        let values = outcomes.iter().map(envelope).collect::<Outcome<Vec<Value>>>()?;
        return output::json(&values);
    }
    if arguments.study.csv {
        return output::data(&csv(outcomes));
    }
    if let [only] = outcomes {
        return output::data(&in_full(only));
    }
    output::data(&output::columns(&overview(outcomes)))
}

fn envelope(outcome: &Simulated) -> Outcome<Value> {
    let report = &outcome.findings.report;
    let mut value = serde_json::to_value(report)
        .map_err(|e| Failure::general(format!("cannot write as JSON: {e}")))?;
    value["run"] = json!({
        "events": report.events,
        "wall_seconds": outcome.wall_seconds,
        "peak_bytes": outcome.peak_bytes,
        "hot_links": outcome.findings.hot_links,
    });
    Ok(value)
}

/// The CSV of every report with the number of nodes in front.
fn csv(outcomes: &[Simulated]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let csv = table::csv(&outcome.findings.report);
        let mut lines = csv.lines();
        let header = lines.next().unwrap_or_default();
        if text.is_empty() {
            text = format!("nodes,{header}\n");
        }
        lines.for_each(|line| text.push_str(&format!("{},{line}\n", outcome.nodes)));
    }
    text
}

fn in_full(outcome: &Simulated) -> String {
    let mut text = table::text(&outcome.findings.report, outcome.wall_seconds);
    if !outcome.findings.hot_links.is_empty() {
        text.push_str("\nBusiest links\n");
    }
    let hot = outcome.findings.hot_links.iter();
    let rows: Vec<_> =
        hot.map(|h| vec![format!("  {}", h.link), table::number(h.utilization, "share")]).collect();
    text + &output::columns(&rows)
}

/// A line for each number of nodes: rate and efficiency of every phase that moves or does much.
fn overview(outcomes: &[Simulated]) -> Vec<Vec<String>> {
    let Some(first) = outcomes.first() else { return Vec::new() };
    let is_shown = |name: &str| {
        let what = name.rsplit('.').next().unwrap_or_default();
        let is_data = first.findings.report.estimate(&phase_of(name, "throughput")).is_some();
        match what {
            "throughput" | "efficiency" => true,
            "operations_per_second" => !is_data,
            _ => name == "job.seconds",
        }
    };
    let estimates = &first.findings.report.estimates;
    let names: Vec<&str> =
        estimates.iter().map(|(name, _)| name.as_str()).filter(|name| is_shown(name)).collect();
    let mut header = vec!["nodes".to_owned()];
    header.extend(names.iter().map(|name| name.replace("operations_per_second", "rate")));
    header.push("wall".to_owned());
    let mut rows = vec![header];
    for outcome in outcomes {
        let mut row = vec![outcome.nodes.to_string()];
        row.extend(names.iter().map(|name| {
            let estimate = outcome.findings.report.estimate(name);
            estimate.map(|e| table::number(e.mean, e.unit)).unwrap_or_default()
        }));
        row.push(format!("{:.2} s", outcome.wall_seconds));
        rows.push(row);
    }
    rows
}

fn phase_of(name: &str, what: &str) -> String {
    format!("{}.{what}", name.rsplit_once('.').map_or(name, |(phase, _)| phase))
}

fn show_references(is_json: bool) -> Outcome {
    let references = io500::references();
    if is_json {
        return output::json(&references);
    }
    let header = [
        "system",
        "file system",
        "year",
        "tasks",
        "easy write",
        "easy read",
        "hard write",
        "easy create",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(references.iter().map(|r| {
        vec![
            r.system.clone(),
            r.file_system.clone(),
            r.year.to_string(),
            r.tasks.map(|tasks| tasks.to_string()).unwrap_or_default(),
            table::number(r.easy_write_bytes_per_second, "B/s"),
            table::number(r.easy_read_bytes_per_second, "B/s"),
            table::number(r.hard_write_bytes_per_second, "B/s"),
            table::number(r.easy_create_per_second, "op/s"),
        ]
    }));
    output::message("Published IO500 results; the sources do not tell numbers of nodes reliably.");
    output::data(&output::columns(&rows))
}

fn calibrate(points: &Path, document: &Document, is_json: bool) -> Outcome {
    let (name, text) = if points == Path::new("published") {
        ("published".to_owned(), PUBLISHED.to_owned())
    } else {
        let name = points.display().to_string();
        let text = std::fs::read_to_string(points).map_err(|error| {
            Failure::usage(format!("measurements {name}: {error}"))
                .with_help("name a readable TOML file, or published")
        })?;
        (name, text)
    };
    let calibration = Measurements::parse(&name, &text)
        .and_then(|measurements| measurements.calibrate(document))
        .map_err(given::refused)?;
    if is_json {
        return output::json(&calibration);
    }
    output::data(&calibration_text(&calibration))
}

fn calibration_text(calibration: &Calibration) -> String {
    let mut rows =
        vec![["nodes", "measured", "simulated", "error", "what"].map(str::to_owned).to_vec()];
    let unit = if calibration.estimate.ends_with("throughput") { "B/s" } else { "op/s" };
    for point in &calibration.points {
        rows.push(vec![
            point.nodes.to_string(),
            table::number(point.measured, unit),
            table::number(point.simulated, unit),
            format!("{:+.1} %", point.error * 100.0),
            point.source.clone(),
        ]);
    }
    let fitted: String = calibration.fitted.iter().map(|f| format!("  --set {f}\n")).collect();
    let how = if fitted.is_empty() {
        "Nothing was fitted.\n".to_owned()
    } else {
        format!("Fitted:\n{fitted}")
    };
    format!(
        "{}\n{how}Mean error {:.1} % of {} at {}; {} runs.\n",
        output::columns(&rows),
        calibration.mean_error * 100.0,
        calibration.estimate,
        output::count(calibration.points.len(), "point"),
        calibration.runs,
    )
}
