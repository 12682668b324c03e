//! Nodes of one deployment in this process, over one engine in memory.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_meta::MetaEngine;
use intarsia_meta::engines::MemoryEngine;
use intarsia_node::{
    Caller, ClusterOptions, KernelBacking, MoveOptions, NewName, Node, NodeOptions,
};
use intarsia_transport::{DeploymentKey, Identity, Peers, Runtime};
use intarsia_types::{ByteCount, FileKind, InodeId, NodeId, Result, TierSpec};

pub(crate) const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0 };
pub(crate) const MIB: usize = 1 << 20;
pub(crate) const UNBOUNDED: MoveOptions = MoveOptions { bytes_per_s: None };
const STORE: &str = "000102030405060708090a0b0c0d0e0f";
/// Members beat fast, so that tests need not wait for long, but silence lasts long enough for a busy machine.
const BEAT_MS: u64 = 100;
const LOST_AFTER_MS: u64 = 1500;

pub(crate) fn no_kernel(_: BorrowedFd<'_>) -> std::io::Result<KernelBacking> {
    Err(std::io::Error::from_raw_os_error(95))
}

pub(crate) struct Deployment {
    home: tempfile::TempDir,
    pub(crate) engine: Arc<dyn MetaEngine>,
    key: DeploymentKey,
}

impl Deployment {
    pub(crate) fn new() -> Self {
        let pem = DeploymentKey::generate().unwrap();
        Self {
            home: tempfile::tempdir().unwrap(),
            engine: Arc::new(MemoryEngine::new(5)),
            key: DeploymentKey::from_pem(pem.as_bytes()).unwrap(),
        }
    }

    pub(crate) fn start(&self, name: &str) -> Arc<Node> {
        let dir = self.dir(name);
        std::fs::create_dir_all(&dir).unwrap();
        Node::open(self.options(name, &dir)).unwrap()
    }

    /// Starts a host whose tier holds no more than `capacity`.
    pub(crate) fn start_with(&self, name: &str, capacity: ByteCount) -> Arc<Node> {
        let dir = self.dir(name);
        std::fs::create_dir_all(&dir).unwrap();
        let tier = TierSpec { dir: dir.join("store/tier"), class: None, capacity: Some(capacity) };
        Node::open(NodeOptions { tiers: vec![tier], ..self.options(name, &dir) }).unwrap()
    }

    /// Starts several hosts that know each other.
    pub(crate) fn start_all<const N: usize>(&self, names: [&str; N]) -> [Arc<Node>; N] {
        let nodes = names.map(|name| self.start(name));
        nodes.iter().for_each(|node| node.meet_members().unwrap());
        nodes
    }

    fn options(&self, name: &str, dir: &Path) -> NodeOptions {
        NodeOptions {
            watermark: ByteCount(0),
            name: NodeId(name.into()),
            cluster: Some(ClusterOptions {
                engine: Arc::clone(&self.engine),
                store: STORE.into(),
                listen: ([127, 0, 0, 1], 0).into(),
                key: self.key.clone(),
                network: None,
            }),
            beat_ms: BEAT_MS,
            lost_after_ms: LOST_AFTER_MS,
            ..NodeOptions::new(dir.join("store"))
        }
    }

    /// A process of a host that asks `asked`, and began with the life `epoch`.
    pub(crate) fn process_of(&self, name: &str, epoch: u64, asked: &Node) -> Peers {
        let store = STORE.parse().unwrap();
        let identity = Identity { node: NodeId(name.into()), store, epoch, key: self.key.clone() };
        let config = identity.key.config();
        let peers = Peers::new(Runtime::start(1).unwrap(), identity, config).unwrap();
        let known = asked.host_presences().unwrap().into_iter();
        peers.set_members(known.filter_map(|host| Some((host.name, host.address?))));
        peers
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Backing files on disk at a host.
    pub(crate) fn files(&self, name: &str) -> usize {
        fn count(dir: &Path) -> usize {
            let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
            entries.flatten().map(|e| if e.path().is_dir() { count(&e.path()) } else { 1 }).sum()
        }
        count(&self.dir(name).join("store/tier/data"))
    }
}

/// Ends a node as a crash would, as far as others can see; its files stay.
pub(crate) fn crash(node: Arc<Node>) {
    node.abandon();
    drop(node);
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What `node` knows of the state of another host.
pub(crate) fn state_of(node: &Node, name: &str) -> String {
    let hosts = node.status().unwrap().hosts;
    hosts.into_iter().find(|h| h.host == name).map_or_else(String::new, |h| h.state.to_owned())
}

pub(crate) fn wait_for_state(node: &Node, name: &str, state: &str) {
    wait_until(&format!("{name} is {state}"), || state_of(node, name) == state);
}

/// Some bytes that tell their place.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| ((i / 251) ^ i ^ usize::from(seed)).to_le_bytes()[0]).collect()
}

/// Creates a file and opens it for writing.
pub(crate) fn create(node: &Node, name: &str) -> InodeId {
    let new = NewName { kind: FileKind::Regular, perm: 0o644, umask: 0, rdev: 0, target: None };
    let created =
        node.create_file(ROOT_CALLER, InodeId::ROOT, name.as_bytes(), &new, true, &no_kernel);
    created.unwrap().0.ino
}

pub(crate) fn put(node: &Node, name: &str, content: &[u8]) -> InodeId {
    let ino = create(node, name);
    write(node, ino, 0, content).unwrap();
    node.flush(ino).unwrap();
    node.release(ino, true);
    ino
}

pub(crate) fn write(node: &Node, ino: InodeId, at: u64, content: &[u8]) -> Result<()> {
    for (i, part) in content.chunks(MIB).enumerate() {
        node.write(ino, at + (i * MIB) as u64, part, false, false)?;
    }
    Ok(())
}

/// Opens the existing file, writes and closes.
pub(crate) fn overwrite(
    node: &Node,
    ino: InodeId,
    at: u64,
    content: &[u8],
    truncate: bool,
) -> Result<()> {
    node.open_file(ROOT_CALLER, ino, true, truncate, &no_kernel)?;
    let outcome = write(node, ino, at, content).and_then(|()| node.flush(ino));
    node.release(ino, true);
    outcome
}

pub(crate) fn get(node: &Node, name: &str) -> Result<Vec<u8>> {
    let (attr, _) = node.lookup(InodeId::ROOT, name.as_bytes())?;
    node.open_file(ROOT_CALLER, attr.ino, false, false, &no_kernel)?;
    let mut content = Vec::new();
    let mut buffer = vec![0; MIB];
    let outcome = loop {
        match node.read(attr.ino, content.len() as u64, &mut buffer) {
            Ok(0) => break Ok(()),
            Ok(n) => content.extend_from_slice(&buffer[..n]),
            Err(e) => break Err(e),
        }
    };
    node.release(attr.ino, false);
    outcome.map(|()| content)
}

pub(crate) fn size(node: &Node, name: &str) -> u64 {
    node.lookup(InodeId::ROOT, name.as_bytes()).unwrap().0.size_bytes
}
