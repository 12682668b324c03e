//! The hosts that a verb means: named by flags, by a lab, or by the job that we are in.

use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Command, Stdio};
use std::time::Duration;

use intarsia_cluster::hosts::HostList;
use intarsia_cluster::launch::{Launch, Launcher, Task};
use intarsia_lab::{Lab, LabName};
use intarsia_types::NodeId;

use super::{general, usage};
use crate::cli::HostFlags;
use crate::exit::{Failure, Outcome};
use crate::process;

/// How long a program that knows addresses may take.
const LOOKUP: Duration = Duration::from_secs(8);

/// Hosts with their addresses, and how they are reached.
pub(crate) struct Hosts {
    pub(super) members: Vec<(NodeId, IpAddr)>,
    /// How this program is started on one of them.
    pub(super) launcher: Launcher,
    /// Whether a job of a batch system holds the hosts: what runs on them ends with it.
    pub(super) is_job: bool,
    /// Whether they may have one file system, so that each needs places of its own.
    pub(super) share_files: bool,
}

impl Hosts {
    /// The hosts that are meant; none when it is this host alone.
    pub(crate) fn meant(flags: &HostFlags) -> Outcome<Option<Self>> {
        if flags.this_host {
            return Ok(None);
        }
        let listed = match (&flags.hosts, &flags.hostfile) {
            (Some(text), _) => {
                Some(HostList::from_expression("--hosts", text).map_err(|e| usage(&e))?)
            }
            (None, Some(path)) => Some(HostList::from_file(path).map_err(|e| usage(&e))?),
            (None, None) => None,
        };
        if let Some(name) = &flags.lab {
            return Self::of_lab(name, listed.as_ref()).map(Some);
        }
        let job = job_hosts(variable)?;
        match listed.or_else(|| job.clone().filter(|list| list.hosts().len() > 1)) {
            Some(list) => Self::of_network(&list, job.as_ref(), flags).map(Some),
            None => Ok(None),
        }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.members.len()
    }

    /// Leaves all but the first ones out; the names of those.
    pub(crate) fn keep_first(&mut self, count: usize) -> Vec<String> {
        let rest = self.members.split_off(count.min(self.members.len()));
        rest.into_iter().map(|(host, _)| host.0).collect()
    }

    fn of_lab(name: &str, listed: Option<&HostList>) -> Outcome<Self> {
        let lab_name: LabName = name.parse().map_err(|e| usage(&e))?;
        let lab = Lab::open(&lab_name).map_err(|e| general(&e))?.ok_or_else(|| {
            Failure::usage(format!("there is no lab '{name}'; make one with 'intarsia lab up'"))
        })?;
        let wanted = match listed {
            Some(list) => list
                .hosts()
                .iter()
                .map(|host| lab.node(&host.0))
                .collect::<Result<_, _>>()
                .map_err(|e| usage(&e))?,
            None => lab.nodes().collect::<Vec<_>>(),
        };
        let members = wanted
            .into_iter()
            .map(|node| (NodeId(node.to_string()), IpAddr::V4(lab.address(node))))
            .collect();
        let words = ["lab", "exec", "--lab", name, "{host}", "--"].map(str::to_owned);
        let words = std::iter::once(program()?).chain(words).collect();
        Ok(Self { members, launcher: Launcher::Words(words), is_job: false, share_files: true })
    }

    fn of_network(list: &HostList, job: Option<&HostList>, flags: &HostFlags) -> Outcome<Self> {
        let hosts = list.hosts();
        let is_job = job.is_some_and(|job| hosts.iter().all(|h| job.hosts().contains(h)));
        let command = flags.ssh.clone().or_else(|| variable("INTARSIA_SSH"));
        let launcher = match command {
            Some(command) => Launcher::Ssh(ssh_words(&command)?),
            None if is_job && variable("SLURM_JOB_ID").is_some() => Launcher::Srun,
            None => Launcher::default(),
        };
        let addresses = match launcher {
            Launcher::Srun => slurm_addresses(hosts)?,
            _ => hosts.iter().map(|h| network_address(h, &launcher)).collect::<Outcome<_>>()?,
        };
        let share_files = addresses.iter().all(IpAddr::is_loopback);
        if let Some(at) = addresses.iter().position(IpAddr::is_loopback).filter(|_| !share_files) {
            let host = hosts.get(at).map_or("", |h| h.0.as_str());
            return Err(Failure::usage(format!(
                "host {host} has only a loopback address, by which no other host reaches it; see /etc/hosts"
            )));
        }
        let members = hosts.iter().cloned().zip(addresses).collect();
        Ok(Self { members, launcher, is_job, share_files })
    }

    /// This program on every host, with the arguments and the input that a host gets.
    pub(super) fn launch(
        &self,
        mut of: impl FnMut(&NodeId) -> Outcome<(Vec<String>, String)>,
    ) -> Outcome<Launch> {
        let program = program()?;
        let task = |(host, _): &(NodeId, IpAddr)| {
            let (arguments, input) = of(host)?;
            let command = std::iter::once(program.clone()).chain(arguments).collect();
            Ok(Task { host: host.clone(), command, input })
        };
        let tasks = self.members.iter().map(task).collect::<Outcome<_>>()?;
        Ok(Launch { launcher: self.launcher.clone(), tasks })
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The hosts of the job that we are in. A step of several tasks runs this program once for each of them,
/// so that each means its own host.
fn job_hosts(variable: impl Fn(&str) -> Option<String>) -> Outcome<Option<HostList>> {
    let tasks = variable("SLURM_STEP_NUM_TASKS").and_then(|n| n.parse::<u32>().ok());
    if tasks.is_some_and(|n| n > 1) {
        return Ok(None);
    }
    HostList::from_batch_system(variable).map_err(|e| usage(&e))
}

/// The words of a command as a shell would see them, without its expansions.
fn ssh_words(text: &str) -> Outcome<Vec<String>> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    words.ok_or_else(|| {
        Failure::usage(format!("--ssh: '{text}' is no command; write it as in 'ssh -p 2222'"))
    })
}

/// The address by which the others reach a host, as the resolver or the configuration of ssh has it.
fn network_address(host: &NodeId, launcher: &Launcher) -> Outcome<IpAddr> {
    resolved(&host.0).or_else(|why| {
        let alias = match launcher {
            Launcher::Ssh(words) => ssh_host_name(words, host),
            _ => None,
        };
        let address = alias.filter(|name| *name != host.0).and_then(|name| resolved(&name).ok());
        address.ok_or_else(|| {
            Failure::usage(format!("host {host} has no address ({why}); is the name right?"))
        })
    })
}

/// The address of a name, one of IPv4 and not of the loopback interface where there is a choice.
fn resolved(name: &str) -> Result<IpAddr, String> {
    let found = (name, 0).to_socket_addrs().map_err(|e| e.to_string())?;
    found
        .map(|address| address.ip())
        .min_by_key(|ip| (ip.is_loopback(), ip.is_ipv6()))
        .ok_or_else(|| "the resolver knows none".into())
}

/// The `HostName` of a host in the configuration of ssh.
fn ssh_host_name(words: &[String], host: &NodeId) -> Option<String> {
    let (program, options) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(options).args(["-G", "--", &host.0]);
    let said = answer(command)?;
    said.lines().find_map(|line| line.strip_prefix("hostname ").map(str::to_owned))
}

/// The addresses of hosts of a Slurm job: those by which the daemons of Slurm reach each other.
fn slurm_addresses(hosts: &[NodeId]) -> Outcome<Vec<IpAddr>> {
    let names: Vec<&str> = hosts.iter().map(|h| h.0.as_str()).collect();
    let mut command = Command::new("scontrol");
    command.args(["show", "node", "--oneliner", &names.join(",")]);
    let said = answer(command).unwrap_or_default();
    let field = |line: &str, name: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(name).map(str::to_owned))
    };
    let address = |host: &NodeId| {
        let line = said.lines().find(|line| field(line, "NodeName=").as_ref() == Some(&host.0));
        let name = line.and_then(|line| field(line, "NodeAddr="));
        resolved(name.as_deref().unwrap_or(&host.0)).map_err(|why| {
            Failure::usage(format!(
                "host {host} has no address ({why}); 'scontrol show node {host}' must show one as NodeAddr"
            ))
        })
    };
    hosts.iter().map(address).collect()
}

/// What a program writes, waited for no longer than [`LOOKUP`].
fn answer(mut command: Command) -> Option<String> {
    let output = process::bounded(LOOKUP, move || {
        command.stdin(Stdio::null()).stderr(Stdio::null()).output()
    })?;
    Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
}

/// This program, which must be at the same place on every host.
fn program() -> Outcome<String> {
    let path = std::env::current_exe().map_err(|e| Failure::io("find this program", &e))?;
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_names_its_hosts_and_a_step_of_several_tasks_does_not() {
        let job = |name: &str| (name == "SLURM_JOB_NODELIST").then(|| "n[1-2]".to_owned());
        assert_eq!(job_hosts(job).unwrap().unwrap().hosts().len(), 2);
        let step = |name: &str| match name {
            "SLURM_STEP_NUM_TASKS" => Some("2".to_owned()),
            other => job(other),
        };
        assert!(job_hosts(step).unwrap().is_none());
        assert!(job_hosts(|_| None).unwrap().is_none());
    }

    #[test]
    fn the_command_of_ssh_is_read_as_a_shell_would() {
        let words = ssh_words("ssh -o 'ProxyCommand=nc %h 22' -p 2222").unwrap();
        assert_eq!(words, ["ssh", "-o", "ProxyCommand=nc %h 22", "-p", "2222"]);
        assert!(ssh_words("ssh 'open").is_err());
        assert!(ssh_words(" ").is_err());
    }

    #[test]
    fn a_number_is_its_own_address() {
        assert_eq!(resolved("127.0.0.7").unwrap(), IpAddr::from([127, 0, 0, 7]));
    }
}
