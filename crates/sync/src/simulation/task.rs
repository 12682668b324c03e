//! A thread of a simulation, and how the turn passes from one to the next.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::schedule::{Schedule, nanos};
use super::{Failure, Finished, Settings};
use crate::Instant;

/// What one waits at: a lock, a condition, the end of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Address(usize),
    End(usize),
    Nowhere,
}

impl Place {
    pub(crate) fn of<T: ?Sized>(what: &T) -> Self {
        Self::Address(std::ptr::from_ref(what).cast::<()>().addr())
    }

    /// Where nobody wakes anybody.
    pub(crate) const fn nowhere() -> Self {
        Self::Nowhere
    }
}

/// What all threads of a simulation share.
pub(super) struct Inner {
    settings: Settings,
    schedule: Mutex<Schedule>,
    batons: Mutex<Vec<Arc<Baton>>>,
    failure: Mutex<Option<Failure>>,
}

/// The right to run, of one thread.
#[derive(Default)]
struct Baton {
    is_mine: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Baton {
    fn give(&self) {
        self.is_mine.store(true, Ordering::Release);
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    fn take(&self) {
        *self.thread.lock() = Some(std::thread::current());
        while !self.is_mine.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// A thread of a simulation.
#[derive(Clone)]
pub(crate) struct Task {
    inner: Arc<Inner>,
    id: usize,
    baton: Arc<Baton>,
}

/// Ends the first thread of a simulation that failed.
struct Stopped;

impl Inner {
    pub(super) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            schedule: Mutex::new(Schedule::new(&settings)),
            batons: Mutex::new(vec![Arc::default()]),
            failure: Mutex::default(),
        })
    }

    /// The first thread, which runs.
    pub(super) fn adopt(self: &Arc<Self>) -> Task {
        let baton = self.baton(0);
        Task { inner: Arc::clone(self), id: 0, baton }
    }

    pub(super) fn new_task(self: &Arc<Self>, name: &str, group: Option<usize>) -> Task {
        let id = self.schedule.lock().add(name, group);
        let baton = Arc::<Baton>::default();
        self.batons.lock().push(Arc::clone(&baton));
        Task { inner: Arc::clone(self), id, baton }
    }

    pub(super) fn new_group(&self, name: &str) -> usize {
        self.schedule.lock().add_group(name)
    }

    pub(super) fn freeze(&self, group: usize, duration: Duration) {
        let mut schedule = self.schedule.lock();
        let until = schedule.now_ns().saturating_add(nanos(duration));
        schedule.freeze(group, until);
    }

    pub(super) fn kill(&self, group: usize) {
        self.schedule.lock().kill(group);
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.schedule.lock().now_ns())
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.schedule.lock().below(bound)
    }

    pub(super) fn finished(&self) -> Finished {
        let schedule = self.schedule.lock();
        Finished {
            took: Duration::from_nanos(schedule.now_ns()),
            switches: schedule.switches(),
            fingerprint: schedule.fingerprint(),
        }
    }

    /// Why it failed: what was noted, or else the panic of the first thread.
    pub(super) fn failure(&self, panic: &(dyn Any + Send)) -> Failure {
        let noted = self.failure.lock().clone();
        noted.unwrap_or_else(|| self.note(format!("panic: {}", text_of(panic))))
    }

    fn note(&self, what: String) -> Failure {
        let schedule = self.schedule.lock();
        let at = Duration::from_nanos(schedule.now_ns());
        let failure = Failure { what, at, threads: schedule.describe() };
        drop(schedule);
        self.failure.lock().get_or_insert_with(|| failure.clone());
        (self.settings.on_failure)(&failure);
        failure
    }

    fn baton(&self, id: usize) -> Arc<Baton> {
        self.batons.lock().get(id).cloned().unwrap_or_default()
    }

    /// Ends the simulation: its first thread is told, and no other has a turn again.
    fn stop(&self, what: String) {
        self.note(what);
        self.baton(0).give();
    }
}

impl Task {
    /// Time as the thread sees it.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.inner.schedule.lock().look_ns())
    }

    pub(crate) const fn number(&self) -> usize {
        self.id
    }

    /// The time, without a look at the clock that takes some.
    pub(crate) fn time(&self) -> Duration {
        self.inner.now()
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.inner.below(bound)
    }

    pub(crate) fn whereabouts(&self) -> (String, String) {
        self.inner.schedule.lock().whereabouts(self.id)
    }

    /// A new thread of the same group.
    pub(crate) fn child(&self, name: &str) -> Self {
        self.inner.new_task(name, None)
    }

    /// Another thread's turn may come.
    pub(crate) fn pass(&self) {
        let mut schedule = self.inner.schedule.lock();
        if schedule.running() == self.id && schedule.is_switch() {
            schedule.set_ready();
            drop(schedule);
            self.switch();
        }
    }

    /// Waits until `place` is woken or the deadline has passed; `false` for the latter.
    pub(crate) fn wait(&self, place: Place, deadline: Option<Instant>) -> bool {
        let deadline_ns = deadline.map(|deadline| nanos(deadline.in_simulation()));
        self.inner.schedule.lock().set_waiting(place, deadline_ns);
        self.switch();
        self.inner.schedule.lock().was_woken(self.id)
    }

    pub(crate) fn wake(&self, place: Place) {
        self.inner.schedule.lock().wake(place, usize::MAX);
    }

    pub(crate) fn wake_one(&self, place: Place) {
        self.inner.schedule.lock().wake(place, 1);
    }

    /// Waits until the thread is at its end.
    pub(crate) fn join(&self, other: &Self) {
        while !self.inner.schedule.lock().is_done(other.id) {
            self.wait(Place::End(other.id), None);
        }
    }

    /// Whether the thread is at its end.
    pub(crate) fn is_done(&self) -> bool {
        self.inner.schedule.lock().is_done(self.id)
    }

    /// Waits for the first turn.
    pub(crate) fn begin(&self) {
        self.baton.take();
    }

    /// Gives the turn away for good.
    pub(super) fn finish(&self) {
        let mut schedule = self.inner.schedule.lock();
        schedule.set_done();
        schedule.wake(Place::End(self.id), usize::MAX);
        drop(schedule);
        if let Some(next) = self.choose() {
            self.inner.baton(next).give();
        }
    }

    /// The thread panicked: so does the simulation.
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send)) {
        if panic.is::<Stopped>() {
            return;
        }
        let (group, name) = self.whereabouts();
        self.inner.stop(format!("panic in {group}/{name}: {}", text_of(panic)));
    }

    fn choose(&self) -> Option<usize> {
        let next = self.inner.schedule.lock().next();
        next.map_err(|why| self.inner.stop(why.to_owned())).ok()
    }

    /// Gives the turn to whose it is, and waits for its own.
    fn switch(&self) {
        let next = self.choose();
        if next == Some(self.id) {
            return;
        }
        if let Some(next) = next {
            self.inner.baton(next).give();
        }
        self.baton.take();
        if self.id == 0 && self.inner.failure.lock().is_some() {
            std::panic::resume_unwind(Box::new(Stopped));
        }
        if self.inner.schedule.lock().is_dead(self.id) {
            // Reached only by a thread that killed its own group and was chosen just before.
            loop {
                std::thread::park();
            }
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}
