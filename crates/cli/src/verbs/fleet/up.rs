//! `up` over several hosts, in steps that all take together: claim and look, start, stay.
//!
//! Until all hosts are up, each of them takes back what it began when this command ends, whatever the reason. A host
//! that is up already stays as it is, so the same command goes on where an earlier one, or a crash, has left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use intarsia_cluster::deployment::{Deployment, Engine, Member};
use intarsia_cluster::formation::Survival;
use intarsia_types::NodeId;
use serde_json::{Value, json};

use super::conversation::Conversation;
use super::join::Joined;
use super::roster;
use super::{Hosts, LOOK, Outcomes, checks, for_host, general, launcher, usage, worst};
use crate::assembly::Assembly;
use crate::cli::{Duty, Global, Up};
use crate::config::{self, Settings};
use crate::deployment::{self, Bundle, Existing};
use crate::exit::{Exit, Failure, Outcome};
use crate::failpoint;
use crate::launch::{Orders, Ready};
use crate::output;
use crate::preflight::Conditions;
use crate::verbs::agent::{Inspection, UpStep};

/// What the way to a host may take beyond the time that a node has.
const WAY: Duration = Duration::from_secs(15);
/// What a host may take to take back what it began.
const TAKE_BACK: Duration = Duration::from_secs(60);

/// What every host is told, and what was found there.
struct Request<'a> {
    hosts: &'a Hosts,
    arguments: &'a Up,
    /// The settings of each host.
    settings: BTreeMap<NodeId, Settings>,
    conditions: Conditions,
    log_format: crate::cli::LogFormat,
    wait: Duration,
}

/// Brings a store up on all hosts, or on none.
pub(crate) fn up(hosts: &Hosts, arguments: &Up, global: &Global) -> Outcome<Exit> {
    if arguments.discard && !hosts.is_job {
        return Err(Failure::usage("--discard is for a store that ends with a job")
            .with_help("take the store down with 'intarsia down --purge'"));
    }
    let settings = config::load(arguments.settings.layers(), global.config.as_deref())?.settings;
    checks::check(hosts, &settings, arguments)?;
    let request = Request::new(hosts, arguments, global, &settings)?;
    let joined = arguments.join.as_deref();
    let joined = joined.map(|mount| Joined::with(mount, hosts, arguments.port)).transpose()?;
    let new = match &joined {
        Some(joined) => joined.bundle.clone(),
        None => describe(hosts, &settings, arguments)?,
    };
    if arguments.dry_run {
        let seen = request.look(&new)?;
        let plan = plan(&request, joined.as_ref(), new, &seen)?;
        return request.show_plan(&seen, &plan);
    }
    failpoint::reach("up:began");
    let launch = hosts.agents(Duty::Up, |host| request.orders(host, Some(&new), None))?;
    let mut agents = Conversation::begin(&launch);
    agents.let_first_decide();
    let looked = looked(agents.hear(&request.names(), LOOK + request.wait, |_, _| {}));
    failpoint::reach("up:looked");
    let planned = looked.and_then(|seen| plan(&request, joined.as_ref(), new, &seen));
    let plan = match planned {
        Ok(plan) => plan,
        Err(failure) => {
            agents.end(TAKE_BACK);
            return Err(failure);
        }
    };
    if let Some(warning) = &plan.warning {
        output::warn(warning);
    }
    failpoint::reach("up:planned");
    let ready = if hosts.is_job {
        agents.end(TAKE_BACK);
        request.start_for_job(&plan)?
    } else {
        request.start(agents, &plan).map_err(|failure| request.explained(failure, &plan))?
    };
    failpoint::reach("up:stayed");
    joined.map_or(Ok(()), |joined| joined.record())?;
    request.announce(&ready, &plan)
}

/// What is to be done.
struct Plan {
    bundle: Bundle,
    assembly: Assembly,
    is_new: bool,
    /// The hosts whose nodes are to be started; the others are up.
    to_start: Vec<NodeId>,
    /// What the user must know before.
    warning: Option<String>,
}

fn plan(
    request: &Request<'_>,
    joined: Option<&Joined>,
    new: Bundle,
    seen: &BTreeMap<NodeId, Inspection>,
) -> Outcome<Plan> {
    let hosts = request.hosts;
    let to_start: Vec<NodeId> =
        seen.iter().filter(|(_, s)| s.running.is_none()).map(|(host, _)| host.clone()).collect();
    if to_start.is_empty() {
        return Err(already_up(request, seen));
    }
    if let Some(joined) = joined {
        let is_new = joined.check(seen)?;
        let deployment = new.deployment().map_err(|e| general(&e))?;
        let present = deployment.hosts().map(|m| m.name.clone()).collect();
        let assembly = Assembly { present, is_running: true, ..Assembly::default() };
        return Ok(Plan { bundle: new, assembly, is_new, to_start, warning: None });
    }
    match roster::found(seen)? {
        Some(mut store) => {
            check_meta_hosts(&store.deployment, request.arguments)?;
            let mut assembly = roster::assemble(&hosts.members, &store.deployment, seen)?;
            let accepts_loss = request.arguments.accept_loss;
            let more = roster::recover(&mut assembly, &mut store, seen, accepts_loss)?;
            let without = roster::without_tiers(seen, accepts_loss)?;
            let empty = roster::come_empty(&store.deployment, &to_start, seen);
            let warnings = roster::warning(&assembly).into_iter().chain(more);
            let warnings = warnings.chain(without).chain(empty);
            let warning = warnings.reduce(|a, b| format!("{a}\n{b}"));
            let bundle = store.bundle.describing(&store.deployment).map_err(|e| general(&e))?;
            Ok(Plan { bundle, assembly, is_new: false, to_start, warning })
        }
        None => {
            let present = hosts.members.iter().map(|(host, _)| host.clone()).collect();
            let assembly = Assembly { present, is_founding: true, ..Assembly::default() };
            let deployment = new.deployment().map_err(|e| general(&e))?;
            let survival = Survival::of(deployment.meta_members().count());
            let has_servers = deployment.engine == Engine::Servers;
            let warning = survival.warning(hosts.members.len()).filter(|_| has_servers);
            Ok(Plan { bundle: new, assembly, is_new: true, to_start, warning })
        }
    }
}

fn already_up(request: &Request<'_>, seen: &BTreeMap<NodeId, Inspection>) -> Failure {
    let mounts = seen.keys().filter_map(|host| request.settings.get(host));
    let first = mounts.map(|s| s.mount.display().to_string()).next().unwrap_or_default();
    let count = output::count(seen.len(), "host");
    Failure::busy(format!("the store is already up on {count}, as at {first}"))
        .with_help("use it as it is, or take it down with 'intarsia down' and the same hosts first")
}

/// What was seen on all hosts; a failure names all that stand in the way.
fn looked(answers: Outcomes<Inspection>) -> Outcome<BTreeMap<NodeId, Inspection>> {
    let mut seen = BTreeMap::new();
    let mut failures = Vec::new();
    for (host, answer) in answers {
        match answer {
            Ok(inspection) => drop(seen.insert(host, inspection)),
            Err(failure) => failures.push(failure),
        }
    }
    let versions: BTreeSet<&str> = seen.values().map(|s| s.version.as_str()).collect();
    let own = env!("CARGO_PKG_VERSION");
    if failures.is_empty() && versions.iter().any(|version| *version != own) {
        let other = |(host, seen): (&NodeId, &Inspection)| {
            (seen.version != own).then(|| format!("{host} has {}", seen.version))
        };
        let others: Vec<String> = seen.iter().filter_map(other).collect();
        return Err(Failure::usage(format!(
            "this is version {own}, but {}; install the same on every host",
            others.join(", ")
        )));
    }
    worst(failures).map_or(Ok(seen), Err)
}

impl<'a> Request<'a> {
    fn new(
        hosts: &'a Hosts,
        arguments: &'a Up,
        global: &Global,
        settings: &Settings,
    ) -> Outcome<Self> {
        let of_host = hosts.members.iter();
        let all: BTreeMap<NodeId, Settings> =
            of_host.map(|(host, _)| (host.clone(), for_host(settings, host))).collect();
        if hosts.share_files {
            let places = all.values().flat_map(|s| [(&s.name, &*s.mount), (&s.name, &*s.dir)]);
            checks::check_apart(places)?;
        }
        let conditions = Conditions {
            nonempty: arguments.place.nonempty,
            fuse_device: arguments.place.fuse_device.clone(),
        };
        let (log_format, wait) = (global.log_format, settings.wait);
        Ok(Self { hosts, arguments, settings: all, conditions, log_format, wait })
    }

    fn names(&self) -> Vec<NodeId> {
        self.hosts.members.iter().map(|(host, _)| host.clone()).collect()
    }

    fn orders(
        &self,
        host: &NodeId,
        bundle: Option<&Bundle>,
        assembly: Option<&Assembly>,
    ) -> Outcome<Orders> {
        let settings = self.settings.get(host);
        Ok(Orders {
            settings: settings.ok_or_else(|| Failure::general("a host without orders"))?.clone(),
            conditions: self.conditions.clone(),
            log_format: self.log_format,
            bundle: bundle.cloned(),
            assembly: assembly.cloned(),
            discard: self.arguments.discard,
            comes_first: self.hosts.members.first().is_some_and(|(first, _)| first == host),
            named: self.names(),
        })
    }

    /// Starts the nodes and has them stay once all of them are up.
    fn start(&self, mut agents: Conversation, plan: &Plan) -> Outcome<BTreeMap<NodeId, Ready>> {
        for (host, _) in &self.hosts.members {
            let step = if plan.to_start.contains(host) {
                let bundle = Box::new(plan.bundle.clone());
                UpStep::Start { bundle, assembly: plan.assembly.clone() }
            } else {
                UpStep::Quit
            };
            agents.tell(host, &step);
        }
        let started = agents.hear_all_or_none::<Ready>(&plan.to_start, self.wait + WAY);
        let ready = match all_ready(started) {
            Ok(ready) => ready,
            Err(failure) => {
                agents.end(TAKE_BACK);
                return Err(failure);
            }
        };
        failpoint::reach("up:started");
        for host in &plan.to_start {
            agents.tell(host, &UpStep::Stay);
        }
        failpoint::reach("up:staying");
        let stays: Outcomes<()> = agents.hear(&plan.to_start, LOOK, |_, _| {});
        let failures = stays.into_values().filter_map(Result::err).collect();
        match worst(failures) {
            None => Ok(ready),
            Some(failure) => Err(failure.with_help(
                "the other hosts are up; give the same command again to start the missing ones",
            )),
        }
    }

    /// Looks at all hosts, and leaves them as they are.
    fn look(&self, bundle: &Bundle) -> Outcome<BTreeMap<NodeId, Inspection>> {
        let orders = |host: &NodeId| self.orders(host, Some(bundle), None);
        let mut agents = Conversation::begin(&self.hosts.agents(Duty::Inspect, orders)?);
        looked(agents.hear(&self.names(), LOOK, |_, _| {}))
    }

    /// What it means that a host of a store which is up elsewhere did not start.
    fn explained(&self, failure: Failure, plan: &Plan) -> Failure {
        if !plan.assembly.is_running || self.arguments.join.is_some() {
            return failure;
        }
        let seen = self.look(&plan.bundle).ok();
        let Some(why) = seen.and_then(|seen| roster::beyond_repair(&seen)) else { return failure };
        Failure { message: format!("{}\n{why}", failure.message), ..failure }.with_help(
            "take the store down with 'intarsia down' and all its hosts, and bring it up again: then it begins with what is left",
        )
    }

    /// The same by a launcher that stays behind.
    fn start_for_job(&self, plan: &Plan) -> Outcome<BTreeMap<NodeId, Ready>> {
        let launch = self.hosts.agents(Duty::Keep, |host| {
            self.orders(host, Some(&plan.bundle), Some(&plan.assembly))
        })?;
        let launch = intarsia_cluster::launch::Launch {
            tasks: launch.tasks.into_iter().filter(|t| plan.to_start.contains(&t.host)).collect(),
            ..launch
        };
        all_ready(launcher::start(&launch, self.wait + WAY)?)
    }

    fn announce(&self, ready: &BTreeMap<NodeId, Ready>, plan: &Plan) -> Outcome<Exit> {
        let lines = self.hosts.members.iter();
        let lines = lines.filter_map(|(h, address)| Some((h, address, ready.get(h)?)));
        if self.arguments.json {
            let named: Vec<Value> = lines
                .map(|(host, address, ready)| {
                    json!({ "host": host.0, "address": address, "mount_point": ready.mount_point,
                            "dir": ready.dir, "pid": ready.pid, "mode": ready.mode })
                })
                .collect();
            output::json(&named)?;
            return Ok(Exit::Ok);
        }
        for (host, address, ready) in lines {
            ready.notes.iter().for_each(|note| output::message(&format!("{host}: {note}")));
            output::message(&format!("{host} ({address}): {}", ready.mount_point.display()));
        }
        let until = if self.hosts.is_job { ", until the job ends" } else { "" };
        output::message(&format!("{}{until}.", self.conclusion(ready.len(), plan)));
        let here = config::host_name();
        let first = self.hosts.members.first().and_then(|(host, _)| ready.get(host));
        if let Some(one) = ready.get(&NodeId(here)).or(first).or(ready.values().next()) {
            let mount = one.mount_point.display().to_string();
            output::data(&format!("export INTARSIA_MOUNT={}", output::shell_quoted(&mount)))?;
        }
        Ok(Exit::Ok)
    }

    /// What is so now, as a sentence without its end.
    fn conclusion(&self, started: usize, plan: &Plan) -> String {
        let all = output::count(plan.assembly.present.len(), "host");
        let some = output::count(started, "host");
        if self.arguments.join.is_some() {
            format!("{some} joined; the store has {all} now")
        } else if started < plan.assembly.present.len() {
            format!("{some} started; the store is up on {all}")
        } else {
            format!("The store is up on {all}")
        }
    }

    fn show_plan(&self, seen: &BTreeMap<NodeId, Inspection>, plan: &Plan) -> Outcome<Exit> {
        if self.arguments.json {
            let plans: BTreeMap<&str, _> =
                seen.iter().map(|(h, s)| (h.0.as_str(), &s.plan)).collect();
            let settings: Vec<&Settings> = self.settings.values().collect();
            output::json(&json!({ "hosts": settings, "plans": plans, "found": !plan.is_new }))?;
            return Ok(Exit::Ok);
        }
        let verb = if plan.is_new { "make a new" } else { "open the" };
        let line = |(host, address): &(NodeId, _)| {
            let settings = self.settings.get(host)?;
            let (dir, mount) = (settings.dir.display(), settings.mount.display());
            if !plan.to_start.contains(host) {
                return Some(format!("on {host} ({address}): nothing, it is up at {mount}"));
            }
            let what = format!("{verb} store in {dir}, mount it at {mount}");
            Some(format!("on {host} ({address}): {what}"))
        };
        let lines: Vec<String> = self.hosts.members.iter().filter_map(line).collect();
        output::data(&format!("Would:\n  {}", lines.join("\n  ")))?;
        if let Some(warning) = &plan.warning {
            output::warn(warning);
        }
        Ok(Exit::Ok)
    }
}

fn all_ready(started: Outcomes<Ready>) -> Outcome<BTreeMap<NodeId, Ready>> {
    let mut ready = BTreeMap::new();
    let mut failures = Vec::new();
    for (host, outcome) in started {
        match outcome {
            Ok(one) => drop(ready.insert(host, one)),
            Err(failure) => failures.push(failure),
        }
    }
    worst(failures).map_or(Ok(ready), Err)
}

/// The files of a new deployment of these hosts.
fn describe(hosts: &Hosts, settings: &Settings, arguments: &Up) -> Outcome<Bundle> {
    let server_port = arguments.port.checked_add(1).ok_or_else(|| {
        Failure::usage("--port: a node and its metadata servers need 9 ports from there on")
    })?;
    let members = hosts.members.iter().map(|(name, address)| Member {
        name: name.clone(),
        address: *address,
        node_port: arguments.port,
        server_port,
    });
    let existing = existing(arguments)?;
    let members = members.collect();
    if arguments.meta_hosts.is_some() && existing.url.is_some() {
        return Err(Failure::usage(
            "--meta-hosts is for servers that the hosts run themselves, and --meta or INTARSIA_META names others",
        ));
    }
    let described = Deployment::new(settings.durability, 1, existing.engine(), members)
        .and_then(|new| new.with_meta_hosts(arguments.meta_hosts));
    let mut described = described.map_err(|e| usage(&e))?;
    described.encrypt = arguments.encrypt;
    deployment::found(&described, &existing).map_err(|e| general(&e))
}

/// How many hosts have metadata servers is decided when a store is made.
fn check_meta_hosts(found: &Deployment, arguments: &Up) -> Outcome {
    let there = found.meta_members().count();
    match arguments.meta_hosts {
        Some(asked) if asked != there => Err(Failure::usage(format!(
            "--meta-hosts {asked}: the store that lies there was made with metadata servers on {there}"
        ))
        .with_help("leave --meta-hosts away; it is for new stores")),
        _ => Ok(()),
    }
}

/// The metadata servers that the user names.
fn existing(arguments: &Up) -> Outcome<Existing> {
    let url = arguments.meta.clone().or_else(|| std::env::var("INTARSIA_META").ok());
    let url = url.filter(|url| !url.is_empty());
    let authority = match &arguments.meta_ca {
        Some(_) if !url.as_ref().is_some_and(|url| url.starts_with("rediss://")) => {
            return Err(Failure::usage("--meta-ca is for servers named by --meta rediss://…"));
        }
        Some(path) => {
            let text = std::fs::read_to_string(path);
            Some(text.map_err(|e| Failure::io(path.display(), &e))?)
        }
        None => None,
    };
    Ok(Existing { url, authority })
}
