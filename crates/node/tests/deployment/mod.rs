//! Nodes of one deployment in this process, over one engine, each with its own tier and peer server.

#![allow(dead_code, reason = "not every test uses every part")]

use std::borrow::Borrow;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{MetaEngine, Namespace, RootSpec};
use intarsia_node::{Caller, ClusterOptions, KernelBacking, NewName, Node, NodeOptions, SetMode};
use intarsia_transport::DeploymentKey;
use intarsia_types::{ByteCount, FileKind, InodeId, NodeId, Result, TierSpec, Timestamp};

pub(crate) const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0 };
pub(crate) const STORE: &str = "000102030405060708090a0b0c0d0e0f";
pub(crate) const MIB: usize = 1 << 20;

pub(crate) fn no_kernel(_: BorrowedFd<'_>) -> std::io::Result<KernelBacking> {
    Err(std::io::Error::from_raw_os_error(95))
}

pub(crate) fn regular() -> NewName {
    NewName { kind: FileKind::Regular, perm: 0o644, umask: 0, rdev: 0, target: None }
}

/// Nodes of one deployment in this process.
pub(crate) struct Deployment {
    pub(crate) home: tempfile::TempDir,
    engine: Arc<dyn MetaEngine>,
    key: DeploymentKey,
    is_watchful: bool,
}

impl Deployment {
    pub(crate) fn new() -> Self {
        let pem = DeploymentKey::generate().unwrap();
        Self {
            home: tempfile::tempdir().unwrap(),
            engine: Arc::new(MemoryEngine::new(5)),
            key: DeploymentKey::from_pem(pem.as_bytes()).unwrap(),
            is_watchful: false,
        }
    }

    /// One whose members notice soon that one of them is lost; silence lasts long enough for a busy machine.
    pub(crate) fn watchful() -> Self {
        Self { is_watchful: true, ..Self::new() }
    }

    pub(crate) fn engine(&self) -> Arc<dyn MetaEngine> {
        Arc::clone(&self.engine)
    }

    pub(crate) fn start(&self, name: &str) -> Arc<Node> {
        let dir = self.home.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Node::open(self.options(name, &dir)).unwrap()
    }

    /// Starts a host with settings that `change` makes.
    pub(crate) fn start_as(&self, name: &str, change: impl FnOnce(&mut NodeOptions)) -> Arc<Node> {
        let dir = self.home.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let mut options = self.options(name, &dir);
        change(&mut options);
        Node::open(options).unwrap()
    }

    /// A host whose one tier holds so much, and takes no new files with less than an eighth of that left.
    pub(crate) fn start_sized(&self, name: &str, capacity_mib: u64) -> Arc<Node> {
        self.start_as(name, |options| {
            let capacity = Some(ByteCount::mib(capacity_mib));
            options.tiers = vec![TierSpec { dir: options.dir.join("tier"), class: None, capacity }];
            options.watermark = ByteCount::mib(64);
            // So that nobody waits long for what others tell.
            options.beat_ms = 100;
        })
    }

    /// Hosts of so many MiB that know how much room the others have.
    pub(crate) fn start_all_sized<const N: usize>(
        &self,
        sizes: [(&str, u64); N],
    ) -> [Arc<Node>; N] {
        let nodes = sizes.map(|(name, capacity_mib)| self.start_sized(name, capacity_mib));
        for node in &nodes {
            wait_until("all hosts have told their room", || {
                let hosts = node.status().unwrap().hosts;
                hosts.len() == N && hosts.iter().all(|host| host.capacity_bytes > 0)
            });
        }
        nodes
    }

    /// Starts several hosts that know each other.
    pub(crate) fn start_all<const N: usize>(&self, names: [&str; N]) -> [Arc<Node>; N] {
        let nodes = names.map(|name| self.start(name));
        nodes.iter().for_each(|node| node.meet_members().unwrap());
        nodes
    }

    pub(crate) fn options(&self, name: &str, dir: &Path) -> NodeOptions {
        let usual = NodeOptions::new(dir.join("store"));
        let (beat_ms, lost_after_ms) =
            if self.is_watchful { (100, 1500) } else { (usual.beat_ms, usual.lost_after_ms) };
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
            beat_ms,
            lost_after_ms,
            ..usual
        }
    }

    /// Backing files on disk at a node.
    pub(crate) fn files(&self, name: &str) -> usize {
        fn count(dir: &Path) -> usize {
            let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
            entries.flatten().map(|e| if e.path().is_dir() { count(&e.path()) } else { 1 }).sum()
        }
        count(&self.home.path().join(name).join("store/tier/data"))
    }

    /// Where the home of a file, which is `node`, has its bytes.
    pub(crate) fn backing_path(&self, node: &Node, path: &str) -> PathBuf {
        let located = node.locate(path).unwrap();
        let file = located.backing_file.expect("has a backing file");
        let group = u64::from_str_radix(&file, 16).unwrap() >> 12;
        self.home
            .path()
            .join(&located.nodes[0])
            .join(format!("store/tier/data/{group:013x}/{file}"))
    }
}

/// What the metadata say, past all nodes.
pub(crate) fn records(engine: Arc<dyn MetaEngine>) -> Namespace {
    let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
    Namespace::open(engine, root, Timestamp { secs: 1, nanos: 0 }).unwrap()
}

/// The host that has a file, by its path from the root.
pub(crate) fn home(node: &Node, path: &str) -> String {
    node.locate(&format!("/{path}")).unwrap().nodes.concat()
}

pub(crate) fn close_all(nodes: &[impl Borrow<Arc<Node>>]) {
    nodes.iter().for_each(|node| node.borrow().close().unwrap());
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

/// Some bytes that tell their place.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| ((i / 251) ^ i ^ usize::from(seed)).to_le_bytes()[0]).collect()
}

/// A hint of the root directory, for files made from now on.
pub(crate) fn hint(node: &Node, name: &str, value: &str) {
    let name = format!("user.intarsia.{name}");
    node.set_xattr(InodeId::ROOT, name.as_bytes(), value.as_bytes(), SetMode::Either).unwrap();
}

pub(crate) fn put(node: &Node, name: &str, content: &[u8]) -> InodeId {
    put_in(node, InodeId::ROOT, name, content)
}

pub(crate) fn put_in(node: &Node, parent: InodeId, name: &str, content: &[u8]) -> InodeId {
    let (attr, _) = node
        .create_file(ROOT_CALLER, parent, name.as_bytes(), &regular(), true, &no_kernel)
        .unwrap();
    write_and_close(node, attr.ino, 0, content);
    attr.ino
}

pub(crate) fn write_and_close(node: &Node, ino: InodeId, at: u64, content: &[u8]) {
    for (i, part) in content.chunks(MIB).enumerate() {
        node.write(ino, at + (i * MIB) as u64, part, false, false).unwrap();
    }
    close_writer(node, ino);
}

pub(crate) fn close_writer(node: &Node, ino: InodeId) {
    node.flush(ino).unwrap();
    node.release(ino, true);
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
    write_and_close(node, ino, at, content);
    Ok(())
}

pub(crate) fn get(node: &Node, name: &str) -> Result<Vec<u8>> {
    let (attr, _) = node.lookup(InodeId::ROOT, name.as_bytes())?;
    content_of(node, attr.ino)
}

pub(crate) fn content_of(node: &Node, ino: InodeId) -> Result<Vec<u8>> {
    node.open_file(ROOT_CALLER, ino, false, false, &no_kernel)?;
    let mut content = Vec::new();
    let mut buffer = vec![0; MIB];
    let outcome = loop {
        match node.read(ino, content.len() as u64, &mut buffer) {
            Ok(0) => break Ok(()),
            Ok(n) => content.extend_from_slice(&buffer[..n]),
            Err(e) => break Err(e),
        }
    };
    node.release(ino, false);
    outcome.map(|()| content)
}

pub(crate) fn size(node: &Node, name: &str) -> u64 {
    node.lookup(InodeId::ROOT, name.as_bytes()).unwrap().0.size_bytes
}

/// The value of a metric without labels.
pub(crate) fn metric(node: &Node, name: &str) -> u64 {
    let text = node.metrics();
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("intarsia_{name} ")));
    value.expect("the metric exists").parse().unwrap()
}
