//! `up … -- COMMAND`: a store for one command. It is brought up before it, filled, emptied, and taken down after it, however
//! that ends.
//!
//! Each step is a command of this program, as a user would give it. Signals that are to end it go to the step under way; the
//! store goes down all the same.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::{HostFlags, Up};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, shell_quoted};
use crate::process::{code_of, hold};

/// Programs that the command has left may take so long to let go of the mount.
const BUSY_PATIENCE: Duration = Duration::from_secs(30);
const BUSY_PAUSE: Duration = Duration::from_millis(200);
/// What a shell says of a command that cannot be started.
const NOT_STARTED: u8 = 127;

/// Brings the store up with the words of this program's own command line, runs the command of `arguments`, and takes the store
/// down. Ends the process with the command's exit code.
pub(super) fn run(arguments: &Up, is_of_several: bool) -> Outcome<Exit> {
    let step = Step::watching()?;
    // Not by a store that deletes its data by itself before they are copied out.
    let purges = arguments.discard && !(is_of_several && arguments.around.stage_out.is_empty());
    let mount = bring_up(&step, &up_words(std::env::args_os(), purges))?;
    let mut code = work(&step, arguments, &mount);
    let is_out = empty(&step, arguments, &mount, &mut code);
    if purges && !is_out {
        output::warn("not all was copied out; the data stays: the same command goes on with it");
    }
    let place = if is_of_several { said_place(arguments) } else { Some(mount.into()) };
    let down = take_down(&step, place, &arguments.hosts, purges && is_out);
    if let Err(failure) = &down {
        output::failure(failure);
    }
    match (code, down) {
        (0, Ok(())) => Ok(Exit::Ok),
        (0, Err(failure)) => std::process::exit(i32::from(failure.exit as u8)),
        (code, _) => std::process::exit(i32::from(code)),
    }
}

/// The mount as the command line says it, for all hosts.
fn said_place(arguments: &Up) -> Option<OsString> {
    let said = arguments.settings.place.as_ref().or(arguments.settings.mount.as_ref());
    said.map(OsString::from)
}

/// Fills the store and runs the command; the exit code.
fn work(step: &Step, arguments: &Up, mount: &Path) -> u8 {
    let mut code = 0;
    if !arguments.around.stage_in.is_empty() {
        let sources = arguments.around.stage_in.iter().cloned();
        let words = ["stage".into(), "in".into()].into_iter().chain(sources).chain([mount.into()]);
        code = step.run(&mut own(words));
    }
    if code == 0 {
        code = step.run_command(&arguments.command, mount);
    }
    code
}

/// Copies out what is to be. Whether all of it was, else `code` says so if it was 0.
fn empty(step: &Step, arguments: &Up, mount: &Path, code: &mut u8) -> bool {
    let mut is_out = true;
    for pair in arguments.around.stage_out.chunks_exact(2) {
        let from = mount.join(&pair[0]);
        let words = ["stage".into(), "out".into(), from.into_os_string(), pair[1].clone()];
        let staged = step.run(&mut own(words));
        is_out &= staged == 0;
        *code = if *code == 0 { staged } else { *code };
    }
    is_out
}

fn own(words: impl IntoIterator<Item = OsString>) -> Command {
    // The file of this process, also if it was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.args(words).stdin(Stdio::null());
    command
}

/// The words of the command line that bring the store up: those before `--`, without those for the command.
fn up_words(all: impl Iterator<Item = OsString>, discards_here: bool) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut all = all.skip(1).take_while(|word| word != "--");
    while let Some(word) = all.next() {
        let values = match word.to_str().unwrap_or_default() {
            "--stage-in" => 1,
            "--stage-out" => 2,
            text if text.starts_with("--stage-in=") => 0,
            "--discard" if discards_here => 0,
            _ => {
                words.push(word);
                continue;
            }
        };
        all.by_ref().take(values).for_each(drop);
    }
    words.push("--json".into());
    words
}

/// Where the store is mounted here.
fn bring_up(step: &Step, words: &[OsString]) -> Outcome<PathBuf> {
    let answer = step.output(own(words.iter().cloned()).stdout(Stdio::piped()))?;
    if !answer.status.success() {
        // It has said why.
        std::process::exit(i32::from(code_of(answer.status)));
    }
    let told: Value = serde_json::from_slice(&answer.stdout)
        .map_err(|e| Failure::general(format!("'up' told no JSON: {e}")))?;
    mount_point(&told, &rustix::system::uname().nodename().to_string_lossy())
        .ok_or_else(|| Failure::general("'up' did not tell where the store is mounted"))
}

/// That of `host`, or of the first, where the store has several.
fn mount_point(told: &Value, host: &str) -> Option<PathBuf> {
    let of_host = match told.as_array() {
        Some(all) => all.iter().find(|one| one["host"] == host).or(all.first())?,
        None => told,
    };
    of_host["mount_point"].as_str().map(PathBuf::from)
}

fn take_down(step: &Step, place: Option<OsString>, hosts: &HostFlags, purges: bool) -> Outcome {
    let mut words: Vec<OsString> = vec!["down".into()];
    words.extend(place);
    words.extend(reaching(hosts));
    words.extend(purges.then(|| "--purge".into()));
    let deadline = Instant::now() + BUSY_PATIENCE;
    loop {
        let answer = step.spared(own(words.iter().cloned()).stdout(Stdio::null()))?;
        if answer.success() {
            return Ok(());
        }
        if answer.code() != Some(i32::from(Exit::Busy as u8)) || Instant::now() > deadline {
            let shown: Vec<_> = words.iter().map(|w| shell_quoted(&w.to_string_lossy())).collect();
            let help = format!("once nothing uses it: intarsia {}", shown.join(" "));
            return Err(Failure::general("the store is still up").with_help(help));
        }
        std::thread::sleep(BUSY_PAUSE);
    }
}

/// The options of `up` that `down` needs as well.
fn reaching(hosts: &HostFlags) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut add = |name: &str, value: Option<OsString>| {
        words.extend(value.into_iter().flat_map(|value| [name.into(), value]));
    };
    add("--hosts", hosts.hosts.clone().map(Into::into));
    add("--hostfile", hosts.hostfile.clone().map(Into::into));
    add("--lab", hosts.lab.clone().map(Into::into));
    add("--ssh", hosts.ssh.clone().map(Into::into));
    words.extend(hosts.this_host.then(|| "--this-host".into()));
    words
}

/// The step under way, to which signals go that are to end this process.
struct Step(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    child: Option<OwnedFd>,
    /// The first signal that came.
    signal: Option<i32>,
}

impl Running {
    /// Begins a step. Whoever locks this until then has signals wait, which go to the step once it is held.
    fn begin(&mut self, command: &mut Command) -> std::io::Result<Child> {
        let child = command.spawn()?;
        self.child = hold(&child);
        Ok(child)
    }
}

impl Step {
    /// From now on SIGINT, SIGTERM and SIGHUP end the step under way and not this process.
    fn watching() -> Outcome<Self> {
        let mut signals =
            Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(|e| Failure::io("signals", &e))?;
        let running = Arc::<Mutex<Running>>::default();
        let told = Arc::clone(&running);
        std::thread::spawn(move || {
            for number in signals.forever() {
                let mut running = told.lock().unwrap_or_else(PoisonError::into_inner);
                running.signal.get_or_insert(number);
                let signal = Signal::from_named_raw(number);
                if let (Some(child), Some(signal)) = (&running.child, signal)
                    && !(number == SIGINT && comes_from_terminal())
                {
                    // It may have ended.
                    let _ = rustix::process::pidfd_send_signal(child, signal);
                }
            }
        });
        Ok(Self(running))
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exit code of a step; that of a signal that came before it, which then is not begun.
    fn run(&self, command: &mut Command) -> u8 {
        let begun = {
            let mut running = self.running();
            if let Some(number) = running.signal {
                return code_of_signal(number);
            }
            running.begin(command)
        };
        match self.wait(begun, |mut child| child.wait()) {
            Ok(status) => code_of(status),
            Err(error) => {
                output::failure(&Failure::io(command.get_program().display(), &error));
                NOT_STARTED
            }
        }
    }

    fn run_command(&self, words: &[OsString], mount: &Path) -> u8 {
        let Some((program, rest)) = words.split_first() else { return 0 };
        self.run(Command::new(program).args(rest).env("INTARSIA_MOUNT", mount))
    }

    fn output(&self, command: &mut Command) -> Outcome<Output> {
        let begun = self.running().begin(command);
        let waited = self.wait(begun, Child::wait_with_output);
        waited.map_err(|e| Failure::io("this program", &e))
    }

    fn wait<T>(
        &self,
        begun: std::io::Result<Child>,
        wait: impl FnOnce(Child) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        let waited = wait(begun?);
        self.running().child = None;
        waited
    }

    /// Runs a step that no signal ends: not one from the terminal either, as it has a group of its own.
    fn spared(&self, command: &mut Command) -> Outcome<ExitStatus> {
        self.running().child = None;
        command.process_group(0).status().map_err(|e| Failure::io("this program", &e))
    }
}

/// Whether the terminal has sent SIGINT to the whole group, as Ctrl-C does: this process is in the foreground of one.
fn comes_from_terminal() -> bool {
    let foreground = rustix::termios::tcgetpgrp(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetpgrp(std::io::stdin()));
    foreground.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// As [`code_of`], of what a signal has kept from beginning.
fn code_of_signal(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(Exit::Failure as u8)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::ffi::OsStr;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_for_the_command_does_not_go_to_up() {
        let given = "intarsia up /m --stage-in a --tier /t --stage-out r /out --stage-in=b --discard -- sh --json";
        let words = |discards_here| {
            let all = given.split(' ').map(OsString::from);
            up_words(all, discards_here).join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(words(true), "up /m --tier /t --json");
        assert_eq!(words(false), "up /m --tier /t --discard --json");
    }

    #[test]
    fn the_mount_is_that_of_this_host() {
        let one = json!({ "mount_point": "/m" });
        assert_eq!(mount_point(&one, "x").unwrap(), Path::new("/m"));
        let all =
            json!([{ "host": "a", "mount_point": "/a" }, { "host": "b", "mount_point": "/b" }]);
        assert_eq!(mount_point(&all, "b").unwrap(), Path::new("/b"));
        assert_eq!(mount_point(&all, "login").unwrap(), Path::new("/a"));
        assert_eq!(mount_point(&json!([]), "a"), None);
    }
}
