//! Who does not belong gets nothing, and what was changed on its way is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;
#[path = "common/proxy.rs"]
mod proxy;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{
    BOTH, Files, Pair, config, content, identity, key, loopback, node, open, read, wait_for,
};
use intarsia_transport::{
    CallError, Config, DeploymentKey, Identity, PeerFailure, Peers, Server, StartError,
};
use intarsia_types::Error;
use intarsia_wire::{
    Hello, Lane, PREAMBLE_BYTES, Preamble, Protection, Request, StoreId, Target, VERSION,
};
use proxy::Proxy;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};

/// Another node that asks the server of `pair`.
fn peers_of(pair: &Pair, who: Identity, config: Config) -> Peers {
    let peers = Peers::new(pair.runtime.clone(), who, config).unwrap();
    peers.set_members([(node("n2"), pair.server.as_ref().unwrap().address())]);
    peers
}

fn refusal(peers: &Peers) -> String {
    let error = peers.call(&node("n2"), open(1), None).unwrap_err();
    let CallError::Peer(error) = error else { panic!("{error}") };
    assert!(matches!(error.failure, PeerFailure::Refused(_)), "{error}");
    assert_eq!(Error::from(error.clone()).errno(), 113);
    error.to_string()
}

#[test]
fn another_key_is_refused_on_both_sides() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let peers = peers_of(&pair, identity("n1", &key()), config(protection));
        let text = refusal(&peers);
        assert!(text.contains("peer n2") && text.contains("different deployment keys"), "{text}");
        assert_eq!(pair.files.handled.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_client_without_a_key_is_refused() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let mut socket = TcpStream::connect(pair.server.as_ref().unwrap().address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.write_all(&Preamble::ours(protection).encode()).unwrap();
        socket.read_exact(&mut [0; PREAMBLE_BYTES]).unwrap();
        // It knows the certificate, which is not secret, and so accepts the server; it has nothing to show itself.
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pair.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("node.intarsia.internal").unwrap();
        let mut tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut tls = rustls::Stream::new(&mut tls, &mut socket);
        let hello = Hello {
            node: node("n1"),
            to: node("n2"),
            store: StoreId(42),
            epoch: 1,
            session: 1,
            lane: Lane::Small,
            version: VERSION,
            protection: protection as u8,
        };
        let hello = hello.encode().unwrap();
        let _ = tls.write_all(&u32::try_from(hello.len()).unwrap().to_le_bytes());
        let _ = tls.write_all(&hello);
        let mut answer = Vec::new();
        assert!(tls.read_to_end(&mut answer).is_err(), "an alert, not a welcome");
        assert_eq!(answer, b"");
        assert_eq!(pair.files.handled.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn another_store_name_or_protection_is_refused_by_name() {
    let pair = Pair::new(Config::default());
    let mut who = identity("n1", &pair.key);
    who.store = StoreId(43);
    let text = refusal(&peers_of(&pair, who, Config::default()));
    assert!(text.contains(&StoreId(42).to_string()) && text.contains(&StoreId(43).to_string()));

    let peers = peers_of(&pair, identity("n1", &pair.key), Config::default());
    peers.set_members([(node("n3"), pair.server.as_ref().unwrap().address())]);
    let error = peers.call(&node("n3"), open(1), None).unwrap_err().to_string();
    assert!(error.contains("this is node n2, not n3"), "{error}");

    let peers = peers_of(&pair, identity("n1", &pair.key), config(Protection::Encrypted));
    let text = refusal(&peers);
    assert!(text.contains("encrypt=none") && text.contains("encrypt=payload"), "{text}");
}

#[test]
fn another_version_is_refused_naming_both() {
    let listener = TcpListener::bind(loopback()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let later = Preamble { version: 9, protection: Protection::Tagged };
        socket.write_all(&later.encode()).unwrap();
        let mut theirs = [0; PREAMBLE_BYTES];
        socket.read_exact(&mut theirs).unwrap();
        later.accept(theirs).unwrap_err().to_string()
    });
    let pair = Pair::new(Config::default());
    pair.peers.set_members([(node("n2"), address)]);
    let text = refusal(&pair.peers);
    assert!(text.contains("version 9 there, 1 here"), "{text}");
    assert!(server.join().unwrap().contains("version 1 there, 9 here"));
}

#[test]
fn garbage_and_silence_do_not_keep_a_server_from_its_peers() {
    let limits =
        Config { handshakes: 4, connect_timeout: Duration::from_millis(500), ..Config::default() };
    let pair = Pair::new(limits);
    let address = pair.server.as_ref().unwrap().address();
    let preamble = Preamble::ours(Protection::Tagged).encode();
    let mut strangers = Vec::new();
    for seed in 0..24u8 {
        let mut stranger = TcpStream::connect(address).unwrap();
        let noise: Vec<u8> = content(seed.into(), 0, 5000);
        match seed % 3 {
            0 => {} // says nothing
            1 => {
                let _ = stranger.write_all(&noise);
            }
            _ => {
                let _ = stranger.write_all(&preamble);
                let _ = stranger.write_all(&noise);
            }
        }
        strangers.push(stranger);
    }
    // A server that lets four strangers prove themselves at a time is through with them after some rounds.
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = pair.peers.call(&pair.to, Request::Ping, None) {
        assert!(Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(pair.files.handled.load(Ordering::SeqCst), 0);
    drop(strangers);
}

/// They would stay for half a minute, and a peer is not to wait for one of them.
#[test]
fn two_hundred_silent_strangers_keep_no_peer_waiting() {
    let limits = Config { connect_timeout: Duration::from_secs(30), ..Config::default() };
    let pair = Pair::new(limits.clone());
    let address = pair.server.as_ref().unwrap().address();
    let preamble = Preamble::ours(Protection::Tagged).encode();
    let strangers: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stranger = TcpStream::connect(address).unwrap();
            if n % 2 == 0 {
                let _ = stranger.write_all(&preamble);
            }
            stranger
        })
        .collect();
    // Fails after five seconds.
    pair.peers.call(&pair.to, Request::Ping, None).unwrap();
    // Those that are of one address stay as long as there are not too many.
    let is_open = |stranger: &&TcpStream| {
        stranger.set_nonblocking(true).unwrap();
        let mut byte = [0; 64];
        loop {
            match (&mut &**stranger).read(&mut byte) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(e) => return e.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    };
    wait_for("most of them to be gone", || {
        strangers.iter().filter(is_open).count() <= limits.handshakes_per_address
    });
    assert!(strangers.iter().filter(is_open).count() >= limits.handshakes_per_address / 2);
}

#[test]
fn an_answer_damaged_on_its_way_is_refused() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let proxy = Proxy::new(pair.server.as_ref().unwrap().address());
        pair.peers.set_members([(node("n2"), proxy.address)]);
        let ask = |handle| pair.peers.call(&pair.to, read(handle, 0, 1 << 20), None);
        let handle = pair.open(1);
        ask(handle).unwrap();

        proxy.flip_from_server(300_000);
        let error = ask(handle).unwrap_err();
        assert!(proxy.has_flipped());
        let CallError::Peer(error) = error else { panic!("{error}") };
        match protection {
            Protection::Tagged => assert_eq!(error.failure, PeerFailure::Damaged),
            Protection::Encrypted => assert!(matches!(error.failure, PeerFailure::Lost(_))),
        }
        let handle = pair.open(1);
        assert!(*ask(handle).unwrap().payload == content(1, 0, 1 << 20)[..]);
    }
}

#[test]
fn a_write_damaged_on_its_way_is_not_made() {
    for protection in BOTH {
        let pair = Pair::new(config(protection));
        let proxy = Proxy::new(pair.server.as_ref().unwrap().address());
        pair.peers.set_members([(node("n2"), proxy.address)]);
        let handle = pair.open(1);
        let data = content(8, 0, 1 << 20);
        let write = |handle| {
            let request = Request::Write { target: Target::Handle(handle), offset_bytes: 0 };
            pair.peers.call(&pair.to, request, Some(pair.peers.copy(&data)))
        };
        // Makes the connection, so that the flip meets the frame and not the handshake.
        pair.peers.call(&pair.to, read(handle, 0, 1 << 20), None).unwrap();

        proxy.flip_to_server(300_000);
        let error = write(handle).unwrap_err();
        assert!(proxy.has_flipped());
        match (protection, error) {
            (Protection::Tagged, CallError::Remote(error)) => {
                assert_eq!(error.errno(), 5);
                assert!(error.to_string().contains("payload of a write request"), "{error}");
            }
            (Protection::Encrypted, CallError::Peer(error)) => {
                assert!(matches!(error.failure, PeerFailure::Lost(_)), "{error}");
            }
            (_, error) => panic!("{error}"),
        }
        assert!(pair.files.written.lock().is_empty());
        write(pair.open(1)).unwrap();
        assert!(pair.files.written.lock()[&1] == data);
    }
}

#[test]
fn what_is_open_at_a_peer_is_closed_when_a_connection_breaks() {
    let pair = Pair::new(Config::default());
    let proxy = Proxy::new(pair.server.as_ref().unwrap().address());
    pair.peers.set_members([(node("n2"), proxy.address)]);
    let handle = pair.open(1);
    let ask = |len| pair.peers.call(&pair.to, read(handle, 0, len), None);
    ask(1 << 20).unwrap();
    assert_eq!(pair.peers.status()[0].connections, 2);
    assert_eq!(pair.files.closed_sessions.load(Ordering::SeqCst), 0);
    // One of the two: its message to close something might have been on its way.
    proxy.flip_to_server(8);
    ask(1 << 20).unwrap_err();
    wait_for("the session to end", || pair.files.closed_sessions.load(Ordering::SeqCst) == 1);
    let error = ask(10).unwrap_err();
    assert!(matches!(error, CallError::Remote(Error::BadHandle)), "{error}");
    pair.open(1);
    assert_eq!(pair.files.closed_sessions.load(Ordering::SeqCst), 1);
}

#[test]
fn a_changed_prefix_tag_or_header_ends_the_connection() {
    // In the prefix: 3 makes a header of a gigabyte, 7 a payload of one. Then the tag, then the header.
    for skip in [0, 3, 7, 8, 39, 40, 48, 52] {
        let pair = Pair::new(Config::default());
        let proxy = Proxy::new(pair.server.as_ref().unwrap().address());
        pair.peers.set_members([(node("n2"), proxy.address)]);
        let handle = pair.open(1);
        let handled = || pair.files.handled.load(Ordering::SeqCst);
        let before = handled();
        let patience = Duration::from_secs(2);
        let ask = || pair.peers.call_within(&pair.to, read(handle, 0, 100), None, patience);

        proxy.flip_to_server(skip);
        let error = ask().unwrap_err();
        let CallError::Peer(error) = error else { panic!("{skip}: {error}") };
        // A longer header or payload than was sent makes the server wait for it; the asker's deadline ends that.
        let is_waiting = matches!(error.failure, PeerFailure::Timeout { .. }) && skip == 0;
        assert!(is_waiting || matches!(error.failure, PeerFailure::Lost(_)), "{skip}: {error}");
        assert_eq!(handled(), before, "{skip}: nothing of it reached the handler");
        if is_waiting {
            continue;
        }

        let handle = pair.open(1);
        let ask = || pair.peers.call_within(&pair.to, read(handle, 0, 100), None, patience);
        proxy.flip_from_server(skip);
        let error = ask().unwrap_err();
        let CallError::Peer(error) = error else { panic!("{skip}: {error}") };
        assert!(matches!(error.failure, PeerFailure::Lost(_)), "{skip}: {error}");
        assert_eq!(*ask_again(&pair), content(1, 0, 100)[..]);
    }
}

fn ask_again(pair: &Pair) -> Vec<u8> {
    let handle = pair.open(1);
    pair.peers.call(&pair.to, read(handle, 0, 100), None).unwrap().payload.to_vec()
}

#[test]
fn a_server_listens_on_one_interface_only() {
    let pair = Pair::new(Config::default());
    let everywhere = ([0, 0, 0, 0], 0).into();
    let refused = Server::start(
        &pair.runtime,
        everywhere,
        identity("n3", &pair.key),
        Config::default(),
        Arc::new(Files::default()),
    )
    .unwrap_err();
    assert!(matches!(refused, StartError::Address { .. }), "{refused}");
}

#[test]
fn the_key_stays_out_of_debug_output() {
    let pem = DeploymentKey::generate().unwrap();
    let key = DeploymentKey::from_pem(pem.as_bytes()).unwrap();
    let text = format!("{:?}", identity("n1", &key));
    assert!(text.contains(key.fingerprint()) && text.len() < 200, "{text}");
}
