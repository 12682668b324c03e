//! The watch over the metadata servers of one host, in the node's process.
//!
//! What it keeps up:
//!
//! - **A server that died never goes on where it was.** Its replica is promoted first, then it returns
//!   empty, as a replica. A dead primary that came back at once could lack changes that its replica
//!   has acknowledged, and a replica would copy an empty primary.
//! - **A shard without a replica gets one**: a replica that another shard can spare, else a new
//!   server on a host that is up.
//! - **Each host with servers has one primary**, as far as there are hosts: an election needs most of the primaries,
//!   so no host may hold many of them.
//! - **As many hosts have servers as there are shards**, if the store has so many: hosts without take the place of
//!   lost ones, and of those that leave.
//! - **A host that is told to leave hands over**: replicas of its shards on other hosts first, then its primaries, then
//!   its servers stop. See [`Redundancy::holding`].
//!
//! So the watch runs on every host, also where no server is. Every decision follows from what the servers say of
//! themselves and from what the members' records say of hosts (see [`Roster`]), and is carried out by the servers' own
//! commands. Two hosts that decide at the same time can at worst make one replica too many.
//!
//! A primary that nobody can reach is replaced by the servers' own election, after their time-out. For a
//! primary whose process died, its own host need not wait, nor does it need votes, which two hosts
//! could not give: it alone knows that the process is gone and will not come back under its name. It
//! tells the replica to take over (CLUSTER FAILOVER TAKEOVER). That is safe because it is told only
//! to the sole replica of the shard, and only after that had copied everything: a change is
//! acknowledged when all replicas have it, so the sole one has every acknowledged change, and
//! nobody else can claim the slots. With several replicas the servers' own election finds the one
//! that has most; where it finds none, for its voters were away too long, the host of the replica that has most has
//! it stand for election again. A replica stands for none until it has copied everything from its primary: one that
//! comes from another shard would be elected with that shard's data.
//!
//! A server that is alone (one host) is started again with its data, from the log that the kernel holds.

mod balance;
#[cfg(test)]
mod examples;
mod host;
mod own;
mod redundancy;
mod relief;
mod roster;
mod seats;
mod view;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use intarsia_types::{ByteCount, Error, NodeId, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags};

use crate::asking::first_answer;
use crate::client::{Access, Connection, KEEPER_USER};
use crate::deployment::{Deployment, ServerAddress, ServerName};
use crate::formation::replication_of;
use crate::process::wait_readable;
use crate::secrets::Secrets;
use crate::servers::{Program, Replication, Settings, Start};
use crate::topology::{Health, Topology};

use host::Host;
pub use host::go_over;
pub use own::has_moved;
pub use redundancy::{Holding, Redundancy};
pub use roster::{HostSeen, Roster};

/// Between two looks when all is well.
const CALM: Duration = Duration::from_secs(1);
/// The same on a host without servers, while there is nothing that it could do.
const IDLE: Duration = Duration::from_secs(3);
/// Between two looks while a server is on its way back.
const BUSY: Duration = Duration::from_millis(100);

/// Servers that have been up for so long have replaced those that did not come up with them.
const SETTLED: Duration = Duration::from_secs(20);

/// What the watch needs to know.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The server program of this host.
    pub program: Program,
    /// The deployment.
    pub deployment: Deployment,
    /// Its passwords.
    pub secrets: Secrets,
    /// Its key, when TLS is used.
    pub key_file: Option<PathBuf>,
    /// This host.
    pub host: NodeId,
    /// Where the servers of this host are; each has a directory of its own in it.
    pub dir: PathBuf,
    /// Most memory for the data of each server.
    pub memory: Option<ByteCount>,
    /// How long a shard may be without a replica before a new server is started for it. A server
    /// that died is back sooner; a host that is lost is not.
    pub replace_after: Duration,
    /// What the store knows of its hosts.
    pub roster: Roster,
}

/// How the servers of a host begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// All hosts begin together, and [`formation::form`] will be called.
    Form(Start),
    /// The other hosts have a Cluster already; the servers of this one join it.
    Join,
}

/// What a server of this host is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It runs.
    Serving,
    /// It died and waits until its shard has another primary.
    Lost,
    /// It runs empty and is about to follow a primary.
    Returning,
}

/// The servers of this host, under watch until this is dropped or stopped. They outlive it, unless
/// they are [stopped](Self::stop).
#[derive(Debug)]
pub struct Supervisor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    dir: PathBuf,
}

#[derive(Debug)]
struct Shared {
    /// Readable when the watch is to end.
    end: OwnedFd,
    states: Mutex<Vec<(ServerName, ServerState)>>,
    redundancy: Mutex<Option<Redundancy>>,
}

impl Watch {
    fn keeper(&self) -> Access {
        Access {
            user: KEEPER_USER,
            password: self.secrets.keeper_password.clone(),
            key_file: self.key_file.clone(),
        }
    }

    fn settings(&self, name: &ServerName) -> Result<Settings> {
        let member = self.deployment.member(&name.host).ok_or_else(|| {
            Error::Invalid(format!("host {} is not of this deployment", name.host))
        })?;
        Ok(Settings {
            dir: self.dir.join(name.number.to_string()),
            address: member.server(name.number)?,
            durability: self.deployment.durability,
            replication: replication_of(&self.deployment),
            memory: self.memory,
            secrets: self.secrets.clone(),
            key_file: self.key_file.clone(),
        })
    }

    /// How the servers of this host are to begin, if `start` tells what lies there: after a crash, while the others
    /// go on, as any server that died. What a host that lost its power has on its disk is less than what its
    /// replicas have, and a log that was cut need not even be readable. The same for a host that comes with nothing to
    /// a store whose servers began on it too, and for one that comes with older disks than its last ones.
    #[must_use]
    pub fn how_to_begin(&self, start: Start) -> Begin {
        let may_have_lost = match start {
            Start::Kept => crate::servers::has_any_died(&self.dir),
            Start::Empty => self.deployment.begins_with_servers(&self.host),
        };
        let is_replicated = replication_of(&self.deployment) != Replication::Alone;
        if may_have_lost && is_replicated && self.others_go_on() {
            return Begin::Join;
        }
        if start == Start::Kept && is_replicated && self.is_replaced() {
            return Begin::Join;
        }
        Begin::Form(start)
    }

    /// Whether the others know another server at the address of one whose data lies here. The replicas of that other server would
    /// copy this one, for they do not ask who it is.
    fn is_replaced(&self) -> bool {
        let own = crate::servers::kept(&self.dir).into_iter().filter_map(|kept| {
            let name = ServerName { host: self.host.clone(), number: kept.number };
            let address = self.settings(&name).ok()?.address;
            Some((Topology::author_of(&kept.map)?, address))
        });
        let own: Vec<_> = own.collect();
        let view = first_answer(&self.keeper(), self.servers_of_others(), Topology::ask);
        view.is_ok_and(|view| {
            own.iter().any(|(id, address)| {
                view.by_id(id).is_none() && view.by_address(address.ip, address.port).is_some()
            })
        })
    }

    /// The first servers of the other hosts.
    fn servers_of_others(&self) -> Vec<ServerAddress> {
        let others = self.deployment.hosts_to_ask().filter(|member| member.name != self.host);
        others.filter_map(|member| member.server(0).ok()).collect()
    }

    /// Whether the other hosts have a Cluster that works without this one: not one that is just starting too.
    fn others_go_on(&self) -> bool {
        let last_sign = crate::servers::last_sign_of_life(&self.dir);
        let goes_on = move |connection: &mut Connection| {
            let uptime_s = connection.fields(&["INFO", "server"])?.number("uptime_in_seconds");
            let view = Topology::ask(connection)?;
            let primaries = view.primaries();
            let up = primaries.iter().filter(|peer| peer.health == Health::Up).count();
            let uptime = Duration::from_secs(uptime_s.unwrap_or(0));
            let outlived =
                SystemTime::now().checked_sub(uptime).is_some_and(|start| start < last_sign);
            let is_running = (outlived || uptime >= SETTLED) && up * 2 > primaries.len();
            is_running.then_some(()).ok_or_else(|| Error::Engine("it is just starting".into()))
        };
        first_answer(&self.keeper(), self.servers_of_others(), goes_on).is_ok()
    }
}

impl Supervisor {
    /// Starts the servers of this host, or takes over those that run already, and watches them.
    ///
    /// # Errors
    /// When one of them cannot be started or does not answer within `timeout`.
    pub fn start(watch: Watch, begin: Begin, timeout: Duration) -> Result<Self> {
        let dir = watch.dir.clone();
        let mut host = Host::begin(watch, begin, timeout)?;
        let end = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| Error::io("eventfd", e.into()))?;
        let shared = Arc::new(Shared {
            end,
            states: Mutex::new(host.states()),
            redundancy: Mutex::default(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("metadata-watch".into())
            .spawn(move || for_thread.run(&mut host))
            .map_err(|e| Error::io("start a thread", e))?;
        Ok(Self { shared, thread: Some(thread), dir })
    }

    /// The servers of this host and what they are doing.
    #[must_use]
    pub fn states(&self) -> Vec<(ServerName, ServerState)> {
        self.shared.states.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was seen last of the servers of all hosts; none before the first look.
    #[must_use]
    pub fn redundancy(&self) -> Option<Redundancy> {
        self.shared.redundancy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a host still has of the metadata; none while that is not known. One that was told to leave may go when this is
    /// [vacant](Holding::is_vacant).
    #[must_use]
    pub fn holding(&self, host: &NodeId) -> Option<Holding> {
        self.redundancy()?.holding(host)
    }

    /// Waits until the servers of this host have everything on the disk: one that was just copying would count for nothing
    /// when the store comes up again. Not where none can come about, and not for longer than `patience`.
    pub fn settle(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline && self.is_copying() {
            std::thread::sleep(BUSY);
        }
    }

    fn is_copying(&self) -> bool {
        let is_whole = |(name, state): &(ServerName, ServerState)| {
            let dir = self.dir.join(name.number.to_string());
            *state == ServerState::Serving && crate::servers::is_complete(&dir)
        };
        self.redundancy().is_some_and(|r| r.is_served()) && !self.states().iter().all(is_whole)
    }

    /// Ends the watch and stops the servers of this host, keeping their data.
    ///
    /// # Errors
    /// When a server cannot be ended.
    pub fn stop(mut self) -> Result<()> {
        self.end_watch();
        crate::servers::stop_all(&self.dir).map(|_| ())
    }

    fn end_watch(&mut self) {
        let _ = rustix::io::write(&self.shared.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end_watch();
    }
}

impl Shared {
    fn run(&self, host: &mut Host) {
        loop {
            let pause = match (host.is_hasty(), host.is_busy()) {
                (true, _) => BUSY,
                (false, true) => CALM,
                (false, false) => IDLE,
            };
            if self.wait(host, pause) {
                return;
            }
            host.step();
            *self.states.lock().unwrap_or_else(PoisonError::into_inner) = host.states();
            *self.redundancy.lock().unwrap_or_else(PoisonError::into_inner) = host.redundancy();
        }
    }

    /// Waits for the end of a server or of the watch; true for the latter.
    fn wait(&self, host: &Host, pause: Duration) -> bool {
        let running = host.descriptors();
        let mut polled: Vec<PollFd<'_>> = std::iter::once(&self.end)
            .chain(&running)
            .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
            .collect();
        wait_readable(&mut polled, pause);
        polled.first().is_some_and(|end| end.revents().contains(PollFlags::IN))
    }
}
