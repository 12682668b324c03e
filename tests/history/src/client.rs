//! One client: random operations below a directory, each recorded.
//!
//! Names are of two kinds. A client's *own* names are changed by it alone, one change after the other, and looked at by all: so
//! each observation can be held against a known order of changes; when nobody knows what came of a change, another name takes
//! the place of the name. *Shared* names are changed by all, each change in one
//! call. The files that `rename` and `link` make shared are hidden, and looked at by nobody else.

use std::io::Error;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::Errno;

use crate::event::{Operation, Outcome, Recorder, UNSERVED};
use crate::system::{Directory, System};
use crate::token::{BLOCK, Content, Token};

/// How long a set of shared names is in use. Each change of which nobody knows whether it was done makes the
/// search for an order longer, so that names that are in use for ever could not be decided.
const ERA_NS: u64 = 5_000_000_000;
/// Between calls to a mount that nobody serves.
const UNSERVED_PAUSE: Duration = Duration::from_millis(50);

/// Which operations clients do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// All kinds.
    #[default]
    Mixed,
    /// No file is written over: names are replaced by `rename`, removed and made again, with files of all sizes at which
    /// a store may change how it keeps them. Clients with odd numbers only look, and all look at the names of one
    /// client for a while, so that many looks meet a change.
    Replacing,
}

/// How long all look at the names of one client, where they do.
const FOCUS_NS: u64 = 500_000_000;

/// What a client does and where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The directory under test, as this client sees it.
    pub root: PathBuf,
    /// The client's number, from 0.
    pub client: u16,
    /// How many clients there are.
    pub clients: u16,
    /// From which the operations follow.
    pub seed: u64,
    /// Which they are.
    pub workload: Workload,
    /// How many operations at most.
    pub operations: u64,
    /// For how long at most.
    pub time: Duration,
    /// Pause between operations.
    pub pause: Duration,
    /// Directories that the names are spread over.
    pub directories: u16,
    /// Names of each client, and shared names.
    pub names: u16,
    /// Whoever holds it for writing stops the client between two operations.
    pub gate: Arc<RwLock<()>>,
}

/// What a client knows of a name of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Absent,
    Present,
}

/// A name of the client's own.
#[derive(Clone, Copy)]
struct Place {
    /// It is part of the name, and never used for another.
    number: usize,
    state: Own,
}

struct Client<'a, S: System> {
    plan: &'a Plan,
    system: &'a S,
    random: Xoshiro256PlusPlus,
    recorder: Recorder,
    own: Vec<Place>,
    /// The numbers that names of each client went up to, as far as this one saw.
    numbers: Vec<usize>,
    writes: u32,
    /// Nobody serves the mount, as the last operation found.
    is_unserved: bool,
    /// Names of the directory that was listed last.
    seen: Vec<String>,
    slowest: Duration,
}

/// Makes the directories `d0`, `d1`, … that clients work in, before any of them begins.
///
/// # Errors
/// When one cannot be made; one that is there is fine.
pub fn make_directories(root: &std::path::Path, directories: u16) -> std::io::Result<()> {
    for directory in 0..directories {
        match std::fs::create_dir(root.join(format!("d{directory}"))) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Runs a client and writes its record.
///
/// # Errors
/// When the record cannot be written; what goes wrong under test is recorded.
pub fn run(plan: &Plan, recorder: Recorder) -> std::io::Result<()> {
    run_on(&Directory::new(&plan.root), plan, recorder)
}

/// As [`run`], on any system; the plan's root has no meaning then.
///
/// # Errors
/// As [`run`].
pub fn run_on<S: System>(system: &S, plan: &Plan, recorder: Recorder) -> std::io::Result<()> {
    let mut client = Client {
        plan,
        system,
        random: Xoshiro256PlusPlus::seed_from_u64(plan.seed.wrapping_add(u64::from(plan.client))),
        recorder,
        own: (0..usize::from(plan.names))
            .map(|number| Place { number, state: Own::Absent })
            .collect(),
        numbers: vec![usize::from(plan.names); usize::from(plan.clients)],
        writes: 0,
        is_unserved: false,
        seen: Vec::new(),
        slowest: Duration::ZERO,
    };
    let end = system.now().saturating_add(nanos(plan.time));
    let mut done = 0;
    while done < plan.operations && system.now() < end {
        {
            let _open = plan.gate.read().unwrap_or_else(PoisonError::into_inner);
            client.step()?;
        }
        done += 1;
        let pause = if client.is_unserved { UNSERVED_PAUSE.max(plan.pause) } else { plan.pause };
        if !pause.is_zero() {
            system.sleep(pause);
        }
    }
    client.recorder.finish(system.now())
}

impl<S: System> Client<'_, S> {
    /// One operation, or the few that belong together.
    fn step(&mut self) -> std::io::Result<()> {
        let (own, shared) = match self.plan.workload {
            Workload::Mixed => (30, 40),
            Workload::Replacing if self.plan.client % 2 == 1 => (0, 0),
            Workload::Replacing => (60, 65),
        };
        match self.random.random_range(0..100) {
            choice if choice < own => self.change_own(),
            choice if choice < shared => self.change_shared(),
            choice if choice < 70 => {
                let name = self.any_name();
                self.observe(&Operation::Read { name })
            }
            choice if choice < 88 => {
                let name = self.any_name();
                self.observe(&Operation::Stat { name })
            }
            _ => {
                let directory = format!("d{}", self.random.random_range(0..self.plan.directories));
                self.observe(&Operation::List { directory })
            }
        }
    }

    fn change_own(&mut self) -> std::io::Result<()> {
        let index = self.random.random_range(0..self.own.len());
        let choice = self.random.random_range(0..100);
        match self.own.get(index).map(|place| place.state) {
            None => Ok(()),
            Some(Own::Absent) => self.write_own(index),
            Some(Own::Present) if choice < 40 && self.plan.workload == Workload::Mixed => {
                self.write_own(index)
            }
            Some(Own::Present) if choice < 60 => self.unlink_own(index),
            Some(Own::Present) => self.rename_own(index),
        }
    }

    fn write_own(&mut self, index: usize) -> std::io::Result<()> {
        let (name, token) = (self.own_name(index), self.next_token());
        let system = self.system;
        let open = |client: &mut Self| client.call("open", || system.open_to_write(&name));
        let opened = self.recorded(&Operation::Open { name: name.clone(), token }, |client| {
            open(client).map(|file| (Outcome::Done, Some(file)))
        })?;
        let Some(Some(file)) = opened else {
            self.note_failure(&[index]);
            return Ok(());
        };
        let content = token.content();
        let closed = self.recorded(&Operation::Close { name }, |client| {
            client.write_and_close(file, &content).map(|()| (Outcome::Done, ()))
        })?;
        match closed {
            Some(()) => self.know(index, Own::Present),
            None => self.lose(index),
        }
        Ok(())
    }

    fn unlink_own(&mut self, index: usize) -> std::io::Result<()> {
        let (name, system) = (self.own_name(index), self.system);
        let done = self.recorded(&Operation::Unlink { name: name.clone() }, |client| {
            client.call("unlink", || system.remove(&name)).map(|()| (Outcome::Done, ()))
        })?;
        if done.is_some() {
            self.know(index, Own::Absent);
        } else {
            self.note_failure(&[index]);
        }
        Ok(())
    }

    fn rename_own(&mut self, from: usize) -> std::io::Result<()> {
        let to = self.random.random_range(0..self.own.len());
        if from == to {
            return Ok(());
        }
        let (source, target) = (self.own_name(from), self.own_name(to));
        let (system, paths) = (self.system, (source.clone(), target.clone()));
        let done = self.recorded(&Operation::Rename { from: source, to: target }, |client| {
            client
                .call("rename", || system.rename(&paths.0, &paths.1))
                .map(|()| (Outcome::Done, ()))
        })?;
        if done.is_some() {
            self.know(from, Own::Absent);
            self.know(to, Own::Present);
        } else {
            self.note_failure(&[from, to]);
        }
        Ok(())
    }

    fn change_shared(&mut self) -> std::io::Result<()> {
        let (name, system) = (self.shared_name(), self.system);
        if self.random.random_range(0..100) < 40 {
            return self.observe(&Operation::Unlink { name });
        }
        let token = self.next_token();
        let prepared = format!("d0/.p{}-{}", self.plan.client, self.writes);
        let content = token.content();
        let ready = self.recorded(&Operation::Prepare { token }, |client| {
            let file = client.call("open", || system.create_new(&prepared))?;
            client.write_and_close(file, &content).map(|()| (Outcome::Done, ()))
        })?;
        if ready.is_none() {
            return Ok(());
        }
        let exclusive = self.random.random_range(0..2) == 0;
        let path = name.clone();
        self.recorded(&Operation::Publish { name, token, exclusive }, |client| {
            if exclusive {
                client.call("link", || system.link(&prepared, &path))
            } else {
                client.call("rename", || system.rename(&prepared, &path))
            }
            .map(|()| (Outcome::Done, ()))
        })?;
        if exclusive {
            // Not of the test; should it stay, nobody looks at it.
            let _ = system.remove(&prepared);
        }
        Ok(())
    }

    /// Operations whose outcome changes nothing of what the client knows.
    fn observe(&mut self, operation: &Operation) -> std::io::Result<()> {
        let system = self.system;
        let names = self.recorded(operation, |client| match operation {
            Operation::Read { name } => {
                client.read(name).map(|b| (Outcome::Content(Content::of(&b)), None))
            }
            Operation::Stat { name } => {
                client.call("stat", || system.size(name)).map(|size| (Outcome::Size(size), None))
            }
            Operation::Unlink { name } => {
                client.call("unlink", || system.remove(name)).map(|()| (Outcome::Done, None))
            }
            Operation::List { directory } => client
                .list(directory)
                .map(|names| (Outcome::Names(names.clone()), Some((directory.clone(), names)))),
            _ => Err(("nothing", Errno::INVAL.into())),
        })?;
        if let Some(Some((directory, names))) = names {
            names.iter().for_each(|name| self.note(name));
            self.seen = names.into_iter().map(|n| format!("{directory}/{n}")).collect();
        }
        Ok(())
    }

    fn read(&mut self, name: &str) -> Result<Vec<u8>, (&'static str, Error)> {
        let system = self.system;
        let mut file = self.call("open", || system.open(name))?;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = self.call("read", || system.read(&mut file, &mut buffer))?;
            bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
            // Whoever went on after the end of a file that is being written over would join what never stood together.
            if count == 0 || count % BLOCK != 0 {
                break;
            }
        }
        self.call("close", || system.close(file))?;
        Ok(bytes)
    }

    fn list(&mut self, directory: &str) -> Result<Vec<String>, (&'static str, Error)> {
        let system = self.system;
        let mut listing = self.call("opendir", || system.list(directory))?;
        let mut names = Vec::new();
        while let Some(name) = self.call("readdir", || listing.next().transpose())? {
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn write_and_close(
        &mut self,
        mut file: S::File,
        content: &[u8],
    ) -> Result<(), (&'static str, Error)> {
        // In parts, so that others can see it half done.
        let system = self.system;
        for part in content.chunks(60 << 10) {
            self.call("write", || system.write_all(&mut file, part))?;
        }
        self.call("close", || system.close(file))
    }

    /// One system call, or a few of the same kind; the longest of an operation is recorded.
    fn call<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> std::io::Result<T>,
    ) -> Result<T, (&'static str, Error)> {
        let before = self.system.now();
        let result = work();
        let took = Duration::from_nanos(self.system.now().saturating_sub(before));
        self.slowest = self.slowest.max(took);
        result.map_err(|e| (name, e))
    }

    /// Records an operation around `work`. `None` when it did not succeed.
    fn recorded<T>(
        &mut self,
        operation: &Operation,
        work: impl FnOnce(&mut Self) -> Result<(Outcome, T), (&'static str, Error)>,
    ) -> std::io::Result<Option<T>> {
        self.slowest = Duration::ZERO;
        self.recorder.start(self.system.now(), operation)?;
        let result = work(self);
        let end = self.system.now();
        let slowest_ns = nanos(self.slowest);
        let (outcome, value) = match result {
            Ok((outcome, value)) => (outcome, Some(value)),
            Err((call, error)) => (failed(operation, call, &error), None),
        };
        self.is_unserved = matches!(outcome, Outcome::Failed { errno, .. } if errno == UNSERVED);
        self.recorder.end(end, slowest_ns, &outcome)?;
        Ok(value)
    }

    fn next_token(&mut self) -> Token {
        self.writes += 1;
        match self.plan.workload {
            Workload::Mixed => Token::new(self.plan.client, self.writes),
            Workload::Replacing => Token::at_edge(self.plan.client, self.writes),
        }
    }

    fn own_name(&self, index: usize) -> String {
        let number = self.own.get(index).map_or(index, |place| place.number);
        own_name(self.plan, self.plan.client, number)
    }

    fn shared_name(&mut self) -> String {
        let index = self.random.random_range(0..self.plan.names);
        format!("d{}/s{index}-{}", index % self.plan.directories, self.system.now() / ERA_NS)
    }

    /// A name that some client has, or that was seen.
    fn any_name(&mut self) -> String {
        match self.random.random_range(0..10) {
            0..3 => self.shared_name(),
            3..5 if !self.seen.is_empty() => {
                let index = self.random.random_range(0..self.seen.len());
                self.seen.get(index).cloned().unwrap_or_default()
            }
            _ => {
                let client = self.looked_at();
                let end = self.numbers.get(usize::from(client)).copied().unwrap_or(1);
                // Those in use, and the last that were.
                let begin = end.saturating_sub(self.own.len() * 3 / 2);
                own_name(self.plan, client, self.random.random_range(begin..end))
            }
        }
    }

    /// The client whose names are looked at now.
    fn looked_at(&mut self) -> u16 {
        match self.plan.workload {
            Workload::Mixed => self.random.random_range(0..self.plan.clients),
            Workload::Replacing => {
                let changing = u64::from(self.plan.clients.div_ceil(2));
                u16::try_from(self.system.now() / FOCUS_NS % changing * 2).unwrap_or(0)
            }
        }
    }

    /// Takes note of the numbers that others are at.
    fn note(&mut self, listed: &str) {
        let numbers = listed.strip_prefix('o').and_then(|rest| rest.split_once('-'));
        let parsed =
            numbers.and_then(|(c, n)| Some((c.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
        if let Some((client, number)) = parsed
            && let Some(end) = self.numbers.get_mut(client)
        {
            *end = (*end).max(number + 1);
        }
    }

    fn know(&mut self, index: usize, state: Own) {
        if let Some(place) = self.own.get_mut(index) {
            place.state = state;
        }
    }

    /// A change failed. Unless it is known that nothing was done, its names are used no more.
    fn note_failure(&mut self, places: &[usize]) {
        if !self.is_unserved {
            places.iter().for_each(|index| self.lose(*index));
        }
    }

    fn lose(&mut self, index: usize) {
        let mine = usize::from(self.plan.client);
        let (Some(place), Some(end)) = (self.own.get_mut(index), self.numbers.get_mut(mine)) else {
            return;
        };
        *place = Place { number: *end, state: Own::Absent };
        *end += 1;
    }
}

/// The directories take turns, so that renames go within one and between two.
fn own_name(plan: &Plan, client: u16, number: usize) -> String {
    let directory = (number + usize::from(client)) % usize::from(plan.directories);
    format!("d{directory}/o{client}-{number}")
}

/// No such name is an outcome like another, but not where a client's own name was to be changed.
fn failed(operation: &Operation, call: &'static str, error: &Error) -> Outcome {
    let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
    let is = |e: Errno| errno == e.raw_os_error();
    match operation {
        Operation::Read { .. } if call == "open" && is(Errno::NOENT) => Outcome::Absent,
        Operation::Stat { .. } | Operation::Unlink { .. } if is(Errno::NOENT) => Outcome::Absent,
        Operation::Publish { exclusive: true, .. } if is(Errno::EXIST) => Outcome::Exists,
        _ => Outcome::Failed { errno, call: call.to_owned() },
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
