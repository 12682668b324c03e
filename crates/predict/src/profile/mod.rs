//! What a workload runs on: hosts, links, and how long the services of a store take. Measured once on few hosts, then
//! good for every workload and configuration.

mod compared;
mod crowding;
mod engine;
mod machine;
mod mishaps;
mod power;
mod read;
mod seconds;
mod variants;

use intarsia_types::TierClass;

use crate::Problem;
use crate::json::{Node, parse};

pub use compared::Compared;
pub use crowding::{Crowding, Work};
pub use engine::Engine;
pub use machine::Machine;
pub use mishaps::{Failures, Stragglers};
pub use power::{Frequency, Power, Prices};
pub use seconds::Seconds;
pub(crate) use seconds::{mixed, one_of};
pub use variants::Rounds;

/// A platform and the service times of a store on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// Where its numbers come from.
    pub provenance: Provenance,
    /// Where it was measured; none: nobody says so.
    pub machine: Option<Machine>,
    /// What every host is, unless `unlike` says otherwise.
    pub host: Host,
    /// How many hosts there are to choose from.
    pub hosts: u32,
    /// What the store calls its hosts, from the first on; a group of files has its host by that. Others go by their numbers.
    pub host_names: Vec<String>,
    /// Processors that all hosts share, as they are namespaces or virtual machines of one machine; none: each has its own.
    pub shared_processors: Option<u32>,
    /// Hosts that are not like the others, by number.
    pub unlike: Vec<(u32, Host)>,
    /// Between hosts, and within one.
    pub network: Network,
    /// What a metadata server takes for a request.
    pub manager: Manager,
    /// What a storage host takes, for each of its tiers, fastest first; never empty.
    pub tiers: Vec<Tier>,
    /// What runs beside the program that reads and writes.
    pub client: Client,
    /// What the workflow engine takes for each task; none: nobody has measured it, and it counts as nothing.
    pub engine: Option<Engine>,
    /// Where the store puts new files by itself.
    pub placement: StorePlacement,
    /// What is paid; none: a cost is in host hours.
    pub prices: Option<Prices>,
    /// How often hosts fail; none: never.
    pub failures: Option<Failures>,
    /// How often tasks compute slowly; none: never.
    pub stragglers: Option<Stragglers>,
    /// The numbers by the rounds in which they were measured.
    pub rounds: Rounds,
    /// Runs that were held against what was foretold of them.
    pub compared: Compared,
}

/// Where a store puts new files if nobody tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorePlacement {
    /// On the host that writes, as ours.
    #[default]
    Local,
    /// Each file on one of its hosts, whoever writes.
    Spread,
    /// All on one host.
    Central,
}

impl StorePlacement {
    pub(crate) const WORDS: [(&'static str, Self); 3] =
        [("local", Self::Local), ("spread", Self::Spread), ("central", Self::Central)];
}

/// Where the numbers of a profile come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// `measured`, `data sheet`, `published` or `assumed`.
    pub source: Source,
    /// When, where, how: in words.
    pub note: String,
}

/// How far the numbers of a profile can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured on the platform itself.
    Measured,
    /// Taken from data sheets.
    DataSheet,
    /// Taken from a publication.
    Published,
    /// Assumed.
    Assumed,
}

impl Source {
    pub(crate) const WORDS: [(&'static str, Self); 4] = [
        ("measured", Self::Measured),
        ("data sheet", Self::DataSheet),
        ("published", Self::Published),
        ("assumed", Self::Assumed),
    ];

    /// The word that stands for it in a profile.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, source)| *source == self).map_or("", |(word, _)| word)
    }
}

/// A host.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Tasks of one slot that it runs at a time.
    pub slots: u32,
    /// How many times as fast it computes as the host on which the computation of the workload was measured.
    pub speed: f64,
    /// What its network card takes in.
    pub in_bytes_per_second: f64,
    /// What its network card gives out.
    pub out_bytes_per_second: f64,
    /// Memory that keeps what was read and written; 0 for none.
    pub cache_bytes: u64,
    /// The rate at which that memory is read.
    pub cache_bytes_per_second: f64,
    /// What it gets done when several want the same; none: each service is a queue of its own.
    pub crowding: Option<Crowding>,
    /// What it draws, if that is known.
    pub power: Option<Power>,
    /// At which other frequencies its processors can run.
    pub frequencies: Vec<Frequency>,
}

/// What lies between hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// From one card to another, in addition to what the bytes take at both.
    pub latency_seconds: f64,
    /// What is sent is cut into pieces of this length, and pieces of several senders mix at the receiver.
    pub frame_bytes: u64,
    /// Length of a message without data.
    pub control_bytes: u64,
    /// How messages share a link.
    pub sharing: Sharing,
    /// What a link that streams share lets pass at once after it was idle: it is held to its rate by a token bucket of this size. 0 for none.
    pub burst_bytes: u64,
    /// What of a stream stands in the queue of a full link, at most; messages without data wait for it. 0: they wait for nothing.
    pub queue_bytes: u64,
    /// Messages within a host; it has queues of its own, in and out, of this rate.
    pub loopback_bytes_per_second: f64,
}

/// How messages share a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// They wait in a queue out, and their frames in a queue in, as in the thesis.
    #[default]
    Frames,
    /// Streams have max-min fair rates; messages without data wait for what stands in the queue of a full link.
    Fair,
}

impl Sharing {
    pub(crate) const WORDS: [(&'static str, Self); 2] =
        [("frames", Self::Frames), ("fair", Self::Fair)];
}

/// What a metadata server takes for a request, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Manager {
    /// Requests that one server works on at the same time.
    pub parallel: u32,
    /// Look a file up, with its chunks and hints.
    pub open: Seconds,
    /// Choose where a new file goes.
    pub allocate: Seconds,
    /// The same in a directory that other hosts use meanwhile; none: no longer.
    pub allocate_shared: Option<Seconds>,
    /// Publish what was written.
    pub commit: Seconds,
}

/// What holds bytes at a storage host.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// What it is made of.
    pub class: TierClass,
    /// What it can hold.
    pub capacity_bytes: u64,
    /// Requests that it works on at the same time.
    pub parallel: u32,
    /// To read.
    pub read: Access,
    /// To write.
    pub write: Access,
    /// Memory that takes in what is written; none: a write ends when the tier has the bytes.
    pub write_back: Option<WriteBack>,
}

impl Tier {
    /// Whether processors alone move its bytes: nothing has to be reached first, and no memory stands before it.
    #[must_use]
    pub const fn is_memory(&self) -> bool {
        self.read.first.is_none() && self.write_back.is_none()
    }
}

/// Memory that takes in what is written, and gives it to a slower medium later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteBack {
    /// How many bytes may wait there; who writes more waits.
    pub bytes: u64,
    /// The rate at which the medium takes them.
    pub bytes_per_second: f64,
}

/// What a request to a tier takes: `request + bytes / rate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// For the request itself.
    pub request: Seconds,
    /// For its bytes.
    pub bytes_per_second: f64,
    /// The same for the first bytes of an operation, [`FIRST_BYTES`] at most: a medium has to be reached before anything can
    /// be read ahead of a program. None: as for all others.
    pub first: Option<Line>,
    /// What passes at once after a pause. None: nothing.
    pub burst: Option<Burst>,
}

/// Bytes that a device lets pass at another rate after a pause.
#[derive(Clone, Debug, PartialEq)]
pub struct Burst {
    /// So many at most; they come back at the usual rate while the device has nothing to do.
    pub bytes: u64,
    /// Their rate.
    pub bytes_per_second: f64,
}

/// What bytes take: `request + bytes / rate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// For the request itself.
    pub request: Seconds,
    /// For its bytes.
    pub bytes_per_second: f64,
}

/// Of an operation the bytes that count as its first: so many are measured.
pub const FIRST_BYTES: u64 = 1 << 20;

impl Access {
    /// Of the first request of an operation the bytes that count as first ones.
    #[must_use]
    pub fn first_bytes(&self, bytes: u64) -> u64 {
        if self.first.is_some() { bytes.min(FIRST_BYTES) } else { 0 }
    }

    /// Seconds for so many bytes; `draw` chooses among measured times.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    pub fn seconds(&self, bytes: u64, draw: u64) -> f64 {
        self.request.draw(draw) + bytes as f64 / self.bytes_per_second
    }

    /// The same for the first request of an operation.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    pub fn first_seconds(&self, bytes: u64, draw: u64) -> f64 {
        let Some(first) = &self.first else { return self.seconds(bytes, draw) };
        let head = self.first_bytes(bytes);
        let rest = (bytes - head) as f64 / self.bytes_per_second;
        first.request.draw(draw) + head as f64 / first.bytes_per_second + rest
    }
}

/// What runs on the host of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Each operation on a file takes this, one after the other on a host.
    pub operation: Seconds,
    /// Requests for chunks that one operation has under way; none for no limit.
    pub outstanding: Option<u32>,
    /// How a client reaches services on its own host.
    pub local: LocalAccess,
    /// Whether memory of a reader keeps what it has read of files that are dealt over hosts.
    pub keeps_striped: bool,
    /// Whether a client asks each host that has a part of such a file when it opens or makes it.
    pub opens_parts: bool,
    /// Bytes of such a file that one read has under way; none: as of other files.
    pub striped_window_bytes: Option<u64>,
    /// Files up to this long stand beside their inodes: whoever chooses hosts for tasks is told of no host that has them.
    pub inline_bytes: u64,
    /// Whether its host reads what was written once more when it is published, for a checksum; nobody waits for that.
    pub sums_written: bool,
}

/// How a client reaches services on its own host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalAccess {
    /// By a function call: nothing is sent.
    Call,
    /// By messages over the loopback, as in stores of separate processes.
    Message,
}

impl Host {
    /// What holds at a frequency, if it has that.
    #[must_use]
    pub fn frequency(&self, mhz: u32) -> Option<&Frequency> {
        self.frequencies.iter().find(|frequency| frequency.mhz == mhz)
    }
}

impl Profile {
    /// What the host of this number draws at a frequency; none is that for which it is described.
    #[must_use]
    pub fn power(&self, number: u32, mhz: Option<u32>) -> Option<&Power> {
        let host = self.host(number);
        let chosen = mhz.and_then(|mhz| host.frequency(mhz));
        chosen.map(|frequency| &frequency.power).or(host.power.as_ref())
    }

    /// Reads a profile from the text of `file`, which is named in errors.
    ///
    /// # Errors
    /// When the text is no JSON, of another version, or a field is missing, unknown, without its unit or out of range.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problem> {
        let value = parse(file, text)?;
        read::profile(&Node::root(file, &value))
    }

    /// The host of this number.
    #[must_use]
    pub fn host(&self, number: u32) -> &Host {
        let unlike = self.unlike.iter().find(|(other, _)| *other == number);
        unlike.map_or(&self.host, |(_, host)| host)
    }

    /// What the store calls the host of this number.
    #[must_use]
    pub fn host_name(&self, number: u32) -> String {
        let name = usize::try_from(number).ok().and_then(|at| self.host_names.get(at));
        name.map_or_else(|| format!("{number:05}"), Clone::clone)
    }

    /// Whether anything in it is drawn at random, so that one run is not all.
    #[must_use]
    pub fn is_random(&self) -> bool {
        let Manager { open, allocate, allocate_shared, commit, .. } = &self.manager;
        let of_tiers = self.tiers.iter().flat_map(|tier| [&tier.read, &tier.write]);
        let of_tiers = of_tiers.flat_map(|access| {
            [Some(&access.request), access.first.as_ref().map(|first| &first.request)]
        });
        let of_tiers = of_tiers.flatten();
        if self.failures.is_some() || self.stragglers.is_some() {
            return true;
        }
        [open, allocate, commit, &self.client.operation]
            .into_iter()
            .chain(allocate_shared)
            .chain(of_tiers)
            .any(Seconds::is_random)
    }
}
