//! What stands between the kernel and the node.

mod agreement;
mod answers;
mod batch;
mod listing;
mod opening;
mod recording;
mod requests;
mod transfer;
mod waiting;
mod xattrs;

pub(crate) use opening::appends;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use fuser::{INodeNo, Notifier, Request};
use intarsia_node::{Caller, Metrics, Node, Op, OpTimer};
use intarsia_sync::Mutex;
use intarsia_types::InodeId;

use crate::calls;
use crate::convert::ino;
use crate::mode::Mode;
use crate::page::PageSize;
use crate::slow::Lanes;
use crate::stale::StaleCalls;

pub(crate) struct Adapter {
    node: Arc<Node>,
    lanes: Lanes,
    mode: Arc<Mutex<Mode>>,
    has_write_back: AtomicBool,
    /// The kernel maps files also that are read past its pages.
    maps_direct: AtomicBool,
    next_handle: AtomicU64,
    stale_calls: StaleCalls,
    /// For telling the kernel things; there once the session is.
    notifier: Arc<OnceLock<Notifier>>,
    list_page: PageSize,
    list_plus_page: PageSize,
}

impl Adapter {
    pub(crate) fn new(node: Arc<Node>, lanes: Lanes, mode: Arc<Mutex<Mode>>) -> Self {
        let has_write_back = AtomicBool::new(false);
        Self {
            node,
            lanes,
            mode,
            has_write_back,
            maps_direct: AtomicBool::new(false),
            next_handle: AtomicU64::new(1),
            stale_calls: StaleCalls::default(),
            notifier: Arc::default(),
            list_page: PageSize::default(),
            list_plus_page: PageSize::default(),
        }
    }

    /// Where the session's notifier is to be put.
    pub(crate) fn notifier_slot(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }

    fn start(req: &Request, op: Op) -> OpTimer {
        Self::begin(req, None, op)
    }

    /// Starts with a request for which the kernel holds a lock of the directory.
    fn start_in(req: &Request, directory: INodeNo, op: Op) -> OpTimer {
        Self::begin(req, Some(ino(directory)), op)
    }

    fn begin(req: &Request, directory: Option<InodeId>, op: Op) -> OpTimer {
        calls::begin(req.pid(), directory, op);
        intarsia_node::begin_answering(req.pid());
        Metrics::start(op)
    }

    fn finish(&self, timer: &OpTimer, is_ok: bool) {
        self.node.counters().finish(timer, is_ok);
        calls::end(is_ok);
    }
}

fn caller(req: &Request) -> Caller {
    Caller { uid: req.uid(), gid: req.gid() }
}
