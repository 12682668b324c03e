//! Labs as programs use them: made, reached, cut, shaped and taken away. They need root and a machine that makes
//! network namespaces.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on is to stop")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use intarsia_lab::{Lab, Node, Rate, Selection, Spec, Subnet};

/// Why no lab can be made here; where every test has to run, that is a failure.
fn is_skipped() -> bool {
    let is_root = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|s| s.lines().any(|l| l.starts_with("Uid:\t0\t0\t")));
    let is_there = |tool: &str| {
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
            .iter()
            .any(|d| std::path::Path::new(d).join(tool).exists())
    };
    let missing: Vec<&str> =
        ["ip", "tc", "nft", "nsenter"].into_iter().filter(|t| !is_there(t)).collect();
    let reason = match (is_root, missing.as_slice()) {
        (true, []) => return false,
        (false, _) => "a lab needs root".to_owned(),
        (_, tools) => format!("a lab needs {}", tools.join(", ")),
    };
    let must = std::env::var("INTARSIA_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
    assert!(!must, "cannot run, and every test is required: {reason}");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
    true
}

/// A name that no other test run has.
fn unique(test: &str) -> String {
    format!("t{}-{test}", std::process::id())
}

fn spec(test: &str, nodes: u16, rate: Option<Rate>) -> Spec {
    Spec::new(unique(test).parse().unwrap(), nodes, Subnet::default(), rate).unwrap()
}

fn names_of(lab: &str) -> Vec<String> {
    let all = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = all.filter_map(|e| e.file_name().into_string().ok());
    names.filter(|n| n.starts_with(&format!("intarsia-lab-{lab}-"))).collect()
}

fn text_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Everything of the machine's own network that a lab could disturb.
fn outside() -> Vec<String> {
    let shell = |script: &str| text_of(Command::new("sh").args(["-c", script]));
    vec![
        // Without times that run down.
        shell("ip -json addr | sed -E 's/\"(valid|preferred)_life_time\":[0-9]+//g'"),
        shell("ip -json route"),
        shell("tc -json qdisc show"),
        shell("PATH=$PATH:/usr/sbin nft list ruleset"),
        shell("ls /run/netns 2>/dev/null | grep -v ^intarsia-lab- || true"),
        shell("cat /etc/hosts"),
    ]
}

/// Starts a program that says first that it is ready, and what it says afterwards.
fn listening(command: &mut Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    (child, lines)
}

/// Whether datagrams get from one node to another; unlike what TCP sends, none is ever sent again. The receiver
/// listens until all are sent and a moment more, so that a busy machine does not look like a cut link.
fn arrives(lab: &Lab, from: Node, to: Node) -> bool {
    let listen = "import select,socket,sys\n\
        s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('0.0.0.0',7000))\n\
        print('ready',flush=True)\n\
        select.select([s,sys.stdin],[],[],30)\n\
        print('heard' if select.select([s],[],[],0.2)[0] else 'nothing',flush=True)\n";
    let send = "import socket,sys\n\
        s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
        for i in range(5): s.sendto(b'x',(sys.argv[1],7000))\n";
    let mut command = lab.command(to, "python3");
    let (mut listener, mut lines) = listening(command.args(["-c", listen]).stdin(Stdio::piped()));
    let address = lab.address(to).to_string();
    let sent = lab.command(from, "python3").args(["-c", send, &address]).status().unwrap();
    assert!(sent.success());
    drop(listener.stdin.take());
    let heard = lines.next().unwrap().unwrap() == "heard";
    assert!(listener.wait().unwrap().success());
    heard
}

/// Sends by TCP for a bounded time and returns the bytes that arrived.
fn bytes_in(lab: &Lab, from: Node, to: Node, time: Duration) -> u64 {
    let receive = "import socket,sys,time\n\
        l=socket.create_server(('0.0.0.0',7001)); print('ready',flush=True)\n\
        c,_=l.accept(); end=time.monotonic()+float(sys.argv[1]); n=0; c.settimeout(float(sys.argv[1]))\n\
        while time.monotonic()<end:\n\
        \x20 try: n+=len(c.recv(1<<16))\n\
        \x20 except TimeoutError: pass\n\
        print(n,flush=True)\n";
    let send = "import socket,sys\n\
        s=socket.create_connection((sys.argv[1],7001),10); b=bytes(1<<16)\n\
        try:\n\
        \x20 while True: s.sendall(b)\n\
        except OSError: pass\n";
    let mut command = lab.command(to, "python3");
    let seconds = time.as_secs_f64().to_string();
    let (mut receiver, mut lines) = listening(command.args(["-c", receive, &seconds]));
    let address = lab.address(to).to_string();
    let mut sender = lab.command(from, "python3").args(["-c", send, &address]).spawn().unwrap();
    let count = lines.next().unwrap().unwrap().parse().unwrap();
    receiver.wait().unwrap();
    sender.wait().unwrap();
    count
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn all_nodes_reach_each_other_and_nobody_else() {
    if is_skipped() {
        return;
    }
    let before = outside();
    let lab = Lab::create(spec("all", 4, Some(Rate::mbit(100)))).unwrap();
    assert_eq!(outside(), before, "making a lab changes nothing outside");
    assert_eq!(names_of(&unique("all")).len(), 5);
    for (a, b) in lab.nodes().flat_map(|a| lab.nodes().map(move |b| (a, b))) {
        assert!(arrives(&lab, a, b), "{a} does not reach {b}");
    }
    let n1 = lab.node("n1").unwrap();
    let addresses = text_of(lab.command(n1, "ip").args(["-4", "-brief", "addr"]));
    assert!(addresses.contains("10.77.0.1/16"), "{addresses}");
    assert_eq!(addresses.lines().count(), 2, "loopback and one link: {addresses}");
    let routes = text_of(lab.command(n1, "ip").args(["route"]));
    assert!(!routes.contains("default"), "no way out: {routes}");
    // What is looked for would fill a table that all namespaces of the machine share.
    let neighbours = text_of(lab.command(n1, "ip").args(["neigh"]));
    let known = neighbours.lines().filter(|line| line.contains("PERMANENT")).count();
    assert_eq!((known, neighbours.lines().count()), (3, 3), "{neighbours}");
    assert!(lab.node("n5").is_err());
    drop(lab);
    assert_eq!(names_of(&unique("all")), [""; 0]);
    assert_eq!(outside(), before, "nor does taking it down");
}

#[test]
fn a_node_shares_all_but_the_network() {
    if is_skipped() {
        return;
    }
    let lab = Lab::create(spec("share", 2, None)).unwrap();
    let n2 = lab.node("n2").unwrap();
    let script = "readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/uts; pwd; \
        echo $INTARSIA_LAB $INTARSIA_LAB_NODE $INTARSIA_LAB_ADDRESS; cat $INTARSIA_LAB_HOSTS";
    let inside = text_of(lab.command(n2, "sh").args(["-c", script]));
    let mut lines = inside.lines();
    for kind in ["mnt", "pid", "uts"] {
        let ours = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        assert_eq!(lines.next(), ours.to_str());
    }
    assert_eq!(lines.next(), std::env::current_dir().unwrap().to_str());
    assert_eq!(lines.next().unwrap(), format!("{} n2 10.77.0.2", unique("share")));
    assert!(inside.lines().any(|l| l == "10.77.0.1 n1"), "{inside}");
    // The process is the program's own: its number is the child's.
    let child =
        lab.command(n2, "sh").args(["-c", "echo $$"]).stdout(Stdio::piped()).spawn().unwrap();
    let id = child.id().to_string();
    assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim(), id);
}

#[test]
fn getaddrinfo_finds_the_names_where_they_are_wanted() {
    if is_skipped() {
        return;
    }
    let lab = Lab::create(spec("names", 2, None)).unwrap();
    let [n1, _] = [lab.node("n1").unwrap(), lab.node("n2").unwrap()];
    let find = "import socket; print(socket.getaddrinfo('n2', 1, socket.AF_INET)[0][4][0])";
    let found = text_of(lab.command_with_names(n1, "python3").args(["-c", find]));
    assert_eq!(found.trim(), "10.77.0.2");
    let without = lab.command(n1, "getent").args(["ahostsv4", "n2"]).output().unwrap();
    assert!(!without.status.success(), "the machine's own names are not changed");

    // What was mounted before is there.
    let dir = std::env::temp_dir().join(unique("names"));
    std::fs::create_dir(&dir).unwrap();
    text_of(Command::new("mount").args(["-t", "tmpfs", "lab-test"]).arg(&dir));
    std::fs::write(dir.join("seen"), "").unwrap();
    let listed = lab.command_with_names(n1, "ls").arg(&dir).output();
    text_of(Command::new("umount").arg(&dir));
    std::fs::remove_dir(&dir).unwrap();
    assert_eq!(String::from_utf8(listed.unwrap().stdout).unwrap(), "seen\n");
}

#[test]
fn links_are_cut_both_ways_one_way_and_all_and_healed() {
    if is_skipped() {
        return;
    }
    let lab = Lab::create(spec("cut", 3, None)).unwrap();
    let [n1, n2, n3] = ["n1", "n2", "n3"].map(|n| lab.node(n).unwrap());
    assert!(arrives(&lab, n1, n2) && arrives(&lab, n2, n1));

    lab.cut(n1, n2).unwrap();
    assert!(!arrives(&lab, n1, n2) && !arrives(&lab, n2, n1));
    assert!(arrives(&lab, n1, n3) && arrives(&lab, n3, n2));
    assert!(arrives(&lab, n1, n1), "a node reaches itself");
    lab.heal_selected(Selection::Between(n1, n2)).unwrap();
    assert!(arrives(&lab, n1, n2) && arrives(&lab, n2, n1));

    lab.cut_one_way(n1, n2).unwrap();
    assert!(!arrives(&lab, n1, n2));
    assert!(arrives(&lab, n2, n1));

    lab.isolate(n3).unwrap();
    for other in [n1, n2] {
        assert!(!arrives(&lab, n3, other) && !arrives(&lab, other, n3));
    }
    assert_eq!(lab.cuts().unwrap().len(), 5);
    lab.heal().unwrap();
    assert_eq!(lab.cuts().unwrap(), []);
    for (a, b) in [(n1, n2), (n3, n1), (n2, n3)] {
        assert!(arrives(&lab, a, b), "{a} to {b}");
    }
}

#[test]
fn a_cut_ends_by_itself_and_a_new_time_takes_the_place_of_the_old() {
    if is_skipped() {
        return;
    }
    let lab = Lab::create(spec("time", 2, None)).unwrap();
    let [n1, n2] = ["n1", "n2"].map(|n| lab.node(n).unwrap());
    let both = Selection::Between(n1, n2);
    lab.cut_selected(both, Some(Duration::from_secs(600))).unwrap();
    assert!(lab.cuts().unwrap().iter().all(|c| c.ends_in_s.is_some_and(|s| s > 500)));
    lab.cut_selected(both, Some(Duration::from_secs(1))).unwrap();
    assert_eq!(lab.cuts().unwrap().len(), 2);
    wait_until("the end of the cut", || lab.cuts().unwrap().is_empty());
    assert!(arrives(&lab, n1, n2));
    lab.cut_selected(both, Some(Duration::from_secs(1))).unwrap();
    lab.cut(n1, n2).unwrap();
    assert!(lab.cuts().unwrap().iter().all(|c| c.ends_in_s.is_none()));
    lab.heal().unwrap();
    lab.heal_selected(Selection::Of(n1)).unwrap();
}

#[test]
fn links_hold_their_rate_in_both_directions() {
    if is_skipped() {
        return;
    }
    let time = Duration::from_secs(2);
    // 20 Mbit/s are 2.5 MB/s; half and twice are the bounds, on a machine that may be busy.
    let expected = 2_500_000.0 * time.as_secs_f64();
    let is_near = |bytes: u64| (0.5 * expected..2.0 * expected).contains(&(bytes as f64));
    let lab = Lab::create(spec("rate", 3, Some(Rate::mbit(20)))).unwrap();
    let [n1, n2, n3] = ["n1", "n2", "n3"].map(|n| lab.node(n).unwrap());
    let bytes = bytes_in(&lab, n1, n2, time);
    assert!(is_near(bytes), "{bytes}");

    // A slow sender, then a slow receiver, between fast others.
    lab.set_rate(n1, None).unwrap();
    lab.set_rate(n2, None).unwrap();
    assert_eq!(lab.rates().unwrap(), [(n1, None), (n2, None), (n3, Some(Rate::mbit(20)))].into());
    for (from, to) in [(n3, n1), (n1, n3)] {
        let bytes = bytes_in(&lab, from, to, time);
        assert!(is_near(bytes), "{from} to {to}: {bytes}");
    }
    let bytes = bytes_in(&lab, n1, n2, time);
    assert!(bytes as f64 > 4.0 * expected, "without a rate: {bytes}");
    lab.set_rate(n1, Some(Rate::mbit(20))).unwrap();
    let bytes = bytes_in(&lab, n1, n2, time);
    assert!(is_near(bytes), "slow again: {bytes}");
}

#[test]
fn tcp_is_what_linux_has_by_itself_whatever_the_machine_is_set_to() {
    if is_skipped() {
        return;
    }
    let lab = Lab::create(spec("tcp", 2, None)).unwrap();
    let [n1, n2] = ["n1", "n2"].map(|n| lab.node(n).unwrap());
    // 6 and 13: `TCP_CONGESTION`.
    let told = "print(s.getsockopt(6,13,16).split(b'\\0')[0].decode(),flush=True)";
    let accept = format!(
        "import socket\n\
         l=socket.create_server(('0.0.0.0',7002)); print('ready',flush=True)\n\
         s,_=l.accept(); {told}\n"
    );
    let connect =
        format!("import socket,sys\ns=socket.create_connection((sys.argv[1],7002),10); {told}\n");
    let mut command = lab.command(n2, "python3");
    let (mut server, mut lines) = listening(command.args(["-c", &accept]));
    let address = lab.address(n2).to_string();
    let of_client = text_of(lab.command(n1, "python3").args(["-c", &connect, &address]));
    assert_eq!(of_client.trim(), "cubic");
    assert_eq!(lines.next().unwrap().unwrap(), "cubic");
    server.wait().unwrap();
}

#[test]
fn a_dropped_lab_goes_with_its_processes_and_ends_no_others() {
    if is_skipped() {
        return;
    }
    let lab = Lab::create(spec("drop", 2, None)).unwrap();
    let n1 = lab.node("n1").unwrap();
    let mut meek = lab.command(n1, "sleep").arg("600").spawn().unwrap();
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done";
    let mut stubborn =
        lab.command(n1, "sh").args(["-c", stubborn]).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(stubborn.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    wait_until("three processes", || lab.occupants().unwrap().len() == 3);
    let before = Instant::now();
    drop(lab);
    assert!(before.elapsed() < Duration::from_secs(15), "bounded");
    assert!(!meek.wait().unwrap().success());
    assert!(!stubborn.wait().unwrap().success());
    assert!(bystander.try_wait().unwrap().is_none(), "a process outside is left alone");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(names_of(&unique("drop")), [""; 0]);
}

#[test]
fn a_lab_goes_in_a_panic_too_and_one_name_is_one_lab() {
    if is_skipped() {
        return;
    }
    let result = std::thread::spawn(|| {
        let _lab = Lab::create(spec("panic", 1, None)).unwrap();
        let twice = Lab::create(spec("panic", 1, None)).err().unwrap().to_string();
        panic!("{twice}");
    })
    .join();
    let said = result.unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("belongs to a program that runs"), "{said}");
    assert_eq!(names_of(&unique("panic")), [""; 0]);
}

#[test]
fn a_kept_lab_stays_until_it_is_removed() {
    if is_skipped() {
        return;
    }
    let name = unique("kept").parse().unwrap();
    assert!(Lab::open(&name).unwrap().is_none());
    Lab::create(spec("kept", 2, None)).unwrap().keep().unwrap();
    let lab = Lab::open(&name).unwrap().unwrap();
    let twice = Lab::create(spec("kept", 2, None)).err().unwrap().to_string();
    assert!(twice.contains("intarsia lab down"), "{twice}");
    let mut sleeper = lab.command(lab.node("n2").unwrap(), "sleep").arg("600").spawn().unwrap();
    wait_until("the process", || lab.occupants().unwrap().len() == 1);
    drop(lab);
    assert_eq!(names_of(&unique("kept")).len(), 3, "an opened lab is not owned");
    let refused = Lab::remove(&name, false).unwrap_err().to_string();
    assert!(refused.contains("sleep 600") && refused.contains("--kill"), "{refused}");
    assert!(sleeper.try_wait().unwrap().is_none());
    let removal = Lab::remove(&name, true).unwrap().unwrap();
    assert_eq!((removal.namespaces, removal.ended.len()), (3, 1));
    sleeper.wait().unwrap();
    assert!(Lab::remove(&name, true).unwrap().is_none());
}
