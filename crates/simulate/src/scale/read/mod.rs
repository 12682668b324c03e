//! A scenario of the scale model, read from TOML.

mod network;
mod system;
mod workload;

use intarsia_des::{Distribution, Histogram, InvalidParameter};

use super::network::Topology;
use super::study::ScaleStudy;
use super::system::{System, SystemKind};
use super::workload::{Operation, Step, Workload};
use crate::replications::RunSettings;
use crate::scenario::{Document, Problem, Section, Value};

pub use network::NetworkSettings;

/// Most compute nodes: what the numbering of links has room for in all topologies.
pub const MOST_NODES: u64 = 1 << 26;

/// Most bytes that a workload moves: what the counters have room for.
const MOST_BYTES: f64 = 1e18;
/// Most time that a workload may take with nothing at the same time; simulated time reaches 584 years.
const MOST_SECONDS: f64 = 1.8e10;
/// More links than the routes of all but the longest rings have.
const MOST_HOPS: f64 = 400.0;

/// The numbers of nodes that the scenario asks for: `[nodes] count`, a number or a list.
///
/// # Errors
/// When it is neither, or a number is out of range.
pub fn node_counts(document: &Document) -> Result<Vec<u32>, Problem> {
    let numbers = match document.peek("nodes.count") {
        Some(Value::List(values)) => values.clone(),
        Some(value) => vec![value.clone()],
        None => Vec::new(),
    };
    let counts = numbers.iter().map(|value| match value {
        Value::Integer(count) => {
            u32::try_from(*count).ok().filter(|count| (1..=MOST_NODES).contains(&u64::from(*count)))
        }
        _ => None,
    });
    match counts.collect::<Option<Vec<u32>>>() {
        Some(counts) if !counts.is_empty() => Ok(counts),
        _ => Err(Problem::new("nodes.count: not a number of nodes or a list of such")
            .with_help(format!("write count = 1024 or count = [1, 64, 4096], up to {MOST_NODES}"))),
    }
}

/// Reads the scenario for one number of nodes.
///
/// # Errors
/// What is refused, with its place and the fix.
pub fn study(document: &Document) -> Result<ScaleStudy, Problem> {
    let histogram = Histogram::new(3).map_err(|e| Problem::new(e.to_string()))?;
    let (mut study, scenario) = document.read(|root| {
        let nodes = root.section("nodes", |nodes| {
            let count = nodes.integer("count").at_least(1).at_most(MOST_NODES).required()?;
            u32::try_from(count).map_err(|_| nodes.refuse("count", "too many"))
        })?;
        let system = root.section("system", system::read)?;
        let outage = root.optional_section("failures", system::read_outage)?;
        let system = System { outage, ..system };
        let network = root.section("network", |network| network::read(network, nodes, &system))?;
        let workload = root.section("workload", |workload| workload::read(workload, &system))?;
        let settings = root.section("run", |run| RunSettings::read(run, 1))?;
        check(root, nodes, &system, &network, &workload)?;
        Ok(ScaleStudy {
            nodes,
            system,
            network,
            workload,
            settings,
            histogram,
            scenario: toml::Table::new(),
        })
    })?;
    study.scenario = scenario;
    Ok(study)
}

/// Refuses what each section allows but not together.
fn check(
    root: &Section<'_>,
    nodes: u32,
    system: &System,
    network: &NetworkSettings,
    workload: &Workload,
) -> Result<(), Problem> {
    let is_central = matches!(system.kind, SystemKind::Central { .. });
    if matches!(network.topology, Topology::Forwarding(_)) && !is_central {
        return Err(root
            .refuse("network", "I/O forwarding leads to the servers of a central system only")
            .with_help("use another network, or system.kind = \"central\""));
    }
    check_size(root, nodes, system, network, workload)?;
    check_outages(root, system, workload)?;
    let stripes = match &system.kind {
        SystemKind::LocalFirst => return Ok(()),
        SystemKind::Striped(stripes) | SystemKind::Central { stripes, .. } => stripes,
    };
    let largest = workload.steps.iter().map(|step| match step.operation {
        Operation::Write { bytes } | Operation::Read { bytes, .. } => bytes,
        _ => 0,
    });
    let pieces = largest.max().unwrap_or(0) / stripes.chunk_bytes.max(1);
    if pieces > 10_000 {
        return Err(root
            .refuse("workload", &format!("a transfer is cut into {pieces} chunks"))
            .with_help("make system.chunk larger, or workload.transfer smaller"));
    }
    let width = stripes.width.unwrap_or(1);
    if width > system.devices(nodes) && is_central {
        return Err(root
            .refuse("system", &format!("files go over {width} devices, but there are fewer"))
            .with_help("make system.width at most system.servers"));
    }
    Ok(())
}

/// Refuses what bytes or time cannot count even if everything happened one after the other.
fn check_size(
    root: &Section<'_>,
    nodes: u32,
    system: &System,
    network: &NetworkSettings,
    workload: &Workload,
) -> Result<(), Problem> {
    let total = |of: fn(&Step) -> f64| -> f64 {
        let each = workload.steps.iter().map(|step| f64::from(step.repeat) * of(step));
        f64::from(nodes) * each.sum::<f64>()
    };
    let operations = total(|_| 1.0);
    let bytes = total(|step| f64::from(step.operation.bytes()))
        + 4.0 * operations * f64::from(system.control_bytes);
    let slowest_link =
        network.kinds.iter().map(|kind| kind.bytes_per_second).fold(f64::INFINITY, f64::min);
    let device = system.device.write_bytes_per_second.min(system.device.read_bytes_per_second);
    let latency = network.kinds.iter().map(|kind| kind.latency_seconds).sum::<f64>();
    let each = system.metadata.longest_seconds()
        + system.call_seconds
        + system.device.request_seconds
        + network.barrier_seconds
        + 4.0 * (network.message_seconds + MOST_HOPS * latency);
    let seconds =
        bytes * (2.0 * system.slow_factor / device + MOST_HOPS / slowest_link) + operations * each;
    let why = if bytes > MOST_BYTES {
        format!("{bytes:.1e} bytes in all are too many to count")
    } else if seconds > MOST_SECONDS {
        "this could take longer than the 584 years that simulated time reaches".to_owned()
    } else {
        return Ok(());
    };
    Err(root
        .refuse("workload", &why)
        .with_help("make transfers smaller or fewer, or rates higher and times shorter"))
}

/// Refuses requests that would hardly ever be done between two failures.
fn check_outages(root: &Section<'_>, system: &System, workload: &Workload) -> Result<(), Problem> {
    let Some(outage) = system.outage else { return Ok(()) };
    let device = system.device.write_bytes_per_second.min(system.device.read_bytes_per_second);
    let bytes = workload.steps.iter().map(|step| step.operation.bytes()).max().unwrap_or(0);
    let transfer = system.device.request_seconds + f64::from(bytes) / device * system.slow_factor;
    let longest = transfer.max(system.metadata.longest_seconds());
    if longest <= outage.mtbf_seconds {
        return Ok(());
    }
    let why = format!("a request takes up to {longest:.3} s, longer than a node is up");
    Err(root
        .refuse("failures", &why)
        .with_help("raise failures.node_mtbf, or make workload.transfer smaller"))
}

/// Reads an amount of data that fits a message.
fn bytes_field(
    section: &mut Section<'_>,
    name: &'static str,
    default: &str,
) -> Result<u32, Problem> {
    let bytes = section
        .bytes(name)
        .must("be between 1 B and 2 GiB", |b| (1.0..=2_147_483_648.0).contains(b))
        .or(default)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(bytes as u32)
}

/// Reads a whole number that fits a `u32`.
fn count_field(
    section: &mut Section<'_>,
    name: &'static str,
    most: u64,
    default: i64,
) -> Result<u32, Problem> {
    let count = section.integer(name).at_least(1).at_most(most).or(default)?;
    u32::try_from(count).map_err(|_| section.refuse(name, "too large"))
}

/// Reads the standard deviation of a factor with mean one, as a share; none for zero.
fn spread_field(
    section: &mut Section<'_>,
    name: &'static str,
    law: impl Fn(f64) -> Result<Distribution, InvalidParameter>,
) -> Result<Option<Distribution>, Problem> {
    let is_sound = |v: &f64| *v == 0.0 || (0.001..=10.0).contains(v);
    let variation = section.number(name).must("be 0 or between 0.001 and 10", is_sound).or(0.0)?;
    if variation == 0.0 {
        return Ok(None);
    }
    law(variation).map(Some).map_err(|e| section.refuse(name, &e.to_string()))
}

#[cfg(test)]
mod tests;
