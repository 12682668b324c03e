//! Where checkpoints go, and how long that takes for a job of some size: `[[level]]`.

use intarsia_des::Span;

use super::level::{Kind, Payload, StoreProfile};
use super::machine::Machine;
use super::scheme::{Level, Overlap, Sharing};
use crate::scenario::{Problem, Section};

/// A level whose costs follow from the size of the job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Storage {
    name: String,
    kind: Kind,
    every: u64,
    costs: Costs,
    flush: Option<Flush>,
    shared: Option<Shared>,
}

/// A bandwidth that the transfers of all jobs and levels share that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shared {
    /// The number of the storage.
    storage: usize,
    /// Whether only writing is shared: `contention`, not `shared_storage`.
    is_writing_alone: bool,
}

/// The names of shared storages, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct SharedNames(Vec<String>);

impl SharedNames {
    /// How many there are.
    pub(super) fn number(&self) -> usize {
        self.0.len()
    }

    fn number_of(&mut self, name: String) -> usize {
        let known = self.0.iter().position(|other| *other == name);
        known.unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        })
    }
}

/// A transfer that completes a checkpoint in the background.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Flush {
    cost: Cost,
    /// The share of its speed that it costs the job.
    slowdown: f64,
    overlap: Overlap,
}

/// Where the costs of a level come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Costs {
    Given {
        write: Cost,
        restore: Cost,
    },
    /// The figures of `[storage]`.
    Profile(StoreProfile),
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

static OVERLAPS: [(&str, Overlap); 3] =
    [("wait", Overlap::Wait), ("queue", Overlap::Queue), ("skip", Overlap::Skip)];

const SERVES: &[(&str, Serves)] = &[("machine", Serves::Machine), ("job", Serves::Job)];

/// The largest `every`: nobody means more, and the pattern of levels takes memory.
const MOST_EVERY: u64 = 65_536;

impl Storage {
    /// Reads one of the sections. Without a cost of its own, a level costs what `profile` says.
    pub(super) fn read(
        section: &mut Section<'_>,
        machine: &Machine,
        profile: Option<&StoreProfile>,
        names: &mut SharedNames,
    ) -> Result<Self, Problem> {
        let name = section.text("name").required()?;
        let kind = Kind::read(section)?;
        let every = section.integer("every").at_least(1).at_most(MOST_EVERY).or(1)?;
        let costs = match profile {
            Some(profile) if !Cost::is_given(section, "write") => {
                let payload = Payload { bytes_per_node: 0.0, nodes: 1 };
                profile.times(kind, payload).map_err(|missing| {
                    section.refuse("kind", &missing.to_string()).with_help(
                        "add it to [storage], or say here what a checkpoint costs: write or bandwidth",
                    )
                })?;
                Costs::Profile(*profile)
            }
            _ => Costs::read(section, machine)?,
        };
        let flush = section.optional_section("flush", |flush| Flush::read(flush, machine))?;
        let mut level = Self { name, kind, every, costs, flush, shared: None };
        level.shared = level.read_shared(section, names)?;
        Ok(level)
    }

    fn read_shared(
        &self,
        section: &mut Section<'_>,
        names: &mut SharedNames,
    ) -> Result<Option<Shared>, Problem> {
        let is_contended = section.flag("contention").or(false)?;
        let name = section.text("shared_storage").optional()?;
        let (field, is_writing_alone) = match (&name, is_contended) {
            (None, false) => return Ok(None),
            (None, true) => ("contention", true),
            (Some(name), false) if !name.trim().is_empty() => ("shared_storage", false),
            (Some(_), false) => {
                return Err(section
                    .refuse("shared_storage", "an empty name")
                    .with_help("name the storage, such as \"pfs\""));
            }
            (Some(_), true) => {
                return Err(section
                    .refuse("shared_storage", "given beside contention = true")
                    .with_help("leave 'contention' out: it shares writing alone"));
            }
        };
        if let Some(what) = self.transfer_of_one_job(is_writing_alone) {
            let why = format!("for {what} the nodes of each job have a bandwidth of their own");
            return Err(section.refuse(field, &why).with_help(
                "give a time or 'bandwidth', or serves = \"machine\"; reading is as writing unless \
                 'restore' or 'reading' is given",
            ));
        }
        let storage = names.number_of(name.unwrap_or_else(|| self.name.clone()));
        Ok(Some(Shared { storage, is_writing_alone }))
    }

    /// A transfer that would go through a shared storage, but has a bandwidth that other jobs do not
    /// see.
    fn transfer_of_one_job(&self, is_writing_alone: bool) -> Option<&'static str> {
        let (write, restore) = match self.costs {
            Costs::Given { write, restore } => (write.is_for_all(), restore.is_for_all()),
            Costs::Profile(_) => (self.kind == Kind::Lower, self.kind == Kind::Lower),
        };
        let transfers = [
            ("'flush'", self.flush.is_none_or(|flush| flush.cost.is_for_all())),
            // What is flushed is first written elsewhere.
            ("writing", write || self.flush.is_some()),
            ("reading", restore || is_writing_alone),
        ];
        transfers.into_iter().find(|(_, is_for_all)| !is_for_all).map(|(what, _)| what)
    }

    /// Whether a checkpoint is complete only after a transfer in the background.
    pub(super) fn is_flushed(&self) -> bool {
        self.flush.is_some()
    }

    /// Whether jobs share the bandwidth when they write, but not when they read.
    pub(super) fn shares_writing_alone(&self) -> bool {
        self.shared.is_some_and(|shared| shared.is_writing_alone)
    }

    /// Which transfers go through a shared storage. A level with a flush is filled by it: the job
    /// itself writes elsewhere.
    fn sharing(&self) -> Sharing {
        let Some(Shared { storage, is_writing_alone }) = self.shared else {
            return Sharing::default();
        };
        Sharing {
            write: self.flush.is_none().then_some(storage),
            flush: self.flush.is_some().then_some(storage),
            restore: (!is_writing_alone).then_some(storage),
        }
    }

    /// The level as a job on `nodes` of the machine sees it.
    pub(super) fn level(&self, machine: &Machine, nodes: u32) -> Level {
        let seconds = |cost: Cost| cost.seconds(machine, nodes);
        let (write, restore) = match self.costs {
            Costs::Given { write, restore } => (seconds(write), seconds(restore)),
            Costs::Profile(profile) => {
                let payload = Payload { bytes_per_node: machine.memory_per_node_bytes, nodes };
                // Missing figures were refused when the level was read.
                profile
                    .times(self.kind, payload)
                    .map_or((0.0, 0.0), |times| (times.write_seconds, times.restore_seconds))
            }
        };
        Level {
            name: self.name.clone(),
            kind: self.kind,
            every: self.every,
            write: Span::from_secs_f64(write),
            restore: Span::from_secs_f64(restore),
            flush: self.flush.map_or(Span::ZERO, |f| Span::from_secs_f64(seconds(f.cost))),
            slowdown: self.flush.map_or(0.0, |flush| flush.slowdown),
            overlap: self.flush.map_or_else(Overlap::default, |flush| flush.overlap),
            sharing: self.sharing(),
        }
    }
}

/// Checks that levels go from the fastest to the safest, each taking some of the checkpoints of the
/// level below it.
pub(super) fn check_order(levels: &[Storage]) -> Result<(), String> {
    if levels.first().is_some_and(|first| first.every != 1) {
        return Err("the first level must take every checkpoint: leave 'every' out there".into());
    }
    let is_nested = |pair: &[Storage]| pair[1].every.is_multiple_of(pair[0].every);
    match levels.windows(2).find(|pair| !is_nested(pair)) {
        None => Ok(()),
        Some(pair) => Err(format!(
            "'every' of level '{}' must be a multiple of {}, that of '{}'",
            pair[1].name, pair[0].every, pair[0].name
        )),
    }
}

impl Flush {
    fn read(section: &mut Section<'_>, machine: &Machine) -> Result<Self, Problem> {
        let slowdown = section.number("slowdown").share();
        Ok(Self {
            slowdown: slowdown.must("be below 1", |share| *share < 1.0).or(0.0)?,
            overlap: section.choice("overlap", &OVERLAPS).or("wait")?,
            cost: Cost::read(section, machine, "time")?,
        })
    }
}

impl Costs {
    /// Reading takes as long as writing when nothing is said about it.
    fn read(section: &mut Section<'_>, machine: &Machine) -> Result<Self, Problem> {
        let write = Cost::read(section, machine, "write")?;
        let restore = section.seconds("restore").not_negative().optional()?;
        let restore = match restore {
            Some(seconds) => Cost::Fixed(seconds),
            None => section
                .optional_section("reading", |reading| Cost::read(reading, machine, "time"))?
                .unwrap_or(write),
        };
        Ok(Self::Given { write, restore })
    }
}

impl Cost {
    /// Whether one bandwidth is there for all jobs.
    fn is_for_all(self) -> bool {
        matches!(self, Self::Fixed(_) | Self::Shared(_))
    }

    fn is_given(section: &Section<'_>, fixed: &str) -> bool {
        [fixed, "bandwidth", "bandwidth_per_node"].iter().any(|way| section.has(way))
    }

    /// Reads a time under the name `fixed`, or `bandwidth`, or `bandwidth_per_node`.
    fn read(
        section: &mut Section<'_>,
        machine: &Machine,
        fixed: &'static str,
    ) -> Result<Self, Problem> {
        let ways = [fixed, "bandwidth", "bandwidth_per_node"];
        let given: Vec<&str> = ways.into_iter().filter(|way| section.has(way)).collect();
        match given[..] {
            [way] if way == fixed => {
                section.seconds(fixed).not_negative().required().map(Self::Fixed)
            }
            ["bandwidth"] => {
                section.bytes_per_second("bandwidth").positive().required().map(Self::Shared)
            }
            ["bandwidth_per_node"] => Self::read_per_node(section, machine),
            _ => {
                let why = format!("{} of {} are given", given.len(), ways.join(", "));
                let field = given.last().copied().unwrap_or(fixed);
                Err(section.refuse(field, &why).with_help(
                    "give one: how long it takes, or the bandwidth that the state goes through",
                ))
            }
        }
    }

    fn read_per_node(section: &mut Section<'_>, machine: &Machine) -> Result<Self, Problem> {
        let bandwidth = section.bytes_per_second("bandwidth_per_node").positive().required()?;
        // Published: the bandwidth of a node grows with a power of log₂(nodes of the machine).
        let power = section.number("bandwidth_log2_power").not_negative().optional()?;
        let growth = f64::from(machine.nodes.max(2)).log2().powf(power.unwrap_or(0.0));
        let bandwidth = bandwidth * growth;
        Ok(match section.choice("serves", SERVES).or("job")? {
            Serves::Machine => Self::Shared(bandwidth * f64::from(machine.nodes)),
            Serves::Job => Self::PerNode(bandwidth),
        })
    }

    fn seconds(self, machine: &Machine, nodes: u32) -> f64 {
        let per_node = machine.memory_per_node_bytes;
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Shared(bandwidth) => per_node * f64::from(nodes) / bandwidth,
            Self::PerNode(bandwidth) => per_node / bandwidth,
        }
    }
}
