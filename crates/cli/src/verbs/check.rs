//! `check`: verify a store, through its node or without one.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use intarsia_types::TierId;
use serde::Deserialize;
use serde_json::Value;

use super::status::plain;
use crate::cli::Check;
use crate::config::{self, Layers, Settings, default_tier};
use crate::control::{self, Request};
use crate::ending::EndOrder;
use crate::exit::{Exit, Failure, Outcome};
use crate::registry::{Entry, Registry};
use crate::runtime::{CheckOptions, Store, tier_found_at};
use crate::{mounts, output, target};

pub(crate) fn run(arguments: &Check) -> Outcome<Exit> {
    let repair = arguments.repair && !arguments.dry_run;
    let options = CheckOptions { repair, content: arguments.content };
    let bar = progress_bar();
    let mut show = |value: Value| {
        if !value.is_null() {
            bar.set_message(format!(
                "{}: {}",
                plain(value.get("stage")),
                plain(value.get("records"))
            ));
        }
        bar.tick();
    };
    let report = match find(arguments.store.as_deref())? {
        Place::Running(entry) => control::call(
            &entry.socket,
            &Request::Check { repair, content: options.content },
            &mut show,
        )?,
        Place::Offline { dir, tiers } => check_offline(&dir, &tiers, options, &mut show)?,
    };
    bar.finish_and_clear();
    show_report(&report, arguments)
}

enum Place {
    Running(Box<Entry>),
    Offline { dir: PathBuf, tiers: Vec<PathBuf> },
}

fn find(path: Option<&Path>) -> Outcome<Place> {
    let registry = Registry::of_user()?;
    if let Some(path) = target::named(path) {
        let path = mounts::canonical(&path).map_err(|e| Failure::io(path.display(), &e))?;
        if registry.by_mount(&path).is_none() && path.join("store.json").exists() {
            return Ok(match registry.by_dir(&path).filter(|e| e.process.is_running()) {
                Some(entry) => Place::Running(Box::new(entry)),
                None => Place::Offline { dir: path, tiers: Vec::new() },
            });
        }
    }
    let entry = target::one(&registry, path)?;
    Ok(if entry.process.is_running() {
        Place::Running(Box::new(entry))
    } else {
        Place::Offline { dir: entry.dir, tiers: entry.tiers }
    })
}

/// The part of `store.json` that is read here.
#[derive(Deserialize)]
struct Identity {
    store: String,
    tiers: Vec<PathBuf>,
    #[serde(default)]
    is_volatile: bool,
}

/// Opens the store without mounting it; opening alone brings what a crash left into order.
fn check_offline(
    dir: &Path,
    tiers: &[PathBuf],
    options: CheckOptions,
    progress: &mut dyn FnMut(Value),
) -> Outcome<Value> {
    let store = Store::open(&offline_settings(dir, tiers)?, None)?;
    let report = store.check(options, progress);
    store.close(EndOrder::default(), &mut |_| {})?;
    report
}

fn offline_settings(dir: &Path, tiers: &[PathBuf]) -> Outcome<Settings> {
    let path = dir.join("store.json");
    let text = std::fs::read(&path).map_err(|e| Failure::io(path.display(), &e))?;
    let identity: Identity = serde_json::from_slice(&text)
        .map_err(|e| Failure::general(format!("{} is damaged: {e}", path.display())))?;
    if identity.is_volatile {
        return Err(Failure::not_running(format!(
            "{} was a store of durability memory; nothing of it is left to check",
            dir.display()
        )));
    }
    let mut settings = Settings::from_layers(&Layers::default())?;
    settings.dir = dir.to_owned();
    let dirs = if identity.tiers.is_empty() { tiers.to_vec() } else { identity.tiers };
    let places = (0..).zip(dirs).map(|(id, at)| place_of(TierId(id), at, dir, &identity.store));
    // One that is not there is no reason to make a new one in its place.
    let (there, gone): (Vec<_>, Vec<_>) = places.partition(|dir| dir.join("tier.json").exists());
    settings.tiers = there.iter().map(|dir| config::tier_at(dir)).collect();
    if !settings.tiers.is_empty() {
        return Ok(settings);
    }
    let Some(gone) = gone.first() else {
        settings.tiers.push(default_tier(dir));
        return Ok(settings);
    };
    Err(Failure::general(format!(
        "no tier of the store in {} is there, such as {}",
        dir.display(),
        gone.display()
    ))
    .with_help("are their disks mounted?"))
}

/// Where a tier is: at its recorded place, or below the store's directory if it was moved with that.
fn place_of(id: TierId, recorded: PathBuf, dir: &Path, store: &str) -> PathBuf {
    let below = default_tier(dir).dir;
    let is_moved =
        tier_found_at(&recorded, store).is_none() && tier_found_at(&below, store) == Some(id);
    if is_moved { below } else { recorded }
}

/// A spinner on a terminal, nothing elsewhere.
fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressBar::new_spinner().with_message("opening")
}

fn show_report(report: &Value, arguments: &Check) -> Outcome<Exit> {
    let is_clean = report.get("is_clean").and_then(Value::as_bool) == Some(true);
    if arguments.json {
        output::json(report)?;
    } else {
        let findings = report.get("findings").and_then(Value::as_array);
        for finding in findings.into_iter().flatten() {
            output::data(&plain(Some(finding)))?;
        }
        let style = output::Style::of_stdout();
        let verdict = if is_clean {
            style.good("The store is whole")
        } else {
            style.bad("The store is damaged")
        };
        output::data(&format!(
            "{verdict}: {} inodes, {} names, {}.",
            plain(report.get("inodes")),
            plain(report.get("names")),
            output::count(findings.map_or(0, Vec::len), "finding")
        ))?;
        if arguments.dry_run {
            output::message("Nothing was changed (--dry-run).");
        } else if !is_clean && !arguments.repair {
            output::message("'intarsia check --repair' mends what can be mended.");
        }
    }
    Ok(if is_clean { Exit::Ok } else { Exit::Degraded })
}
