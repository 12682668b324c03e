//! Threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use parking_lot::Mutex;

use crate::Instant;
use crate::simulation::{self, Place, Task};

/// Makes threads, as [`std::thread::Builder`].
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

/// A thread that can be waited for.
pub struct JoinHandle<T> {
    inner: std::thread::JoinHandle<T>,
    task: Option<Task>,
}

/// A thread of a [`scope`] that can be waited for.
pub struct ScopedJoinHandle<'scope, T> {
    inner: std::thread::ScopedJoinHandle<'scope, T>,
    task: Option<Task>,
}

/// Threads that end before what they borrow, as [`std::thread::Scope`].
pub struct Scope<'scope, 'env: 'scope> {
    inner: &'scope std::thread::Scope<'scope, 'env>,
    tasks: Mutex<Vec<Task>>,
}

impl Builder {
    /// A thread without a name.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names it.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self { name: Some(name) }
    }

    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let name = self.name.as_deref().unwrap_or_default();
        match simulation::current() {
            Some(task) => spawn_task(name, task.child(name), work),
            None => Ok(JoinHandle { inner: self.of_system().spawn(work)?, task: None }),
        }
    }

    /// Starts it as one of a scope.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let Some(task) = simulation::current() else {
            let inner = self.of_system().spawn_scoped(scope.inner, work)?;
            return Ok(ScopedJoinHandle { inner, task: None });
        };
        let task = task.child(self.name.as_deref().unwrap_or_default());
        let of_thread = task.clone();
        let inner =
            self.of_system().spawn_scoped(scope.inner, move || run_task(&of_thread, work))?;
        scope.tasks.lock().push(task.clone());
        Ok(ScopedJoinHandle { inner, task: Some(task) })
    }

    fn of_system(self) -> std::thread::Builder {
        let builder = std::thread::Builder::new();
        match self.name {
            Some(name) => builder.name(name),
            None => builder,
        }
    }
}

pub(crate) fn spawn_task<T: Send + 'static>(
    name: &str,
    task: Task,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let of_thread = task.clone();
    let builder = Builder::new().name(name.to_owned()).of_system();
    let inner = builder.spawn(move || run_task(&of_thread, work))?;
    Ok(JoinHandle { inner, task: Some(task) })
}

fn run_task<T>(task: &Task, work: impl FnOnce() -> T) -> T {
    task.begin();
    simulation::enter(task.clone());
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => {
            simulation::leave();
            value
        }
        Err(panic) => {
            task.panicked(&*panic);
            resume_unwind(panic)
        }
    }
}

/// Starts a thread.
///
/// # Panics
/// The system gives no thread.
#[expect(clippy::panic, reason = "as the standard library's")]
pub fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(work).unwrap_or_else(|error| panic!("starting a thread: {error}"))
}

/// Runs `work`, which may start threads that borrow, and waits for them.
pub fn scope<'env, T>(work: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> T) -> T {
    std::thread::scope(|inner| {
        let scope = Scope { inner, tasks: Mutex::default() };
        let outcome = work(&scope);
        if let Some(task) = simulation::current() {
            let tasks = std::mem::take(&mut *scope.tasks.lock());
            tasks.iter().for_each(|other| task.join(other));
        }
        outcome
    })
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    ///
    /// # Panics
    /// The system gives no thread.
    #[expect(clippy::panic, reason = "as the standard library's")]
    pub fn spawn<T: Send + 'scope>(
        &self,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let thread = Builder::new().spawn_scoped(self, work);
        thread.unwrap_or_else(|error| panic!("starting a thread: {error}"))
    }
}

impl<T> JoinHandle<T> {
    /// Waits for it.
    ///
    /// # Errors
    /// It panicked.
    pub fn join(self) -> std::thread::Result<T> {
        await_end(self.task.as_ref());
        self.inner.join()
    }

    /// Whether it is at its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().map_or_else(|| self.inner.is_finished(), Task::is_done)
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for it.
    ///
    /// # Errors
    /// It panicked.
    pub fn join(self) -> std::thread::Result<T> {
        await_end(self.task.as_ref());
        self.inner.join()
    }

    /// Whether it is at its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().map_or_else(|| self.inner.is_finished(), Task::is_done)
    }
}

fn await_end(task: Option<&Task>) {
    if let (Some(current), Some(other)) = (simulation::current(), task) {
        current.join(other);
    }
}

/// Does nothing for so long.
pub fn sleep(duration: Duration) {
    match simulation::current() {
        Some(task) => simulation::sleep(&task, duration),
        None => std::thread::sleep(duration),
    }
}

/// Does nothing until `deadline`.
pub fn sleep_until(deadline: Instant) {
    match simulation::current() {
        Some(task) => drop(task.wait(Place::nowhere(), Some(deadline))),
        None => std::thread::sleep(deadline.saturating_duration_since(Instant::now())),
    }
}

/// Lets another thread run.
pub fn yield_now() {
    match simulation::current() {
        Some(task) => simulation::sleep(&task, Duration::from_micros(1)),
        None => std::thread::yield_now(),
    }
}

/// Does nothing for so long, or until the last thread of the caller's [`scope`] ends; in a simulation for so long.
pub fn park_timeout(duration: Duration) {
    match simulation::current() {
        Some(task) => simulation::sleep(&task, duration),
        None => std::thread::park_timeout(duration),
    }
}
