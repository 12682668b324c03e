//! How a store is laid out over hosts: what a user chooses.

mod pattern_hints;
mod read;

use std::fmt;
use std::str::FromStr;

use intarsia_types::TierClass;
use serde::Serialize;

use crate::Problem;
use crate::advice::advice;
use crate::json::{Node, parse};
use crate::profile::{Profile, StorePlacement};

pub use pattern_hints::PatternHints;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Configuration {
    /// All hosts that are paid for.
    pub hosts: u32,
    /// Hosts that store and run no task. None: every host that runs tasks also stores.
    pub storage_hosts: Option<u32>,
    /// Metadata servers.
    pub managers: u32,
    /// Whether they have hosts of their own.
    pub managers_apart: bool,
    /// How many of them keep each change; a majority of these must have it before it counts.
    pub manager_copies: u32,
    /// Where new files go.
    pub placement: Placement,
    /// Length of a chunk.
    pub chunk_bytes: u64,
    /// Over how many hosts a striped file is dealt; all of them where there are fewer.
    pub stripe_width: u32,
    /// Copies of each chunk, the first one included.
    pub copies: u32,
    /// How copies come about.
    pub copy_order: CopyOrder,
    /// What a write waits for.
    pub write_waits_for: WriteWaitsFor,
    /// Who runs a task.
    pub scheduler: Scheduler,
    /// Whether the hints of the workload are followed; they come before the configuration.
    pub follows_hints: bool,
    /// The frequency of the processors; none: that for which the profile describes hosts.
    pub frequency_mhz: Option<u32>,
    /// A task is run a second time, on an idle host, when it has taken so many hundredths of the median of its stage; none:
    /// never.
    pub second_run_percent: Option<u32>,
    /// The class of tier for files without a hint for one; none: the fastest that has room.
    pub tier: Option<TierClass>,
    /// What files of a pattern are told.
    pub patterns: PatternHints,
}

/// Where new files go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On the host that writes.
    Local,
    /// Dealt by chunks over `stripe_width` hosts.
    RoundRobin,
    /// What one task reads of several others lies on one host; all else is local.
    Collocate,
    /// On the first host that stores, as in stores that have one server.
    Central,
}

/// How copies come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyOrder {
    /// Each host sends to the next one.
    Chain,
    /// The first host sends to all others.
    Parallel,
}

/// What a write waits for. The thesis leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteWaitsFor {
    /// Every copy.
    All,
    /// The first copy.
    First,
}

/// Who runs a task that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Any idle host.
    Workqueue,
    /// The host that holds most of what the task reads; when it is busy, any idle one.
    Location,
    /// The host that costs the task least, as `intarsia run --schedule local`: waiting for a busy one is weighed against
    /// moving what the task reads, and what later tasks read together with what it makes.
    Local,
    /// As `intarsia run --schedule wow`: waiting is weighed against moving what the task reads, and what waiting tasks read is
    /// copied ahead of them to where they can soonest begin.
    Wow,
}

impl Placement {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("local", Self::Local),
        ("round-robin", Self::RoundRobin),
        ("collocate", Self::Collocate),
        ("central", Self::Central),
    ];

    /// Those that a store of ours can be told; the others are for predictions of other stores.
    pub const OURS: [Self; 3] = [Self::Local, Self::RoundRobin, Self::Collocate];
}

impl CopyOrder {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 2] =
        [("chain", Self::Chain), ("parallel", Self::Parallel)];
}

impl WriteWaitsFor {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 2] = [("all", Self::All), ("first", Self::First)];
}

impl Scheduler {
    /// The words for them.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("workqueue", Self::Workqueue),
        ("location", Self::Location),
        ("local", Self::Local),
        ("wow", Self::Wow),
    ];
}

/// The meaning of a word on the command line.
fn meaning<T: Copy>(words: &[(&'static str, T)], text: &str) -> Result<T, Problem> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Problem::new(format!("'{text}' is unknown")).with_help(advice(text, &known))
    })
}

impl FromStr for Placement {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Self, Problem> {
        meaning(&Self::WORDS, text)
    }
}

impl FromStr for Scheduler {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Self, Problem> {
        meaning(&Self::WORDS, text)
    }
}

fn word<T: PartialEq>(words: &[(&'static str, T)], meaning: &T) -> &'static str {
    words.iter().find(|(_, other)| other == meaning).map_or("", |(word, _)| word)
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(&Self::WORDS, self))
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(&Self::WORDS, self))
    }
}

impl Configuration {
    /// The most hosts, metadata servers and copies that can be asked for.
    pub const MOST_HOSTS: u32 = 1 << 16;

    /// What a store of ours is by default: local, each host stores and runs tasks, metadata servers among them.
    #[must_use]
    pub fn new(hosts: u32) -> Self {
        Self {
            hosts,
            storage_hosts: None,
            managers: 1,
            managers_apart: false,
            manager_copies: 1,
            placement: Placement::Local,
            chunk_bytes: 1 << 20,
            stripe_width: 4,
            copies: 1,
            copy_order: CopyOrder::Chain,
            write_waits_for: WriteWaitsFor::All,
            scheduler: Scheduler::Local,
            follows_hints: true,
            frequency_mhz: None,
            second_run_percent: None,
            tier: None,
            patterns: PatternHints::default(),
        }
    }

    /// What the store of a profile is by default on all of its hosts: new files go where that store puts them by itself.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let ours = Self::new(profile.hosts);
        match profile.placement {
            StorePlacement::Local => ours,
            StorePlacement::Spread => {
                Self { placement: Placement::RoundRobin, stripe_width: 1, ..ours }
            }
            StorePlacement::Central => Self { placement: Placement::Central, ..ours },
        }
    }

    /// Reads a configuration from the text of `file`, which is named in errors. What it leaves out is as in `default`.
    ///
    /// # Errors
    /// When the text is no JSON, of another version, or a field is unknown or out of range.
    pub fn parse(file: &str, text: &str, default: &Self) -> Result<Self, Problem> {
        let value = parse(file, text)?;
        read::configuration(&Node::root(file, &value), default)
    }

    /// The hosts of each role, in numbers of the profile: those that run tasks come first, then those that only store,
    /// then those that only serve metadata.
    ///
    /// # Errors
    /// When there are not enough hosts for all roles.
    pub fn roles(&self, profile: &Profile) -> Result<Roles, Problem> {
        let apart = if self.managers_apart { self.managers } else { 0 };
        let storage = self.storage_hosts.unwrap_or(0);
        let app = self.hosts.checked_sub(apart).and_then(|rest| rest.checked_sub(storage));
        let app = app.filter(|app| *app > 0).ok_or_else(|| {
            Problem::new(format!(
                "{} hosts: {storage} that store and {apart} for metadata leave none to run tasks",
                self.hosts
            ))
            .with_help("take more hosts, or fewer for storage and metadata")
        })?;
        if self.hosts > profile.hosts {
            let why = format!(
                "{} hosts, but profile '{}' has {}",
                self.hosts, profile.name, profile.hosts
            );
            return Err(Problem::new(why)
                .with_help("take fewer hosts, or raise 'hosts' in the profile to ask what if"));
        }
        if let Some(mhz) = self.frequency_mhz {
            check_frequency(mhz, profile, self.hosts)?;
        }
        let stores = if storage == 0 { 0..app } else { app..app + storage };
        let first_manager = if self.managers_apart { self.hosts - apart } else { stores.start };
        let among = if self.managers_apart { self.hosts } else { stores.end };
        if first_manager + self.managers > among {
            let why =
                format!("{} metadata servers for {} hosts that store", self.managers, stores.len());
            return Err(Problem::new(why)
                .with_help("take fewer metadata servers, or give them hosts of their own"));
        }
        Ok(Roles { app: 0..app, stores, managers: first_manager..first_manager + self.managers })
    }
}

/// Refuses a frequency that a host does not have.
fn check_frequency(mhz: u32, profile: &Profile, hosts: u32) -> Result<(), Problem> {
    let lacks = |host: &u32| profile.host(*host).frequency(mhz).is_none();
    let Some(host) = (0..hosts).find(lacks) else { return Ok(()) };
    let known = profile.host(host).frequencies.iter().map(|one| one.mhz.to_string());
    let known = known.collect::<Vec<_>>().join(", ");
    let help = if known.is_empty() {
        "describe 'frequencies' of the hosts in the profile".to_owned()
    } else {
        format!("it has {known}")
    };
    let why = format!("{mhz} MHz: host {host} of profile '{}' has no such frequency", profile.name);
    Err(Problem::new(why).with_help(help))
}

/// Which hosts do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Run tasks.
    pub app: std::ops::Range<u32>,
    /// Store.
    pub stores: std::ops::Range<u32>,
    /// Serve metadata.
    pub managers: std::ops::Range<u32>,
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} host{}", self.hosts, if self.hosts == 1 { "" } else { "s" })?;
        match self.storage_hosts {
            Some(storage) => write!(f, ", {storage} of them for storage")?,
            None if self.hosts > 1 => f.write_str(", all store")?,
            None => {}
        }
        if self.managers_apart {
            write!(f, ", {} for metadata", self.managers)?;
        }
        if self.manager_copies > 1 {
            write!(f, " in {} copies", self.manager_copies)?;
        }
        write!(f, ", {}", self.placement)?;
        if self.placement == Placement::RoundRobin {
            write!(f, " over {}", self.stripe_width)?;
        }
        write!(f, ", chunks of {}", intarsia_types::ByteCount(self.chunk_bytes))?;
        if self.copies > 1 {
            write!(f, ", {} copies", self.copies)?;
        }
        if let Some(tier) = self.tier {
            write!(f, ", tier {tier}")?;
        }
        if !self.patterns.is_empty() {
            write!(f, ", {}", self.patterns)?;
        }
        write!(f, ", {}", self.scheduler)?;
        if let Some(mhz) = self.frequency_mhz {
            write!(f, ", {mhz} MHz")?;
        }
        if let Some(percent) = self.second_run_percent {
            write!(f, ", second runs after {:.2} medians", f64::from(percent) / 100.0)?;
        }
        Ok(())
    }
}
