//! What is simulated: a store, and the streams of requests on it.

use serde::Deserialize;

/// One store under one set of streams.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The store.
    pub store: StoreSettings,
    /// Who sends requests to it; none gives an empty outcome.
    pub streams: Vec<Stream>,
    /// From which all random numbers follow.
    #[serde(default = "one")]
    pub seed: u64,
    /// Measured requests of each stream. A slow stream beside fast ones gets fewer: the run ends when
    /// all have done twenty times as many together.
    #[serde(default = "thousand")]
    pub requests: u64,
    /// Requests of each stream before measuring starts.
    #[serde(default = "three_hundred")]
    pub warmup: u64,
    /// How many requests to list one by one.
    #[serde(default)]
    pub trace: usize,
}

/// A virtual disk's requests: a fixed number of them is always outstanding.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// The share of requests that start elsewhere than where the last one ended, 0 to 1.
    pub random: f64,
    /// The share of reads, 0 to 1.
    pub read: f64,
    /// The size of a request.
    pub bytes: u64,
    /// Requests that are outstanding at any time.
    pub outstanding: u32,
    /// The part of the store that the stream uses; by default an eighth of it.
    #[serde(default)]
    pub extent_bytes: Option<u64>,
}

/// A store of one of three kinds.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StoreSettings {
    /// One disk or several, with or without parity.
    Array(ArraySettings),
    /// A flash drive with a page map and garbage collection.
    Flash(FlashSettings),
    /// A volume over the network with limits.
    Network(NetworkSettings),
}

/// How an array keeps data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Striped, no redundancy; also a single disk.
    Raid0,
    /// Striped over pairs.
    Raid10,
    /// One parity for each stripe.
    Raid5,
    /// Two parities for each stripe.
    Raid6,
}

/// Disks behind a controller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySettings {
    /// How data lie.
    pub level: Level,
    /// How many disks, parity included.
    pub disks: u32,
    /// What lies on one disk before the next one goes on.
    pub chunk_bytes: u64,
    /// Each disk.
    pub disk: DiskSettings,
    /// Writes that are acknowledged before they are on a disk; 0: none.
    pub write_cache_bytes: u64,
    /// What is read ahead of a reader in order; 0: nothing.
    pub read_ahead_bytes: u64,
    /// What the controller takes for each request.
    pub overhead_ms: f64,
    /// Between the controller and whoever asks.
    pub link_bytes_per_second: f64,
}

/// A disk with a moving head.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSettings {
    /// Its capacity.
    pub capacity_bytes: u64,
    /// The shortest move of the head.
    pub seek_min_ms: f64,
    /// A move over the whole disk.
    pub seek_full_ms: f64,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Under the head.
    pub bytes_per_second: f64,
    /// Requests that the disk brings into order.
    pub queue: usize,
}

/// A flash drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSettings {
    /// What can be addressed.
    pub capacity_bytes: u64,
    /// The unit of the page map.
    pub page_bytes: u64,
    /// Pages that are erased together.
    pub pages_per_block: u32,
    /// Units that work at the same time.
    pub dies: u32,
    /// Room beyond the capacity, as a share of it.
    pub spare: f64,
    /// To read a page.
    pub read_us: f64,
    /// To write a page.
    pub program_us: f64,
    /// To erase a block.
    pub erase_ms: f64,
    /// Writes that are acknowledged before they are programmed.
    pub buffer_bytes: u64,
    /// What the controller takes for each request.
    pub overhead_us: f64,
    /// Between the drive and whoever asks.
    pub link_bytes_per_second: f64,
}

/// A volume over the network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSettings {
    /// What can be addressed.
    pub capacity_bytes: u64,
    /// Median time on the network, there and back.
    pub round_trip_ms: f64,
    /// Standard deviation of its logarithm.
    pub round_trip_sigma: f64,
    /// Requests a second that are let through.
    pub iops: f64,
    /// Requests that are let through at once after a pause.
    pub burst: f64,
    /// Bytes a second that are let through.
    pub bytes_per_second: f64,
    /// Servers that work at the same time.
    pub servers: u32,
    /// What a server takes for a read.
    pub read_ms: f64,
    /// What a server takes for a write, replicas included.
    pub write_ms: f64,
}

impl StoreSettings {
    /// What can be addressed, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Self::Array(array) => array.disk.capacity_bytes.saturating_mul(array.data_disks()),
            Self::Flash(flash) => flash.capacity_bytes,
            Self::Network(network) => network.capacity_bytes,
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self::Array(array) => array.check(),
            Self::Flash(flash) => flash.check(),
            Self::Network(network) => network.check(),
        }
    }
}

impl ArraySettings {
    /// Disks' worth of data in a stripe.
    pub(super) fn data_disks(&self) -> u64 {
        let disks = u64::from(self.disks);
        match self.level {
            Level::Raid0 => disks,
            Level::Raid10 => disks / 2,
            Level::Raid5 => disks.saturating_sub(1),
            Level::Raid6 => disks.saturating_sub(2),
        }
    }

    fn check(&self) -> Result<(), String> {
        let least = match self.level {
            Level::Raid0 => 1,
            Level::Raid10 => 2,
            Level::Raid5 => 3,
            Level::Raid6 => 4,
        };
        if self.disks < least || (self.level == Level::Raid10 && !self.disks.is_multiple_of(2)) {
            let wanted = if self.level == Level::Raid10 { "an even number" } else { "more" };
            return Err(format!(
                "store.disks: {} are not enough or do not fit {:?}; give {wanted}, at least {least}",
                self.disks, self.level
            ));
        }
        at_least_one("store.chunk_bytes", self.chunk_bytes)?;
        at_least_one("store.disk.capacity_bytes", self.disk.capacity_bytes)?;
        at_least_one("store.disk.queue", self.disk.queue as u64)?;
        positive("store.disk.rpm", self.disk.rpm)?;
        positive("store.disk.bytes_per_second", self.disk.bytes_per_second)?;
        not_negative("store.disk.seek_min_ms", self.disk.seek_min_ms)?;
        not_negative("store.disk.seek_full_ms", self.disk.seek_full_ms)?;
        not_negative("store.overhead_ms", self.overhead_ms)?;
        positive("store.link_bytes_per_second", self.link_bytes_per_second)
    }
}

impl FlashSettings {
    fn check(&self) -> Result<(), String> {
        at_least_one("store.page_bytes", self.page_bytes)?;
        at_least_one("store.pages_per_block", u64::from(self.pages_per_block))?;
        at_least_one("store.dies", u64::from(self.dies))?;
        let pages = self.capacity_bytes / self.page_bytes;
        let row = u64::from(self.dies) * u64::from(self.pages_per_block);
        if pages < 4 * row || pages > 1 << 28 {
            return Err(format!(
                "store.capacity_bytes: {pages} pages; give 4 blocks a die at least ({} pages), 2^28 at most",
                4 * row
            ));
        }
        if !(self.spare >= 0.02 && self.spare <= 1.0) {
            return Err(format!("store.spare: {} is not within 0.02 and 1", self.spare));
        }
        not_negative("store.read_us", self.read_us)?;
        not_negative("store.program_us", self.program_us)?;
        not_negative("store.erase_ms", self.erase_ms)?;
        not_negative("store.overhead_us", self.overhead_us)?;
        positive("store.link_bytes_per_second", self.link_bytes_per_second)
    }
}

impl NetworkSettings {
    fn check(&self) -> Result<(), String> {
        at_least_one("store.capacity_bytes", self.capacity_bytes)?;
        at_least_one("store.servers", u64::from(self.servers))?;
        positive("store.round_trip_ms", self.round_trip_ms)?;
        not_negative("store.round_trip_sigma", self.round_trip_sigma)?;
        positive("store.iops", self.iops)?;
        not_negative("store.burst", self.burst)?;
        positive("store.bytes_per_second", self.bytes_per_second)?;
        not_negative("store.read_ms", self.read_ms)?;
        not_negative("store.write_ms", self.write_ms)
    }
}

impl Run {
    pub(super) fn check(&self) -> Result<(), String> {
        self.store.check()?;
        at_least_one("requests", self.requests)?;
        let capacity = self.store.capacity_bytes();
        for (index, stream) in self.streams.iter().enumerate() {
            let field = |name: &str| format!("streams[{index}].{name}");
            share(&field("random"), stream.random)?;
            share(&field("read"), stream.read)?;
            at_least_one(&field("bytes"), stream.bytes)?;
            at_least_one(&field("outstanding"), u64::from(stream.outstanding))?;
            let extent = stream.extent(capacity);
            if extent > capacity || stream.bytes > extent {
                return Err(format!(
                    "{}: a request of {} bytes, an extent of {extent} and a store of {capacity} do \
                     not fit into each other",
                    field("extent_bytes"),
                    stream.bytes
                ));
            }
        }
        Ok(())
    }
}

impl Stream {
    pub(super) fn extent(&self, capacity: u64) -> u64 {
        self.extent_bytes.unwrap_or(capacity / 8)
    }
}

fn share(field: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(format!("{field}: {value} is not a share from 0 to 1 (75 % is 0.75)"))
}

fn positive(field: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(format!("{field}: {value} is not above zero"))
}

fn not_negative(field: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(format!("{field}: {value} is negative or no number"))
}

fn at_least_one(field: &str, value: u64) -> Result<(), String> {
    if value >= 1 {
        return Ok(());
    }
    Err(format!("{field}: must be at least 1"))
}

fn one() -> u64 {
    1
}

fn thousand() -> u64 {
    1000
}

fn three_hundred() -> u64 {
    300
}
