//! The engine over Redis: what the conformance suite does not ask.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, outside of test functions"
)]

mod proxy;
mod records;
mod servers;

use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use intarsia_meta::allowance;
use intarsia_meta::engines::{RedisEngine, RedisOptions, RedisTls};
use intarsia_meta::merge::{merge_counter, merge_directory};
use intarsia_meta::{
    Bytes, CommitOutcome, Condition, DirDelta, Inode, MetaEngine, Mutation, OpId, keys,
};
use intarsia_types::{Encoding, Error, FileKind, InodeId, PartitionId};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use proxy::Proxy;
use servers::{Servers, Settings, single, wait_for};

const P: PartitionId = PartitionId(0);

fn b(bytes: &[u8]) -> Bytes {
    Bytes::copy_from(bytes)
}

const fn op(number: u64) -> OpId {
    OpId { session: 1, number }
}

fn apply(engine: &RedisEngine, mutations: Vec<Mutation>) {
    assert_eq!(engine.commit(P, op(0), &[], mutations).unwrap(), CommitOutcome::Applied);
}

#[test]
fn directories_merge_at_the_server_as_here() {
    if !servers::are_there() {
        return;
    }
    let engine = single().engine();
    let delta = (records::time(), any::<i32>(), records::signed());
    let mut runner = TestRunner::new(Config { cases: 2000, ..Config::default() });
    let test = runner.run(&(records::inode(), delta, any::<bool>()), |(inode, delta, is_dir)| {
        let kind = if is_dir { FileKind::Directory } else { inode.kind };
        let encoding = if is_dir { Encoding::Plain } else { inode.encoding };
        let record = Inode { kind, encoding, ..inode }.encode().unwrap();
        let (time, nlink, entries) = delta;
        let delta = DirDelta { time, nlink, entries };
        let key = keys::inode(inode.ino);
        let mutations = vec![
            Mutation::Put(key.clone(), record.clone()),
            Mutation::Merge { key: key.clone(), delta },
        ];
        let done = engine.commit(P, op(0), &[], mutations);
        match merge_directory(inode.ino, &record, delta) {
            Ok(merged) => {
                prop_assert_eq!(done.unwrap(), CommitOutcome::Applied);
                prop_assert_eq!(engine.get(P, &key).unwrap(), Some(merged));
            }
            Err(Error::NotDirectory) => prop_assert!(matches!(done, Err(Error::NotDirectory))),
            Err(other) => prop_assert!(false, "{}", other),
        }
        Ok(())
    });
    test.unwrap();
}

#[test]
fn damaged_records_are_refused_at_the_server_as_here() {
    if !servers::are_there() {
        return;
    }
    let engine = single().engine();
    let key = keys::inode(InodeId(7));
    let delta = DirDelta { time: Default::default(), nlink: 1, entries: 1 };
    let whole = [&[2, 1][..], &[0; 44]].concat();
    let damaged = [
        &b""[..],
        &[2],
        &whole[..45],
        &[&[3], &whole[1..]].concat(),
        &[&[5], &whole[1..]].concat(),
        &[&[2, 7], &whole[2..]].concat(),
    ];
    for record in damaged {
        assert!(matches!(merge_directory(InodeId(7), record, delta), Err(Error::Corrupt { .. })));
        let mutations = vec![
            Mutation::Put(key.clone(), b(record)),
            Mutation::Merge { key: key.clone(), delta },
        ];
        let refused = engine.commit(P, op(0), &[], mutations);
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{record:?}: {refused:?}");
    }
}

#[test]
fn counters_add_at_the_server_as_here() {
    if !servers::are_there() {
        return;
    }
    let engine = single().engine();
    let key = b(b"Scounter");
    let mut runner = TestRunner::new(Config { cases: 2000, ..Config::default() });
    let test =
        runner.run(&(prop::option::of(records::number()), records::signed()), |(old, delta)| {
            let old = old.map(u64::to_be_bytes);
            let first = match old {
                Some(old) => Mutation::Put(key.clone(), b(&old)),
                None => Mutation::Delete(key.clone()),
            };
            let add = Mutation::Add { key: key.clone(), delta };
            let done = engine.commit(P, op(0), &[], vec![first, add]).unwrap();
            prop_assert_eq!(done, CommitOutcome::Applied);
            let expected = merge_counter(old.as_ref().map(<[u8; 8]>::as_slice), delta).unwrap();
            prop_assert_eq!(engine.get(P, &key).unwrap(), Some(expected));
            Ok(())
        });
    test.unwrap();
    apply(&engine, vec![Mutation::Put(key.clone(), b(b"seven b"))]);
    assert!(engine.commit(P, op(0), &[], vec![Mutation::Add { key, delta: 1 }]).is_err());
}

#[test]
fn a_commit_whose_answer_is_lost_is_applied_once() {
    const THREADS: usize = 4;
    const COMMITS: usize = 150;
    if !servers::are_there() {
        return;
    }
    let servers = single();
    let proxy = Arc::new(Proxy::before(servers.all[0].port));
    let mut options = servers.options();
    options.urls = vec![proxy.url()];
    let engine = RedisEngine::open(&options).unwrap();
    // The functions are loaded before answers are lost.
    apply(&engine, vec![]);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, proxy) = (&engine, &proxy);
            scope.spawn(move || {
                for n in 0..COMMITS {
                    if (n + thread).is_multiple_of(7) {
                        proxy.lose_next_answer();
                    }
                    let one = Mutation::Add { key: b(b"Sn"), delta: 1 };
                    let name = format!("I{thread}-{n}");
                    let absent = Condition::Absent(b(name.as_bytes()));
                    let put = Mutation::Put(b(name.as_bytes()), b(b""));
                    let done = engine.commit(P, op(0), &[absent], vec![one, put]).unwrap();
                    assert_eq!(done, CommitOutcome::Applied);
                }
            });
        }
    });
    let expected = (THREADS * COMMITS) as u64;
    assert_eq!(engine.get(P, b"Sn").unwrap(), Some(b(&expected.to_be_bytes())));
    assert!(proxy.lost() >= 40, "only {} answers were lost", proxy.lost());
    // What the server keeps to tell a commit sent twice goes with the next commit that nobody is beside.
    apply(&engine, vec![]);
    let pattern = format!("{}*o*", options.store);
    let sessions: Vec<Vec<u8>> =
        redis::from_redis_value(servers.all[0].ask(&["KEYS", &pattern])).unwrap();
    let client = redis::Client::open(servers.all[0].url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let [session] = sessions.as_slice() else { panic!("{sessions:?}") };
    let kept: usize = redis::cmd("HLEN").arg(session).query(&mut connection).unwrap();
    assert!(kept <= 2, "{kept} outcomes are kept");
    let expires_s: i64 = redis::cmd("TTL").arg(session).query(&mut connection).unwrap();
    assert!((500..=600).contains(&expires_s), "{expires_s}");
}

#[test]
fn a_server_whose_answers_take_long_serves_again_after_an_outage() {
    if !servers::are_there() {
        return;
    }
    let servers = single();
    let proxy = Proxy::before(servers.all[0].port);
    let mut options = servers.options();
    options.urls = vec![proxy.url()];
    options.timeout = Duration::from_secs(3);
    let engine = RedisEngine::open(&options).unwrap();
    // Longer than an operation is tried for that comes late in an outage.
    proxy.delay_answers(Duration::from_millis(300));
    engine.get(P, b"Ik").unwrap();
    servers.all[0].signal("STOP");
    assert!(engine.get(P, b"Ik").is_err());
    servers.all[0].signal("CONT");
    // Operations keep coming, so that the outage is never forgotten.
    wait_for("an answer", || engine.get(P, b"Ik").is_ok());
}

#[test]
fn a_store_keeps_its_number_of_partitions() {
    if !servers::are_there() {
        return;
    }
    let servers = single();
    let mut options = servers.options();
    options.partitions = Some(5);
    assert_eq!(RedisEngine::open(&options).unwrap().partitions(), 5);
    options.partitions = None;
    assert_eq!(RedisEngine::open(&options).unwrap().partitions(), 5);
    options.partitions = Some(6);
    let refused = RedisEngine::open(&options).err().unwrap().to_string();
    assert!(refused.contains("was made with 5 partitions"), "{refused}");
    options.partitions = Some(0);
    assert!(matches!(RedisEngine::open(&options), Err(Error::Invalid(_))));
    options.store = "a{b}".into();
    assert!(matches!(RedisEngine::open(&options), Err(Error::Invalid(_))));
}

#[test]
fn stores_on_one_server_are_apart_and_clients_of_one_store_are_not() {
    if !servers::are_there() {
        return;
    }
    let (options, other) = (single().options(), single().engine());
    let one = RedisEngine::open(&options).unwrap();
    let two = RedisEngine::open(&options).unwrap();
    apply(&one, vec![Mutation::Put(b(b"Ia"), b(b"1"))]);
    assert_eq!(two.get(P, b"Ia").unwrap(), Some(b(b"1")));
    assert_eq!(other.get(P, b"Ia").unwrap(), None);
    assert_eq!(other.scan(P, b"I", None, 9).unwrap(), []);
}

#[test]
fn without_a_replica_nothing_is_acknowledged() {
    if !servers::are_there() {
        return;
    }
    let mut options = single().options();
    drop(RedisEngine::open(&options).unwrap());
    options.require_replica = true;
    options.timeout = Duration::from_secs(1);
    let engine = RedisEngine::open(&options).unwrap();
    let start = Instant::now();
    let refused = engine.commit(P, op(1), &[], vec![]).unwrap_err().to_string();
    assert!(start.elapsed() < Duration::from_secs(4));
    let address = format!("127.0.0.1:{}", single().all[0].port);
    assert!(refused.contains("no replica in sync") && refused.contains(&address), "{refused}");
}

#[test]
fn a_dead_server_is_an_error_in_time_and_one_without_its_data_too() {
    if !servers::are_there() {
        return;
    }
    let mut servers = Servers::start(Settings::SINGLE);
    let options = RedisOptions { timeout: Duration::from_secs(2), ..servers.options() };
    let engine = RedisEngine::open(&options).unwrap();
    apply(&engine, vec![Mutation::Put(b(b"Ia"), b(b"1"))]);
    let address = format!("127.0.0.1:{}", servers.all[0].port);

    let fails = || {
        let start = Instant::now();
        let failures = [
            engine.get(P, b"Ia").unwrap_err(),
            engine.scan(P, b"I", None, 1).unwrap_err(),
            engine.commit(P, op(1), &[], vec![]).unwrap_err(),
        ];
        assert!(start.elapsed() < Duration::from_secs(3 * 5), "{:?}", start.elapsed());
        failures.map(|failure| failure.to_string())
    };
    servers.all[0].signal("STOP");
    assert!(fails().iter().all(|failure| failure.contains(&address)), "{:?}", fails());
    servers.all[0].signal("CONT");
    assert!(engine.get(P, b"Ia").unwrap().is_some());

    servers.all[0].kill();
    assert!(fails().iter().all(|failure| failure.contains(&address)), "{:?}", fails());

    servers.all[0].start();
    servers::wait_for("the server", || servers.all[0].try_ask(&["PING"]).is_some());
    // For a moment it is still known as one that does not answer.
    servers::wait_for("the engine to ask it again", || {
        fails().iter().all(|failure| failure.contains("lost its data"))
    });
    assert!(RedisEngine::open(&options).is_ok(), "an empty server holds a new store");
    assert!(fails().iter().all(|failure| failure.contains("lost its data")), "{:?}", fails());
}

#[test]
fn who_starts_a_host_asks_a_server_on_that_was_given_up_before() {
    if !servers::are_there() {
        return;
    }
    let servers = Servers::start(Settings::SINGLE);
    let options = RedisOptions { timeout: Duration::from_secs(1), ..servers.options() };
    let engine = RedisEngine::open(&options).unwrap();
    apply(&engine, vec![Mutation::Put(b(b"Ia"), b(b"1"))]);
    servers.all[0].signal("STOP");
    assert!(engine.get(P, b"Ia").is_err());
    let insisting = || {
        let _insistence = allowance::insist(Instant::now() + Duration::from_secs(60));
        engine.get(P, b"Ia")
    };
    std::thread::scope(|scope| {
        let starting = scope.spawn(insisting);
        // These are given up at once, for it is known that the server does not answer.
        for _ in 0..8 {
            assert!(engine.get(P, b"Ia").is_err());
        }
        assert!(!starting.is_finished(), "given up too");
        servers.all[0].signal("CONT");
        assert!(starting.join().unwrap().unwrap().is_some());
    });
}

#[test]
fn a_full_server_refuses_new_names_and_takes_removals() {
    if !servers::are_there() {
        return;
    }
    let servers = Servers::start(Settings::SINGLE);
    let engine = servers.engine();
    let put = |n: u32| {
        let key = b(&[b"D".as_slice(), &n.to_be_bytes()].concat());
        let mutation = Mutation::Put(key.clone(), b(&[7; 4096]));
        engine.commit(P, op(0), &[Condition::Absent(key)], vec![mutation])
    };
    assert!(put(0).is_ok());
    servers.all[0].ask(&["CONFIG", "SET", "maxmemory", "8mb"]);
    let refused = (1..5000).map(put).find_map(Result::err).unwrap();
    assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
    assert!(engine.get(P, b"D\0\0\0\0").unwrap().is_some());
    let found = engine.scan(P, b"D", None, 4000).unwrap();
    for (key, value) in found {
        let same = Condition::Equals(key.clone(), value);
        let done = engine.commit(P, op(0), &[same], vec![Mutation::Delete(key)]).unwrap();
        assert_eq!(done, CommitOutcome::Applied);
    }
    assert!(put(1).is_ok());
}

/// What the user of a store must be allowed; docs/user/metadata-servers.md says the same.
const ACL: &str = "user store on >secret ~own* resetchannels -@all +ping +cluster|slots +role +wait +info \
    +fcall +function|load +mget +mset +get +set +del +exists +hmget +hset +hdel +pexpire \
    +zadd +zcard +zrem +zrangebylex";

/// For the child of `tls_and_a_user_with_few_rights_are_enough`: a server that its system's authorities vouch for.
const TRUSTED_URL: &str = "INTARSIA_TEST_TRUSTED_URL";

#[test]
#[ignore = "the child of tls_and_a_user_with_few_rights_are_enough"]
fn the_systems_authorities_are_believed() {
    let Ok(url) = std::env::var(TRUSTED_URL) else { return };
    let options = RedisOptions {
        urls: vec![url],
        store: "own".into(),
        require_replica: false,
        timeout: Duration::from_secs(2),
        ..RedisOptions::default()
    };
    RedisEngine::open(&options).unwrap();
}

/// An operation with little time left used to cost the connection: seven new ones every ten seconds on an idle host.
#[test]
fn connections_are_kept_also_by_operations_with_little_time() {
    if !servers::are_there() {
        return;
    }
    let servers = Servers::start(Settings::SINGLE);
    let options = RedisOptions { timeout: Duration::from_secs(1), ..servers.options() };
    let engine = RedisEngine::open(&options).unwrap();
    let connections = || {
        let text = servers.all[0].text(&["INFO", "stats"]);
        let line = text.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let work = || {
        apply(&engine, vec![Mutation::Put(b(b"Dkey"), b(b"1"))]);
        engine.get(P, b"Dkey").unwrap().unwrap();
    };
    work();
    // Asking takes connections of its own.
    let cost = connections().abs_diff(connections());
    let before = connections();
    (0..20).for_each(|_| work());
    assert!(connections() - before <= cost + 1, "{} new ones", connections() - before - cost);
}

#[test]
fn tls_and_a_user_with_few_rights_are_enough() {
    if !servers::are_there() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = certified.cert.pem();
    std::fs::write(path("cert"), &certificate).unwrap();
    std::fs::write(path("key"), certified.signing_key.serialize_pem()).unwrap();
    let servers = Servers::start(Settings::SINGLE);
    let server = &servers.all[0];
    let port = servers::free_ports().0;
    let acl: Vec<&str> = ACL.split(' ').filter(|word| !word.is_empty()).skip(1).collect();
    server.ask(&[&["ACL", "SETUSER"], acl.as_slice()].concat());
    let (cert, key, port) = (path("cert"), path("key"), port.to_string());
    let settings = ["tls-cert-file", &cert, "tls-key-file", &key, "tls-ca-cert-file", &cert];
    let tls = ["tls-auth-clients", "no", "tls-port", &port];
    server.ask(&[&["CONFIG", "SET"], &settings[..], &tls].concat());

    let options = RedisOptions {
        urls: vec![format!("rediss://store:secret@localhost:{port}")],
        store: "own".into(),
        tls: Some(RedisTls::Authority { authority: certificate.into_bytes(), identity: None }),
        timeout: Duration::from_secs(2),
        ..servers.options()
    };
    let engine = RedisEngine::open(&options).unwrap();
    let key = b(b"Dkey");
    let add = Mutation::Add { key: b(b"Sn"), delta: 1 };
    apply(&engine, vec![Mutation::Put(key.clone(), b(b"1")), add]);
    assert_eq!(engine.scan(P, b"D", None, 9).unwrap().len(), 1);
    assert!(engine.get_follow(P, b"Dkey", |_| None).unwrap().is_some());
    apply(&engine, vec![Mutation::Delete(key)]);
    engine.sync().unwrap();
    assert!(engine.stats().memory_bytes > 0);

    let stranger = RedisOptions { tls: None, ..options.clone() };
    assert!(RedisEngine::open(&stranger).is_err(), "a certificate that nobody vouches for");
    // Another process, in which the system vouches for it.
    let trusting = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_systems_authorities_are_believed", "--ignored"])
        .env("SSL_CERT_FILE", path("cert"))
        .env(TRUSTED_URL, &options.urls[0])
        .output()
        .unwrap();
    assert!(trusting.status.success(), "{}", String::from_utf8_lossy(&trusting.stdout));
    let plain = RedisOptions { urls: vec![servers.options().urls[0].clone()], ..options.clone() };
    assert!(RedisEngine::open(&plain).is_err(), "certificates, and a URL without TLS");
    // Its certificate is for a name, so by another one it is not believed.
    let misnamed = RedisOptions {
        urls: vec![format!("rediss://store:secret@127.0.0.1:{port}")],
        ..options.clone()
    };
    assert!(RedisEngine::open(&misnamed).is_err(), "a name that the certificate does not bear");
    let wrong = RedisOptions {
        urls: vec![format!("rediss://store:wrong@localhost:{port}")],
        ..options.clone()
    };
    let refused = RedisEngine::open(&wrong).err().unwrap().to_string();
    assert!(!refused.contains("wrong@") && refused.contains("uthenticat"), "{refused}");
    let other = RedisOptions { store: "another".into(), ..options };
    assert!(RedisEngine::open(&other).is_err(), "keys of another store");
}
