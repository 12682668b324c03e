//! `down` over several hosts, in three steps that all take together: ask, finish, stop.
//!
//! While somebody uses the mount of a host nothing has been stopped anywhere. The nodes of all hosts finish before the
//! first metadata server ends, so that none is left without. Each step can be interrupted and taken again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use intarsia_types::NodeId;

use super::conversation::Conversation;
use super::{Hosts, LOOK, Outcomes, checks, placed, worst};
use crate::cli::{Down, Duty};
use crate::exit::{Exit, Failure, Outcome};
use crate::failpoint;
use crate::output;
use crate::verbs::agent::{DownOrders, DownStep};
use crate::verbs::down::Progress;
use crate::verbs::down::part::{Manner, Standing};

/// A node shows every second that it works; one that shows nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(45);
/// What it may take by force to end other verbs on a host, and what they have begun.
const OTHERS: Duration = Duration::from_secs(30);
/// What metadata servers may take to end, and the data to be deleted.
const STOP: Duration = Duration::from_secs(120);

/// Takes the store down on all hosts.
pub(crate) fn down(hosts: &Hosts, mount: &Path, arguments: &Down, manner: Manner) -> Outcome<Exit> {
    let manner = Manner { keep_servers: true, ..manner };
    if hosts.share_files {
        let names = || hosts.members.iter().map(|(host, _)| host);
        let mounts: Vec<_> = names().map(|host| placed(mount, host)).collect();
        checks::check_apart(names().map(|host| &host.0).zip(mounts.iter().map(Path::new)))?;
    }
    let launch = hosts.agents(Duty::Down, |host| {
        Ok(DownOrders {
            host: host.0.clone(),
            mount: placed(mount, host).into(),
            dir: arguments.dir.as_deref().map(|dir| placed(dir, host).into()),
            manner,
        })
    })?;
    let mut agents = Conversation::begin(&launch);
    let all = agents.hosts().to_vec();
    let patience = if manner.force { LOOK + OTHERS } else { LOOK };
    let asked: Outcomes<Standing> = agents.hear(&all, patience, |_, _| {});
    failpoint::reach("down:asked");
    let standings = standings(asked, manner)?;
    if arguments.dry_run {
        return show_plan(&standings);
    }
    let present: Vec<NodeId> = standings.found.keys().cloned().collect();
    if present.is_empty() {
        return Err(worst(standings.unreachable)
            .unwrap_or_else(|| Failure::general("no host could be reached")));
    }
    if !standings.found.values().any(|s| !matches!(s, Standing::Nothing(_))) {
        return nothing(&standings.found, arguments.purge);
    }
    finish(&mut agents, &present, manner)?;
    failpoint::reach("down:finished");
    stop(&mut agents, &present)?;
    failpoint::reach("down:stopped");
    conclude(present.len(), standings.unreachable, arguments.purge)
}

/// How the hosts stand.
struct Standings {
    found: BTreeMap<NodeId, Standing>,
    unreachable: Vec<Failure>,
}

/// Fails when somebody is in the way on any host: then nothing is stopped on any.
fn standings(asked: Outcomes<Standing>, manner: Manner) -> Outcome<Standings> {
    let mut standings = Standings { found: BTreeMap::new(), unreachable: Vec::new() };
    let mut busy = Vec::new();
    for (host, answer) in asked {
        match answer {
            Ok(standing) => drop(standings.found.insert(host, standing)),
            Err(failure) if failure.exit == Exit::Busy => busy.push(failure),
            Err(failure) => standings.unreachable.push(failure),
        }
    }
    match worst(busy) {
        Some(mut failure) => {
            failure.message.push_str("\nNothing was stopped on any host.");
            // By force nobody who uses a mount is in the way; it is another verb.
            if !manner.force {
                failure.help = Some(
                    "end these programs and give the same command again; --force takes the mounts from them"
                        .into(),
                );
            }
            Err(failure)
        }
        None => Ok(standings),
    }
}

fn nothing(found: &BTreeMap<NodeId, Standing>, purge: bool) -> Outcome<Exit> {
    for (host, standing) in found {
        if let Standing::Nothing(why) = standing {
            output::message(&format!("{host}: {why}."));
        }
    }
    if !purge {
        output::message("There is nothing to take down.");
        return Ok(Exit::Ok);
    }
    Err(Failure::not_running("no store is known on these hosts, so nothing was deleted")
        .with_help("name its directory as for 'up', with --dir"))
}

fn finish(agents: &mut Conversation, present: &[NodeId], manner: Manner) -> Outcome {
    for host in present {
        agents.tell(host, &DownStep::Finish);
    }
    let mut shown: BTreeMap<NodeId, Progress> = BTreeMap::new();
    let patience = SILENCE.max(manner.patience + SILENCE);
    let finished: Outcomes<()> = agents.hear(present, patience, |host, doing| {
        shown.entry(host.clone()).or_default().show(&host.0, doing);
    });
    let (done, failures): (Vec<_>, Vec<_>) =
        finished.into_iter().partition(|(_, outcome)| outcome.is_ok());
    let failures: Vec<Failure> = failures.into_iter().filter_map(|(_, o)| o.err()).collect();
    let Some(mut failure) = worst(failures) else { return Ok(()) };
    let names: Vec<&str> = done.iter().map(|(host, _)| host.0.as_str()).collect();
    let ended = match names.as_slice() {
        [] => "No node has ended".to_owned(),
        names => format!("The nodes of {} have ended", names.join(", ")),
    };
    failure.message.push_str(&format!("\n{ended}; the metadata servers of all hosts go on."));
    failure.help = Some(
        "give the same command again, and it goes on from here; --force ends what does not end by itself"
            .into(),
    );
    Err(failure)
}

fn stop(agents: &mut Conversation, present: &[NodeId]) -> Outcome {
    for host in present {
        agents.tell(host, &DownStep::Stop);
    }
    let stopped: Outcomes<()> = agents.hear(present, STOP, |_, _| {});
    let failures: Vec<Failure> = stopped.into_values().filter_map(Result::err).collect();
    worst(failures).map_or(Ok(()), |failure| {
        Err(failure.with_help("give the same command again, and it goes on from here"))
    })
}

fn conclude(count: usize, unreachable: Vec<Failure>, purge: bool) -> Outcome<Exit> {
    let hosts = output::count(count, "host");
    output::message(&format!("The store is down on {hosts}."));
    let Some(failure) = worst(unreachable) else { return Ok(Exit::Ok) };
    let what = if purge { "what is there stays" } else { "what runs there goes on" };
    Err(failure
        .with_help(format!("{what}; give the same command again when the host can be reached")))
}

fn show_plan(standings: &Standings) -> Outcome<Exit> {
    let word = |standing: &Standing| match standing {
        Standing::Up => "unmount and end the node, then its metadata servers".to_owned(),
        Standing::ServersOnly => "end metadata servers that were left over".to_owned(),
        Standing::Down => "nothing: the store is not up there".to_owned(),
        Standing::Nothing(why) => format!("nothing: {why}"),
    };
    let lines = standings.found.iter().map(|(host, s)| format!("on {host}: {}", word(s)));
    output::data(&format!("Would:\n  {}", lines.collect::<Vec<_>>().join("\n  ")))?;
    for failure in &standings.unreachable {
        output::warn(&failure.message);
    }
    Ok(if standings.unreachable.is_empty() { Exit::Ok } else { Exit::Degraded })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::down;

    #[test]
    fn one_busy_host_keeps_all_others_up_and_is_named() {
        let asked: Outcomes<Standing> = [
            (NodeId("n1".into()), Ok(Standing::Up)),
            (NodeId("n2".into()), Err(Failure::busy("host n2: /mnt is in use by cat"))),
        ]
        .into();
        let failure = standings(asked.clone(), Manner::default()).err().unwrap();
        assert_eq!(failure.exit, Exit::Busy);
        assert!(failure.message.contains("n2") && failure.message.contains("Nothing was stopped"));
        // A host that is asked by force answers so only while another verb works there, and nobody goes past that.
        let forced = Manner { force: true, ..Manner::default() };
        assert_eq!(standings(asked, forced).err().unwrap().exit, Exit::Busy);
    }

    #[test]
    fn a_node_says_what_it_works_at() {
        let doing = serde_json::json!({ "doing": "summing", "file": "/a", "bytes_done": 1024,
            "bytes_total": 4096, "files_left": 2 });
        assert_eq!(down::in_words(&doing).unwrap(), "summing /a (1KiB of 4KiB), 2 files left");
    }
}
