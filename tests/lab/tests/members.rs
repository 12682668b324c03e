//! Hosts that join and leave a store that is up, and what a lost one had alone, by the command.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use intarsia_lab_tests::{Cluster, is_unmet};
use intarsia_posix_tests::{intarsia, wait_for};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(90);
/// Too large to stand beside its inode.
const BYTES: usize = 300_000;

fn ask(arguments: &[&str], mount: &Path) -> Output {
    let mut command = Command::new(intarsia());
    let (verb, rest) = arguments.split_first().unwrap();
    // The host of 'leave' stands before the mount.
    let (host, flags): (Vec<&str>, Vec<&str>) =
        rest.iter().partition(|word| !word.starts_with('-'));
    command.arg(verb).args(host).arg(mount).args(flags).output().unwrap()
}

fn report(arguments: &[&str], mount: &Path, code: i32) -> Value {
    let output = ask(arguments, mount);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn home(file: &Path) -> String {
    let mut value = [0; 256];
    let len = rustix::fs::getxattr(file, "user.intarsia.location", &mut value[..]).unwrap();
    String::from_utf8_lossy(&value[..len]).trim_end_matches('\0').to_owned()
}

fn content(n: u8) -> Vec<u8> {
    (0..BYTES).map(|at| u8::try_from(at % 251).unwrap() ^ n).collect()
}

#[test]
fn hosts_join_and_leave_a_running_store_and_lost_files_are_listed() {
    if is_unmet() {
        return;
    }
    let mut cluster = Cluster::start_with_spare(3);
    let names: Vec<String> = (0..6).map(|n| format!("f{n}")).collect();
    for (n, name) in (0..).zip(&names) {
        fs::write(cluster.mount(3).join(name), content(n)).unwrap();
    }
    let are_whole = |at: &Path| {
        for (n, name) in (0..).zip(&names) {
            assert_eq!(fs::read(at.join(name)).unwrap(), content(n), "{}", at.display());
        }
    };
    cluster.join();
    are_whole(&cluster.mount(4));
    fs::write(cluster.mount(4).join("by the new host"), content(9)).unwrap();
    assert_eq!(fs::read(cluster.mount(2).join("by the new host")).unwrap(), content(9));

    // What leaves hands over its files, and a host that is not there is refused.
    let here = cluster.mount(1);
    let refused = ask(&["leave", "n9", "--json"], &here);
    assert_eq!(refused.status.code(), Some(2));
    let moved = wait_for("all to be closed and moved", LIMIT, || {
        let output = ask(&["leave", "n3", "--json"], &here);
        output.status.success().then_some(output)
    });
    let moved: Value = serde_json::from_slice(&moved.stdout).unwrap();
    assert_eq!(moved["stuck"], 0, "{moved}");
    for name in &names {
        assert_ne!(home(&here.join(name)), "n3");
    }
    let down =
        Command::new(intarsia()).args(["down", "--this-host"]).arg(cluster.mount(3)).output();
    assert!(down.unwrap().status.success());
    are_whole(&cluster.mount(2));
    assert_eq!(report(&["lost", "--json"], &here, 0)["summary"]["files"], 0);

    // What only a lost host had is listed, kept until somebody says otherwise, and then gone.
    fs::write(cluster.mount(4).join("alone"), content(7)).unwrap();
    wait_for("the home of the file", LIMIT, || (home(&here.join("alone")) == "n4").then_some(()));
    cluster.kill_node(4);
    let listed = wait_for("the loss", LIMIT, || {
        let output = ask(&["lost", "--json"], &here);
        (output.status.code() == Some(3)).then_some(output.stdout)
    });
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    let paths: Vec<&str> =
        listed["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    assert!(paths.contains(&"/alone"), "{listed}");
    assert_eq!(fs::read(here.join("alone")).unwrap_err().raw_os_error(), Some(5));
    let gone = report(&["lost", "--forget", "--json"], &here, 0);
    assert_eq!(gone["summary"]["removed"], gone["summary"]["files"]);
    assert!(!here.join("alone").exists());
    report(&["leave", "n4", "--json"], &here, 0);
}
