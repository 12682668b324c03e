//! The thread that commits deferred creates (`intarsia_meta`'s promises) of files that their programs keep open; others are
//! committed when they are closed. It also finishes changes over several partitions that were left half done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_meta::Namespace;
use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, Result};

use crate::membership::cluster::Cluster;

/// How long a new file is known on this host only, while it is open; and how often the thread looks.
const MOMENT: Duration = Duration::from_millis(10);
/// So many looks at nothing, and it sleeps until there is something.
const IDLE_LOOKS: u32 = 100;

#[derive(Default)]
struct Control {
    /// The thread looks, or has been woken.
    is_looking: AtomicBool,
    is_stopping: Mutex<bool>,
    changed: Condvar,
}

/// Wakes the thread.
#[derive(Clone, Default)]
pub(crate) struct Promises(Arc<Control>);

impl Promises {
    /// There may be something to commit in a moment.
    pub(crate) fn look(&self) {
        if !self.0.is_looking.load(Ordering::SeqCst)
            && !self.0.is_looking.swap(true, Ordering::SeqCst)
        {
            let _guard = self.0.is_stopping.lock();
            self.0.changed.notify_all();
        }
    }
}

/// The thread; dropped without [`Keeper::stop`] it ends by itself.
pub(crate) struct Keeper {
    control: Arc<Control>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Keeps the promises of `namespace` while this host is a member of `cluster`.
    pub(crate) fn start(
        promises: &Promises,
        namespace: &Arc<Namespace>,
        cluster: &Arc<Cluster>,
    ) -> Result<Self> {
        let control = Arc::clone(&promises.0);
        let for_thread = promises.clone();
        let (namespace, cluster) = (Arc::downgrade(namespace), Arc::downgrade(cluster));
        let thread = intarsia_sync::thread::Builder::new()
            .name("promises".into())
            .spawn(move || run(&namespace, &cluster, &for_thread))
            .map_err(|e| Error::io("start the thread that keeps promises", e))?;
        Ok(Self { control, thread })
    }

    /// Ends the thread and waits for that.
    pub(crate) fn stop(self) {
        *self.control.is_stopping.lock() = true;
        self.control.changed.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the thread that keeps promises panicked");
        }
    }
}

fn run(namespace: &Weak<Namespace>, cluster: &Weak<Cluster>, promises: &Promises) {
    let control = &*promises.0;
    let mut idle_looks = 0;
    loop {
        let mut is_stopping = control.is_stopping.lock();
        if control.is_looking.load(Ordering::SeqCst) {
            let next = Instant::now() + MOMENT;
            while !*is_stopping && !control.changed.wait_until(&mut is_stopping, next).timed_out() {
            }
        } else {
            while !*is_stopping && !control.is_looking.load(Ordering::SeqCst) {
                control.changed.wait(&mut is_stopping);
            }
        }
        if *is_stopping {
            return;
        }
        drop(is_stopping);
        let (Some(namespace), Some(cluster)) = (namespace.upgrade(), cluster.upgrade()) else {
            return;
        };
        let is_idle = !keep(&namespace, &cluster);
        idle_looks = if is_idle { idle_looks + 1 } else { 0 };
        if idle_looks > IDLE_LOOKS {
            // Whoever promises from now on wakes this thread; whoever did before is seen here.
            control.is_looking.swap(false, Ordering::SeqCst);
            if has_work(&namespace) {
                promises.look();
            }
        }
    }
}

/// Has those committed that are due, unless the other hosts may have given this one up. Whether there are others.
/// Removes what is left of changes that have taken place; whoever it is, that is nothing that others need.
fn keep(namespace: &Namespace, cluster: &Cluster) -> bool {
    if cluster.is_sure_member() {
        namespace.keep_promises_older_than(MOMENT);
    }
    namespace.remove_remains();
    has_work(namespace)
}

fn has_work(namespace: &Namespace) -> bool {
    namespace.has_promises() || namespace.has_remains()
}
