//! A task that waits for a host.

/// Bytes by host, by the numbers of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByHost(Vec<(u32, u64)>);

impl ByHost {
    /// Counts bytes of a host.
    pub(crate) fn add(&mut self, host: u32, bytes: u64) {
        *self.entry(host) += bytes;
    }

    /// A host has so many bytes.
    pub(crate) fn set(&mut self, host: u32, bytes: u64) {
        *self.entry(host) = bytes;
    }

    fn entry(&mut self, host: u32) -> &mut u64 {
        let at = self.0.binary_search_by_key(&host, |(host, _)| *host).unwrap_or_else(|at| {
            self.0.insert(at, (host, 0));
            at
        });
        &mut self.0[at].1
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().copied()
    }

    /// The bytes of a host.
    pub(crate) fn of(&self, host: u32) -> u64 {
        self.0.binary_search_by_key(&host, |(host, _)| *host).map_or(0, |at| self.0[at].1)
    }

    fn has(&self, host: u32) -> bool {
        self.0.binary_search_by_key(&host, |(host, _)| *host).is_ok()
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The host with most; of equal ones the first.
    pub(crate) fn most(&self) -> Option<u32> {
        let most = self.0.iter().map(|(_, bytes)| *bytes).max()?;
        self.0.iter().find(|(_, bytes)| *bytes == most).map(|(host, _)| *host)
    }
}

/// What a policy knows of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// How many bytes of its input each host has.
    held: ByHost,
    /// All of its input.
    input_bytes: u64,
    /// How many slots it takes.
    pub(super) slots: u32,
    /// Bytes that later tasks need not move if it runs on a host: they read what it makes together with what is there.
    affinity: ByHost,
    /// All of these.
    pub(super) affinity_bytes: u64,
    /// The host that has most of its input, if any has.
    pub(super) nearest: Option<u32>,
}

impl Waiting {
    /// A task of which hosts hold so much of the input, and later tasks need so little moved.
    pub(crate) fn new(held: ByHost, input_bytes: u64, slots: u32, affinity: ByHost) -> Self {
        let (nearest, affinity_bytes) = (held.most(), affinity.total());
        Self { held, input_bytes, slots, affinity, affinity_bytes, nearest }
    }

    /// A host has more of its input.
    pub(super) fn gains(&mut self, host: u32, bytes: u64) {
        let held = (self.held.of(host) + bytes).min(self.input_bytes);
        self.held.set(host, held);
        if self.nearest.is_none_or(|nearest| self.held.of(nearest) < held) {
            self.nearest = Some(host);
        }
    }

    /// Whether its input lies nowhere.
    pub(super) const fn is_without_input(&self) -> bool {
        self.held.is_empty()
    }

    /// The hosts that it or later tasks need not move everything to, each once.
    pub(super) fn near_hosts(&self) -> impl Iterator<Item = u32> {
        let others = self.affinity.iter().filter(|(host, _)| !self.held.has(*host));
        self.held.iter().chain(others).map(|(host, _)| host)
    }

    /// Whether a host is one of these.
    pub(super) fn is_near(&self, host: u32) -> bool {
        self.held.has(host) || self.affinity.has(host)
    }

    /// Bytes that neither it nor later tasks have to move if it runs on a host.
    pub(super) fn near_bytes(&self, host: u32) -> u64 {
        self.held.of(host) + self.affinity.of(host)
    }

    /// Bytes of its input that a host reads from others.
    pub(super) fn remote_bytes(&self, host: u32) -> u64 {
        self.input_bytes.saturating_sub(self.held.of(host))
    }

    /// Bytes that it or later tasks have to move if it runs on a host.
    pub(super) fn far_bytes(&self, host: u32) -> u64 {
        self.remote_bytes(host) + self.affinity_bytes - self.affinity.of(host)
    }

    /// All that it and later tasks may have to move.
    pub(super) const fn whole_bytes(&self) -> u64 {
        self.input_bytes + self.affinity_bytes
    }
}
