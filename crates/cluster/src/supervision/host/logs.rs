//! The logs of changes of a host's servers, which reach the disk every second.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::deployment::ServerName;
use crate::servers::{self, Server};

/// Between two times: what a loss of power may take back.
const INTERVAL: Duration = Duration::from_secs(1);

/// Forces them out beside the watch, which a disk that hangs must not hold up.
pub(super) struct Logs {
    last_begun: Instant,
    forcing: Option<JoinHandle<()>>,
}

impl Logs {
    pub(super) fn new() -> Self {
        Self { last_begun: Instant::now(), forcing: None }
    }

    /// Begins to force the logs of `servers` out, if that is due and the last time is over.
    pub(super) fn force<'a>(&mut self, servers: impl Iterator<Item = &'a Server>) {
        let is_busy = self.forcing.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_busy || self.last_begun.elapsed() < INTERVAL {
            return;
        }
        self.last_begun = Instant::now();
        let dirs: Vec<(ServerName, PathBuf)> =
            servers.map(|server| (server.name().clone(), server.dir().to_owned())).collect();
        let begun = std::thread::Builder::new().name("logs".into()).spawn(move || {
            for (server, dir) in dirs {
                if let Err(error) = servers::force_log(&dir) {
                    warn!(%server, %error, "the log of changes cannot be forced to the disk");
                }
            }
        });
        match begun {
            Ok(thread) => self.forcing = Some(thread),
            Err(error) => warn!(%error, "the logs of changes cannot be forced to the disk"),
        }
    }
}
