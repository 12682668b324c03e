//! Intarsia's transport, asked as a node asks it.

use std::collections::VecDeque;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_transport::{
    Buffer, Config, DeploymentKey, Handler, Identity, Peers, Reply, Runtime, Server, Session,
};
use intarsia_types::{
    BackingFileId, BackingRef, Error, InodeId, NodeId, Result, TierId, Timestamp,
};
use intarsia_wire::{Handle, Protection, Request, Response, StoreId};

use crate::{Client, FILE_BYTES, Kind, LARGE_BYTES, Load, Outcome, System};

struct OneFile(File);

impl Handler for OneFile {
    type State = ();

    fn handle(&self, session: &Session<()>, request: Request, _: Buffer) -> Result<Reply> {
        let size_bytes = FILE_BYTES;
        match request {
            Request::Stat { .. } => {
                let (mtime, ctime) = (Timestamp::default(), Timestamp::default());
                Ok(Response::Status { size_bytes, blocks_512: 0, mtime, ctime }.into())
            }
            Request::Read { offset_bytes, len_bytes, .. } => {
                let mut buffer = session.buffer(usize::try_from(len_bytes).unwrap_or(usize::MAX));
                self.0
                    .read_exact_at(&mut buffer, offset_bytes)
                    .map_err(|e| Error::io("reading the file", e))?;
                Ok(Reply::with(Response::Data { size_bytes }, buffer))
            }
            _ => Err(Error::NotSupported("the benchmark asks for nothing else")),
        }
    }
}

fn identity(node: &str, key: &Path) -> Outcome<Identity> {
    let key = DeploymentKey::load(key)?;
    Ok(Identity { node: NodeId(node.into()), store: StoreId(1), epoch: 1, key })
}

fn config(system: System) -> Config {
    let protection = match system {
        System::Encrypted => Protection::Encrypted,
        System::Tcp | System::Tagged => Protection::Tagged,
    };
    Config { protection, in_flight_bytes: 32 << 20, ..Config::default() }
}

pub(crate) fn serve(
    system: System,
    file: File,
    key: &Path,
) -> Outcome<(SocketAddr, Box<dyn Send>)> {
    let runtime = Runtime::start(2)?;
    let listen = ([127, 0, 0, 1], 0).into();
    let handler = Arc::new(OneFile(file));
    let server = Server::start(&runtime, listen, identity("n2", key)?, config(system), handler)?;
    Ok((server.address(), Box::new((server, runtime))))
}

pub(crate) struct Ours {
    peers: Peers,
    to: NodeId,
}

impl Ours {
    pub(crate) fn connect(system: System, address: SocketAddr, key: &Path) -> Outcome<Self> {
        let peers = Peers::new(Runtime::start(2)?, identity("n1", key)?, config(system))?;
        let to = NodeId("n2".into());
        peers.set_members([(to.clone(), address)]);
        Ok(Self { peers, to })
    }

    fn ask(&self, load: Load, end: Instant) -> Outcome<Vec<u64>> {
        let backing = BackingRef { tier: TierId(0), file: BackingFileId(1) };
        let (mut times_ns, mut begun, mut offset_bytes) = (Vec::new(), VecDeque::new(), 0u64);
        loop {
            while begun.len() < load.in_flight && Instant::now() < end {
                let now = Instant::now();
                let request = match load.kind {
                    Kind::Ping => Request::Ping,
                    Kind::Stat => Request::Stat { ino: InodeId(7), backing },
                    Kind::Read => Request::Read {
                        handle: Handle(1),
                        offset_bytes,
                        len_bytes: u32::try_from(LARGE_BYTES)?,
                        read_ahead_bytes: 0,
                    },
                };
                begun.push_back((now, self.peers.start(&self.to, request, None)?));
                offset_bytes = (offset_bytes + load.payload_bytes() as u64) % FILE_BYTES;
            }
            let Some((first, pending)) = begun.pop_front() else { return Ok(times_ns) };
            pending.wait()?;
            times_ns.push(u64::try_from(first.elapsed().as_nanos())?);
        }
    }
}

impl Client for Ours {
    fn run(&mut self, load: Load, duration: Duration) -> Outcome<Vec<u64>> {
        let end = Instant::now() + duration;
        let this = &*self;
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..load.threads).map(|_| scope.spawn(move || this.ask(load, end))).collect();
            let times =
                threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("panic".into())));
            Ok(times.collect::<Outcome<Vec<_>>>()?.concat())
        })
    }
}
