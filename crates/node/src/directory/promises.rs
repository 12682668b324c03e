//! The thread that has new files committed which their programs keep open (see `intarsia_meta`'s promises): the
//! others are committed when they are closed. It also removes what is left of changes over several partitions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, Result};

use crate::node::Node;

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
    pub(crate) fn start(node: &Arc<Node>) -> Result<Self> {
        let control = Arc::clone(&node.promises.0);
        let (weak, for_thread) = (Arc::downgrade(node), Arc::clone(&control));
        let thread = intarsia_sync::thread::Builder::new()
            .name("promises".into())
            .spawn(move || run(&weak, &for_thread))
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

fn run(node: &Weak<Node>, control: &Control) {
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
        let Some(node) = node.upgrade() else { return };
        let is_idle = !keep(&node);
        idle_looks = if is_idle { idle_looks + 1 } else { 0 };
        if idle_looks > IDLE_LOOKS {
            // Whoever promises from now on wakes this thread; whoever did before is seen here.
            control.is_looking.swap(false, Ordering::SeqCst);
            if has_work(&node) {
                node.promises.look();
            }
        }
    }
}

/// Has those committed that are due, unless the other hosts may have given this one up. Whether there are others.
/// Removes what is left of changes that have taken place; whoever it is, that is nothing that others need.
fn keep(node: &Node) -> bool {
    if node.cluster.as_ref().is_some_and(|cluster| cluster.is_sure_member()) {
        node.namespace.keep_promises_older_than(MOMENT);
    }
    node.namespace.remove_remains();
    has_work(node)
}

fn has_work(node: &Node) -> bool {
    node.namespace.has_promises() || node.namespace.has_remains()
}
