//! The file system: what its devices and services cost, and where metadata and data lie.

use intarsia_des::Distribution;

use super::hash::{hash, hash_of, pick};

/// A file system over `nodes` compute nodes. Endpoints of the network are numbered: compute nodes
/// first, then, with a central system, data servers and metadata servers.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Where metadata and data lie.
    pub kind: SystemKind,
    /// The device of every node, or of every data server of a central system.
    pub device: Device,
    /// The metadata service of every node, or of every metadata server of a central system.
    pub metadata: MetadataService,
    /// What a call costs its caller beside all else, in seconds (FUSE, forwarding).
    pub call_seconds: f64,
    /// Size of a request or answer without data.
    pub control_bytes: u32,
    /// Whether data that was fetched is written to the reader's own device.
    pub copies_fetched: bool,
    /// How many times the mean time the device of a node takes, where devices are not alike.
    pub device_spread: Option<Distribution>,
    /// Share of nodes whose device is slower.
    pub slow_share: f64,
    /// How many times slower those are.
    pub slow_factor: f64,
    /// Records over which one directory's entries are spread.
    pub directory_partitions: u32,
    /// How devices and services fail; none where they do not.
    pub outage: Option<Outage>,
}

/// How nodes, or the servers of a central system, fail: exponentially, and they come back with all they
/// held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    /// How long one is up, in the mean, in seconds.
    pub mtbf_seconds: f64,
    /// How long it is away, in seconds.
    pub seconds: f64,
}

/// Where metadata and data lie.
#[derive(Clone, Debug, PartialEq)]
pub enum SystemKind {
    /// Data on the node that writes it, metadata by hash over all nodes.
    LocalFirst,
    /// Data in chunks over nodes, metadata by hash over all nodes.
    Striped(Stripes),
    /// Data in chunks over dedicated servers, metadata on dedicated servers.
    Central {
        /// Data servers.
        servers: u32,
        /// Metadata servers.
        metadata_servers: u32,
        /// How files are cut.
        stripes: Stripes,
    },
}

/// How a file is cut and spread.
#[derive(Clone, Debug, PartialEq)]
pub struct Stripes {
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Over how many devices a file goes; none for all.
    pub width: Option<u32>,
    /// How the device of a chunk is found.
    pub placement: Placement,
}

/// How the device of a chunk is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One after the other, from a start that the file's hash gives.
    RoundRobin,
    /// By a hash of file and chunk.
    Hashed,
}

/// A storage device: one request after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Bytes per second of writing.
    pub write_bytes_per_second: f64,
    /// Bytes per second of reading.
    pub read_bytes_per_second: f64,
    /// Time of a request beside that for its bytes, in seconds.
    pub request_seconds: f64,
}

/// A metadata service: one request after the other. Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataService {
    /// Insert a record.
    pub create_seconds: f64,
    /// Look a record up.
    pub lookup_seconds: f64,
    /// Change a record.
    pub update_seconds: f64,
    /// Remove a record.
    pub remove_seconds: f64,
    /// Append an entry to a directory.
    pub append_seconds: f64,
    /// How many times its mean a service time is, where it is not always the same.
    pub spread: Option<Distribution>,
}

/// A file: one of a node's own, or one that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// The file `number` of a node.
    Own {
        /// The node.
        node: u32,
        /// Which of its files.
        number: u32,
    },
    /// The one file of all.
    Shared,
}

impl MetadataService {
    /// The longest of the times.
    pub fn longest_seconds(&self) -> f64 {
        [
            self.create_seconds,
            self.lookup_seconds,
            self.update_seconds,
            self.remove_seconds,
            self.append_seconds,
        ]
        .into_iter()
        .fold(0.0, f64::max)
    }
}

impl File {
    fn key(self, seed: u64) -> u64 {
        match self {
            Self::Own { node, number } => hash_of(seed, node, number),
            Self::Shared => hash(seed),
        }
    }
}

/// A part of a transfer that goes to one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The endpoint that holds it.
    pub endpoint: u32,
    /// Its size.
    pub bytes: u32,
}

impl System {
    /// How many endpoints the network has for `nodes` compute nodes.
    pub fn endpoints(&self, nodes: u32) -> u32 {
        nodes.saturating_add(self.servers())
    }

    /// How many endpoints are no compute nodes.
    pub fn servers(&self) -> u32 {
        match &self.kind {
            SystemKind::Central { servers, metadata_servers, .. } => {
                servers.saturating_add(*metadata_servers)
            }
            _ => 0,
        }
    }

    /// How many devices there are.
    pub fn devices(&self, nodes: u32) -> u32 {
        match &self.kind {
            SystemKind::Central { servers, .. } => *servers,
            _ => nodes,
        }
    }

    /// How many metadata services there are.
    pub fn metadata_services(&self, nodes: u32) -> u32 {
        match &self.kind {
            SystemKind::Central { metadata_servers, .. } => *metadata_servers,
            _ => nodes,
        }
    }

    /// The endpoint that holds a file's record.
    pub fn record_of(&self, file: File, nodes: u32, seed: u64) -> u32 {
        self.metadata_endpoint(file.key(seed), nodes)
    }

    /// The endpoint that holds the part of a directory in which a file's name stands. Every node
    /// has a directory, or all share one.
    pub fn directory_of(&self, file: File, is_shared: bool, nodes: u32, seed: u64) -> u32 {
        let directory = match file {
            File::Own { node, .. } if !is_shared => hash_of(!seed, node, 0),
            _ => hash(!seed),
        };
        let part = pick(hash(file.key(seed)), self.directory_partitions.max(1));
        self.metadata_endpoint(hash(directory ^ u64::from(part)), nodes)
    }

    fn metadata_endpoint(&self, key: u64, nodes: u32) -> u32 {
        let first = match &self.kind {
            SystemKind::Central { servers, .. } => nodes + servers,
            _ => 0,
        };
        first + pick(key, self.metadata_services(nodes))
    }

    /// Visits the pieces of the transfer of `bytes` at `offset` of a file whose bytes at that place
    /// were or will be written by `writer`.
    pub fn pieces(
        &self,
        file: File,
        writer: u32,
        (offset, bytes): (u64, u32),
        nodes: u32,
        seed: u64,
        mut visit: impl FnMut(Piece),
    ) {
        let (first, stripes) = match &self.kind {
            SystemKind::LocalFirst => return visit(Piece { endpoint: writer, bytes }),
            SystemKind::Striped(stripes) => (0, stripes),
            SystemKind::Central { stripes, .. } => (nodes, stripes),
        };
        let key = file.key(seed);
        let devices = self.devices(nodes);
        let chunk_bytes = u64::from(stripes.chunk_bytes.max(1));
        let (mut at, end) = (offset, offset + u64::from(bytes));
        while at < end {
            let chunk = at / chunk_bytes;
            let next = end.min((chunk + 1) * chunk_bytes);
            let endpoint = first + stripes.device_of(key, chunk, devices);
            visit(Piece { endpoint, bytes: u32::try_from(next - at).unwrap_or(u32::MAX) });
            at = next;
        }
    }
}

impl Stripes {
    fn device_of(&self, key: u64, chunk: u64, devices: u32) -> u32 {
        let width = self.width.unwrap_or(devices).clamp(1, devices);
        let start = u64::from(pick(key, devices));
        let step = match self.placement {
            Placement::RoundRobin => chunk % u64::from(width),
            Placement::Hashed => u64::from(pick(hash(key ^ hash(chunk)), width)),
        };
        u32::try_from((start + step) % u64::from(devices)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn system(kind: SystemKind) -> System {
        System {
            kind,
            device: Device {
                write_bytes_per_second: 1e8,
                read_bytes_per_second: 1e8,
                request_seconds: 0.0,
            },
            metadata: MetadataService {
                create_seconds: 1e-4,
                lookup_seconds: 1e-4,
                update_seconds: 1e-4,
                remove_seconds: 1e-4,
                append_seconds: 1e-5,
                spread: None,
            },
            call_seconds: 0.0,
            control_bytes: 256,
            copies_fetched: false,
            device_spread: None,
            slow_share: 0.0,
            slow_factor: 1.0,
            directory_partitions: 1,
            outage: None,
        }
    }

    fn stripes(chunk_bytes: u32, width: Option<u32>, placement: Placement) -> Stripes {
        Stripes { chunk_bytes, width, placement }
    }

    proptest! {
        #[test]
        fn pieces_cover_the_transfer_and_lie_on_devices(
            chunk in 1_u32..5000, width in prop::option::of(1_u32..40), hashed: bool,
            nodes in 1_u32..50, servers in 1_u32..30,
            offset in 0_u64..100_000, bytes in 1_u32..50_000, seed: u64,
        ) {
            let placement = if hashed { Placement::Hashed } else { Placement::RoundRobin };
            let stripes = stripes(chunk, width, placement);
            let kinds = [
                SystemKind::LocalFirst,
                SystemKind::Striped(stripes.clone()),
                SystemKind::Central { servers, metadata_servers: 2, stripes },
            ];
            for kind in kinds {
                let system = system(kind);
                let is_central = system.servers() > 0;
                let devices = if is_central { nodes..nodes + servers } else { 0..nodes };
                let file = File::Own { node: nodes - 1, number: 3 };
                let mut total = 0;
                system.pieces(file, nodes - 1, (offset, bytes), nodes, seed, |piece| {
                    assert!(devices.contains(&piece.endpoint));
                    assert!(piece.bytes > 0);
                    total += piece.bytes;
                });
                prop_assert_eq!(total, bytes);
                let record = system.record_of(file, nodes, seed);
                prop_assert!(record < system.endpoints(nodes));
                prop_assert_eq!(is_central, record >= nodes + if is_central { servers } else { 0 });
            }
        }
    }

    #[test]
    fn round_robin_gives_every_device_its_share_of_a_shared_file() {
        let system = system(SystemKind::Striped(stripes(1 << 20, None, Placement::RoundRobin)));
        let nodes = 16;
        let mut load = vec![0; nodes as usize];
        for node in 0..nodes {
            let offset = u64::from(node) * (4 << 20);
            system.pieces(File::Shared, node, (offset, 4 << 20), nodes, 7, |piece| {
                load[piece.endpoint as usize] += piece.bytes;
            });
        }
        assert!(load.iter().all(|&l| l == 4 << 20), "{load:?}");
    }

    #[test]
    fn records_spread_evenly() {
        let system = system(SystemKind::LocalFirst);
        let nodes = 64;
        let mut count = vec![0_u32; nodes as usize];
        for node in 0..nodes {
            for number in 0..100 {
                let file = File::Own { node, number };
                count[system.record_of(file, nodes, 1) as usize] += 1;
            }
        }
        // 100 expected with standard deviation 10; five of them.
        assert!(count.iter().all(|c| (50..150).contains(c)), "{count:?}");
    }
}
