//! The description of the deployment, in step with the one in the metadata, which is the truth.
//!
//! Each host has it as a file too, by which the store comes up again. Whoever changes the hosts of the store replaces
//! the description in the metadata by one of the next revision; the others take it over from there.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use intarsia_cluster::deployment::{Deployment, Member};
use intarsia_meta::MetaEngine;
use intarsia_node::SharedDescription;
use intarsia_types::{Error, NodeId, Result};

use crate::failpoint;

/// Attempts to replace the description. Hosts come and go rarely.
const ATTEMPTS: usize = 16;
/// Between two looks for a newer one.
const LOOK: Duration = Duration::from_secs(3);

/// The description in the metadata, and the file that follows it.
#[derive(Clone)]
pub(crate) struct Description {
    engine: Arc<dyn MetaEngine>,
    path: PathBuf,
    /// Who reads the file to replace it by a newer one holds this.
    turn: Arc<Mutex<()>>,
}

impl Description {
    pub(crate) fn new(engine: &Arc<dyn MetaEngine>, path: &Path) -> Self {
        Self { engine: Arc::clone(engine), path: path.to_owned(), turn: Arc::default() }
    }

    /// Brings the file of this host and the metadata together before the host begins: the newer one counts, and a host
    /// that joins, which has nothing of the store yet, enters itself.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a host that has left the store; else the engine's own.
    pub(crate) fn settle(
        &self,
        mine: &Deployment,
        me: &Member,
        is_new_here: bool,
    ) -> Result<Deployment> {
        for _ in 0..ATTEMPTS {
            let Some(shared) = SharedDescription::open(&self.engine)? else {
                return Ok(mine.clone());
            };
            let Some(text) = shared.read()? else {
                if shared.replace(None, &mine.to_text()?)? {
                    return Ok(mine.clone());
                }
                continue;
            };
            let truth = Deployment::parse(&text)?;
            if truth.member(&me.name).is_some() {
                self.keep(&truth, mine)?;
                return Ok(truth.single_as(mine));
            }
            // One that joined before and was interrupted has the description that will be. That of one which joins is of
            // the host that it asked, and hosts may have left since.
            if !is_new_here && mine.revision <= truth.revision {
                return Err(has_left(&me.name, &truth));
            }
            let next = truth.with_joined(me.clone())?;
            if shared.replace(Some(&text), &next.to_text()?)? {
                failpoint::reach("description:joined");
                self.keep(&next, mine)?;
                return Ok(next.single_as(mine));
            }
        }
        Err(Error::Busy("the deployment's description kept changing".into()))
    }

    /// Puts the description of a new store into the metadata, once the store has been founded.
    pub(crate) fn publish(&self, mine: &Deployment) -> Result<()> {
        match SharedDescription::open(&self.engine)? {
            Some(shared) if shared.read()?.is_none() => {
                shared.replace(None, &mine.to_text()?).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Takes a host out that is no member any more.
    pub(crate) fn forget(&self, host: &NodeId) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let Some(shared) = SharedDescription::open(&self.engine)? else { return Ok(()) };
            let Some(text) = shared.read()? else { return Ok(()) };
            let truth = Deployment::parse(&text)?;
            if truth.member(host).is_none() || shared.has_member(host)? {
                return Ok(());
            }
            let next = truth.without(host)?;
            failpoint::reach("description:forgetting");
            if shared.replace(Some(&text), &next.to_text()?)? {
                failpoint::reach("description:forgot");
                return self.refresh();
            }
        }
        Err(Error::Busy("the deployment's description kept changing".into()))
    }

    /// Takes over a newer description.
    pub(crate) fn refresh(&self) -> Result<()> {
        let Some(shared) = SharedDescription::open(&self.engine)? else { return Ok(()) };
        let Some(text) = shared.read()? else { return Ok(()) };
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if std::fs::read_to_string(&self.path).is_ok_and(|mine| mine == text) {
            return Ok(());
        }
        self.keep(&Deployment::parse(&text)?, &Deployment::read(&self.path)?)
    }

    /// Writes `truth` into the file, where `mine` is.
    fn keep(&self, truth: &Deployment, mine: &Deployment) -> Result<()> {
        if truth.revision <= mine.revision {
            return Ok(());
        }
        let hosts: Vec<&str> = truth.hosts().map(|member| member.name.0.as_str()).collect();
        tracing::info!(
            revision = truth.revision,
            hosts = hosts.join(","),
            "the hosts of the store"
        );
        failpoint::reach("description:keeping");
        truth.clone().single_as(mine).write(&self.path)
    }
}

fn has_left(host: &NodeId, truth: &Deployment) -> Error {
    let hosts: Vec<&str> = truth.hosts().map(|member| member.name.0.as_str()).collect();
    Error::Invalid(format!(
        "{host} has left the store, which is of the hosts {} now; delete what is left here with 'intarsia down --purge', and have the host join again with 'intarsia up --join'",
        hosts.join(", ")
    ))
}

/// Looks for newer descriptions until it is dropped.
pub(crate) struct Follower {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    pub(crate) fn start(description: Description) -> Result<Self> {
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("description".into()).spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = description.refresh() {
                    tracing::debug!(%error, "the deployment's description cannot be read now");
                }
            }
        });
        let thread = thread.map_err(|e| Error::io("start a thread", e))?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::examples::{member, store};
    use intarsia_meta::engines::MemoryEngine;
    use intarsia_meta::{Namespace, RootSpec};
    use intarsia_types::Timestamp;

    /// A store of three hosts, of which the third has left, by whose file of before the fourth joins.
    fn left() -> (tempfile::TempDir, Description, Deployment) {
        let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(4));
        let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
        Namespace::open(Arc::clone(&engine), root, Timestamp { secs: 0, nanos: 0 }).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let description = Description::new(&engine, &dir.path().join("deployment.toml"));
        let before = store(3);
        let shared = SharedDescription::open(&engine).unwrap().unwrap();
        let after = before.clone().without(&member(3).name).unwrap();
        assert!(shared.replace(None, &after.to_text().unwrap()).unwrap());
        (dir, description, before)
    }

    #[test]
    fn a_host_joins_by_the_description_of_before_another_left() {
        let (_dir, description, before) = left();
        let mine = before.with_joined(member(4)).unwrap();
        mine.write(&description.path).unwrap();
        let settled = description.settle(&mine, &member(4), true).unwrap();
        let names: Vec<_> = settled.hosts().map(|host| host.name.0.as_str()).collect();
        assert_eq!((names, settled.revision), (vec!["n1", "n2", "n4"], 2));
        assert_eq!(Deployment::read(&description.path).unwrap(), settled);
    }

    #[test]
    fn a_host_that_has_left_does_not_come_back_by_itself() {
        let (_dir, description, before) = left();
        let refused = description.settle(&before, &member(3), false).unwrap_err();
        assert!(refused.to_string().contains("n3 has left the store"), "{refused}");
    }
}
