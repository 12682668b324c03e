//! A lab: made, entered, cut and taken away.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use intarsia_types::{Error, Result};
use serde::Serialize;

use crate::call::Call;
use crate::cut::{self, Cut, Selection};
use crate::link;
use crate::name::{LabName, Node};
use crate::namespace::{self, Namespace};
use crate::occupant::{self, Occupant};
use crate::plan;
use crate::rate::Rate;
use crate::registry::{self, Claim, Entry, Phase};
use crate::spec::Spec;

/// How long to wait for another program that looks at the same lab, or is just removing it.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// A lab on this machine. One that was created is removed when it is dropped, with all processes in it,
/// unless it is kept; one that was opened stays.
pub struct Lab {
    spec: Spec,
    /// Held by the owner.
    claim: Option<Claim>,
}

/// How a lab stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Whole, until somebody takes it down.
    Up,
    /// It belongs to a program that runs, and goes with it.
    Owned,
    /// What a program left that died.
    Stale,
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Removal {
    /// The lab.
    pub name: LabName,
    /// How many namespaces it had, the hub included.
    pub namespaces: usize,
    /// The processes that were ended for it.
    pub ended: Vec<Occupant>,
}

impl Lab {
    /// Makes a lab that this process owns. What a dead program left of a lab of this name is removed first, its
    /// processes included.
    ///
    /// # Errors
    /// `Busy` when there is such a lab; `Io` without the rights or the tools. Then nothing is left of it.
    pub fn create(spec: Spec) -> Result<Self> {
        require_rights()?;
        let claim = take_claim(spec.name(), "give another name")?;
        if registry::entry(spec.name()).is_some_and(|e| e.phase == Phase::Kept) {
            return Err(Error::Busy(format!(
                "the lab '{0}' is up; take it down with 'intarsia lab down {0}', or give another name",
                spec.name()
            )));
        }
        clear_namespaces(&claim, spec.name(), true)?;
        // The entry comes before the first namespace, so that no namespace is without one.
        claim.write(&Entry { spec: spec.clone(), phase: Phase::Making })?;
        claim.write_hosts(&spec)?;
        // From here on dropping removes.
        let lab = Self { spec, claim: Some(claim) };
        for call in plan::creation(&lab.spec) {
            lab.claim.as_ref().map_or(Ok(()), |claim| call.run_under(claim.lock()))?;
        }
        lab.record(Phase::Owned)?;
        Ok(lab)
    }

    /// What [`Lab::create`] would call, in order.
    #[must_use]
    pub fn plan(spec: &Spec) -> Vec<Call> {
        plan::creation(spec)
    }

    /// Lets the lab outlive this process.
    ///
    /// # Errors
    /// `Io` when the registry cannot be written; then the lab is removed.
    pub fn keep(mut self) -> Result<()> {
        self.record(Phase::Kept)?;
        self.claim = None;
        Ok(())
    }

    fn record(&self, phase: Phase) -> Result<()> {
        let entry = Entry { spec: self.spec.clone(), phase };
        self.claim.as_ref().map_or(Ok(()), |claim| claim.write(&entry))
    }

    /// A lab that is up, or that another program owns; `None` when there is none.
    ///
    /// # Errors
    /// `Busy` while it is being made, and when it is what a dead program left.
    pub fn open(name: &LabName) -> Result<Option<Self>> {
        require_rights()?;
        let busy = |what: &str| Err(Error::Busy(format!("the lab '{name}' {what}")));
        let entry = match (standing(name)?, registry::entry(name)) {
            (None, _) => return Ok(None),
            (Some(Standing::Stale), _) => {
                return busy(&format!(
                    "was left half made by a program that died; remove it with 'intarsia lab down {name}'"
                ));
            }
            (_, Some(entry)) if entry.phase != Phase::Making => entry,
            _ => return busy("is just being made or removed; try again"),
        };
        Ok(Some(Self { spec: entry.spec, claim: None }))
    }

    /// All labs of this machine.
    ///
    /// # Errors
    /// `Io` without the rights to look.
    pub fn all() -> Result<BTreeMap<LabName, Standing>> {
        require_rights()?;
        let mut names = registry::names()?;
        names.extend(namespace::all()?.into_iter().map(|n| n.lab().clone()));
        let mut all = BTreeMap::new();
        for name in names {
            if let Some(standing) = standing(&name)? {
                all.insert(name, standing);
            }
        }
        Ok(all)
    }

    /// What it is.
    #[must_use]
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        self.spec.nodes()
    }

    /// The node of this name, such as `n3`.
    ///
    /// # Errors
    /// `Invalid` when there is none.
    pub fn node(&self, name: &str) -> Result<Node> {
        self.spec.node(name)
    }

    /// The address of a node in the lab.
    #[must_use]
    pub fn address(&self, node: Node) -> Ipv4Addr {
        self.spec.subnet().address(node)
    }

    /// A file in the form of `/etc/hosts` with the names of all nodes.
    #[must_use]
    pub fn hosts_file(&self) -> PathBuf {
        registry::hosts_path(self.spec.name())
    }

    /// A command that runs on a node: in its network, and in all else where the caller is. Its environment tells it
    /// `INTARSIA_LAB`, `INTARSIA_LAB_NODE`, `INTARSIA_LAB_ADDRESS` and `INTARSIA_LAB_HOSTS`.
    ///
    /// Its process is the program's own, so that signals and exit codes are as without a lab; only a program
    /// that cannot be started is told by exit code 127.
    pub fn command(&self, node: Node, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.namespace(node).command(program);
        command
            .env("INTARSIA_LAB", self.spec.name().as_str())
            .env("INTARSIA_LAB_NODE", node.to_string())
            .env("INTARSIA_LAB_ADDRESS", self.address(node).to_string())
            .env("INTARSIA_LAB_HOSTS", self.hosts_file());
        command
    }

    /// The same, and `getaddrinfo` knows the names of the nodes.
    ///
    /// Names come from `/etc/hosts` alone, and one of its own needs a mount namespace of its own: **what the program
    /// mounts is seen by its children only**, and what is mounted elsewhere after it started is seen by it only
    /// where mounts are shared, as systemd has them. So this is for programs that use a store that is up, not for
    /// those that mount one.
    pub fn command_with_names(&self, node: Node, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(node, "unshare");
        command
            .args(["--mount", "--propagation", "slave", "--", "sh", "-c"])
            .arg("mount --bind \"$INTARSIA_LAB_HOSTS\" /etc/hosts && exec \"$@\"")
            .arg("sh")
            .arg(program);
        command
    }

    /// Stops all that two nodes send each other.
    ///
    /// # Errors
    /// `Io` when `nft` fails.
    pub fn cut(&self, a: Node, b: Node) -> Result<()> {
        self.cut_selected(Selection::Between(a, b), None)
    }

    /// Stops what one node sends to another; the way back stays.
    ///
    /// # Errors
    /// `Io` when `nft` fails.
    pub fn cut_one_way(&self, from: Node, to: Node) -> Result<()> {
        self.cut_selected(Selection::FromTo(from, to), None)
    }

    /// Stops all that a node sends and receives.
    ///
    /// # Errors
    /// `Io` when `nft` fails.
    pub fn isolate(&self, node: Node) -> Result<()> {
        self.cut_selected(Selection::Of(node), None)
    }

    /// Cuts links, for a time or until they are healed. What is cut already gets the new time. The kernel keeps the
    /// time, so that a cut ends although the program that made it has died.
    ///
    /// # Errors
    /// `Io` when `nft` fails.
    pub fn cut_selected(&self, selection: Selection, time: Option<Duration>) -> Result<()> {
        let pairs = self.pairs(selection);
        if pairs.is_empty() {
            Ok(())
        } else {
            cut::cut(self.spec.name(), &pairs, time).output().map(drop)
        }
    }

    /// Heals all links.
    ///
    /// # Errors
    /// `Io` when `nft` fails.
    pub fn heal(&self) -> Result<()> {
        cut::heal_all(self.spec.name()).output().map(drop)
    }

    /// Heals links, cut or not.
    ///
    /// # Errors
    /// `Io` when `nft` fails.
    pub fn heal_selected(&self, selection: Selection) -> Result<()> {
        let pairs = self.pairs(selection);
        if pairs.is_empty() {
            Ok(())
        } else {
            cut::heal(self.spec.name(), &pairs).output().map(drop)
        }
    }

    fn pairs(&self, selection: Selection) -> Vec<(Node, Node)> {
        // A node's way to itself is its loopback, which no switch can cut.
        selection.pairs(&self.spec).into_iter().filter(|(a, b)| a != b).collect()
    }

    /// What is cut now.
    ///
    /// # Errors
    /// `Io` when `nft` fails.
    pub fn cuts(&self) -> Result<Vec<Cut>> {
        cut::cuts(self.spec.name())
    }

    /// Changes the rate of a node's link in both directions; `None` makes it as fast as the machine.
    ///
    /// # Errors
    /// `Io` when `tc` fails.
    pub fn set_rate(&self, node: Node, rate: Option<Rate>) -> Result<()> {
        link::change(self.spec.name(), node, rate).iter().try_for_each(|c| c.output().map(drop))
    }

    /// The rates in force.
    ///
    /// # Errors
    /// `Io` when `tc` fails.
    pub fn rates(&self) -> Result<BTreeMap<Node, Option<Rate>>> {
        Ok(link::rates(self.spec.name())?.into_iter().collect())
    }

    /// The processes that run on its nodes.
    ///
    /// # Errors
    /// `Io` when `/proc` cannot be read.
    pub fn occupants(&self) -> Result<Vec<Occupant>> {
        occupant::inside(&namespace::of_lab(self.spec.name())?)
    }

    /// Removes a lab, whole or not, whoever made it. `None` when there is nothing of it.
    ///
    /// # Errors
    /// `Busy` when processes run in it and `kill` is not set, when they cannot be ended within 10 s, and when it
    /// belongs to a program that runs.
    pub fn remove(name: &LabName, kill: bool) -> Result<Option<Removal>> {
        require_rights()?;
        if standing(name)?.is_none() {
            return Ok(None);
        }
        clear(&take_claim(name, "end that program")?, name, kill).map(Some)
    }

    fn namespace(&self, node: Node) -> Namespace {
        Namespace::of_node(self.spec.name(), node)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            // What fails here is stale afterwards, and the next lab of this name or `lab down --stale` removes it.
            let _ = clear(&claim, self.spec.name(), true);
        }
    }
}

/// Removes the labs that programs left that died; with `kill` also those in which processes still run.
///
/// # Errors
/// `Busy` naming the first lab that could not be removed; the others are removed all the same.
pub fn remove_stale(kill: bool) -> Result<Vec<Removal>> {
    let mut removed = Vec::new();
    let mut first_failure = None;
    for (name, standing) in Lab::all()? {
        if standing != Standing::Stale {
            continue;
        }
        match Lab::remove(&name, kill) {
            Ok(removal) => removed.extend(removal),
            Err(e) => first_failure = first_failure.or(Some(e)),
        }
    }
    first_failure.map_or(Ok(removed), Err)
}

/// `None` when there is nothing of a lab of this name.
fn standing(name: &LabName) -> Result<Option<Standing>> {
    let entry = registry::entry(name);
    if entry.as_ref().is_some_and(|e| e.phase == Phase::Kept) {
        return Ok(Some(Standing::Up));
    }
    if entry.is_none() && namespace::of_lab(name)?.is_empty() {
        return Ok(None);
    }
    // A free lock means that nobody lives who would finish it or take it away. What this look made goes again.
    let Some(claim) = Claim::take(name)? else { return Ok(Some(Standing::Owned)) };
    match registry::entry(name) {
        Some(entry) if entry.phase == Phase::Kept => return Ok(Some(Standing::Up)),
        None if namespace::of_lab(name)?.is_empty() => claim.remove()?,
        _ => return Ok(Some(Standing::Stale)),
    }
    Ok(None)
}

/// Takes the lock, or says that somebody alive holds it and `fix`.
fn take_claim(name: &LabName, fix: &str) -> Result<Claim> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(claim) = Claim::take(name)? {
            return Ok(claim);
        }
        if Instant::now() >= deadline {
            return Err(Error::Busy(format!(
                "the lab '{name}' belongs to a program that runs; {fix}"
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Removes all that there is of a lab, under its claim.
fn clear(claim: &Claim, name: &LabName, kill: bool) -> Result<Removal> {
    let removal = clear_namespaces(claim, name, kill)?;
    claim.remove()?;
    Ok(removal)
}

fn clear_namespaces(claim: &Claim, name: &LabName, kill: bool) -> Result<Removal> {
    let namespaces = namespace::of_lab(name)?;
    let ended = match kill {
        true => occupant::end(&namespaces)?,
        false => refuse_occupied(name, &namespaces)?,
    };
    if !namespaces.is_empty() {
        plan::removal(&namespaces).run_under(claim.lock())?;
    }
    let left = namespace::of_lab(name)?;
    if !left.is_empty() {
        let names: Vec<String> = left.iter().map(Namespace::name).collect();
        return Err(Error::Busy(format!(
            "these namespaces cannot be removed: {}",
            names.join(", ")
        )));
    }
    Ok(Removal { name: name.clone(), namespaces: namespaces.len(), ended })
}

fn refuse_occupied(name: &LabName, namespaces: &[Namespace]) -> Result<Vec<Occupant>> {
    let occupants = occupant::inside(namespaces)?;
    if occupants.is_empty() {
        return Ok(occupants);
    }
    let list = occupant::listed(&occupants);
    Err(Error::Busy(format!("processes run in the lab '{name}': {list}; end them, or give --kill")))
}

/// Making namespaces and links takes CAP_SYS_ADMIN and CAP_NET_ADMIN.
fn require_rights() -> Result<()> {
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let held = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    if held & (NET_ADMIN | SYS_ADMIN) == NET_ADMIN | SYS_ADMIN {
        return Ok(());
    }
    let what = "a lab needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) to make network namespaces; run it with sudo";
    Err(Error::io(what, std::io::ErrorKind::PermissionDenied.into()))
}
