//! Where checkpoints go: `[[level]]`.

use intarsia_des::Span;

use super::failure::Damage;
use super::machine::Machine;
use crate::scenario::{Problem, Section};

/// One place for checkpoints: memory, a local disk, a partner's disk, a central file system.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Level {
    /// What reports call it.
    pub(super) name: String,
    write: Cost,
    restore: Option<Cost>,
    /// Every how many checkpoints one goes here.
    pub(super) every: u64,
    /// The worst damage after which a checkpoint here can still be read.
    pub(super) survives: Damage,
}

/// What moving a job's state takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cost {
    /// Always the same time, in seconds.
    Fixed(f64),
    /// The state through a bandwidth, in bytes per second.
    Shared(f64),
    /// The same, for each node of the job.
    PerNode(f64),
}

/// Whose nodes a bandwidth per node is counted for.
#[derive(Clone, Copy)]
enum Serves {
    Machine,
    Job,
}

const SERVES: &[(&str, Serves)] = &[("machine", Serves::Machine), ("job", Serves::Job)];

const DAMAGE: &[(&str, Damage)] = &[
    ("process", Damage::Process),
    ("reboot", Damage::Reboot),
    ("loss", Damage::Loss),
    ("machine", Damage::Machine),
];

impl Level {
    /// Reads one of the sections.
    pub(super) fn read(section: &mut Section<'_>, machine: &Machine) -> Result<Self, Problem> {
        let name = section.text("name").required()?;
        let write = read_write(section, machine)?;
        let restore = section.seconds("restore_time").not_negative().optional()?;
        Ok(Self {
            name,
            write,
            restore: restore.map(Cost::Fixed),
            every: section.integer("every").at_least(1).or(1)?,
            survives: section.choice("survives", DAMAGE).or("machine")?,
        })
    }

    /// How long a job on `nodes` of the machine takes to write a checkpoint.
    pub(super) fn write_time(&self, machine: &Machine, nodes: u32) -> Span {
        self.write.time(machine, nodes)
    }

    /// How long it takes to read it back; as long as writing it, if nothing else is said.
    pub(super) fn restore_time(&self, machine: &Machine, nodes: u32) -> Span {
        self.restore.unwrap_or(self.write).time(machine, nodes)
    }
}

impl Cost {
    fn time(self, machine: &Machine, nodes: u32) -> Span {
        let per_node = machine.memory_per_node_bytes;
        Span::from_secs_f64(match self {
            Self::Fixed(seconds) => seconds,
            Self::Shared(bandwidth) => per_node * f64::from(nodes) / bandwidth,
            Self::PerNode(bandwidth) => per_node / bandwidth,
        })
    }
}

/// `time`, `bandwidth` or `bandwidth_per_node`.
fn read_write(section: &mut Section<'_>, machine: &Machine) -> Result<Cost, Problem> {
    const WAYS: [&str; 3] = ["time", "bandwidth", "bandwidth_per_node"];
    let given: Vec<&str> = WAYS.into_iter().filter(|way| section.has(way)).collect();
    let &[way] = &given[..] else {
        let why = format!("{} of time, bandwidth and bandwidth_per_node are given", given.len());
        return Err(section
            .refuse(given.last().unwrap_or(&"time"), &why)
            .with_help("give one: how long a checkpoint takes, or what it goes through"));
    };
    if way == "time" {
        return section.seconds("time").not_negative().required().map(Cost::Fixed);
    }
    if way == "bandwidth" {
        return section.bytes_per_second("bandwidth").positive().required().map(Cost::Shared);
    }
    let bandwidth = section.bytes_per_second("bandwidth_per_node").positive().required()?;
    // Networks of the published model: the bandwidth of a node grows with a power of log₂(nodes).
    let power = section.number("bandwidth_log2_power").not_negative().or(0.0)?;
    let bandwidth = bandwidth * f64::from(machine.nodes.max(2)).log2().powf(power);
    Ok(match section.choice("serves", SERVES).or("job")? {
        Serves::Machine => Cost::Shared(bandwidth * f64::from(machine.nodes)),
        Serves::Job => Cost::PerNode(bandwidth),
    })
}
