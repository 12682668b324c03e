//! The bytes of every message stand in `tests/format/wire.txt`. A change of format fails here: nodes of one version
//! must understand each other. What is new is appended to the file (this test prints the line) and raises `VERSION`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod samples;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use intarsia_types::Error;
use intarsia_wire::{Body, Fault, Header, Hello, Preamble, Protection, Verdict};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn recorded() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/format/wire.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, bytes)| (name.to_owned(), bytes.trim().to_owned()))
        .collect()
}

fn headers() -> Vec<(String, Header)> {
    let header = |body| Header { payload_sum: 0xae8b_1486_0a79_9888, body };
    let mut all = Vec::new();
    for (name, request) in samples::requests() {
        let body = Body::Request { id: 300, patience_ms: 5000, request };
        all.push((format!("request-{name}"), header(body)));
    }
    for (name, response) in samples::responses() {
        all.push((format!("response-{name}"), header(Body::Response { id: 300, response })));
    }
    let request = samples::requests().swap_remove(14).1;
    all.push(("one-way-invalidate".into(), header(Body::OneWay { request })));
    all
}

fn current() -> Vec<(String, Vec<u8>)> {
    let mut all = vec![
        ("preamble-tagged".into(), Preamble::ours(Protection::Tagged).encode().to_vec()),
        ("preamble-encrypted".into(), Preamble::ours(Protection::Encrypted).encode().to_vec()),
        ("hello".into(), samples::hello().encode().unwrap()),
        ("verdict-welcome".into(), Verdict::Welcome(samples::welcome()).encode().unwrap()),
        (
            "verdict-refused".into(),
            Verdict::Refused(Fault::from(&Error::AccessDenied)).encode().unwrap(),
        ),
        ("frame-tagged".into(), headers()[0].1.encode_frame(4 << 20, 32).unwrap()),
        ("frame-encrypted".into(), headers()[0].1.encode_frame(4 << 20, 0).unwrap()),
    ];
    all.extend(headers().into_iter().map(|(name, h)| (name, h.encode().unwrap())));
    all
}

#[test]
fn the_bytes_of_every_message_are_as_recorded() {
    let recorded = recorded();
    let mut wrong = String::new();
    for (name, bytes) in current() {
        let now = hex(&bytes);
        if recorded.get(&name) != Some(&now) {
            writeln!(wrong, "{name} {now}").unwrap();
        }
    }
    assert!(
        wrong.is_empty(),
        "these lines are not in tests/format/wire.txt; if a message was appended, append its line and raise \
         VERSION; if a line changed, the format broke:\n{wrong}"
    );
}

#[test]
fn recorded_bytes_read_as_the_messages() {
    let recorded = recorded();
    for (name, header) in headers() {
        assert_eq!(Header::decode(&unhex(&recorded[&name])), Ok(header), "{name}");
    }
    assert_eq!(Hello::decode(&unhex(&recorded["hello"])), Ok(samples::hello()));
}

#[test]
fn no_message_is_without_a_sample() {
    // The number of a variant is its first byte, so gaps and forgotten samples show.
    let numbers = |encoded: Vec<Vec<u8>>| {
        let mut numbers: Vec<u8> = encoded.iter().map(|bytes| bytes[0]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let requests: Vec<_> =
        samples::requests().iter().map(|(_, r)| postcard::to_allocvec(r).unwrap()).collect();
    let responses: Vec<_> =
        samples::responses().iter().map(|(_, r)| postcard::to_allocvec(r).unwrap()).collect();
    assert_eq!(numbers(requests), (0..=34).collect::<Vec<u8>>());
    assert_eq!(numbers(responses), (0..=13).collect::<Vec<u8>>());
}
