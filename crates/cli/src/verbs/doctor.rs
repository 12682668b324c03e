//! `doctor`: what a bug report needs, and what stands in the way of a store.

use std::path::{Path, PathBuf};
use std::process::Command;

use intarsia_types::ByteCount;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::config::shown;
use super::status::{self, Seen, State};
use crate::cli::{Doctor, Global};
use crate::config::{self, Config, Layers};
use crate::exit::{Exit, Outcome};
use crate::launch::{last_lines, log_path};
use crate::mounts::{self, Health, MountEntry};
use crate::output::{self, Style};
use crate::process::{find_program, has_sys_admin, is_root};
use crate::registry::Registry;
use crate::{preflight, target};

/// Log lines shown of each store.
const LOG_LINES: usize = 20;
/// Open files that a store under load can need.
const FILES_WANTED: u64 = 4096;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// A fact.
    Info,
    /// As it should be.
    Good,
    /// A store works, but something deserves attention.
    Warning,
    /// No store can be mounted.
    Bad,
}

#[derive(Serialize)]
struct Finding {
    level: Level,
    name: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Serialize)]
struct Section {
    name: &'static str,
    findings: Vec<Finding>,
}

pub(crate) fn run(arguments: &Doctor, global: &Global) -> Outcome<Exit> {
    let config = config::load(Layers::default(), global.config.as_deref());
    let stores = stores();
    let sections = [
        Section { name: "Program", findings: program() },
        Section { name: "Host", findings: host() },
        Section { name: "FUSE", findings: fuse(&arguments.fuse_device) },
        Section { name: "Passthrough", findings: passthrough() },
        Section { name: "Limits", findings: limits() },
        Section { name: "Configuration", findings: configuration(config.as_ref()) },
        Section { name: "Directories", findings: directories(config.as_ref().ok(), &stores) },
        Section { name: "Stores", findings: store_states(&stores) },
        Section { name: "Logs", findings: logs(config.as_ref().ok(), &stores) },
    ];
    if arguments.json {
        output::json(&sections)?;
    } else {
        output::data(&sections.iter().map(text).collect::<String>())?;
    }
    let has = |level| sections.iter().flat_map(|s| &s.findings).any(|f| f.level == level);
    Ok(match (has(Level::Bad), has(Level::Warning)) {
        (true, _) => Exit::Failure,
        (_, true) => Exit::Degraded,
        _ => Exit::Ok,
    })
}

fn finding(level: Level, name: impl Into<String>, value: impl Into<String>) -> Finding {
    Finding { level, name: name.into(), value: value.into(), fix: None }
}

fn info(name: impl Into<String>, value: impl Into<String>) -> Finding {
    finding(Level::Info, name, value)
}

impl Finding {
    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

fn text(section: &Section) -> String {
    let style = Style::of_stdout();
    let mut text = format!("{}\n", style.bold(section.name));
    for f in &section.findings {
        let mark = match f.level {
            Level::Info => " ".to_owned(),
            Level::Good => style.good("+"),
            Level::Warning => style.warning("!"),
            Level::Bad => style.bad("x"),
        };
        let value = f.value.replace('\n', "\n      ");
        text.push_str(&format!("  {mark} {}: {value}\n", f.name));
        if let Some(fix) = &f.fix {
            text.push_str(&format!("      fix: {fix}\n"));
        }
    }
    text.push('\n');
    text
}

fn program() -> Vec<Finding> {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let commit = option_env!("INTARSIA_COMMIT").unwrap_or("unknown");
    let path = std::env::current_exe().unwrap_or_default();
    vec![
        info("version", env!("CARGO_PKG_VERSION")),
        info("build", format!("{build}, {}, commit {commit}", std::env::consts::ARCH)),
        info("program", path.display().to_string()),
    ]
}

fn host() -> Vec<Finding> {
    let uname = rustix::system::uname();
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let user =
        if is_root() { "root".to_owned() } else { rustix::process::geteuid().as_raw().to_string() };
    vec![
        info("kernel", uname.release().to_string_lossy()),
        info("system", name.unwrap_or("unknown").trim_matches('"')),
        info("cores", cores.to_string()),
        info("container", if preflight::in_container() { "yes" } else { "no" }),
        info(
            "user",
            format!("{user}{}", if has_sys_admin() { ", with CAP_SYS_ADMIN" } else { "" }),
        ),
    ]
}

fn fuse(device: &Path) -> Vec<Finding> {
    let mut findings = vec![device_state(device), helper(), module()];
    let allows = preflight::fuse_conf_allows_other();
    let word = if allows { "set" } else { "not set" };
    findings.push(info("user_allow_other in /etc/fuse.conf", word));
    let settings = config::load(Layers::default(), None).map(|c| c.settings);
    if let Ok(settings) = settings {
        findings.push(match preflight::check_fuse(&settings, device) {
            Ok(()) => finding(Level::Good, "mounting", "possible"),
            Err(failure) => {
                let bad = finding(Level::Bad, "mounting", failure.message);
                Finding { fix: failure.help, ..bad }
            }
        });
    }
    findings
}

fn device_state(device: &Path) -> Finding {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    match std::fs::metadata(device) {
        Ok(meta) => {
            let mode = meta.permissions().mode() & 0o777;
            info(device.display().to_string(), format!("mode {mode:03o}, owner {}", meta.uid()))
        }
        Err(error) => info(device.display().to_string(), error.to_string()),
    }
}

fn helper() -> Finding {
    let Some(path) = find_program("fusermount3") else {
        let level = if has_sys_admin() { Level::Info } else { Level::Bad };
        return finding(level, "fusermount3", "not found").fix("install the package fuse3");
    };
    let output = Command::new(&path).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let version = text.trim().rsplit(' ').next().unwrap_or_default();
    info("fusermount3", format!("{version} ({})", path.display()))
}

fn module() -> Finding {
    let kinds = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let is_there = kinds.lines().any(|l| l.split_whitespace().last() == Some("fuse"));
    if is_there {
        finding(Level::Good, "kernel module", "loaded")
    } else {
        finding(Level::Warning, "kernel module", "not loaded").fix("as root: modprobe fuse")
    }
}

/// What speaks for and against passthrough here; the node finds out by trying.
fn passthrough() -> Vec<Finding> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let is_new = kernel_version(&release).is_some_and(|v| v >= (6, 9));
    let kernel = if is_new {
        finding(Level::Good, "kernel", format!("{release} offers it"))
    } else {
        info("kernel", format!("{release} is older than 6.9: the write-back path serves all I/O"))
    };
    let privilege = if has_sys_admin() {
        finding(Level::Good, "privilege", "CAP_SYS_ADMIN is there")
    } else {
        info("privilege", "without CAP_SYS_ADMIN: the write-back path serves all I/O")
            .fix("let root (a prolog, a privileged container) run 'intarsia up'")
    };
    vec![kernel, privilege]
}

fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn limits() -> Vec<Finding> {
    let files = getrlimit(Resource::Nofile);
    let show = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |n| n.to_string());
    let value = format!("{} (at most {})", show(files.current), show(files.maximum));
    let is_enough = files.maximum.is_none_or(|n| n >= FILES_WANTED);
    let files = if is_enough {
        finding(Level::Good, "open files", value)
    } else {
        finding(Level::Warning, "open files", value).fix(format!(
            "raise the hard limit to {FILES_WANTED} or more: ulimit -Hn, limits.conf, LimitNOFILE="
        ))
    };
    vec![files, info("memory", memory())]
}

fn memory() -> String {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(ByteCount::kib(kib).to_string())
    };
    let show = |name| field(name).unwrap_or_else(|| "?".into());
    format!("{} of {} available", show("MemAvailable:"), show("MemTotal:"))
}

fn configuration(config: Result<&Config, &crate::exit::Failure>) -> Vec<Finding> {
    let config = match config {
        Ok(config) => config,
        Err(failure) => {
            let bad = finding(Level::Bad, "not usable", failure.message.clone());
            return vec![Finding { fix: failure.help.clone(), ..bad }];
        }
    };
    let file = config.file.as_ref().map_or("none".to_owned(), |f| f.display().to_string());
    let mut findings = vec![info("file", file)];
    let row = |s: super::config::Shown| info(s.key, format!("{}  ({})", s.value, s.source));
    findings.extend(shown(config).into_iter().map(row));
    findings
}

/// The file systems under the store directories and tiers: those configured and those in use.
fn directories(config: Option<&Config>, stores: &[Seen]) -> Vec<Finding> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    if let Some(config) = config {
        dirs.push(config.settings.dir.clone());
        dirs.extend(config.settings.tiers.iter().map(|t| t.dir.clone()));
    }
    for seen in stores {
        dirs.push(seen.entry.dir.clone());
        dirs.extend(seen.entry.tiers.iter().cloned());
    }
    dirs.sort();
    dirs.dedup();
    dirs.iter().map(|d| directory(d)).collect()
}

fn directory(dir: &Path) -> Finding {
    let name = dir.display().to_string();
    let Some(existing) = dir.ancestors().find(|a| a.exists()) else {
        return finding(Level::Warning, name, "cannot be reached");
    };
    let kind = file_system(existing).unwrap_or_else(|| "unknown file system".into());
    let space = rustix::fs::statvfs(existing).map_or_else(
        |e| e.to_string(),
        |v| {
            let free = ByteCount(v.f_bavail.saturating_mul(v.f_frsize));
            let all = ByteCount(v.f_blocks.saturating_mul(v.f_frsize));
            format!("{free} of {all} free")
        },
    );
    let made = if existing == dir { "" } else { ", made by 'up'" };
    let carries =
        if kind == "overlay" || kind.starts_with("fuse") { ", no passthrough on it" } else { "" };
    info(name, format!("{kind}{carries}, {space}{made}"))
}

fn file_system(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let carrying = mounts::table().into_iter().filter(|m| real.starts_with(&m.mount_point));
    carrying.max_by_key(|m| m.mount_point.components().count()).map(|m| m.kind)
}

fn stores() -> Vec<Seen> {
    let entries = Registry::of_user().map(|r| r.entries()).unwrap_or_default();
    entries.into_iter().map(status::look).collect()
}

fn store_states(stores: &[Seen]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = stores.iter().map(store_state).collect();
    let is_registered =
        |m: &MountEntry| stores.iter().any(|s| s.entry.mount_point == m.mount_point);
    for mount in mounts::table().iter().filter(|m| m.is_ours() && !is_registered(m)) {
        findings.push(unregistered(mount));
    }
    if let Some(named) = target::named(None).filter(|n| mounts::at(n).is_none()) {
        findings.push(info("INTARSIA_MOUNT", format!("{} is no mount", named.display())));
    }
    if findings.is_empty() {
        findings.push(info("stores", "none is up"));
    }
    findings
}

fn store_state(seen: &Seen) -> Finding {
    let mount = seen.entry.mount_point.display().to_string();
    let place = format!("pid {}, {}", seen.entry.process.pid, seen.entry.dir.display());
    match &seen.state {
        State::Up(facts) => {
            let mut lines = vec![format!("up, {place}, since {}", seen.entry.started)];
            lines.extend(status::facts(facts).iter().map(|row| row.join("  ").trim().to_owned()));
            finding(Level::Good, mount, lines.join("\n"))
        }
        State::Silent(failure) => {
            finding(Level::Warning, mount.clone(), format!("silent, {place}: {}", failure.message))
                .fix(format!("intarsia down {mount} --force"))
        }
        State::Dead => {
            finding(Level::Warning, mount.clone(), format!("stale: its node is dead, {place}"))
                .fix(format!("intarsia down {mount}"))
        }
    }
}

fn unregistered(mount: &MountEntry) -> Finding {
    let shown = mount.mount_point.display().to_string();
    match mounts::health(&mount.mount_point) {
        Health::Alive => info(shown, "a store of another user or registry"),
        Health::Dead => finding(Level::Warning, shown.clone(), "the mount of a dead node")
            .fix(format!("intarsia down {shown}")),
        Health::Hung => finding(Level::Warning, shown.clone(), "a mount that does not answer")
            .fix(format!("intarsia down {shown} --force")),
    }
}

/// The last lines of the logs: of every store that is up, and of the one that is configured.
fn logs(config: Option<&Config>, stores: &[Seen]) -> Vec<Finding> {
    let configured = config.map(|c| &c.settings.dir);
    let mut dirs: Vec<&PathBuf> = stores.iter().map(|s| &s.entry.dir).chain(configured).collect();
    dirs.sort();
    dirs.dedup();
    let log = |dir: &PathBuf| {
        let path = log_path(dir);
        let lines = last_lines(&path, LOG_LINES);
        let text = format!("\n{}", lines.join("\n"));
        (!lines.is_empty()).then(|| info(path.display().to_string(), text))
    };
    dirs.into_iter().filter_map(log).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_read() {
        assert_eq!(kernel_version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(kernel_version("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("next"), None);
    }

    #[test]
    fn a_directory_that_is_missing_is_judged_by_the_one_above() {
        let dir = tempfile::tempdir().unwrap();
        let found = directory(&dir.path().join("not/yet"));
        assert!(found.value.contains("free, made by 'up'"), "{}", found.value);
    }
}
