//! The life cycle of a store: a sample of the model, and each promise about `up`, `down` and `leave` by itself.
//!
//! The whole model, and random stories, are `make test-life-cycle`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use intarsia_lab_tests::life_cycle::{self, Plan, Report};
use intarsia_lab_tests::{Cluster, ended, is_unmet, kill};
use intarsia_posix_tests::{intarsia, run, wait_for};

const REFUSED: i32 = 2;
const DEGRADED: i32 = 3;
const BUSY: i32 = 4;

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_life-cycle").into()
}

/// Labs of the model at once, over all tests: more of them starve each other's servers.
const LABS: usize = 4;

/// So many of these labs, given back in the end.
struct Labs(usize);

static FREE: (Mutex<usize>, Condvar) = (Mutex::new(LABS), Condvar::new());

impl Labs {
    fn wait_for(count: usize) -> Self {
        let (free, changed) = &FREE;
        let mut free = changed.wait_while(free.lock().unwrap(), |free| *free < count).unwrap();
        *free -= count;
        Self(count)
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        let (free, changed) = &FREE;
        *free.lock().unwrap() += self.0;
        changed.notify_all();
    }
}

/// Runs the cases of these names, and fails when anything is not as promised.
fn holds(names: &[&str]) {
    if is_unmet() {
        return;
    }
    let only = names.iter().map(|name| (*name).to_owned()).collect();
    let limit = Duration::from_secs(3600);
    let labs = names.len().min(2);
    let _taken = Labs::wait_for(labs);
    let plan = Plan { program: program(), labs, limit, every: 1, only };
    let report = life_cycle::run(&plan);
    assert_eq!(report.run, names.len(), "no such case among {names:?}");
    assert_clean(&report);
}

fn assert_clean(report: &Report) {
    assert!(report.is_clean(), "{report}");
}

#[test]
fn two_ups_at_once_never_lose_a_store_that_is_down() {
    holds(&["Down-TwoUps", "PowerLoss-TwoUps", "Abandoned-TwoUps"]);
}

#[test]
fn an_up_that_was_killed_is_taken_up_again_and_down_leaves_nothing() {
    holds(&["Down-Up-up:started", "Down-Up-agent-up:started@n2", "Down-Up-node:formed@n2"]);
}

#[test]
fn after_leave_and_down_the_store_comes_up_with_the_remaining_hosts() {
    holds(&["LeftDown-Up", "LeftDown-UpFewer"]);
}

#[test]
fn a_host_lost_while_the_store_was_down_does_not_keep_it_down() {
    holds(&["Down-UpFewer", "DisksRemoved-Up", "DisksRemoved-UpFewer"]);
}

#[test]
fn a_host_that_comes_back_with_empty_disks_at_once_starts_no_server_empty() {
    holds(&["CrashedRemoved-Up"]);
}

#[test]
fn a_host_that_has_older_disks_again_takes_nothing_from_the_others() {
    holds(&["DisksReturned-Up", "DisksReturned-UpFewer", "CrashedReturned-Up"]);
}

#[test]
fn down_purge_deletes_everything_also_when_the_store_is_down_or_a_host_was_lost() {
    holds(&["Down-DownPurge", "CrashedHost-DownPurge", "CrashedRemoved-DownPurge"]);
}

#[test]
fn a_down_that_was_killed_is_taken_up_again() {
    holds(&["Up-Down-down:finished", "Up-Down-agent-down:finished@n2", "Up-Down-node:closed@n2"]);
}

#[test]
fn the_documentation_shows_the_tables_of_the_model() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/life-cycle.md");
    let page = fs::read_to_string(page).unwrap();
    for line in life_cycle::tables().lines() {
        assert!(page.contains(line), "missing: {line}\n'life-cycle tables' prints all of them");
    }
}

#[test]
fn every_point_has_a_story() {
    let without: Vec<String> = life_cycle::points_without_story();
    assert!(without.is_empty(), "{without:?}");
}

fn down(cluster: &Cluster, more: &[&str]) -> Output {
    cluster.command("down").args(more).output().unwrap()
}

#[test]
fn a_busy_down_stops_nothing_and_can_be_repeated() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let held = cluster.mount(2).join("held");
    let file = File::create(&held).unwrap();
    file.write_all_at(b"held", 0).unwrap();
    for _ in 0..2 {
        let output = down(&cluster, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(BUSY), "{said}");
        assert!(said.contains("host n2") && said.contains("Nothing was stopped"), "{said}");
        for n in 1..=3 {
            assert!(cluster.status(n).is_some(), "n{n} was stopped");
            fs::write(cluster.mount(n).join(format!("by-n{n}")), b"x").unwrap();
        }
    }
    drop(file);
    let output = down(&cluster, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_host_that_finishes_slowly_keeps_its_metadata_until_then() {
    if is_unmet() {
        return;
    }
    const MIB: u64 = 1 << 20;
    let cluster = Cluster::start(3);
    let file = File::create(cluster.mount(1).join("sparse")).unwrap();
    // Both holes, which are not read, and bytes, which are.
    file.set_len(10 << 30).unwrap();
    let bytes = vec![7; 8 << 20];
    for piece in 0..24 {
        file.write_all_at(&bytes, piece * 400 * MIB).unwrap();
    }
    drop(file);
    let output = down(&cluster, &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("CLUSTERDOWN"), "{said}");
    for n in 1..=3 {
        assert!(cluster.servers(n).is_empty(), "a server of n{n} is left");
    }
}

/// Takes the store down and brings it up again, while `lost` is missing on n3.
fn come_back_without(cluster: &Cluster, lost: &Path) {
    cluster.kill_host(3);
    fs::remove_dir_all(lost).unwrap();
    cluster.up_accepting_loss();
}

#[test]
fn a_host_that_lost_its_directory_or_one_tier_goes_on_with_what_is_left() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start_prepared(3, |dir| {
        let tier = |name: &str| dir.join(format!("{{host}}.{name}")).display().to_string();
        vec!["--tier".into(), tier("old")]
    });
    let tier = cluster.dir().join("n3.old");
    let content = vec![3; 300_000];
    let mount = |n: usize, name: &str| cluster.mount(n).join(name);
    let twice = |n: usize| mount(n, "twice/f");
    fs::create_dir(mount(3, "twice")).unwrap();
    let copies = ["hint", "set", "replicas=2", "close=safe"];
    run(Command::new(intarsia()).args(copies).arg(mount(3, "twice")));
    fs::write(mount(3, "alone"), &content).unwrap();
    fs::write(twice(3), &content).unwrap();
    assert_eq!(cluster.hosts_of(&twice(3)).len(), 2);

    come_back_without(&cluster, &cluster.store(3));
    for n in 1..=3 {
        assert!(fs::read(mount(n, "alone")).unwrap() == content, "n{n}");
    }

    come_back_without(&cluster, &tier);
    wait_for("both copies again", Duration::from_secs(120), || {
        let read = fs::read(twice(1)).ok()?;
        (read == content && cluster.hosts_of(&twice(1)).len() == 2).then_some(())
    });
    let lost = Command::new(intarsia()).arg("lost").arg(cluster.mount(1)).output().unwrap();
    let said = String::from_utf8_lossy(&lost.stdout).into_owned();
    let more = String::from_utf8_lossy(&lost.stderr);
    assert!(said.contains("alone") && !said.contains("twice"), "{said}{more}{}", cluster.errors());
}

/// As if a server had died and begun to copy anew, and that was cut short.
fn set_aside(server: &Path) {
    let aside = server.join("aside");
    fs::create_dir(&aside).unwrap();
    for name in ["appendonlydir", "nodes.conf", "complete"] {
        fs::rename(server.join(name), aside.join(name)).unwrap();
    }
}

/// Writes so many files on the first host, each with its name in it.
fn write_files(cluster: &Cluster, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|n| format!("f{n}")).collect();
    for name in &names {
        fs::write(cluster.mount(1).join(name), name).unwrap();
    }
    names
}

/// All three hosts read what was [written](write_files).
fn assert_all_read(cluster: &Cluster, names: &[String]) {
    for n in 1..=3 {
        for name in names {
            assert_eq!(fs::read_to_string(cluster.mount(n).join(name)).unwrap(), *name, "n{n}");
        }
    }
}

#[test]
fn the_only_copy_of_a_part_of_the_names_is_found_where_a_server_has_set_it_aside() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let names = write_files(&cluster, 200);
    let output = down(&cluster, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Replicas that hold nothing of their own any more, and the primary of one of them is gone for good.
    for n in [1, 2] {
        set_aside(&cluster.store(n).join("servers/1"));
    }
    fs::remove_dir_all(cluster.store(3)).unwrap();
    cluster.up_again();
    assert_all_read(&cluster, &names);
}

#[test]
fn of_two_hosts_none_may_leave_and_that_is_said_at_once() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(2);
    let output = Command::new(intarsia()).args(["leave", "n2"]).arg(cluster.mount(1)).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(REFUSED), "{said}");
    assert!(said.contains("only n1 would be up"), "{said}");
    fs::write(cluster.mount(2).join("f"), "still of the store").unwrap();
    assert_eq!(fs::read_to_string(cluster.mount(1).join("f")).unwrap(), "still of the store");
}

#[test]
fn without_metadata_status_and_lost_say_so_and_name_the_silent_hosts() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    cluster.kill_host(2);
    cluster.kill_host(3);
    let ask = |verb: &str| {
        let output = Command::new(intarsia()).arg(verb).arg(cluster.mount(1)).output().unwrap();
        let said = [output.stdout, output.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
        (output.status.code(), said.concat())
    };
    // Until it is noticed that servers are gone, the metadata answers for what is left of it.
    let said = wait_for("a word of what is missing", Duration::from_secs(60), || {
        let (code, said) = ask("lost");
        (code == Some(DEGRADED) && said.contains("does not answer")).then_some(said)
    });
    assert!(said.contains("nobody knows now what is lost"), "{said}");
    let (code, said) = ask("status");
    assert_eq!(code, Some(DEGRADED), "{said}");
    for host in ["n2", "n3"] {
        assert!(said.lines().any(|line| line.contains(host) && line.contains("silent")), "{said}");
    }
    let status = cluster.status(1).expect("a host without metadata is not one that is down");
    assert_eq!(status["state"], "without metadata");
    assert!(cluster.status(2).is_none());
}

fn up(cluster: &Cluster, more: &[&str]) -> (Option<i32>, String) {
    ended(cluster.command("up").args(more))
}

#[test]
fn an_up_that_fails_ends_the_metadata_servers_that_it_started_and_no_others() {
    if is_unmet() {
        return;
    }
    let is_there = |pid: &i32| Path::new(&format!("/proc/{pid}")).exists();
    let cluster = Cluster::start(3);
    // Of two hosts whose nodes crashed one is taken back because the other fails.
    let servers = [2, 3].map(|n| cluster.servers(n));
    [2, 3].iter().for_each(|n| cluster.kill_node(*n));
    let (code, said) = ended(cluster.command("up").env("INTARSIA_FAILPOINT", "node:formed@n3"));
    assert_eq!(code, Some(1), "{said}");
    assert_eq!([2, 3].map(|n| cluster.servers(n)), servers, "{said}");
    assert!(servers.iter().flatten().all(is_there), "one that ran before has ended: {said}");
    cluster.up_again();

    assert!(down(&cluster, &[]).status.success());
    assert_eq!(cluster.servers(2), [0; 0]);
    let mut alone = Command::new(intarsia());
    alone.args(["lab", "exec", "--lab", cluster.name(), "n2", "--"]).arg(intarsia()).arg("up");
    alone.arg(cluster.mount(2)).args(["--this-host", "--name", "n2", "--dir"]);
    alone.arg(cluster.store(2)).arg("--deployment").arg(cluster.store(2).join("deployment"));
    let (code, said) = ended(alone.env("INTARSIA_FAILPOINT", "node:servers-started@n2"));
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(cluster.servers(2), [0; 0], "servers are left of a node that was killed: {said}");
}

#[test]
fn a_store_goes_on_without_a_part_of_its_names_only_when_that_is_accepted() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let root = |n: usize| cluster.mount(n);
    for d in 0..30 {
        fs::create_dir(root(1).join(format!("d{d}"))).unwrap();
        for f in 0..3 {
            fs::write(root(1).join(format!("d{d}/f{f}")), format!("{d} {f}")).unwrap();
        }
    }
    assert!(down(&cluster, &[]).status.success());
    // The second third is on these two alone.
    for n in [2, 3] {
        fs::remove_dir_all(cluster.store(n)).unwrap();
    }
    let (code, said) = up(&cluster, &[]);
    assert_eq!(code, Some(REFUSED), "{said}");
    assert!(said.contains("33 % of the names") && said.contains("--accept-loss"), "{said}");
    let (code, said) = up(&cluster, &["--accept-loss"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("33 % of the names are gone"), "{said}");

    let check = || {
        let mut check = Command::new(intarsia());
        let output = check.arg("check").arg(root(1)).output().unwrap();
        let said = [output.stdout, output.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
        (output.status.code(), said.concat())
    };
    let (code, said) = check();
    assert_eq!(code, Some(0), "{said}");
    for n in 1..=3 {
        let mut whole = 0;
        for d in fs::read_dir(root(n)).unwrap().flatten().filter(|d| d.path().is_dir()) {
            for f in fs::read_dir(d.path()).unwrap() {
                whole += usize::from(fs::read(f.unwrap().path()).is_ok());
            }
        }
        assert!(whole > 10, "n{n} reads {whole} files");
        fs::write(root(n).join(format!("new{n}")), "new").unwrap();
    }
    assert!(down(&cluster, &[]).status.success());
    assert_eq!(up(&cluster, &[]).0, Some(0));
    assert_eq!(fs::read_to_string(root(2).join("new3")).unwrap(), "new");
}

/// Under whoever is up, so that the servers that are left have begun anew as replicas of those that go.
#[test]
fn a_store_whose_last_copies_go_while_the_others_are_up_comes_up_with_what_is_left() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let names = write_files(&cluster, 50);
    let is_aside = |number: usize| {
        let server = cluster.store(2).join(format!("servers/{number}"));
        server.join("aside").exists().then_some(())
    };
    let going = cluster.processes(1);
    (0..2).for_each(|number| cluster.kill_server(2, number));
    wait_for("what a server had is set aside", Duration::from_secs(30), || is_aside(1));
    going.into_iter().for_each(kill);
    fs::remove_dir_all(cluster.store(1)).unwrap();

    let (mut code, mut said) = up(&cluster, &["--wait", "20s"]);
    // Where the server had its copy again before its primary went, nothing is missing.
    if code != Some(0) {
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("up on n2, n3 without a part of its metadata"), "{said}");
        assert!(said.contains("take the store down"), "{said}");
        let output = down(&cluster, &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (code, said) = up(&cluster, &[]);
        if code == Some(REFUSED) && said.contains("only an older copy") {
            (code, said) = up(&cluster, &["--accept-loss"]);
        }
        if code == Some(REFUSED) && said.contains("of the store's 3 hosts, n1 had one") {
            // The server had become a replica of another primary by then.
            return;
        }
    }
    assert_eq!(code, Some(0), "{said}");
    assert_all_read(&cluster, &names);
}

#[test]
fn down_by_force_ends_everything_of_a_host_whose_directory_was_removed_under_it() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start(3);
    let running = cluster.processes(2);
    assert_eq!(running.len(), 3, "a node and two servers");
    fs::remove_dir_all(cluster.store(2)).unwrap();
    let said = String::from_utf8_lossy(&down(&cluster, &[]).stderr).into_owned();
    assert!(said.contains("--force ends what does not end by itself"), "{said}");
    assert!(down(&cluster, &["--force"]).status.success());
    let is_gone = |pid: &i32| !Path::new(&format!("/proc/{pid}")).exists();
    wait_for("the end of all of them", Duration::from_secs(20), || {
        running.iter().all(is_gone).then_some(())
    });
}

/// Brings the store up on these hosts of the cluster.
fn up_on(cluster: &Cluster, hosts: &str, more: &[&str]) -> (Option<i32>, String) {
    up(cluster, &[&["--hosts", hosts], more].concat())
}

#[test]
fn of_two_hosts_one_goes_on_alone_when_that_is_accepted_and_with_the_other_when_it_is_back() {
    if is_unmet() {
        return;
    }
    let cluster = Cluster::start_with_spare(2);
    let file = |n: usize, name: &str| cluster.mount(n).join(name);
    let read = |n: usize, name: &str| fs::read_to_string(file(n, name)).unwrap();
    for n in 0..50 {
        fs::write(file(1 + n % 2, &format!("f{n}")), n.to_string()).unwrap();
    }
    assert!(down(&cluster, &[]).status.success());

    let (code, said) = up_on(&cluster, "n2", &[]);
    assert_eq!(code, Some(REFUSED), "{said}");
    assert!(said.contains("n2 alone does not") && said.contains("--accept-loss"), "{said}");
    let (code, said) = up_on(&cluster, "n2", &["--accept-loss"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("n2 goes on alone"), "{said}");
    let once = |name: &str| -> std::io::Result<()> {
        for n in 0..50 {
            assert_eq!(fs::read_to_string(file(2, &format!("f{n}")))?, n.to_string());
        }
        let written = File::create(file(2, name))?;
        written.write_all_at(name.as_bytes(), 0)?;
        written.sync_all()
    };
    // Metadata servers that a busy machine keeps from each other for ten seconds give EIO until they are back.
    let alone = |name: &str| wait_for(name, Duration::from_secs(60), || once(name).ok());
    alone("first");
    for number in 0..2 {
        cluster.kill_server(2, number);
    }
    alone("after both servers were killed");
    assert!(down(&cluster, &[]).status.success());
    let (code, said) = up_on(&cluster, "n2", &[]);
    assert_eq!(code, Some(0), "what was accepted once is not asked again: {said}");
    alone("after it was down");
    assert!(down(&cluster, &[]).status.success());

    // What n1 has is older.
    let (code, said) = up_on(&cluster, "n1,n2", &[]);
    assert_eq!(code, Some(0), "{said}");
    for n in 1..=2 {
        for name in ["first", "after both servers were killed", "after it was down"] {
            assert_eq!(read(n, name), name, "n{n}");
        }
    }
    assert!(down(&cluster, &[]).status.success());
    let (code, said) = up_on(&cluster, "n1", &[]);
    assert_eq!(code, Some(REFUSED), "with two hosts a change has two copies again: {said}");

    // A new host takes the place of the one that is gone.
    assert_eq!(up_on(&cluster, "n1", &["--accept-loss"]).0, Some(0));
    let here = cluster.mount(1).display().to_string();
    let (code, said) = up_on(&cluster, "n3", &["--join", &here]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(read(3, "first"), "first");
    fs::write(file(3, "third host"), "joined").unwrap();
    assert_eq!(read(1, "third host"), "joined");
}
