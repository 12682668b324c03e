//! Who stands for election. A replica that goes over to another shard has that of before until it has copied
//! everything, and for Redis it has been with its new primary all the while: the servers would elect it, and the shard
//! would have another shard's data. So it is barred before it goes, and allowed again once its primary says that it
//! keeps up.

use tracing::info;

use super::{Host, Phase};
use crate::client::Connection;
use crate::formation::follow;
use crate::servers::NO_ELECTION;
use crate::topology::{Health, Role, ServerId, Topology};
use intarsia_types::Result;

impl Host {
    /// Lets servers of this host stand for election that have everything.
    pub(super) fn let_stand(&mut self, view: &Topology) {
        self.is_copying = false;
        for slot in &mut self.slots {
            let Phase::Serving(_) = slot.phase else { continue };
            let seen = view.by_address(slot.address.ip, slot.address.port);
            // One that an earlier node has left barred shows in the view.
            if !slot.is_unproven && !seen.is_some_and(|peer| peer.is_barred) {
                continue;
            }
            let allowed = self.view.with(&slot.address, |connection| {
                let has_all = has_all(connection)?;
                if has_all {
                    bar(connection, false)?;
                }
                Ok(has_all)
            });
            match allowed {
                Ok(true) => {
                    slot.is_unproven = false;
                    info!(server = %slot.name, "may be elected");
                }
                Ok(false) => {
                    let of = seen.and_then(|peer| match &peer.role {
                        Role::Replica(of) => view.by_id(of),
                        Role::Primary(_) => None,
                    });
                    self.is_copying |= of.is_some_and(|primary| primary.health == Health::Up);
                }
                Err(error) => {
                    info!(server = %slot.name, %error, "it is not known whether it may be elected");
                }
            }
        }
    }
}

/// Has a server follow another primary. It stands for no election until its host allows it.
///
/// # Errors
/// When it cannot be barred from elections, or refuses: then it follows whom it followed before.
pub fn go_over(connection: &mut Connection, primary: &ServerId) -> Result<()> {
    bar(connection, true)?;
    follow(connection, primary)
}

fn bar(connection: &mut Connection, is_barred: bool) -> Result<()> {
    let value = if is_barred { "yes" } else { "no" };
    connection.ask(&["CONFIG", "SET", NO_ELECTION, value])
}

/// Whether a server says that it stands for no election.
pub(super) fn is_barred(connection: &mut Connection) -> Result<bool> {
    Ok(Topology::ask(connection)?.myself().is_some_and(|own| own.is_barred))
}

/// Whether a server follows nobody, or has what its primary has. The link to the primary of before is gone when the order
/// to follow another has been carried out.
fn has_all(connection: &mut Connection) -> Result<bool> {
    let fields = connection.fields(&["INFO", "replication"])?;
    Ok(fields.get("role") == Some("master")
        || (fields.get("master_link_status") == Some("up")
            && fields.get("master_sync_in_progress") == Some("0")))
}
