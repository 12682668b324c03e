//! Two nodes on the loopback interface, for tests.

#![allow(dead_code, reason = "not every test uses every part")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use intarsia_transport::{
    Buffer, Config, DeploymentKey, Handler, Identity, Peers, Reply, Runtime, Server, Session,
};
use intarsia_types::{Error, InodeId, NodeId, Result};
use intarsia_wire::{Handle, Protection, Request, Response, StoreId, Target};
use parking_lot::{Condvar, Mutex};

pub(crate) const BOTH: [Protection; 2] = [Protection::Tagged, Protection::Encrypted];

pub(crate) fn node(name: &str) -> NodeId {
    NodeId(name.into())
}

pub(crate) fn key() -> DeploymentKey {
    DeploymentKey::from_pem(DeploymentKey::generate().unwrap().as_bytes()).unwrap()
}

pub(crate) fn identity(name: &str, key: &DeploymentKey) -> Identity {
    Identity { node: node(name), store: StoreId(42), epoch: 1, key: key.clone() }
}

pub(crate) fn config(protection: Protection) -> Config {
    Config { protection, ..Config::default() }
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn open(ino: u64) -> Request {
    Request::Open { ino: InodeId(ino), may_write: false }
}

pub(crate) fn read(handle: Handle, offset_bytes: u64, len_bytes: u32) -> Request {
    Request::Read { handle, offset_bytes, len_bytes, read_ahead_bytes: 0 }
}

/// What a read of file `ino` at `offset` gives: bytes that tell file and place.
pub(crate) fn content(ino: u64, offset: u64, len: usize) -> Vec<u8> {
    let byte = |at: u64| (at ^ ino << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0];
    (offset..).take(len).map(byte).collect()
}

/// Waits until `condition` holds, at most ten seconds.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A gate that holds back whoever comes until it is opened.
#[derive(Default)]
pub(crate) struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
    pub(crate) waiting: AtomicUsize,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.is_open.lock() = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.changed.wait(&mut is_open);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Files in memory. Reading inode `SLOW` and opening `LATE` wait for the gate, reading `PANIC` panics, reading `FULL` has no space.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) gate: Gate,
    pub(crate) written: Mutex<HashMap<u64, Vec<u8>>>,
    pub(crate) told: AtomicUsize,
    pub(crate) handled: AtomicUsize,
    pub(crate) opened: AtomicUsize,
    pub(crate) closed: AtomicUsize,
    pub(crate) closed_sessions: AtomicUsize,
    next_handle: AtomicU64,
    pub(crate) file_bytes: AtomicU64,
}

pub(crate) const SLOW: u64 = 1000;
pub(crate) const PANIC: u64 = 1001;
pub(crate) const FULL: u64 = 1002;
pub(crate) const LATE: u64 = 1003;
/// Length of each file unless set otherwise.
pub(crate) const FILE_BYTES: u64 = 10_000_000;

impl Handler for Files {
    type State = Mutex<HashMap<Handle, u64>>;

    fn handle_now(
        &self,
        session: &Session<Self::State>,
        request: &Request,
    ) -> Option<Result<Reply>> {
        match request {
            Request::Locate { ino: InodeId(PANIC) } => panic!("asked to panic at once"),
            Request::Locate { .. } => {
                Some(Ok(Reply::with(Response::Json, session.node.0.clone().into_bytes().into())))
            }
            _ => None,
        }
    }

    fn handle(
        &self,
        session: &Session<Self::State>,
        request: Request,
        payload: Buffer,
    ) -> Result<Reply> {
        self.handled.fetch_add(1, Ordering::SeqCst);
        let find = |handle| session.state.lock().get(&handle).copied().ok_or(Error::BadHandle);
        let size_bytes = match self.file_bytes.load(Ordering::SeqCst) {
            0 => FILE_BYTES,
            n => n,
        };
        Ok(match request {
            Request::Open { ino, .. } => {
                if ino.0 == LATE {
                    self.gate.pass();
                }
                let handle = Handle(self.next_handle.fetch_add(1, Ordering::SeqCst));
                session.state.lock().insert(handle, ino.0);
                self.opened.fetch_add(1, Ordering::SeqCst);
                Response::Opened { handle, size_bytes }.into()
            }
            Request::Close { handle } => {
                session.state.lock().remove(&handle).ok_or(Error::BadHandle)?;
                self.closed.fetch_add(1, Ordering::SeqCst);
                Response::Done.into()
            }
            Request::Read { handle, offset_bytes, len_bytes, .. } => {
                let ino = find(handle)?;
                match ino {
                    SLOW => self.gate.pass(),
                    PANIC => panic!("asked to panic"),
                    FULL => return Err(Error::NoSpace("tier 3 of n2".into())),
                    _ => {}
                }
                let left = usize::try_from(size_bytes.saturating_sub(offset_bytes)).unwrap();
                let len = (len_bytes as usize).min(left);
                let mut buffer = session.buffer(len_bytes as usize);
                buffer.truncate(len);
                buffer.copy_from_slice(&content(ino, offset_bytes, len));
                Reply::with(Response::Data { size_bytes }, buffer)
            }
            Request::Write { target: Target::Handle(handle), offset_bytes } => {
                let ino = find(handle)?;
                let mut written = self.written.lock();
                let file = written.entry(ino).or_default();
                let start = usize::try_from(offset_bytes).unwrap();
                file.resize(file.len().max(start + payload.len()), 0);
                file[start..start + payload.len()].copy_from_slice(&payload);
                Response::Written { size_bytes: file.len() as u64 }.into()
            }
            Request::Invalidate { .. } => {
                self.told.fetch_add(1, Ordering::SeqCst);
                Response::Done.into()
            }
            Request::Status => Reply::with(
                Response::Json,
                Buffer::from(format!("\"{}\"", session.node).into_bytes()),
            ),
            _ => return Err(Error::NotSupported("this handler")),
        })
    }

    fn on_close(&self, _: Session<Self::State>) {
        self.closed_sessions.fetch_add(1, Ordering::SeqCst);
    }
}

/// Node `n2` serves `Files`, node `n1` asks.
pub(crate) struct Pair {
    pub(crate) peers: Peers,
    pub(crate) server: Option<Server>,
    pub(crate) files: Arc<Files>,
    pub(crate) pem: String,
    pub(crate) key: DeploymentKey,
    pub(crate) config: Config,
    pub(crate) runtime: Runtime,
    pub(crate) to: NodeId,
}

impl Pair {
    pub(crate) fn new(config: Config) -> Self {
        let runtime = Runtime::start(2).unwrap();
        let pem = DeploymentKey::generate().unwrap();
        let key = DeploymentKey::from_pem(pem.as_bytes()).unwrap();
        let files = Arc::new(Files::default());
        let server = Server::start(
            &runtime,
            loopback(),
            identity("n2", &key),
            config.clone(),
            Arc::clone(&files),
        )
        .unwrap();
        let peers = Peers::new(runtime.clone(), identity("n1", &key), config.clone()).unwrap();
        peers.set_members([(node("n2"), server.address())]);
        Self { peers, server: Some(server), files, pem, key, config, runtime, to: node("n2") }
    }

    pub(crate) fn open(&self, ino: u64) -> Handle {
        match self.peers.call(&self.to, open(ino), None).unwrap().response {
            Response::Opened { handle, .. } => handle,
            other => panic!("{other:?}"),
        }
    }
}
