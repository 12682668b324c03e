//! `stage`: files into a store, results out of it, and what a manifest says of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use intarsia_types::ByteCount;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::xattr;
use crate::cli::{StageAction, StageCopy, StageOut, StageStatus};
use crate::config::duration;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::stage::{
    Failed, Item, Job, Kind, Manifest, Recorded, Summary, Tree, What, run as copy, sum_file,
};

/// Failures that are printed one by one; all of them are in the JSON.
const SHOWN: usize = 20;

pub(crate) fn run(action: &StageAction) -> Outcome<Exit> {
    match action {
        StageAction::In(arguments) => {
            let places = Places::of(&arguments.copy)?;
            require_store(&places.destination)?;
            once("in", &places, &arguments.copy)
        }
        StageAction::Out(arguments) => {
            let places = Places::of(&arguments.copy)?;
            places
                .sources
                .iter()
                .try_for_each(|source| xattr::require_store(source).map(|_| ()))?;
            if arguments.follow {
                follow(&places, arguments)
            } else {
                once("out", &places, &arguments.copy)
            }
        }
        StageAction::Status(arguments) => status(arguments),
    }
}

/// The destination may have to be made; then what it is made in counts.
fn require_store(destination: &Path) -> Outcome {
    let there = destination.ancestors().find(|path| path.exists()).unwrap_or(destination);
    xattr::require_store(there).map(|_| ())
}

/// From where to where.
struct Places {
    sources: Vec<PathBuf>,
    destination: PathBuf,
}

impl Places {
    fn of(arguments: &StageCopy) -> Outcome<Self> {
        let Some((destination, sources)) = arguments.places.split_last() else {
            return Err(Failure::usage("name what to copy, and where to"));
        };
        let destination =
            std::path::absolute(destination).map_err(|e| Failure::io(destination.display(), &e))?;
        for source in sources {
            let real = source.canonicalize().map_err(|e| Failure::io(source.display(), &e))?;
            let into = destination.canonicalize().unwrap_or_else(|_| destination.clone());
            if real.is_dir() && into.starts_with(&real) {
                return Err(Failure::usage(format!(
                    "{} would be copied into itself, to {}",
                    source.display(),
                    destination.display()
                )));
            }
        }
        Ok(Self { sources: sources.to_vec(), destination })
    }

    /// What is there to copy now; no two things may have one name.
    fn tree(&self) -> Outcome<Tree> {
        let tree = Tree::of(&self.sources);
        let mut seen = BTreeSet::new();
        match tree.items.iter().find(|item| !seen.insert(&item.path)) {
            Some(twice) => Err(Failure::usage(format!(
                "two of the sources would become {}",
                self.destination.join(&twice.path).display()
            ))
            .with_help("copy them one after the other, to different directories")),
            None => Ok(tree),
        }
    }

    fn make_destination(&self) -> Outcome {
        std::fs::create_dir_all(&self.destination)
            .map_err(|e| Failure::io(format!("the destination {}", self.destination.display()), &e))
    }
}

fn open_manifest(places: &Places, arguments: &StageCopy) -> Outcome<(Option<Manifest>, Recorded)> {
    match &arguments.manifest {
        None => Ok((None, Recorded::default())),
        Some(path) => {
            let (manifest, recorded) = Manifest::open(path, &places.destination)?;
            Ok((Some(manifest), recorded))
        }
    }
}

fn once(direction: &str, places: &Places, arguments: &StageCopy) -> Outcome<Exit> {
    let started = Instant::now();
    let tree = places.tree()?;
    if arguments.dry_run {
        return show_plan(places, &tree, arguments.json);
    }
    places.make_destination()?;
    let (manifest, recorded) = open_manifest(places, arguments)?;
    let bar = progress_bar(tree.bytes());
    let summary = copy(
        &Job {
            destination: &places.destination,
            manifest: manifest.as_ref(),
            recorded: &recorded,
            threads: usize::from(arguments.jobs),
            progress: &|bytes| bar.inc(bytes),
        },
        &tree,
    );
    bar.finish_and_clear();
    report(direction, places, arguments, &summary, started.elapsed())
}

fn progress_bar(bytes: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let form = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar
}

fn show_plan(places: &Places, tree: &Tree, as_json: bool) -> Outcome<Exit> {
    let files = tree.files().count();
    if as_json {
        output::json(&json!({
            "destination": places.destination,
            "files": files,
            "bytes": tree.bytes(),
            "entries": tree.items.len(),
            "failed": tree.failed,
        }))?;
    } else {
        output::data(&format!(
            "would copy {} and {} in {} to {}",
            output::count(files, "file"),
            output::count(tree.items.len() - files, "other entry").replace("entrys", "entries"),
            ByteCount(tree.bytes()),
            places.destination.display()
        ))?;
        show_failed(&tree.failed);
    }
    Ok(if tree.failed.is_empty() { Exit::Ok } else { Exit::Failure })
}

fn report(
    direction: &str,
    places: &Places,
    arguments: &StageCopy,
    summary: &Summary,
    elapsed: Duration,
) -> Outcome<Exit> {
    if arguments.json {
        let mut value = serde_json::to_value(summary)
            .map_err(|e| Failure::general(format!("cannot write as JSON: {e}")))?;
        if let Some(fields) = value.as_object_mut() {
            fields.insert("direction".into(), direction.into());
            fields.insert("destination".into(), json!(places.destination));
            fields.insert("manifest".into(), json!(arguments.manifest));
            fields.insert("elapsed_s".into(), elapsed.as_secs_f64().into());
            fields.insert("is_whole".into(), summary.is_whole().into());
        }
        output::json(&value)?;
    } else {
        output::message(&format!(
            "{} in {}: {} copied, {} there already; all verified.",
            output::count(summary.files, "file"),
            ByteCount(summary.bytes),
            summary.copied,
            summary.files.saturating_sub(summary.copied)
        ));
    }
    show_failed(&summary.failed);
    if summary.not_tried > 0 {
        output::message(&format!(
            "{} was not tried, because the destination is full.",
            output::count(summary.not_tried, "file")
        ));
    }
    if summary.is_whole() {
        return Ok(Exit::Ok);
    }
    output::message("The same command goes on where this one ended.");
    Ok(Exit::Failure)
}

fn show_failed(failed: &[Failed]) {
    for one in failed.iter().take(SHOWN) {
        let path = one.path.path();
        output::failure(&Failure::general(format!("{}: {}", path.display(), one.error)));
    }
    if failed.len() > SHOWN {
        output::message(&format!("… and {} more; --json names all", failed.len() - SHOWN));
    }
}

/// By what it is told whether a file has been changed since it was copied.
type Seen = (u64, u64, i64, i64);

fn seen(item: &Item) -> Seen {
    let meta = &item.meta;
    (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

/// Copies what settles, round after round, until a signal comes; then once more.
fn follow(places: &Places, arguments: &StageOut) -> Outcome<Exit> {
    let every = duration(&arguments.every).map_err(|e| Failure::usage(format!("--every: {e}")))?;
    let started = Instant::now();
    let signal = signal()?;
    places.make_destination()?;
    let (manifest, recorded) = open_manifest(places, &arguments.copy)?;
    let mut drain = Drain::default();
    loop {
        let is_last = !matches!(signal.recv_timeout(every), Err(mpsc::RecvTimeoutError::Timeout));
        let tree = drain.choose(places.tree()?, is_last);
        if !tree.items.is_empty() || is_last {
            let job = Job {
                destination: &places.destination,
                manifest: manifest.as_ref(),
                recorded: &recorded,
                threads: usize::from(arguments.copy.jobs),
                progress: &|_| {},
            };
            drain.note(&tree, copy(&job, &tree));
        }
        if is_last {
            return report("out", places, &arguments.copy, &drain.total, started.elapsed());
        }
    }
}

/// Tells of the first signal that asks to end.
fn signal() -> Outcome<mpsc::Receiver<()>> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| Failure::io("signals", &e))?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let _ = sender.send(());
        }
    });
    Ok(receiver)
}

/// What a background copy has done so far.
#[derive(Default)]
struct Drain {
    done: HashMap<PathBuf, Seen>,
    total: Summary,
}

impl Drain {
    /// Leaves what is to be copied in this round: what has settled and changed. Directories only come along
    /// with something in them.
    fn choose(&self, mut tree: Tree, is_last: bool) -> Tree {
        let is_new = |item: &Item| self.done.get(&item.path) != Some(&seen(item));
        tree.items.retain(|item| match item.what {
            What::Directory => true,
            What::File => is_new(item) && is_settled(&item.source),
            What::Symlink(_) => is_new(item),
            // Its file may not have settled yet.
            What::HardLink(_) => is_last,
        });
        let mut needed = BTreeSet::new();
        for item in tree.items.iter().filter(|item| item.what != What::Directory) {
            needed.extend(item.path.ancestors().skip(1).map(Path::to_owned));
        }
        tree.items.retain(|item| item.what != What::Directory || needed.contains(&item.path));
        tree
    }

    fn note(&mut self, tree: &Tree, round: Summary) {
        let now: HashMap<&Path, &Item> =
            tree.items.iter().map(|item| (item.path.as_path(), item)).collect();
        for path in round.done {
            let Some(item) = now.get(path.as_path()) else { continue };
            let is_first = self.done.insert(path, seen(item)).is_none();
            if is_first && item.what == What::File {
                self.total.files += 1;
            } else if is_first {
                self.total.links += 1;
            }
        }
        self.total.bytes += round.bytes;
        self.total.copied += round.copied;
        self.total.copied_bytes += round.copied_bytes;
        self.total.directories = self.total.directories.max(round.directories);
        // What failed is tried again in each round, so the last one counts. What went meanwhile is no failure.
        self.total.not_tried = round.not_tried;
        self.total.failed =
            round.failed.into_iter().filter(|f| f.path.path().symlink_metadata().is_ok()).collect();
    }
}

/// Whether nobody can be writing to a file; what cannot be asked is left for later.
fn is_settled(path: &Path) -> bool {
    xattr::get(path, xattr::STATE_NAME).is_ok_and(|state| state.as_deref() == Some("settled"))
}

fn status(arguments: &StageStatus) -> Outcome<Exit> {
    let recorded = Recorded::read(&arguments.manifest)?;
    let mut by_kind: BTreeMap<&str, u64> = BTreeMap::new();
    let mut bytes = 0;
    for entry in recorded.entries.values() {
        let kind = match entry.kind {
            Kind::Directory => "directories",
            Kind::File => "files",
            Kind::Symlink | Kind::Hardlink => "links",
        };
        *by_kind.entry(kind).or_default() += 1;
        bytes += entry.bytes;
    }
    let wrong = if arguments.verify { verify(&recorded) } else { Vec::new() };
    if arguments.json {
        let mut value = json!({
            "destination": recorded.destination,
            "bytes": bytes,
            "is_verified": arguments.verify.then_some(wrong.is_empty()),
            "wrong": wrong,
        });
        for (kind, count) in &by_kind {
            value.as_object_mut().map(|v| v.insert((*kind).into(), Value::from(*count)));
        }
        output::json(&value)?;
    } else {
        let counts: Vec<String> = by_kind.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let state = match (arguments.verify, wrong.is_empty()) {
            (false, _) => "recorded as copied and verified",
            (true, true) => "as recorded",
            (true, false) => "recorded, but not all as recorded",
        };
        output::data(&format!(
            "{}: {} in {}, {state}",
            recorded.destination.display(),
            if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") },
            ByteCount(bytes)
        ))?;
        show_failed(&wrong);
    }
    Ok(if wrong.is_empty() { Exit::Ok } else { Exit::Degraded })
}

/// What is not as the manifest says.
fn verify(recorded: &Recorded) -> Vec<Failed> {
    let bar = progress_bar(recorded.entries.values().map(|entry| entry.bytes).sum());
    let mut wrong = Vec::new();
    for (path, entry) in &recorded.entries {
        let place = recorded.destination.join(path);
        let found = match (&entry.kind, &entry.target) {
            (Kind::File, _) => sum_file(&place).map(|sum| Some(sum) == entry.sum),
            (Kind::Symlink, Some(target)) => std::fs::read_link(&place).map(|t| t == target.path()),
            _ => place.symlink_metadata().map(|_| true),
        };
        bar.inc(entry.bytes);
        let error = match found {
            Ok(true) => continue,
            Ok(false) => "differs from the manifest".into(),
            Err(e) => e.to_string(),
        };
        wrong.push(Failed { path: place.as_path().into(), error });
    }
    bar.finish_and_clear();
    wrong
}
