//! The section `[workload]`.

use super::{bytes_field, count_field};
use crate::scale::system::{System, SystemKind};
use crate::scale::workload::{Ior, MetadataKind, Operation, Partner, Step, Workload};
use crate::scenario::{Problem, Section};

#[derive(Clone, Copy)]
enum Kind {
    Ior,
    Metadata,
    Write,
    Read,
    Mixed,
    Exchange,
    Custom,
}

const KINDS: &[(&str, Kind)] = &[
    ("ior", Kind::Ior),
    ("metadata", Kind::Metadata),
    ("write", Kind::Write),
    ("read", Kind::Read),
    ("mixed", Kind::Mixed),
    ("exchange", Kind::Exchange),
    ("custom", Kind::Custom),
];

const PARTNERS: &[(&str, Partner)] = &[
    ("own", Partner::Own),
    ("neighbour", Partner::Neighbour),
    ("opposite", Partner::Opposite),
    ("permutation", Partner::Permutation),
    ("random", Partner::Random),
];

#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Metadata(MetadataKind),
    Write,
    Read,
    Exchange,
    Barrier,
}

const VERBS: &[(&str, Verb)] = &[
    ("create", Verb::Metadata(MetadataKind::Create)),
    ("stat", Verb::Metadata(MetadataKind::Stat)),
    ("open", Verb::Metadata(MetadataKind::Open)),
    ("close", Verb::Metadata(MetadataKind::Close)),
    ("remove", Verb::Metadata(MetadataKind::Remove)),
    ("write", Verb::Write),
    ("read", Verb::Read),
    ("exchange", Verb::Exchange),
    ("barrier", Verb::Barrier),
];

/// Most repetitions of a step.
const MOST: u64 = 1_000_000;

pub(super) fn read(section: &mut Section<'_>, system: &System) -> Result<Workload, Problem> {
    use MetadataKind::{Close, Create, Open, Remove, Stat};
    let kind = section.choice("kind", KINDS).required()?;
    let mut workload = Workload::new(is_directory_shared(section, kind)?);
    let record = |kind| Step::each(Operation::Metadata(kind));
    match kind {
        Kind::Ior => return ior(section, system),
        Kind::Custom => return custom(section),
        Kind::Metadata => {
            let files = files(section)?;
            for (phase, kind) in [("create", Create), ("stat", Stat), ("remove", Remove)] {
                workload.push(phase, Step::each(Operation::Barrier));
                workload.push(phase, record(kind).times(files));
            }
        }
        Kind::Write => {
            let (bytes, transfers) = transfers(section)?;
            workload.push("create", record(Create));
            workload.push("write", Step::each(Operation::Write { bytes }).times(transfers));
            workload.push("close", record(Close));
        }
        Kind::Read => {
            let (bytes, transfers) = transfers(section)?;
            let from = partner(section, "from", "own")?;
            workload.push("open", record(Open));
            workload.push("read", Step::each(Operation::Read { bytes, from }).times(transfers));
        }
        Kind::Mixed => {
            let files = files(section)?;
            let (bytes, transfers) = transfers(section)?;
            let from = partner(section, "from", "random")?;
            workload.push("create", record(Create).times(files));
            workload.push("write", Step::each(Operation::Write { bytes }).times(transfers));
            workload.push("close", record(Close).times(files));
            workload.push("stat", record(Stat).times(files));
            workload.push("read", Step::each(Operation::Read { bytes, from }).times(transfers));
            workload.push("remove", record(Remove).times(files));
        }
        Kind::Exchange => {
            let (bytes, transfers) = transfers(section)?;
            let to = partner(section, "to", "permutation")?;
            let step = Step::each(Operation::Exchange { bytes, to }).times(transfers);
            workload.push("exchange", step);
        }
    }
    Ok(workload)
}

/// Workloads that make names say in whose directory.
fn is_directory_shared(section: &mut Section<'_>, kind: Kind) -> Result<bool, Problem> {
    const DIRECTORIES: &[(&str, bool)] = &[("own", false), ("shared", true)];
    match kind {
        Kind::Metadata | Kind::Write | Kind::Mixed | Kind::Custom => {
            section.choice("directory", DIRECTORIES).or("own")
        }
        Kind::Ior | Kind::Read | Kind::Exchange => Ok(false),
    }
}

fn files(section: &mut Section<'_>) -> Result<u32, Problem> {
    count_field(section, "files", MOST, 10)
}

/// Bytes of a call, and the number of calls.
fn transfers(section: &mut Section<'_>) -> Result<(u32, u32), Problem> {
    Ok((bytes_field(section, "transfer", "4 MB")?, count_field(section, "transfers", MOST, 16)?))
}

fn partner(
    section: &mut Section<'_>,
    name: &'static str,
    default: &str,
) -> Result<Partner, Problem> {
    section.choice(name, PARTNERS).or(default)
}

fn ior(section: &mut Section<'_>, system: &System) -> Result<Workload, Problem> {
    let (transfer_bytes, transfers) = transfers(section)?;
    let ior = Ior {
        transfer_bytes,
        transfers,
        is_file_shared: section.flag("shared_file").or(true)?,
        publishes_extents: system.kind == SystemKind::LocalFirst,
        from: partner(section, "from", "own")?,
    };
    Ok(ior.workload())
}

fn custom(section: &mut Section<'_>) -> Result<Workload, Problem> {
    let mut workload = Workload::new(is_directory_shared(section, Kind::Custom)?);
    for (phase, step) in section.sections("step", custom_step)? {
        workload.push(&phase, step);
    }
    match workload.steps.len() {
        1..=10_000 => Ok(workload),
        0 => Err(section.refuse("step", "there is none").with_help("write [[workload.step]]")),
        _ => Err(section.refuse("step", "there are more than 10000")),
    }
}

fn custom_step(section: &mut Section<'_>) -> Result<(String, Step), Problem> {
    let verb = section.choice("operation", VERBS).required()?;
    let operation = match verb {
        Verb::Metadata(kind) => Operation::Metadata(kind),
        Verb::Write => Operation::Write { bytes: bytes_field(section, "transfer", "4 MB")? },
        Verb::Read => Operation::Read {
            bytes: bytes_field(section, "transfer", "4 MB")?,
            from: partner(section, "from", "own")?,
        },
        Verb::Exchange => Operation::Exchange {
            bytes: bytes_field(section, "transfer", "4 MB")?,
            to: partner(section, "to", "permutation")?,
        },
        Verb::Barrier => Operation::Barrier,
    };
    let is_barrier = operation == Operation::Barrier;
    let name = VERBS.iter().find(|(_, v)| *v == verb).map_or("step", |(name, _)| name);
    let step = Step {
        is_collective: is_barrier || section.flag("collective").or(false)?,
        is_leader_only: !is_barrier && section.flag("leader_only").or(false)?,
        is_file_shared: !is_barrier && section.flag("shared_file").or(false)?,
        ..Step::each(operation).times(count_field(section, "repeat", MOST, 1)?)
    };
    if step.is_collective && step.is_leader_only {
        return Err(section
            .refuse("leader_only", "the others would never reach the barrier")
            .with_help("write a step with operation = \"barrier\" before this one instead"));
    }
    Ok((section.text("phase").or(name)?, step))
}
