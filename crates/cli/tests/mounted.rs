//! The command with real mounts: a store's whole life, and its accidents.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Answer, Place, has_fuse, is_root, wait_until};

fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|l| l.split(' ').nth(4) == path.to_str())
}

fn kill_hard(pid: u32) {
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    wait_until("the end of the node", || !is_running(pid));
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|s| !s.is_empty() && !s.starts_with('Z'))
}

fn is_running_in(dir: &Path, pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap().starts_with(dir)
}

/// A program that sits in the mount with a file open; ended at the end of the test.
struct Sitter(Child);

impl Sitter {
    fn in_mount(mount: &Path) -> Self {
        std::fs::write(mount.join("held"), "x").unwrap();
        let mut command = Command::new("sleep");
        command.arg("600").current_dir(mount);
        command.stdin(std::fs::File::open(mount.join("held")).unwrap());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Sitter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_stores_whole_life() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let mount = place.path("mnt");
    let up = place.up(&[]).code(0).says("The store is up at").says("Passthrough is");
    assert_eq!(up.out, format!("export INTARSIA_MOUNT={}\n", mount.display()));
    assert!(is_mounted(&mount));
    assert!(
        !is_running_in(&place.path("store"), place.node_pid()),
        "the node keeps no directory busy"
    );

    std::fs::create_dir(mount.join("dir")).unwrap();
    std::fs::write(mount.join("dir/file"), "content").unwrap();
    let status = place.run(&["status", "--json"]).code(0).json();
    assert_eq!(
        (&status[0]["state"], &status[0]["mount_point"]),
        (&"up".into(), &mount.to_str().unwrap().into())
    );
    assert!(status[0]["passthrough"]["in_force"].is_boolean());
    place.run(&["status"]).code(0).prints("durability").prints("TIER");
    place.run(&["status", "--all"]).code(0).prints("MOUNT");
    place.run(&["status", "--metrics"]).code(0).prints("intarsia_build_info{version=");
    let dir = place.text("store");
    assert_eq!(place.run(&["status", &dir, "--json"]).code(0).json()["dir"], dir);

    let mut by_environment = place.command(&["status", "--json"]);
    by_environment.env("INTARSIA_MOUNT", &mount);
    assert_eq!(Answer::of(&mut by_environment).code(0).json()["state"], "up");

    // Its exit code also speaks of mounts that other tests have broken on purpose.
    place.run(&["doctor"]).prints("mounting: possible").prints("node.log");
    let down = place.run(&["down"]).code(0).says("is down after").says("The data lies in");
    assert!(down.out.is_empty());
    assert!(!mount.exists(), "up made the mount point, so down removes it");
    assert!(place.path("store/last-run.json").exists());
    assert!(!place.path("store/control.sock").exists());
    place.run(&["down", place.path("mnt").to_str().unwrap()]).code(0).says("nothing to do");

    place.up(&[]).code(0);
    assert_eq!(std::fs::read(mount.join("dir/file")).unwrap(), b"content");
    place.run(&["down", "--purge", "--dry-run"]).code(0).prints("delete the store in");
    assert_eq!(std::fs::read(mount.join("dir/file")).unwrap(), b"content");
    place.run(&["down", "--purge", "--json"]).code(0).prints("\"requests\"");
    assert!(!place.path("store").exists());
    let known = std::fs::read_dir(place.path("run")).unwrap().flatten().map(|f| f.file_name());
    assert_eq!(known.collect::<Vec<_>>(), [""; 0], "nobody remembers what is deleted");
}

#[test]
fn a_store_that_the_registry_has_lost_is_found_by_its_directory() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let (mount, dir) = (place.path("mnt"), place.text("store"));
    let lose = || std::fs::remove_dir_all(place.path("run")).unwrap();
    place.up(&[]).code(0);
    let node = place.node_pid();
    let sitter = Sitter::in_mount(&mount);
    lose();
    place.run(&["down", "--purge", &dir]).code(4).says(&format!("pid {}", sitter.0.id()));
    assert!(is_running(node) && mount.join("held").exists() && place.path("store/meta").exists());
    drop(sitter);
    place.run(&["down", "--purge", &dir]).code(0).says("is deleted");
    assert!(!is_running(node) && !mount.exists() && !place.path("store").exists());

    // The same after a crash.
    place.up(&[]).code(0);
    let node = place.node_pid();
    lose();
    kill_hard(node);
    place.run(&["down", "--purge", &dir]).code(0).says("is deleted");
    assert!(!is_mounted(&mount) && !mount.exists() && !place.path("store").exists());

    // By its mount alone it goes down; its data is not known.
    place.up(&[]).code(0);
    let node = place.node_pid();
    lose();
    let mount_point = place.text("mnt");
    place.run(&["down", "--purge", &mount_point]).code(5).says("nothing was deleted");
    wait_until("the end of the node", || !is_running(node));
    assert!(!is_mounted(&mount) && place.path("store/store.json").exists());

    // With both named, all is found, also of a node that is dead.
    place.up(&[]).code(0);
    let node = place.node_pid();
    lose();
    kill_hard(node);
    place.run(&["down", "--purge", &mount_point, "--dir", &dir]).code(0).says("is deleted");
    assert!(!is_mounted(&mount) && !mount.exists() && !place.path("store").exists());
}

#[test]
fn a_hung_store_that_the_registry_has_lost_is_refused_and_ended_by_force() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let dir = place.text("store");
    place.up(&[]).code(0);
    let node = place.node_pid();
    std::fs::remove_dir_all(place.path("run")).unwrap();
    Command::new("kill").args(["-STOP", &node.to_string()]).status().unwrap();
    let down = ["down", "--purge", &dir, "--timeout", "100ms"];
    place.run(&down).code(1).says("does not answer");
    assert!(is_running(node) && place.path("store/meta").exists());
    place.run(&[&down[..], &["--force"]].concat()).code(0).says("killing it").says("is deleted");
    assert!(!is_running(node) && !is_mounted(&place.path("mnt")));
    assert!(!place.path("store").exists());
}

#[test]
fn a_mount_point_that_was_there_stays() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path("mnt")).unwrap();
    place.up(&[]).code(0);
    place.run(&["down"]).code(0);
    assert!(place.path("mnt").is_dir());
}

#[test]
fn hints_and_location_are_one_command_away() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&["--name", "host7", "--rule", "*.log close=fast"]).code(0);
    let file = place.text("mnt/file");
    std::fs::write(&file, "x").unwrap();

    let located = place.run(&["locate", "--json", &file]).code(0).json();
    assert_eq!(located[0]["nodes"], serde_json::json!(["host7"]));
    place
        .run(&["locate", &file, &place.text("home")])
        .code(5)
        .prints("host7")
        .says("is in no store");

    place
        .run(&["hint", "set", "tier=memory", "replicas=2", &file])
        .code(0)
        .says("replicas=2 is stored, but not acted upon here");
    place
        .run(&["hint", "get", &file])
        .code(0)
        .prints("tier=memory")
        .prints("replicas=2  (not acted upon here)");
    place.run(&["hint", "unset", "replicas", &file]).code(0);
    let got = place.run(&["hint", "get", "--json", &file]).code(0).json();
    assert_eq!(got[0]["hints"], serde_json::json!({ "tier": "memory" }));
    place
        .run(&["hint", "set", "--dry-run", "tier=disk", &file])
        .code(0)
        .prints("would set tier=disk");
    place.run(&["hint", "get", &file]).code(0).prints("tier=memory");
    place.run(&["hint", "set", "tier=disk", &file, &place.text("home")]).code(5);
    place.run(&["hint", "get", &file]).code(0).prints("tier=memory");

    place.run(&["hint", "rule", "add", "/tmp/** tier=memory"]).code(0);
    place.run(&["hint", "rule", "list"]).code(0).prints("*.log close=fast\n/tmp/** tier=memory");
    place.run(&["hint", "rule", "remove", "*.log"]).code(0);
    place.run(&["hint", "rule", "remove", "*.log"]).code(1).says("no rule is '*.log'");
    let rules = place.run(&["hint", "rule", "list", "--json"]).code(0).json();
    assert_eq!(rules, serde_json::json!(["/tmp/** tier=memory"]));
}

#[test]
fn a_second_up_names_the_first() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let pid = format!("pid {}", place.node_pid());
    place.up(&[]).code(4).says(&pid).says("intarsia down");
    let (other, dir) = (place.text("other"), place.text("store"));
    place.run(&["up", &other, "--dir", &dir]).code(4).says(&pid).says("is already up at");
    let (mount, dir) = (place.text("mnt"), place.text("second"));
    place.run(&["up", &mount, "--dir", &dir]).code(4).says(&pid);
    assert!(!place.path("second").exists() && !place.path("other").exists());
    place.run(&["status"]).code(0).prints("up");
}

#[test]
fn a_busy_mount_names_its_holder() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let mount = place.path("mnt");
    let sitter = Sitter::in_mount(&mount);
    let pid = sitter.0.id();
    place
        .run(&["down"])
        .code(4)
        .says(&format!("pid {pid} (sleep 600)"))
        .says("working directory")
        .says("open file")
        .says("--lazy");
    place.run(&["status"]).code(0);
    drop(sitter);
    place.run(&["down"]).code(0);
}

/// A program in a mount namespace of its own, which has a copy of every mount that was there; ended at the end of the test.
#[allow(clippy::print_stderr, reason = "a skip is said")]
fn in_a_namespace_of_its_own(mount: &Path, command: &str) -> Option<Sitter> {
    if !is_root() || Command::new("unshare").arg("--version").output().is_err() {
        eprintln!("SKIPPED: only root can make a mount namespace, with unshare");
        return None;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", command]);
    let child = unshare.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let sitter = Sitter(child);
    let ours = std::fs::read_link("/proc/self/ns/mnt").unwrap();
    let namespace = format!("/proc/{}/ns/mnt", sitter.0.id());
    wait_until("the namespace", || std::fs::read_link(&namespace).is_ok_and(|n| n != ours));
    let table = format!("/proc/{}/mountinfo", sitter.0.id());
    let mount = mount.to_str().unwrap();
    wait_until("its copy", || std::fs::read_to_string(&table).is_ok_and(|t| t.contains(mount)));
    Some(sitter)
}

#[test]
fn a_copy_of_the_mount_that_nobody_uses_keeps_no_store_up() {
    keeps_no_store_up("");
}

#[test]
fn a_copy_of_the_mount_that_something_lies_over_keeps_no_store_up() {
    keeps_no_store_up("mount -t tmpfs none .;");
}

/// Tests a copy of the mount after a command of its namespace, in the directory that the mount point is in.
fn keeps_no_store_up(command: &str) {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let mount = place.path("mnt");
    let above = mount.parent().unwrap().display();
    let script = format!("cd {above}; echo there > mnt/written; {command} cd /; exec sleep 600");
    let Some(sitter) = in_a_namespace_of_its_own(&mount, &script) else { return };
    let name = format!("/proc/{}/comm", sitter.0.id());
    wait_until("the sleep", || std::fs::read_to_string(&name).is_ok_and(|name| name == "sleep\n"));
    std::fs::write(mount.join("here"), "here").unwrap();
    place.run(&["down"]).code(0).says("is down after");
    place.run(&["status"]).code(5);
    place.up(&[]).code(0);
    assert_eq!(std::fs::read(mount.join("written")).unwrap(), b"there\n");
    assert_eq!(std::fs::read(mount.join("here")).unwrap(), b"here");
}

#[test]
fn who_uses_a_copy_of_the_mount_is_named_and_keeps_it() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let mount = place.path("mnt");
    let script = format!("cd {}; exec sleep 600", mount.display());
    let Some(sitter) = in_a_namespace_of_its_own(&mount, &script) else { return };
    let cwd = format!("/proc/{}/cwd", sitter.0.id());
    wait_until("its directory", || std::fs::read_link(&cwd).is_ok_and(|at| at == mount));
    let pid = sitter.0.id();
    place.run(&["down"]).code(4).says(&format!("pid {pid} (sleep 600)")).says("working directory");
    std::fs::write(mount.join("after"), "after").unwrap();
    drop(sitter);
    place.run(&["down"]).code(0);
}

#[test]
fn lazy_leaves_the_mount_to_its_holders() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let node = place.node_pid();
    let sitter = Sitter::in_mount(&place.path("mnt"));
    place.run(&["down", "--lazy"]).code(0).says("is detached").says("ends when the last program");
    assert!(!is_mounted(&place.path("mnt")) && is_running(node));
    place.run(&["status"]).code(3).prints("detached");
    place.up(&[]).code(4).says("still serves programs that hold files open");
    drop(sitter);
    wait_until("the end of the node", || !is_running(node));
    place.run(&["status"]).code(5);
}

#[test]
fn force_takes_the_mount_from_its_holders() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let node = place.node_pid();
    let sitter = Sitter::in_mount(&place.path("mnt"));
    place.run(&["down", "--force"]).code(0).says("taken down by force");
    assert!(!is_running(node) && !is_mounted(&place.path("mnt")));
    drop(sitter);
    place.up(&[]).code(0);
    assert_eq!(std::fs::read(place.path("mnt/held")).unwrap(), b"x");
}

#[test]
fn a_killed_node_is_seen_and_replaced() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let mount = place.text("mnt");
    std::fs::write(place.path("mnt/file"), "kept").unwrap();
    let file = std::fs::File::open(place.path("mnt/file")).unwrap();
    file.sync_all().unwrap();
    drop(file);
    kill_hard(place.node_pid());
    place.run(&["status"]).code(3).prints("dead").says("intarsia up");
    place.run(&["locate", &place.text("mnt/file")]).code(5).says("the node of this mount is dead");
    place.run(&["hint", "rule", "list"]).code(5).says("is dead");
    place.run(&["doctor"]).code(3).prints("stale: its node is dead");
    place.up(&[]).code(0).says("A dead node had left its mount");
    assert_eq!(std::fs::read(place.path("mnt/file")).unwrap(), b"kept");
    place.run(&["down", &mount]).code(0);
    assert!(!place.path("mnt").exists(), "the first up made it, so the last down removes it");
}

#[test]
fn a_hung_node_hangs_nobody() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    std::fs::write(place.path("mnt/file"), "x").unwrap();
    let node = place.node_pid();
    Command::new("kill").args(["-STOP", &node.to_string()]).status().unwrap();
    place.run(&["status"]).code(3).prints("silent").says("does not answer");
    place.run(&["down", "--force", "--timeout", "100ms"]).code(0).says("killing it");
    assert!(!is_running(node) && !is_mounted(&place.path("mnt")));
    place.up(&[]).code(0);
    assert!(place.path("mnt/file").exists());
}

#[test]
fn down_clears_what_a_killed_node_left() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    kill_hard(place.node_pid());
    place.run(&["down", "--dry-run"]).code(0).prints("whose node");
    place.run(&["down"]).code(0).says("was dead; the place is clear again");
    assert!(!is_mounted(&place.path("mnt")) && !place.path("mnt").exists());
    place.run(&["down"]).code(0).says("nothing to do");

    // The same without a word of it in the registry.
    place.up(&[]).code(0);
    let pid = place.node_pid();
    std::fs::remove_dir_all(place.path("run")).unwrap();
    kill_hard(pid);
    place.run(&["down", &place.text("mnt")]).code(0).says("is unmounted");
    assert!(!is_mounted(&place.path("mnt")));
}

#[test]
fn a_node_in_the_foreground_obeys_a_signal() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let (mount, dir) = (place.text("mnt"), place.text("store"));
    let mut node = place
        .command(&["node", "--mount", &mount, "--dir", &dir, "--log-format", "json"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the mount", || place.path("run").exists() && place.run(&["status"]).code == 0);
    std::fs::write(place.path("mnt/file"), "x").unwrap();
    Command::new("kill").args(["-TERM", &node.id().to_string()]).status().unwrap();
    let status = node.wait().unwrap();
    assert!(status.success() && status.signal().is_none(), "{status}");
    assert!(!is_mounted(&place.path("mnt")) && !place.path("mnt").exists());
    place.run(&["status"]).code(5);
    assert!(place.path("store/metrics.prom").exists());
    let mut log = String::new();
    std::io::Read::read_to_string(&mut node.stderr.take().unwrap(), &mut log).unwrap();
    let events: Vec<serde_json::Value> =
        log.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    assert!(events.iter().any(|e| e["message"] == "closed"), "{log}");
}

#[test]
fn an_unmount_by_hand_ends_the_node_too() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let node = place.node_pid();
    let unmounted = Command::new("umount").arg(place.path("mnt")).status().unwrap();
    assert!(unmounted.success());
    wait_until("the end of the node", || !is_running(node));
    place.run(&["status"]).code(5);
}

#[test]
fn a_store_is_checked_up_and_down() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    std::fs::write(place.path("mnt/file"), "x").unwrap();
    place.run(&["check"]).code(0).prints("The store is whole");
    place.run(&["down"]).code(0);
    let dir = place.text("store");
    let report = place.run(&["check", &dir, "--json"]).code(0).json();
    assert_eq!(report["is_clean"], true);
    place.run(&["check", &dir, "--repair", "--dry-run"]).code(0).says("Nothing was changed");
    place.up(&[]).code(0);
    assert_eq!(std::fs::read(place.path("mnt/file")).unwrap(), b"x");
}

#[test]
fn a_store_in_memory_does_not_pretend_to_last() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&["--durability", "memory"]).code(0);
    std::fs::write(place.path("mnt/file"), "x").unwrap();
    place.run(&["down"]).code(0).says("Nothing of it lasts");
    place.up(&[]).code(2).says("was made with durability memory").says("down --purge");
    place.up(&["--durability", "memory"]).code(0);
    assert!(!place.path("mnt/file").exists());
    place.run(&["down"]).code(0);
    place.run(&["down", "--purge", &place.text("store")]).code(0).says("is deleted");
    place.up(&[]).code(0);
}

#[test]
fn a_node_that_cannot_start_says_why_and_leaves_nothing() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    std::fs::create_dir_all(place.path("store")).unwrap();
    std::fs::write(place.path("store/store.json"), "{").unwrap();
    place.up(&[]).code(2).says("store.json is damaged");
    assert!(!is_mounted(&place.path("mnt")) && !place.path("mnt").exists());
    place.run(&["status"]).code(5);
}

/// An ordinary user needs no root: tried in a mount namespace where everybody may open the device.
#[test]
fn an_ordinary_user_needs_no_root() {
    if !has_fuse() {
        return;
    }
    let tools = ["unshare", "setpriv", "fusermount3"];
    let has = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    if !is_root() || !tools.iter().all(has) {
        eprintln!(
            "SKIPPED: only root can become an ordinary user, with unshare, setpriv, fusermount3"
        );
        return;
    }
    let place = Place::new();
    let home = place.path("home");
    let script = r#"
        set -e
        mknod -m 666 "$HOME/fuse" c 10 229
        mount --bind "$HOME/fuse" /dev/fuse
        chmod 711 "$HOME/.."
        chown -R 65534:65534 "$HOME/.."
        cp "$PROGRAM" "$HOME/../program"
        user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
        trap 'user "$HOME/../program" down --force || true' EXIT
        eval "$(user "$HOME/../program" up)"
        user sh -c 'echo written > "$INTARSIA_MOUNT/file"; cat "$INTARSIA_MOUNT/file"'
        user "$HOME/../program" status --json
        user "$HOME/../program" down
    "#;
    let mut command = place.command(&[]);
    let environment: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(std::ffi::OsStr::to_owned)))
        .collect();
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script]).env("PROGRAM", command.get_program());
    for (name, value) in environment {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    command = shell;
    let answer = Answer::of(command.current_dir(&home)).code(0);
    answer.prints("written").prints("\"in_force\": false").says("is down after");
}

#[test]
fn a_read_only_file_system_is_refused() {
    if !has_fuse() || !is_root() {
        eprintln!("SKIPPED: only root can make a read-only mount");
        return;
    }
    let place = Place::new();
    let mount = ReadOnly::at(&place.path("ro"));
    let dir = place.text("ro/store");
    place
        .run(&["up", &place.text("mnt"), "--dir", &dir])
        .code(1)
        .says("is on a read-only file system");
    let tier = place.text("ro/tier");
    place.up(&["--tier", &tier]).code(1).says("is on a read-only file system");
    drop(mount);
    assert!(!place.path("mnt").exists());
}

/// A read-only tmpfs.
struct ReadOnly(std::path::PathBuf);

impl ReadOnly {
    fn at(path: &Path) -> Self {
        std::fs::create_dir(path).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "ro,size=1m", "intarsia-test"]).arg(path);
        assert!(command.status().unwrap().success());
        Self(path.to_owned())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_tier_that_is_left_out_is_refused_and_one_that_is_gone_is_named() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let (old, new) = (place.text("old"), place.text("new"));
    place.up(&["--tier", &old, "--tier", &new]).code(0);
    place.run(&["down"]).code(0);
    place.up(&["--tier", &new]).code(2).says(&format!("--tier {old}"));
    place.up(&[]).code(2).says("could not be read");
    std::fs::rename(&old, place.path("away")).unwrap();
    place.up(&["--tier", &new]).code(0).says(&format!("The tier {old} is not there"));
    place.run(&["down"]).code(0);
    std::fs::rename(place.path("away"), &old).unwrap();
    place.up(&["--tier", &old, "--tier", &new]).code(0);
    place.run(&["down"]).code(0);
}

#[test]
fn a_tier_whose_disk_is_not_mounted_is_not_made_anew() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    // What lies in memory is made anew, and so may be the place of a test.
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    let (tier, away) = (disk.path().join("tier"), disk.path().join("away"));
    let (store, tier) = (place.text("store"), tier.display().to_string());
    place.up(&["--tier", &tier]).code(0);
    std::fs::write(place.path("mnt/file"), vec![7; 100_000]).unwrap();
    place.run(&["down"]).code(0);
    std::fs::rename(&tier, &away).unwrap();
    place.up(&["--tier", &tier]).code(2).says("nothing of it is there");
    place.run(&["check", &store]).code(1).says("are their disks mounted?");
    assert!(!Path::new(&tier).exists());
    // Where it is now.
    place.up(&["--tier", &away.display().to_string()]).code(0);
    assert_eq!(std::fs::read(place.path("mnt/file")).unwrap(), vec![7; 100_000]);
    place.run(&["down"]).code(0);
    place.run(&["check", "--content", &store]).code(0);
}

#[test]
fn a_mount_point_that_an_interrupted_up_has_made_goes_with_the_store() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    place.up(&[]).code(0);
    let mark = place.path("store/mount-point-made");
    assert_eq!(std::fs::read(&mark).unwrap(), place.text("mnt").into_bytes());
    place.run(&["down"]).code(0);
    assert!(!place.path("mnt").exists() && !mark.exists());
    // What one leaves that was killed before it was registered.
    let leave = || {
        std::fs::create_dir(place.path("mnt")).unwrap();
        std::fs::write(&mark, place.text("mnt")).unwrap();
    };
    leave();
    place.up(&[]).code(0);
    place.run(&["down"]).code(0);
    assert!(!place.path("mnt").exists());
    leave();
    place.run(&["down", "--purge", &place.text("store")]).code(0);
    assert!(!place.path("mnt").exists() && !place.path("store").exists());
    // One that the user made stays.
    std::fs::create_dir(place.path("mnt")).unwrap();
    place.up(&[]).code(0);
    place.run(&["down", "--purge"]).code(0);
    assert!(place.path("mnt").exists());
}

/// What is left of a store that was up for one command.
fn assert_down(place: &Place) {
    assert!(!is_mounted(&place.path("mnt")) && !place.path("mnt").exists());
}

#[test]
fn a_store_is_up_for_one_command_and_ends_with_its_code() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let (mount, dir) = (place.text("mnt"), place.text("store"));
    std::fs::create_dir(place.path("in")).unwrap();
    std::fs::write(place.path("in/text"), "staged").unwrap();
    let (content, out) = (format!("{}/.", place.text("in")), place.text("out"));
    let around = |more: &[&str], command: &[&str]| {
        let mut words = vec!["up", mount.as_str(), "--dir", dir.as_str()];
        words.extend(more);
        words.push("--");
        words.extend(command);
        place.run(&words)
    };
    let script = "mkdir $INTARSIA_MOUNT/r; tr a-z A-Z < $INTARSIA_MOUNT/text > $INTARSIA_MOUNT/r/text; exit 7";
    let staged = ["--stage-in", &content, "--stage-out", "r", &out];
    around(&staged, &["sh", "-c", script]).code(7);
    assert_down(&place);
    assert_eq!(std::fs::read_to_string(place.path("out/r/text")).unwrap(), "STAGED");
    // The data stays, and the next command finds it.
    let text = format!("{mount}/r/text");
    around(&[], &["cat", &text]).code(0).prints("STAGED");
    around(&[], &["no-such-program"]).code(127).says("no-such-program");
    assert_down(&place);
    // But not what could not be copied out.
    let vain = ["--discard", "--stage-out", "absent", &out];
    around(&vain, &["true"]).code(1).says("the data stays");
    around(&["--discard"], &["cat", &text]).code(0).prints("STAGED");
    assert_down(&place);
    assert!(!place.path("store").exists());
    // Nothing is begun beside a store that is up, and that stays.
    place.up(&[]).code(0);
    let touched = place.text("touched");
    around(&[], &["touch", &touched]).code(4);
    assert!(!place.path("touched").exists() && is_mounted(&place.path("mnt")));
    place.run(&["down", &mount]).code(0);
    place.run(&["up", &mount, "--stage-in", &content]).code(2).says("COMMAND");
}

#[test]
fn a_signal_ends_the_command_and_the_store_goes_down() {
    if !has_fuse() {
        return;
    }
    let place = Place::new();
    let (mount, dir) = (place.text("mnt"), place.text("store"));
    let script = "sleep 600 & trap \"echo told > $INTARSIA_MOUNT/told; kill $!; exit 3\" TERM; touch $INTARSIA_MOUNT/begun; wait";
    let mut up =
        place.command(&["up", &mount, "--dir", &dir, "--", "sh", "-c", script]).spawn().unwrap();
    wait_until("the command runs", || place.path("mnt/begun").exists());
    let told = Command::new("kill").args(["-TERM", &up.id().to_string()]).status().unwrap();
    assert!(told.success());
    assert_eq!(up.wait().unwrap().code(), Some(3), "the code of the command");
    assert_down(&place);
    let told = format!("{mount}/told");
    place.run(&["up", &mount, "--dir", &dir, "--", "cat", &told]).code(0).prints("told");
}
