//! How long another host waits for what it asked.

use intarsia_meta::allowance::{self, Limit};
use intarsia_sync::Instant;
use intarsia_wire::Request;

use crate::inode::lease::{HOLDER_PATIENCE, HOME_PATIENCE};
use crate::replication::replicator::CLOSED_WITHIN;

/// Sets the deadline for work on a request that came at `came`: after that the host that sent it waits no more, while programs
/// here may wait for the file. A close has as long as one of a program here. None for requests that move bytes: these may take
/// long on slow disks, and have bounds of their own.
pub(super) fn limit_to_wait(request: &Request, came: Instant) -> Option<Limit> {
    let patience = match request {
        Request::HandOver { .. } => HOLDER_PATIENCE,
        Request::Open { .. }
        | Request::OpenRead { .. }
        | Request::OpenVouched { .. }
        | Request::Recall { .. }
        | Request::ChangeRecords { .. } => HOME_PATIENCE,
        Request::Flush { .. } | Request::Publish { .. } => CLOSED_WITHIN,
        _ => return None,
    };
    Some(allowance::limit(came + patience))
}
