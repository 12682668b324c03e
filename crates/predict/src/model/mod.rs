//! A workload runs on a store that does not exist, in virtual time.
//!
//! ```text
//! tasks        who runs where, and what a task does next         scheduler: any idle host, or the cheapest; located: what
//!                                                               it is told of files; engine: hands tasks over
//! operations   open, read, write, close: messages to services    places: what metadata servers decide, by `policy`
//!                                                               directories: which hosts use one at the same time
//! services     manager, storage, client: first come, first served     cache: what hosts keep in memory
//! processors   of one machine, where it runs all hosts
//! network      queue out → latency → queue in, in frames; or streams that share links fairly
//! broadcast    readers take pieces of a file from each other
//! mishaps      hosts fail, tasks straggle or run twice           lost: what was lost with a host, and who makes it again
//! ```
//!
//! An operation is as in the thesis: `open` asks the manager once; the first `write` of a file asks where it goes, each
//! sends its chunks in turn over the ring of hosts, waits for their acknowledgements and commits; `read` asks for each
//! chunk, of the copy on its own host if there is one; `close` sends nothing, as a write has committed already. What a host
//! has in memory is read without asking anybody.

mod ahead;
mod broadcast;
mod burst;
mod cache;
mod crowd;
mod directories;
mod energy;
mod engine;
mod groups;
mod hinted;
mod inbound;
mod located;
mod lost;
mod media;
mod metadata;
mod mishaps;
mod network;
mod operations;
mod outcome;
mod parts;
mod place;
mod places;
mod processors;
mod replicas;
mod scheduler;
mod services;
mod streams;
mod tasks;
mod write_back;

use intarsia_des::{Agenda, Model, Simulation, Time};

use crate::Problem;
use crate::configuration::{Configuration, Roles};
use crate::profile::Profile;
use crate::workload::{Operation, Workload};

use ahead::Ahead;
use broadcast::Broadcasts;
use crowd::Then;
use directories::Directories;
use engine::Engine;
use media::Readings;
use mishaps::Trouble;
use network::{Flight, Network};
use places::Places;
use replicas::Replicas;
use scheduler::Ready;
use services::Services;
use streams::Streams;
use tasks::{Progress, Running};

pub use energy::{Energy, StateJoules, StateSeconds};
pub use mishaps::Mishaps;
pub use outcome::{Bytes, Prediction, Service, StageTimes, TaskSeconds, TaskTimes, Usage};

/// Chunks that the tasks of a run read and write at most; as many take minutes.
const MOST_CHUNKS: u64 = 1 << 28;

/// Predicts one run. `seed` decides which of measured times are drawn, and where files go among equal hosts; the same
/// seed gives the same prediction.
///
/// # Errors
/// When the hosts do not suffice for the configuration, a task needs more slots than any host has, or the store is full.
pub fn predict(
    workload: &Workload,
    profile: &Profile,
    configuration: &Configuration,
    seed: u64,
) -> Result<Prediction, Problem> {
    let hinted = hinted::hinted(workload, configuration);
    let (workload, configuration) = hinted
        .as_ref()
        .map_or((workload, configuration), |(workload, follows)| (workload, follows));
    let roles = configuration.roles(profile)?;
    check_effort(workload, configuration)?;
    let world = World::new(workload, profile, configuration, &roles, seed)?;
    let mut simulation = Simulation::new(world);
    let (world, agenda) = simulation.parts_mut();
    world.begin(agenda);
    simulation.run();
    let events = simulation.handled();
    let world = simulation.into_model();
    match world.problem {
        Some(problem) => Err(problem),
        None => Ok(world.outcome(events)),
    }
}

/// Refuses what would take hours: more chunks than a run of seconds has.
fn check_effort(workload: &Workload, configuration: &Configuration) -> Result<(), Problem> {
    let operations = workload.tasks.iter().flat_map(|task| &task.operations);
    let chunks = operations.map(|operation| match operation {
        Operation::Read(extent) | Operation::Write(extent) => {
            let hint = workload.files[extent.file].hints.chunk_bytes();
            let hint = hint.filter(|_| configuration.follows_hints);
            extent.size_bytes.div_ceil(hint.unwrap_or(configuration.chunk_bytes).max(1))
        }
        _ => 0,
    });
    let chunks = chunks.fold(0, u64::saturating_add);
    if chunks > MOST_CHUNKS {
        let why = format!(
            "the tasks read and write {chunks} chunks; more than {MOST_CHUNKS} take too long"
        );
        return Err(Problem::new(why).with_help("take larger chunks"));
    }
    Ok(())
}

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The engine has handed a run to its host, which starts it.
    HandedOver(u32),
    /// A run of a task goes on with what it does next.
    Step(u32),
    /// The client has taken up an operation of a run.
    Begin(u32),
    /// The last frame of a message is at its host.
    Arrived(u32),
    /// All of a message is taken in.
    Delivered(u32),
    /// A service has done what a message asks.
    Served(u32),
    /// What a run reads from memory is copied.
    Copied(u32),
    /// There is room in memory for what a message brought.
    TakenIn(u32),
    /// Work in the crowd of a host is done.
    Crowd(u32),
    /// Work of the processors that hosts share is done.
    Processors,
    /// Work is done for which nobody waits.
    DoneBeside,
    /// Messages have passed their links.
    Links,
    /// A host that takes a file had nothing to take.
    AskAgain(u32),
    /// Tasks have waited for busy hosts.
    Look,
    /// A run of a task has taken long.
    Suspect(u32),
    /// A host fails.
    Fails(u32),
    /// A host is repaired.
    Back(u32),
}

/// What one host says to another.
#[derive(Clone, Copy, Debug)]
struct Message {
    from: u32,
    to: u32,
    /// The run for which it is sent, and the file.
    run: u32,
    file: u32,
    bytes: u64,
    flight: Flight,
    what: What,
}

impl Message {
    /// A service does what it asks, for its run.
    const fn served(&self, id: u32) -> Then {
        Then { run: self.run, event: Event::Served(id) }
    }
}

#[derive(Clone, Copy, Debug)]
enum What {
    Ask(Request),
    Answer(Request),
    /// What a metadata server has decided, for another one that keeps a copy.
    Replicate {
        ticket: u64,
    },
    Replicated {
        ticket: u64,
    },
    /// A piece to be stored as copy `copy`.
    Store {
        offset: u64,
        copy: u32,
    },
    Stored {
        counts: bool,
    },
    Fetch {
        offset: u64,
    },
    Fetched {
        offset: u64,
    },
    /// Of a file that is dealt over hosts.
    AskPart,
    PartAnswer,
    /// A reader of a broadcast file asks its home what to take.
    AskTakes,
    Takes,
    /// It asks whoever was named for a piece.
    Take {
        piece: u32,
    },
    Taken {
        piece: u32,
    },
}

/// What a manager is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Open,
    Allocate,
    /// Records the parts that were made of a file.
    Name,
    Commit,
}

struct World<'a> {
    workload: &'a Workload,
    profile: &'a Profile,
    configuration: &'a Configuration,
    roles: Roles,
    seed: u64,
    network: Network,
    /// None where hosts have queues of frames.
    streams: Option<Streams>,
    places: Places<'a>,
    /// None where it makes no difference who uses them.
    directories: Option<Directories>,
    services: Services,
    ready: Ready,
    /// When tasks that wait are looked at next.
    look: Option<Time>,
    engine: Engine,
    tasks: Vec<Progress>,
    running: Vec<Running>,
    trouble: Trouble,
    replicas: Replicas,
    ahead: Ahead,
    broadcasts: Broadcasts,
    readings: Readings,
    /// By host: how long all its slots computed.
    computed: Vec<f64>,
    messages: Vec<Message>,
    free_messages: Vec<u32>,
    stages: Vec<StageTimes>,
    bytes: Bytes,
    ended: usize,
    problem: Option<Problem>,
}

impl Model for World<'_> {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        match event {
            Event::HandedOver(run)
            | Event::Step(run)
            | Event::Begin(run)
            | Event::Copied(run)
            | Event::Suspect(run)
                if self.running[run as usize].is_over => {}
            Event::HandedOver(run) => self.starts_up(run, agenda),
            Event::Step(run) => self.step(run, agenda),
            Event::Begin(run) => self.begin_operation(run, agenda),
            Event::Look => {
                self.look = None;
                self.deal(agenda);
            }
            Event::Suspect(run) => self.suspect(run, agenda),
            Event::Fails(host) => self.host_fails(host, agenda),
            Event::Back(host) => self.host_is_back(host, agenda),
            Event::Arrived(id) => {
                let Message { from, to, flight, .. } = self.messages[id as usize];
                let at = self.network.received(from, to, flight);
                agenda.at(at, Event::Delivered(id));
            }
            Event::Delivered(id) => self.deliver(id, agenda),
            Event::Served(id) => self.served(id, agenda),
            Event::Copied(run) => self.operation_ended(run, agenda),
            Event::TakenIn(id) => self.done(id, agenda),
            Event::AskAgain(id) => self.asks_again(id, agenda),
            Event::Crowd(host) => self.services.crowd_moves_on(host, agenda),
            Event::DoneBeside => {}
            Event::Processors => self.services.processors_move_on(agenda),
            Event::Links => {
                if let Some(streams) = &mut self.streams {
                    streams.move_on(agenda);
                }
            }
        }
    }
}

impl<'a> World<'a> {
    fn new(
        workload: &'a Workload,
        profile: &'a Profile,
        configuration: &'a Configuration,
        roles: &Roles,
        seed: u64,
    ) -> Result<Self, Problem> {
        let mut places = Places::new(workload, profile, configuration, roles, seed);
        places.lay_inputs()?;
        let stage = |name: &String| StageTimes { name: name.clone(), ..StageTimes::default() };
        Ok(Self {
            workload,
            profile,
            configuration,
            roles: roles.clone(),
            seed,
            network: Network::new(profile, configuration.hosts),
            streams: Streams::new(profile, configuration.hosts),
            places,
            directories: profile
                .manager
                .allocate_shared
                .is_some()
                .then(|| Directories::new(workload)),
            services: Services::new(profile, configuration, roles),
            ready: Ready::new(workload, profile, configuration, roles, seed)?,
            look: None,
            engine: Engine::new(profile.engine.as_ref()),
            tasks: workload.tasks.iter().map(Progress::new).collect(),
            running: Vec::new(),
            trouble: Trouble::default(),
            replicas: Replicas::default(),
            ahead: Ahead::default(),
            broadcasts: Broadcasts::default(),
            readings: Readings::default(),
            computed: vec![0.0; configuration.hosts as usize],
            messages: Vec::new(),
            free_messages: Vec::new(),
            stages: workload.stages.iter().map(stage).collect(),
            bytes: Bytes::default(),
            ended: 0,
            problem: None,
        })
    }

    /// Sends a message. Where services of one host are called, it is there at once.
    fn send(&mut self, message: Message, agenda: &mut Agenda<Event>) {
        let id = self.keep(message);
        let Message { from, to, bytes, .. } = message;
        let is_call = self.profile.client.local == crate::profile::LocalAccess::Call;
        if from == to && is_call {
            self.deliver(id, agenda);
            return;
        }
        if from != to
            && let Some(streams) = &mut self.streams
        {
            self.network.passes_by(from, to, bytes);
            return streams.send(id, (from, to, message.run), bytes, agenda);
        }
        let (flight, arrival) = self.network.send(from, to, bytes, agenda.now());
        self.messages[id as usize].flight = flight;
        agenda.at(arrival, Event::Arrived(id));
    }

    fn keep(&mut self, message: Message) -> u32 {
        if let Some(id) = self.free_messages.pop() {
            self.messages[id as usize] = message;
            return id;
        }
        self.messages.push(message);
        u32::try_from(self.messages.len() - 1).unwrap_or(u32::MAX)
    }

    /// The message has done its work.
    fn take(&mut self, id: u32) -> Message {
        self.free_messages.push(id);
        self.messages[id as usize]
    }

    /// Nothing more happens.
    fn fail(&mut self, problem: Problem, agenda: &mut Agenda<Event>) {
        self.problem.get_or_insert(problem);
        agenda.stop();
    }

    fn outcome(&self, events: u64) -> Prediction {
        let end = self.tasks.iter().map(|task| task.ended).max().unwrap_or(Time::ZERO);
        outcome::summarise(self, end, events)
    }
}
