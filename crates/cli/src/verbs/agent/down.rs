//! The part of `down` on a host: say whether it can go down; end the node when told to; end the metadata servers when
//! the nodes of all hosts have ended.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Orders, Saying, answer, say};
use crate::exit::{Exit, Outcome};
use crate::failpoint;
use crate::verbs::down::part::{Manner, Part, Standing};

/// What an agent of `down` is told first.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct DownOrders {
    /// The host that the agent works on.
    #[serde(default)]
    pub(crate) host: String,
    /// The mount point.
    pub(crate) mount: PathBuf,
    /// The store's directory, if the user named it.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) manner: Manner,
}

/// What it is told then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DownStep {
    /// Unmount, and end the node.
    Finish,
    /// End the metadata servers and clear the place.
    Stop,
    /// Somebody is in the way; leave all as it is.
    Quit,
}

pub(super) fn run(orders: &mut Orders) -> Outcome<Exit> {
    let told: DownOrders = orders.first()?;
    failpoint::on_host(&told.host);
    let mut found = Part::find(Some(&told.mount), told.dir.as_deref());
    let asked = found.as_mut().map_err(|failure| failure.clone()).and_then(|part| {
        // Nobody goes past another verb; who uses the mount is in nobody's way by force.
        part.claim(told.manner.force)?;
        failpoint::reach("agent-down:claimed");
        let asked = part.ask();
        if told.manner.force { Ok(asked.unwrap_or(Standing::Up)) } else { asked }
    });
    answer(&asked)?;
    failpoint::reach("agent-down:asked");
    let (Ok(part), Ok(_)) = (found, asked) else { return Ok(Exit::Ok) };
    while let Some(step) = orders.next()? {
        match step {
            DownStep::Finish => {
                let finished = part.finish(told.manner, &mut |doing| {
                    let _ = say(&Saying::<()>::Doing(doing));
                });
                failpoint::reach("agent-down:finished");
                answer(&finished.map(|_| ()))?;
            }
            DownStep::Stop => {
                let stopped = part.stop(told.manner.purge);
                failpoint::reach("agent-down:stopped");
                answer(&stopped)?;
                break;
            }
            DownStep::Quit => break,
        }
    }
    Ok(Exit::Ok)
}
