//! Requests and replies, and how a line is read within bounds.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::path::PathBuf;

use intarsia_policy::Speeds;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::Failure;
use crate::runtime::Detail;

/// The longest line that is read; a list of thousands of rules fits.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// What a node can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// What the store is and does.
    Status,
    /// The metrics as Prometheus text.
    Metrics,
    /// The rules in force.
    Rules,
    /// Replaces the rules.
    SetRules { rules: Vec<String> },
    /// Where files lie, by their paths below the mount: lists as progress, with null for what is to be asked by itself.
    Locate { paths: Vec<String> },
    /// Gives `NAME=VALUE` hints to files by their paths below the mount: lists of errnos as progress, 0 where it is done.
    Tag { hints: Vec<String>, paths: Vec<String> },
    /// Begins or ends to record what programs do, with a detail; how that stands.
    Record { detail: Option<Detail> },
    /// Verifies the store.
    Check {
        repair: bool,
        #[serde(default)]
        content: bool,
    },
    /// The files whose only bytes are at lost hosts, a message each; with `forget` they are removed.
    Lost { forget: bool },
    /// Evens out how full the hosts are, or fills them as they are fast, or the tiers of this host if `tiers` has their
    /// speeds; with `dry_run` says what would move.
    Balance {
        dry_run: bool,
        bytes_per_s: Option<u64>,
        #[serde(default)]
        speeds: Speeds,
        #[serde(default)]
        tiers: Speeds<String>,
        /// An absolute path, for the list of what moved, which may be too long for a reply.
        #[serde(default)]
        journal: Option<PathBuf>,
    },
    /// Moves files back that have moved, as such a list says.
    MoveBack { journal: PathBuf, bytes_per_s: Option<u64> },
    /// Moves the files of a host away, so that it can leave.
    Leave { host: String, bytes_per_s: Option<u64> },
    /// Takes back that a host is to leave.
    Stay { host: String },
    /// Takes the mount down and ends the node; the answer is the last status, once all is written.
    Unmount {
        /// Whether the metadata servers of the host go on: other hosts may still need them.
        #[serde(default)]
        keep_servers: bool,
        /// Whether the data is about to be deleted, so that nothing need be written.
        #[serde(default)]
        discard: bool,
    },
}

impl Request {
    /// Whether it may take longer than one wait; then the node sends progress to say that it lives.
    pub(crate) const fn is_long(&self) -> bool {
        // Unmounting writes back what the kernel still holds.
        matches!(
            self,
            Self::Check { .. }
                | Self::Locate { .. }
                | Self::Tag { .. }
                | Self::Lost { .. }
                | Self::Balance { .. }
                | Self::MoveBack { .. }
                | Self::Leave { .. }
                | Self::Unmount { .. }
        )
    }
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    Progress(Value),
    Done(Value),
    Failed(Failure),
}

/// Reads one line and understands it. `Ok(None)` is the end of the stream.
pub(super) fn receive<T: for<'de> Deserialize<'de>>(
    reader: &mut impl BufRead,
) -> Result<Option<T>, String> {
    let mut line = Vec::new();
    match reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            return Err("no message in time".into());
        }
        Err(e) => return Err(e.to_string()),
        Ok(0) => return Ok(None),
        Ok(_) if line.last() == Some(&b'\n') => {}
        Ok(_) if line.len() as u64 == MAX_LINE_BYTES => {
            return Err(format!("a message longer than {MAX_LINE_BYTES} bytes"));
        }
        Ok(_) => return Err("a message without its end".into()),
    }
    serde_json::from_slice(&line).map(Some).map_err(|e| e.to_string())
}

/// Writes one line.
pub(super) fn send(writer: &mut impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    writer.write_all(&line)?;
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_the_socket() {
        for request in [
            Request::Status,
            Request::Check { repair: true, content: false },
            Request::SetRules { rules: vec!["*.tmp tier=memory".into()] },
        ] {
            let mut line = Vec::new();
            send(&mut line, &request).unwrap();
            assert_eq!(receive::<Request>(&mut line.as_slice()).unwrap(), Some(request));
        }
        assert_eq!(receive::<Request>(&mut b"".as_slice()).unwrap(), None);
    }

    #[test]
    fn the_wire_form_is_stable() {
        let text = serde_json::to_string(&Request::SetRules { rules: vec![] }).unwrap();
        assert_eq!(text, r#"{"verb":"set-rules","rules":[]}"#);
        let failed = Reply::Failed(Failure::busy("x"));
        let text = serde_json::to_string(&failed).unwrap();
        assert_eq!(text, r#"{"failed":{"exit":"busy","message":"x","help":null}}"#);
    }

    #[test]
    fn malformed_and_endless_lines_are_refused() {
        for bad in ["{}\n", "{\"verb\":\"fly\"}\n", "{\"verb\":\"check\"}\n", "\n", "null\n", "{"] {
            assert!(receive::<Request>(&mut bad.as_bytes()).is_err(), "{bad:?}");
        }
        let endless = std::io::repeat(b' ');
        let error = receive::<Request>(&mut std::io::BufReader::new(endless)).unwrap_err();
        assert!(error.contains("longer than"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = receive::<Request>(&mut bytes.as_slice());
            let _ = receive::<Reply>(&mut bytes.as_slice());
        }
    }
}
