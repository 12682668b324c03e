//! Files that must survive: what was acknowledged, and whether it is there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::time::{Duration, Instant};

use intarsia_posix_tests::{Random, close, pattern};
use serde_json::Value;

use super::world::World;

/// In this directory every file has two copies when it is closed.
pub(crate) const DIR: &str = "kept";
const LARGEST: u64 = 200_000;
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(250);

/// Makes the directory, and some files by each host.
///
/// # Errors
/// What failed, in words.
pub(crate) fn prepare(world: &World, hosts: &[usize]) -> Result<Vec<String>, String> {
    let dir = world.mount(hosts[0]).join(DIR);
    patiently(|| fs::create_dir_all(&dir)).map_err(|e| format!("{}: {e}", dir.display()))?;
    let path = dir.display().to_string();
    let words = super::world::words(&["hint", "set", "replicas=2", "close=safe", &path]);
    patiently(|| {
        let said = world.say(&words, None);
        let refused = || io::Error::other(format!("{}: {}", said.command, said.text));
        (said.code == Some(0)).then_some(()).ok_or_else(refused)
    })
    .map_err(|e| e.to_string())?;
    more(world, hosts, 0)
}

/// Makes some more files by each host; others than in another `round`.
///
/// # Errors
/// What failed, in words.
pub(crate) fn more(world: &World, hosts: &[usize], round: u64) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for n in hosts {
        for len in [700, 90_000] {
            let host = u64::from(u32::try_from(*n).unwrap_or(0));
            let name = name_of((round * 10 + host) * 1000 + len, len);
            let path = world.mount(*n).join(DIR).join(&name);
            patiently(|| put(&path)).map_err(|e| format!("{}: {e}", path.display()))?;
            names.push(name);
        }
    }
    Ok(names)
}

/// The name of a file tells what it holds.
fn name_of(seed: u64, len: u64) -> String {
    format!("f-{seed}-{len}")
}

fn content_of(name: &str) -> Option<Vec<u8>> {
    let mut numbers = name.strip_prefix("f-")?.split('-');
    let (seed, len) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some(pattern(seed, len))
}

fn put(path: &Path) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let content = content_of(name).unwrap_or_default();
    let mut file = File::create(path)?;
    file.write_all(&content)?;
    close(file)
}

/// Writes files in `dir` and notes in `log` which were acknowledged, until `stop` is there or whoever started this is
/// gone.
///
/// # Errors
/// Of the log.
pub fn write_on(dir: &Path, log: &Path, stop: &Path, seed: u64) -> io::Result<()> {
    let mut log = File::options().create(true).append(true).open(log)?;
    let mut random = Random::new(seed);
    let parent = parent_id();
    while !stop.exists() && parent_id() == parent {
        let len = if random.below(2) == 0 { random.below(2000) } else { random.below(LARGEST) };
        let name = name_of(random.next() >> 8, len);
        match put(&dir.join(DIR).join(&name)) {
            Ok(()) => writeln!(log, "{name}")?,
            Err(_) => std::thread::sleep(PAUSE),
        }
        std::thread::sleep(Duration::from_millis(random.below(200)));
    }
    Ok(())
}

/// What a story may have lost by what it did to the hosts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Losses {
    None,
    /// Copies of files: `lost` names them.
    Copies,
    /// Names as well: `up` says which part of them, and goes on only if it is told to.
    Names,
}

/// What is wrong with these files on a host. What may be lost may give an error, and never wrong bytes.
pub(crate) fn verify(world: &World, n: usize, names: &[String], may_be: Losses) -> Vec<String> {
    let dir = world.mount(n).join(DIR);
    let mut lost: Option<Vec<String>> = None;
    let mut wrong = Vec::new();
    for name in names {
        match patiently(|| fs::read(dir.join(name))) {
            Ok(bytes) if Some(&bytes) == content_of(name).as_ref() => {}
            Ok(bytes) => wrong.push(format!("n{n}: {name} has {} other bytes", bytes.len())),
            Err(error) if may_be == Losses::Names && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let named = lost.get_or_insert_with(|| named_by_lost(world, n));
                let is_named = named.iter().any(|path| path.ends_with(name.as_str()));
                if may_be == Losses::None || !is_named {
                    let also = if is_named { ", and `lost` names it" } else { "" };
                    wrong.push(format!("n{n}: {name}: {error}{also}"));
                }
            }
        }
    }
    wrong
}

fn named_by_lost(world: &World, n: usize) -> Vec<String> {
    let said = world.say(&world.about(&["lost"], n, &["--json"]), None);
    let answer: Value = serde_json::from_str(&said.out).unwrap_or_default();
    let files = answer["files"].as_array().cloned().unwrap_or_default();
    files.iter().filter_map(|file| Some(file["path"].as_str()?.to_owned())).collect()
}

/// Whether each of these hosts takes a file, and the others see it.
pub(crate) fn work(world: &World, hosts: &[usize], number: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    for n in hosts {
        let name = name_of(number * 10 + *n as u64, 6000);
        if let Err(error) = patiently(|| put(&world.mount(*n).join(&name))) {
            wrong.push(format!("n{n} takes no file: {error}"));
            continue;
        }
        for other in hosts {
            match patiently(|| fs::read(world.mount(*other).join(&name))) {
                Ok(bytes) if Some(&bytes) == content_of(&name).as_ref() => {}
                Ok(_) => wrong.push(format!("n{other} sees other bytes in a file of n{n}")),
                Err(error) => wrong.push(format!("n{other} does not see a file of n{n}: {error}")),
            }
        }
    }
    wrong
}

fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}
