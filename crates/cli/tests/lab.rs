//! `intarsia lab` as people use it: whole labs on this machine, and its refusals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod common;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use common::{Answer, Place, is_root, wait_until, write_program};
use serde_json::Value;

/// A lab of one test; taken down at the end, also after a failure.
struct TestLab {
    place: Place,
    name: String,
}

impl TestLab {
    /// `None` where no lab can be made and the test may be skipped.
    fn new(test: &str) -> Option<Self> {
        let has_nft = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"]
            .iter()
            .any(|p| std::path::Path::new(p).exists());
        if !is_root() || !has_nft {
            let must = std::env::var_os("INTARSIA_TEST_REQUIRE_ALL").is_some_and(|v| v == "1");
            assert!(!must, "a lab needs root and nft, and INTARSIA_TEST_REQUIRE_ALL=1");
            eprintln!("SKIPPED: a lab needs root and nft");
            return None;
        }
        Some(Self { place: Place::new(), name: format!("c{}-{test}", std::process::id()) })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut all = vec!["lab"];
        all.extend(arguments);
        let mut command = self.place.command(&all);
        command.env("INTARSIA_LAB", &self.name);
        command
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of(&mut self.command(arguments))
    }

    fn up(&self, more: &[&str]) -> Answer {
        let mut arguments = vec!["up", self.name.as_str()];
        arguments.extend(more);
        self.run(&arguments)
    }

    fn namespaces(&self) -> usize {
        let prefix = format!("intarsia-lab-{}-", self.name);
        let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_string_lossy().starts_with(&prefix)).count()
    }

    /// How `lab status --all` has it.
    fn standing(&self) -> Option<String> {
        let all: Value =
            serde_json::from_str(&self.run(&["status", "--all", "--json"]).out).unwrap();
        let mine = all.as_array().unwrap().iter().find(|l| l["name"] == self.name.as_str())?;
        mine["standing"].as_str().map(str::to_owned)
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        let _ = self.run(&["down", &self.name, "--kill"]);
    }
}

#[test]
fn a_labs_whole_life() {
    let Some(lab) = TestLab::new("life") else { return };
    let plan = lab.up(&["--nodes", "2", "--link", "10mbit", "--dry-run"]).code(0);
    plan.prints(&format!("netns add intarsia-lab-{}-hub", lab.name)).prints("tbf rate 10000000bit");
    assert_eq!(lab.namespaces(), 0, "a dry run makes nothing");

    let up = lab.up(&["--nodes", "3", "--link", "10mbit", "--subnet", "10.5.0.0/24"]).code(0);
    let up = up.says("n1 (10.5.0.1) to n3 (10.5.0.3), links 10mbit");
    assert_eq!(up.out, format!("export INTARSIA_LAB={}\n", lab.name));
    lab.up(&[]).code(4).says("is up; take it down with 'intarsia lab down");
    lab.run(&["status"]).code(0).prints("n3    10.5.0.3  10mbit");
    assert_eq!(lab.standing().as_deref(), Some("up"));

    lab.run(&["link", "n2", "n3", "--rate", "5mbit", "--dry-run"])
        .code(0)
        .prints("would hold the link of n2");
    lab.run(&["link", "n2", "--rate", "5mbit"]).code(0);
    lab.run(&["link", "n3", "--rate", "unlimited"]).code(0);
    let report = lab.run(&["status", "--json"]).code(0).json();
    let rates: Vec<&Value> =
        report["nodes"].as_array().unwrap().iter().map(|n| &n["rate_bit_per_s"]).collect();
    assert_eq!(rates, [&Value::from(10_000_000), &5_000_000.into(), &Value::Null]);
    assert_eq!(report["cuts"], Value::Array(vec![]));

    lab.run(&["down", "--dry-run"]).code(0).prints(&format!("remove the lab '{}'", lab.name));
    assert_eq!(lab.namespaces(), 4);
    lab.run(&["down"]).code(0).says("4 namespaces removed");
    assert_eq!((lab.namespaces(), lab.standing()), (0, None));
    lab.run(&["down"]).code(0).says("nothing to do");
    lab.run(&["status", &lab.name]).code(5).says("intarsia lab up");
    lab.run(&["exec", "n1", "--", "true"]).code(5);
}

#[test]
fn exec_gives_exit_codes_signals_input_and_environment() {
    let Some(lab) = TestLab::new("exec") else { return };
    lab.up(&["--nodes", "2"]).code(0);
    lab.run(&["exec", "n1", "--", "sh", "-c", "exit 7"]).code(7);
    let where_ =
        lab.run(&["exec", "n2", "--", "sh", "-c", "echo $INTARSIA_LAB_NODE $INTARSIA_LAB_ADDRESS"]);
    assert_eq!(where_.code(0).out, "n2 10.77.0.2\n");
    lab.run(&["exec", "n1", "--", "no-such-program"]).code(127);
    lab.run(&["exec", "n3", "--", "true"]).code(2).says("n1 to n2");
    lab.run(&["exec", "n1"]).code(2);
    lab.run(&["exec", "--", "true"]).code(2);
    lab.run(&["exec", "n1", "--names", "--", "getent", "ahostsv4", "n2"])
        .code(0)
        .prints("10.77.0.2");

    let mut echo = lab.command(&["exec", "n1", "--", "cat"]);
    let mut child = echo.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"through").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"through");

    // The program has the command's own number, so a signal to one is a signal to the other.
    let mut sleeper = lab.command(&["exec", "n1", "--", "sleep", "600"]).spawn().unwrap();
    let pid = sleeper.id();
    let is_sleep = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "sleep\n";
    wait_until("the program", is_sleep);
    // Not INT: who is started in the background by a shell ignores that one, with all its children.
    assert!(Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap().success());
    assert_eq!(sleeper.wait().unwrap().signal(), Some(15));
}

#[test]
fn exec_on_all_nodes_runs_at_once_and_names_each_line() {
    let Some(lab) = TestLab::new("execall") else { return };
    lab.up(&["--nodes", "3"]).code(0);
    let answer = lab.run(&[
        "exec",
        "--all",
        "--",
        "sh",
        "-c",
        "echo $INTARSIA_LAB_ADDRESS; printf half >&2",
    ]);
    let answer = answer.code(0);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&answer.out), ["n1: 10.77.0.1", "n2: 10.77.0.2", "n3: 10.77.0.3"]);
    assert_eq!(sorted(&answer.err), ["n1: half", "n2: half", "n3: half"]);
    // n2 fails before n3 does; more is written than a pipe holds.
    let script =
        "yes | head -n 100000; case $INTARSIA_LAB_NODE in n2) exit 5;; n3) kill -KILL $$;; esac";
    let answer = lab.run(&["exec", "--all", "--", "sh", "-c", script]).code(5);
    assert_eq!(answer.out.lines().filter(|l| *l == "n3: y").count(), 100_000);

    // A signal reaches all, and its number is told.
    let script = "echo started; exec sleep 600";
    let mut command = lab.command(&["exec", "--all", "--", "sh", "-c", script]);
    let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for _ in 0..3 {
        assert!(lines.next().unwrap().unwrap().ends_with(": started"));
    }
    assert!(
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    lab.run(&["down"]).code(0);
}

#[test]
fn cuts_are_made_shown_and_healed() {
    let Some(lab) = TestLab::new("cut") else { return };
    lab.up(&["--nodes", "3"]).code(0);
    let reaches = |from: &str, to: &str| {
        let script = "import socket,sys; socket.create_connection((sys.argv[1],9),0.5)";
        // Refused by the other's kernel is reached; only silence is not.
        let answer = lab.run(&["exec", from, "--", "python3", "-c", script, to]);
        answer.err.contains("ConnectionRefusedError")
    };
    assert!(reaches("n1", "10.77.0.2"));
    lab.run(&["cut", "n1", "n2", "--dry-run"]).code(0).prints("cut n1 and n2 from each other");
    lab.run(&["cut", "n1", "n2"]).code(0).says("cut: n1 and n2");
    assert!(!reaches("n1", "10.77.0.2") && reaches("n1", "10.77.0.3"));
    lab.run(&["cut", "n3", "--one-way"]).code(0).says("cut: n3 to n1").says("cut: n3 to n2");
    assert!(!reaches("n1", "10.77.0.3"), "no answer comes back");
    lab.run(&["heal", "n1", "n2"]).code(0);
    assert!(reaches("n1", "10.77.0.2") && !reaches("n3", "10.77.0.1"));
    lab.run(&["heal", "n3"]).code(0).says("No link is cut");
    let cuts = lab.run(&["cut", "n2", "--for", "1s", "--json"]).code(0).json();
    assert_eq!(cuts.as_array().unwrap().len(), 4, "{cuts}");
    wait_until("the end of the cut", || {
        lab.run(&["status", "--json"]).json()["cuts"] == Value::Array(vec![])
    });
    assert!(reaches("n3", "10.77.0.2"));
    lab.run(&["cut", "n1"]).code(0);
    lab.run(&["heal"]).code(0).says("No link is cut");

    lab.run(&["cut", "n1", "n1"]).code(2).says("no link to itself");
    lab.run(&["cut", "n1", "n9"]).code(2).says("n1 to n3");
    lab.run(&["cut", "n1", "--for", "soon"]).code(2).says("--for");
    lab.run(&["link", "n1", "--rate", "fast"]).code(2).says("100mbit");
}

#[test]
fn down_refuses_while_a_process_runs_inside_and_ends_it_when_told() {
    let Some(lab) = TestLab::new("busy") else { return };
    lab.up(&["--nodes", "2"]).code(0);
    let mut sleeper = lab.command(&["exec", "n2", "--", "sleep", "600"]).spawn().unwrap();
    wait_until("the program", || lab.run(&["status"]).out.contains("10.77.0.2  unlimited  1"));
    lab.run(&["down"]).code(4).says("1 process runs").says("on n2: sleep 600").says("--kill");
    assert_eq!(lab.namespaces(), 3);
    lab.run(&["down", "--kill"]).code(0).says("1 process ended");
    assert_eq!(sleeper.wait().unwrap().signal(), Some(15));
    assert_eq!(lab.namespaces(), 0);
}

/// Kills `up` in the middle, and returns when it is dead.
fn kill_up_in_the_middle(lab: &TestLab) {
    let mut up =
        lab.command(&["up", &lab.name, "--nodes", "300", "--link", "100mbit"]).spawn().unwrap();
    wait_until("the first namespaces", || {
        lab.namespaces() >= 20 || up.try_wait().unwrap().is_some()
    });
    up.kill().unwrap();
    assert_eq!(up.wait().unwrap().signal(), Some(9), "it was killed in the middle");
    // A tool that it started may still be at work; it holds the lock until it has ended.
    wait_until("the end of its tools", || lab.standing().as_deref() == Some("stale"));
}

/// One test, because `--stale` removes what is stale of every test.
#[test]
fn what_a_killed_up_left_is_removed_by_down_and_by_the_next_up() {
    let Some(lab) = TestLab::new("stale") else { return };
    kill_up_in_the_middle(&lab);
    assert!(lab.namespaces() > 0);
    lab.run(&["exec", "n1", "--", "true"]).code(4).says("left half made");
    lab.run(&["down", "--stale", "--dry-run"]).code(0).prints(&lab.name);
    assert!(lab.run(&["down", "--stale"]).code(0).err.contains(&lab.name));
    assert_eq!((lab.namespaces(), lab.standing()), (0, None));

    kill_up_in_the_middle(&lab);
    lab.up(&["--nodes", "2"]).code(0);
    assert_eq!(lab.namespaces(), 3);
    lab.run(&["exec", "n1", "--", "true"]).code(0);

    // Without its entry a lab is stale too.
    std::fs::remove_file(format!("/run/intarsia/lab/{}.json", lab.name)).unwrap();
    assert_eq!(lab.standing().as_deref(), Some("stale"));
    assert!(lab.run(&["down", "--stale"]).code(0).err.contains(&lab.name));
    assert_eq!(lab.namespaces(), 0);
}

#[test]
fn a_failed_up_leaves_nothing() {
    let Some(lab) = TestLab::new("fail") else { return };
    // A `tc` that fails after namespaces and links were made.
    let dir = lab.place.path("bin");
    std::fs::create_dir(&dir).unwrap();
    write_program(&dir.join("tc"), "#!/bin/sh\necho out of order >&2\nexit 1\n");
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let mut up = lab.command(&["up", &lab.name, "--nodes", "3", "--link", "10mbit"]);
    Answer::of(up.env("PATH", path)).code(1).says("out of order").says("tc -batch -");
    assert_eq!((lab.namespaces(), lab.standing()), (0, None));
}

#[test]
fn mistakes_are_named_with_their_fix() {
    let place = Place::new();
    place.run(&["lab", "--help"]).code(0).prints("Examples:").prints("intarsia lab exec");
    for verb in ["up", "exec", "status", "cut", "heal", "link", "down"] {
        place.run(&["lab", verb, "--help"]).code(0).prints("Examples:");
    }
    place.run(&["lab", "up", "--nodes", "0"]).code(2).says("1 to 1000 nodes");
    place.run(&["lab", "up", "--link", "100"]).code(2).says("100mbit or 1gbit");
    place.run(&["lab", "up", "--subnet", "10.77.0.1/16"]).code(2).says("10.77.0.0/16");
    place
        .run(&["lab", "up", "--nodes", "7", "--subnet", "10.77.0.0/29"])
        .code(2)
        .says("room for 6");
    place.run(&["lab", "up", "My_Lab"]).code(2).says("small letters");
}

#[test]
fn without_root_it_says_so() {
    if !is_root() {
        let place = Place::new();
        place.run(&["lab", "up"]).code(1).says("a lab needs root").says("sudo");
        return;
    }
    // As a user that owns nothing; the program lies where everybody may read it.
    let place = Place::new();
    let program = place.path("intarsia");
    // By another process, as `write_program` does.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_intarsia")).arg(&program).status();
    assert!(copied.unwrap().success());
    let root = program.parent().unwrap();
    std::fs::set_permissions(root, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for verb in [&["lab", "up"][..], &["lab", "status"], &["lab", "down"]] {
        let mut command = Command::new(&program);
        command
            .args(verb)
            .uid(65534)
            .gid(65534)
            .current_dir("/")
            .env("HOME", "/")
            .env_remove("INTARSIA_LAB");
        Answer::of(&mut command).code(1).says("a lab needs root").says("sudo");
    }
}
