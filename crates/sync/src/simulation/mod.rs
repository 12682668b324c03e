//! Threads that take turns by a seed, on a clock of their own.
//!
//! A thread of a simulation runs until it waits (for a lock, a condition, a time, another thread) or until the seed
//! says that it is another's turn, which can happen wherever it takes a lock. When all wait, the clock moves to the
//! next deadline. Threads belong to groups, one for each machine that is simulated, which can stop for a while or for
//! ever. What a thread does to files happens at once and takes no time.

mod schedule;
mod task;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::task::Inner;
pub(crate) use self::task::{Place, Task};
use crate::Instant;

/// Whether this process ever began a simulation; until then nobody looks for one.
static IS_USED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: RefCell<Option<Task>> = const { RefCell::new(None) };
}

/// How a simulation runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// From which everything follows.
    pub seed: u64,
    /// Another thread's turn comes at one in so many places where it may; 0 for never.
    pub switch_one_in: u32,
    /// A simulation that goes on for longer is one that hangs.
    pub end: Duration,
    /// Told first when a simulation fails; it need not return.
    pub on_failure: fn(&Failure),
}

/// Why a simulation could not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub what: String,
    /// When, since its begin.
    pub at: Duration,
    /// What all threads were at.
    pub threads: Vec<String>,
}

/// What a simulation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How long it took on its own clock.
    pub took: Duration,
    /// How often another thread's turn came.
    pub switches: u64,
    /// Of which thread's turn came when: two runs that did the same have the same.
    pub fingerprint: u64,
}

/// A simulation that runs.
#[derive(Clone)]
pub struct Simulation(Arc<Inner>);

/// Threads that stop together: those of one machine.
#[derive(Clone)]
pub struct Group {
    inner: Arc<Inner>,
    id: usize,
}

impl Simulation {
    /// Runs `work` as the first thread of a simulation, until it returns. Threads that still are at something then
    /// never get a turn again; they stay until the process ends.
    ///
    /// # Errors
    /// All threads wait for ever, it takes longer than allowed, or one panics.
    pub fn run<T>(
        settings: Settings,
        work: impl FnOnce(&Self) -> T,
    ) -> Result<(T, Finished), Failure> {
        IS_USED.store(true, Ordering::SeqCst);
        let simulation = Self(Inner::new(settings));
        let task = simulation.0.adopt();
        CURRENT.set(Some(task));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&simulation)));
        CURRENT.set(None);
        match outcome {
            Ok(value) => Ok((value, simulation.0.finished())),
            Err(panic) => Err(simulation.0.failure(&*panic)),
        }
    }

    /// A new group of threads.
    #[must_use]
    pub fn group(&self, name: &str) -> Group {
        Group { inner: Arc::clone(&self.0), id: self.0.new_group(name) }
    }

    /// The time since its begin.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.now()
    }

    /// A number below `bound`, from the seed.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        self.0.below(bound)
    }
}

impl Group {
    /// Tells it from the other groups of its simulation.
    #[must_use]
    pub const fn id(&self) -> usize {
        self.id
    }

    /// Threads of the group have no turn for so long. Time passes for them all the same.
    pub fn freeze(&self, duration: Duration) {
        self.inner.freeze(self.id, duration);
    }

    /// Threads of the group never have a turn again; what they hold stays held.
    pub fn kill(&self) {
        self.inner.kill(self.id);
    }

    /// Runs `work` as a thread of the group.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<crate::thread::JoinHandle<T>> {
        let task = self.inner.new_task(name, Some(self.id));
        crate::thread::spawn_task(name, task, work)
    }
}

/// The thread that runs, if it is one of a simulation.
pub(crate) fn current() -> Option<Task> {
    if !IS_USED.load(Ordering::Relaxed) {
        return None;
    }
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Whether this thread is one of a simulation.
#[must_use]
pub fn is_running() -> bool {
    current().is_some()
}

/// The time, and which group and thread of a simulation this is, for logs.
#[must_use]
pub fn whereabouts() -> Option<(Duration, String, String)> {
    let task = current()?;
    let (group, thread) = task.whereabouts();
    Some((task.time(), group, thread))
}

/// Which thread of its simulation this is, by the order in which they were made.
#[must_use]
pub fn thread_number() -> Option<usize> {
    current().map(|task| task.number())
}

/// A number below `bound` from the seed of the simulation that this thread is in; 0 outside one.
#[must_use]
pub fn below(bound: u64) -> u64 {
    current().map_or(0, |task| task.below(bound))
}

/// A place where another thread's turn may come.
pub fn pass() {
    if let Some(task) = current() {
        task.pass();
    }
}

/// Makes this thread one of a simulation.
pub(crate) fn enter(task: Task) {
    CURRENT.set(Some(task));
}

/// This thread is at its end.
pub(crate) fn leave() {
    if let Some(task) = CURRENT.take() {
        task.finish();
    }
}

pub(crate) fn wake(place: Place) {
    if let Some(task) = current() {
        task.wake(place);
    }
}

/// In a simulation: waits until `take` gives something, looking again whenever `place` is woken.
pub(crate) fn until<T>(place: Place, take: impl Fn() -> Option<T>) -> Option<T> {
    let task = current()?;
    task.pass();
    loop {
        match take() {
            None => drop(task.wait(place, None)),
            taken => return taken,
        }
    }
}

pub(crate) fn sleep(task: &Task, duration: Duration) {
    let until = Instant::of_simulation(task.now() + duration);
    task.wait(Place::nowhere(), Some(until));
}
