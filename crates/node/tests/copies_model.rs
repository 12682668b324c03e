//! Random operations on three hosts with two copies of each file, against a model, while one of the hosts is
//! lost at a random point: what was acknowledged is there on all others, and what was not is old or new.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

mod deployment;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deployment::{
    Deployment, MIB, ROOT_CALLER, crash, get, no_kernel, pattern, regular, wait_until,
};
use intarsia_node::{AttrChange, Node, RenameMode, SetMode};
use intarsia_types::{Error, InodeId, Result};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const NAMES: [&str; 5] = ["v", "w", "x", "y", "z"];
/// Beside the inode, in one message, in several.
const LENGTHS: [usize; 5] = [0, 900, 20_000, 700_000, MIB + MIB / 3];

/// What a file may hold: the acknowledged content alone, or, after a failure, also what was tried.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: Option<Vec<u8>>,
    attempts: Vec<Option<Vec<u8>>>,
}

impl Known {
    fn allows(&self, found: Option<&[u8]>) -> bool {
        let is_start = |attempt: &Option<Vec<u8>>| match (attempt, found) {
            (Some(content), Some(found)) => content.starts_with(found),
            (None, found) => found.is_none(),
            (Some(_), None) => false,
        };
        self.acknowledged.as_deref() == found || self.attempts.iter().any(is_start)
    }

    fn note(&mut self, content: Option<Vec<u8>>, outcome: &Result<()>) {
        match outcome {
            Ok(()) => *self = Self { acknowledged: content, attempts: Vec::new() },
            Err(_) => self.attempts.push(content),
        }
    }
}

fn close(node: &Node, ino: InodeId, content: &[u8], at: usize) -> Result<()> {
    let mut outcome = Ok(());
    for (i, part) in content.chunks(MIB).enumerate() {
        outcome = outcome.and_then(|()| node.write(ino, (at + i * MIB) as u64, part, false, false));
    }
    let outcome = outcome.and_then(|()| node.flush(ino));
    node.release(ino, true);
    outcome
}

fn write_whole(node: &Node, name: &str, content: &[u8]) -> Result<()> {
    let name = name.as_bytes();
    let ino = match node.lookup(InodeId::ROOT, name) {
        Ok((attr, _)) => {
            node.open_file(ROOT_CALLER, attr.ino, true, true, &no_kernel)?;
            attr.ino
        }
        Err(Error::NotFound) => {
            let root = InodeId::ROOT;
            node.create_file(ROOT_CALLER, root, name, &regular(), true, &no_kernel)?.0.ino
        }
        Err(error) => return Err(error),
    };
    close(node, ino, content, 0)
}

fn append(node: &Node, name: &str, content: &[u8]) -> Result<()> {
    let (attr, _) = node.lookup(InodeId::ROOT, name.as_bytes())?;
    node.open_file(ROOT_CALLER, attr.ino, true, false, &no_kernel)?;
    let at = node.attributes(attr.ino)?.0.size_bytes;
    close(node, attr.ino, content, usize::try_from(at).unwrap())
}

struct Run {
    nodes: Vec<Arc<Node>>,
    model: BTreeMap<&'static str, Known>,
    rng: Xoshiro256PlusPlus,
    seed: u64,
}

impl Run {
    fn step(&mut self, number: usize) {
        let node = Arc::clone(&self.nodes[self.rng.random_range(0..self.nodes.len())]);
        let name = NAMES[self.rng.random_range(0..NAMES.len())];
        let len = LENGTHS[self.rng.random_range(0..LENGTHS.len())];
        let content = pattern(len, u8::try_from(number % 251).unwrap());
        let known = self.model.entry(name).or_default();
        match self.rng.random_range(0..10) {
            0..=3 => {
                let outcome = write_whole(&node, name, &content);
                known.note(Some(content), &outcome);
            }
            4 | 5 if known.attempts.is_empty() && known.acknowledged.is_some() => {
                let outcome = append(&node, name, &content);
                let mut whole = known.acknowledged.clone().unwrap();
                whole.extend_from_slice(&content);
                known.note(Some(whole), &outcome);
            }
            6 if known.attempts.is_empty() && known.acknowledged.is_some() => {
                let whole = known.acknowledged.clone().unwrap();
                let kept = self.rng.random_range(0..=whole.len());
                let (attr, _) = node.lookup(InodeId::ROOT, name.as_bytes()).unwrap();
                let size_bytes = Some(kept as u64);
                let cut = AttrChange { size_bytes, ..AttrChange::default() };
                // What truncate alone did is made safe by an fsync.
                let outcome = node.set_attributes(ROOT_CALLER, attr.ino, &cut).map(|_| ());
                let outcome = outcome.and_then(|()| append(&node, name, b"end"));
                let mut whole = whole[..kept].to_vec();
                // The cut may have been published without the end.
                if outcome.is_err() {
                    known.attempts.push(Some(whole.clone()));
                }
                whole.extend_from_slice(b"end");
                known.note(Some(whole), &outcome);
            }
            7 => {
                let outcome = match node.unlink(InodeId::ROOT, name.as_bytes()) {
                    Err(Error::NotFound) => Ok(()),
                    other => other,
                };
                known.note(None, &outcome);
            }
            8 => self.replace(&node, name, &content),
            _ => self.check(name),
        }
    }

    /// Writes a file of another name and puts it in the place of `name`.
    fn replace(&mut self, node: &Node, name: &'static str, content: &[u8]) {
        let root = InodeId::ROOT;
        let outcome = write_whole(node, "new", content)
            .and_then(|()| node.rename(root, b"new", root, name.as_bytes(), RenameMode::Replace));
        self.model.entry(name).or_default().note(Some(content.to_vec()), &outcome);
    }

    fn check(&self, name: &'static str) {
        let known = &self.model[name];
        for node in &self.nodes {
            let found = match get(node, name) {
                Ok(content) => Some(content),
                Err(Error::NotFound) => None,
                // Not known to be lost yet; or the failed attempt is all that is left at its host.
                Err(error) if !known.attempts.is_empty() => {
                    assert!([5, 16, 110, 113].contains(&error.errno()), "{error}");
                    continue;
                }
                Err(error) => {
                    panic!("seed {}: {name} at {}: {error}", self.seed, node.options().name)
                }
            };
            assert!(
                known.allows(found.as_deref()),
                "seed {}: {name} at {}: {:?} bytes, acknowledged {:?}, tried {:?}",
                self.seed,
                node.options().name,
                found.map(|f| f.len()),
                known.acknowledged.as_ref().map(Vec::len),
                known.attempts.iter().map(|a| a.as_ref().map(Vec::len)).collect::<Vec<_>>(),
            );
        }
    }
}

fn run(seed: u64) {
    let deployment = Deployment::watchful();
    let nodes = deployment.start_all(["a", "b", "c"]);
    for (hint, value) in [("replicas", "2"), ("close", "safe")] {
        let name = format!("user.intarsia.{hint}");
        let set = |node: &Node| {
            node.set_xattr(InodeId::ROOT, name.as_bytes(), value.as_bytes(), SetMode::Either)
        };
        set(&nodes[0]).unwrap();
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (steps, lost_at) = (60, rng.random_range(5..50));
    let victim = rng.random_range(0..3);
    let mut run = Run { nodes: nodes.to_vec(), model: BTreeMap::new(), rng, seed };
    drop(nodes);
    for number in 0..steps {
        if number == lost_at {
            let node = run.nodes.remove(victim);
            let name = node.options().name.clone();
            crash(node);
            if run.rng.random_bool(0.5) {
                let sees = |node: &Arc<Node>| !node.hosts_alive().contains(&name);
                wait_until("it is known to be lost", || run.nodes.iter().all(sees));
            }
        }
        run.step(number);
    }
    let known: Vec<_> = run.model.keys().copied().collect();
    known.iter().for_each(|name| run.check(name));
    // With both hosts that are left, everything can be written and has two copies again.
    for (number, name) in known.into_iter().enumerate() {
        let content = pattern(LENGTHS[3], u8::try_from(number).unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Err(error) = write_whole(&run.nodes[number % 2], name, &content) {
            assert!(Instant::now() < deadline, "seed {seed}: {name}: {error}");
        }
        let all = run.nodes[0].locate(&format!("/{name}")).unwrap().nodes;
        assert_eq!(all.len(), 2, "seed {seed}: {name}: {all:?}");
        run.nodes.iter().for_each(|node| assert_eq!(get(node, name).unwrap(), content));
    }
}

#[test]
fn nothing_acknowledged_is_lost_with_any_one_host() {
    let runs = if std::env::var_os("INTARSIA_LONG").is_some() { 200 } else { 6 };
    for seed in 0..runs {
        run(seed);
    }
}
