//! `up`: check, start a node in the background, wait until it is ready.

mod around;

use std::path::Path;
use std::time::Duration;

use intarsia_cluster::claim::Claim;
use serde_json::json;

use super::advised::Advised;
use super::down::part;
use super::fleet;
use crate::cli::{Global, Up};
use crate::config::{self, Settings};
use crate::exit::{Exit, Failure, Outcome};
use crate::failpoint;
use crate::launch::{self, Orders, Ready};
use crate::made_dir;
use crate::output::{self, shell_quoted};
use crate::preflight::{self, Conditions, Plan};
use crate::registry::Registry;
use crate::tenure;

pub(crate) fn run(arguments: &Up, global: &Global) -> Outcome<Exit> {
    let mut hosts = fleet::Hosts::meant(&arguments.hosts)?;
    if !arguments.command.is_empty() && !arguments.dry_run {
        return around::run(arguments, hosts.is_some());
    }
    let advised = arguments.advice.as_deref().map(|path| follow(path, hosts.as_mut(), arguments));
    let advised = advised.transpose()?;
    let arguments = advised.as_ref().unwrap_or(arguments);
    if let Some(hosts) = hosts {
        return fleet::up(&hosts, arguments, global);
    }
    if arguments.meta.is_some() || arguments.discard || arguments.join.is_some() {
        return Err(Failure::usage(
            "--meta, --join and --discard are for a store of several hosts",
        )
        .with_help("name them with --hosts, or see 'intarsia up --help'"));
    }
    let settings = config::load(arguments.settings.layers(), global.config.as_deref())?.settings;
    if settings.replicas > 1 {
        output::warn("--replicas has no effect in a store of one host");
    }
    let conditions = Conditions {
        nonempty: arguments.place.nonempty,
        fuse_device: arguments.place.fuse_device.clone(),
    };
    let plan = preflight::inspect(&settings, &conditions, &Registry::of_user()?)?;
    plan.check_gone_tiers(&settings.name, arguments.accept_loss)?;
    if arguments.dry_run {
        show_plan(&settings, &plan, arguments.json)?;
        return Ok(Exit::Ok);
    }
    failpoint::on_host(&settings.name);
    let dir = settings.dir.clone();
    let made = made_dir::private(&dir).map_err(|e| Failure::io(dir.display(), &e))?;
    let claim = claim(&settings)?;
    failpoint::reach("up-here:claimed");
    let earlier = part::running_servers(&dir);
    let started = launch::start(
        &Orders {
            settings,
            conditions,
            log_format: global.log_format,
            bundle: None,
            assembly: None,
            discard: false,
            comes_first: true,
            named: Vec::new(),
        },
        || true,
    );
    let (ready, tether) = started.inspect_err(|_| {
        // A node that was killed has left its servers.
        if let Err(failure) = part::stop_servers(&dir, &earlier) {
            output::warn(&failure.message);
        }
        claim.remove();
        made_dir::forget_unfounded(&dir, &made);
    })?;
    failpoint::reach("up-here:started");
    tenure::let_stay(tether, &dir)?;
    failpoint::reach("up-here:stayed");
    announce(&ready, arguments.json)?;
    Ok(Exit::Ok)
}

/// What is asked for with what an advice recommends, which is told.
fn follow(path: &Path, hosts: Option<&mut fleet::Hosts>, given: &Up) -> Outcome<Up> {
    let mut advised = Advised::read(path)?;
    advised.choose_hosts(hosts)?;
    let (settings, meta_hosts) = advised.choose_settings(given);
    advised.tell();
    Ok(Up { settings, meta_hosts, ..given.clone() })
}

/// Keeps every other verb off the store's directory, and ends what an `up` that was killed left there.
fn claim(settings: &Settings) -> Outcome<Claim> {
    let claim = tenure::claim_for("up", &settings.dir, Duration::ZERO)?;
    tenure::end_leftover(&settings.dir, settings.wait)?;
    Ok(claim)
}

fn show_plan(settings: &Settings, plan: &Plan, as_json: bool) -> Outcome {
    if as_json {
        return output::json(&json!({ "settings": settings, "plan": plan }));
    }
    let mut lines = Vec::new();
    for mount in &plan.clear_stale_mounts {
        lines.push(format!("take away the mount of a dead node at {}", mount.display()));
    }
    if plan.make_mount_point {
        lines.push(format!("make the mount point {}", settings.mount.display()));
    }
    let verb = if plan.found_store { "make a new" } else { "open the" };
    lines.push(format!("{verb} store in {}", settings.dir.display()));
    lines.extend(settings.tiers.iter().map(|t| format!("keep files in {t}")));
    lines.push(format!("mount it at {}", settings.mount.display()));
    output::data(&format!("Would:\n  {}", lines.join("\n  ")))
}

/// Text for people to standard error, the line for `eval` to standard output.
fn announce(ready: &Ready, as_json: bool) -> Outcome {
    for note in &ready.notes {
        output::message(note);
    }
    if as_json {
        return output::json(ready);
    }
    let mount = ready.mount_point.display().to_string();
    output::message(&format!("The store is up at {mount} (node {}).", ready.pid));
    if let Some(reason) = ready.mode.get("reason").and_then(|r| r.as_str()) {
        let is_in_force = ready.mode.get("in_force") == Some(&true.into());
        let word = if is_in_force { "in force" } else { "not in force" };
        output::message(&format!("Passthrough is {word}: {reason}."));
    }
    output::message(&format!(
        "Data lies in {}. Take it down with: intarsia down {}",
        ready.dir.display(),
        shell_quoted(&mount)
    ));
    output::data(&format!("export INTARSIA_MOUNT={}", shell_quoted(&mount)))
}
