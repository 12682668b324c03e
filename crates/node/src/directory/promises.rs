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

/// How old a deferred create is at least before the thread commits it, and the pause between two looks of the thread. So a
/// file that stays open is known on this host only for 10 to 20 ms.
const MOMENT: Duration = Duration::from_millis(10);
/// After more looks than this in a row that found nothing, the thread sleeps until it is woken.
const IDLE_LOOKS: u32 = 100;

#[derive(Default)]
struct Control {
    /// The thread looks every [`MOMENT`], or has been woken to do so. If not, whoever defers a create has to wake it.
    is_looking: AtomicBool,
    is_stopping: Mutex<bool>,
    changed: Condvar,
}

/// Wakes the thread that commits deferred creates.
#[derive(Clone, Default)]
pub(crate) struct Promises(Arc<Control>);

impl Promises {
    /// To be called after a create was deferred, or a change over several partitions left records behind.
    pub(crate) fn look(&self) {
        if !self.0.is_looking.load(Ordering::SeqCst)
            && !self.0.is_looking.swap(true, Ordering::SeqCst)
        {
            let _guard = self.0.is_stopping.lock();
            self.0.changed.notify_all();
        }
    }
}

/// The thread, to be ended by [`Keeper::stop`]. Without that it ends at its next look after the namespace or the cluster is
/// gone; if it is asleep then, it stays so.
pub(crate) struct Keeper {
    control: Arc<Control>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Starts the thread. It commits the deferred creates of `namespace` while this host is a member of `cluster`.
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
            // A create that is deferred from now on wakes this thread. One that was deferred just before did not, so it is
            // looked for once more.
            control.is_looking.swap(false, Ordering::SeqCst);
            if has_work(&namespace) {
                promises.look();
            }
        }
    }
}

/// Commits the deferred creates that are due, unless the other hosts may have given this one up: then they may have the leases
/// under which the files were made. Removes the records that changes over several partitions left behind; these nobody needs
/// any more, so that is right even then. Returns whether there is more to do.
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
