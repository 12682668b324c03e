//! What a client did and what it saw, as lines of JSON.
//!
//! A line is written before an operation begins and another after it has ended, each by one `write`, so that the
//! record of a client that was killed tells in the middle of what.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::token::{Content, Token};

/// An instant, in nanoseconds of CLOCK_MONOTONIC: the same for all processes of one machine.
pub type Instant = u64;

/// Never.
pub const NEVER: Instant = Instant::MAX;

/// ENOTCONN: what the kernel answers for a mount whose server has ended. A call that was under way then gets
/// another error.
pub(crate) const UNSERVED: i32 = Errno::NOTCONN.raw_os_error();

/// One operation. Names are paths below the directory under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Opens a name of the client's own to write; creates it, or empties it if it is there.
    Open {
        /// The name.
        name: String,
        /// What is going to be written.
        token: Token,
    },
    /// Writes all and closes.
    Close {
        /// The name.
        name: String,
    },
    /// Removes a name, the client's own or a shared one.
    Unlink {
        /// The name.
        name: String,
    },
    /// Renames one of the client's own names to another; what was there goes.
    Rename {
        /// The name that goes.
        from: String,
        /// The name that stays.
        to: String,
    },
    /// Writes and closes a file that only this client looks at.
    Prepare {
        /// What is written.
        token: Token,
    },
    /// Gives the prepared file a shared name: by `rename`, or exclusively, by `link`.
    Publish {
        /// The shared name.
        name: String,
        /// What was written before.
        token: Token,
        /// Only where there is none yet.
        exclusive: bool,
    },
    /// Opens, reads all, closes.
    Read {
        /// The name.
        name: String,
    },
    /// Asks for the size.
    Stat {
        /// The name.
        name: String,
    },
    /// Lists a directory.
    List {
        /// The directory.
        directory: String,
    },
}

/// What an operation gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done.
    Done,
    /// There is no such name.
    Absent,
    /// There is such a name already.
    Exists,
    /// What was read.
    Content(Content),
    /// The size.
    Size(u64),
    /// The names in a directory, as they came.
    Names(Vec<String>),
    /// It failed, and for all that is known may have been done or not.
    Failed {
        /// The error number.
        errno: i32,
        /// Which call failed.
        call: String,
    },
}

/// An operation with its outcome and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who did it.
    pub client: u16,
    /// What was done.
    pub operation: Operation,
    /// Before the first system call.
    pub start: Instant,
    /// After the last one; [`NEVER`] when the client ended in the middle.
    pub end: Instant,
    /// The longest system call, in nanoseconds.
    pub slowest_ns: u64,
    /// `None` when the client ended in the middle.
    pub outcome: Option<Outcome>,
}

impl Event {
    /// Nobody serves the mount: the kernel refused the call by itself, and nothing was done.
    pub(crate) fn is_undelivered(&self) -> bool {
        // What was written before the close that was refused may be there.
        !matches!(self.operation, Operation::Close { .. })
            && matches!(self.outcome, Some(Outcome::Failed { errno, .. }) if errno == UNSERVED)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Client {
        client: u16,
        seed: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<u16>,
    },
    Start {
        at: Instant,
        operation: Operation,
    },
    End {
        at: Instant,
        slowest_ns: u64,
        outcome: Outcome,
    },
    Finished {
        at: Instant,
    },
}

/// Now.
#[must_use]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Writes a record.
pub struct Recorder {
    file: Box<dyn Write + Send>,
}

impl Recorder {
    /// Begins the record of a client.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path, client: u16, seed: u64) -> std::io::Result<Self> {
        Self::into(Box::new(File::create(path)?), client, seed, None)
    }

    /// As [`create`](Self::create), writing anywhere, for a client of a known host.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn into(
        file: Box<dyn Write + Send>,
        client: u16,
        seed: u64,
        host: Option<u16>,
    ) -> std::io::Result<Self> {
        let mut recorder = Self { file };
        recorder.line(&Line::Client { client, seed, host })?;
        Ok(recorder)
    }

    /// Writes that an operation begins.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn start(&mut self, at: Instant, operation: &Operation) -> std::io::Result<()> {
        self.line(&Line::Start { at, operation: operation.clone() })
    }

    /// Writes that it has ended, at an instant that was taken before this call.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn end(&mut self, at: Instant, slowest_ns: u64, outcome: &Outcome) -> std::io::Result<()> {
        self.line(&Line::End { at, slowest_ns, outcome: outcome.clone() })
    }

    /// Writes that all is done.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(&mut self, at: Instant) -> std::io::Result<()> {
        self.line(&Line::Finished { at })
    }

    fn line(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }
}

/// The record of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub client: u16,
    /// On which host it was, if that is known.
    pub host: Option<u16>,
    /// In the order in which they were done.
    pub events: Vec<Event>,
    /// Whether the client came to its end.
    pub is_finished: bool,
}

impl Record {
    /// Reads a record. A last line that is cut off is as if it were not there.
    ///
    /// # Errors
    /// When the file cannot be read, or another line is none of ours; the message names the line.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Self::parse(BufReader::new(File::open(path)?), &path.display().to_string())
    }

    /// As [`read`](Self::read), from anywhere; errors name it `name`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(from: impl BufRead, name: &str) -> std::io::Result<Self> {
        let mut record = Self::default();
        let mut lines = from.lines().enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            match serde_json::from_str(&line?) {
                Ok(line) => record.take(line),
                Err(_) if lines.peek().is_none() => {}
                Err(e) => {
                    let text = format!("{name}:{}: {e}", index + 1);
                    return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(record)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Client { client, host, .. } => {
                self.client = client;
                self.host = host;
            }
            Line::Start { at, operation } => self.events.push(Event {
                client: self.client,
                operation,
                start: at,
                end: NEVER,
                slowest_ns: 0,
                outcome: None,
            }),
            Line::End { at, slowest_ns, outcome } => {
                if let Some(event) = self.events.last_mut() {
                    event.end = at;
                    event.slowest_ns = slowest_ns;
                    event.outcome = Some(outcome);
                }
            }
            Line::Finished { .. } => self.is_finished = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_one_of_a_killed_client_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.jsonl");
        let mut recorder = Recorder::create(&path, 1, 7).unwrap();
        let stat = Operation::Stat { name: "d0/s1".into() };
        recorder.start(now(), &stat).unwrap();
        recorder.end(now(), 5, &Outcome::Size(9)).unwrap();
        recorder.start(now(), &Operation::List { directory: "d0".into() }).unwrap();
        recorder.file.write_all(b"{\"end\":{\"at\":").unwrap();
        let record = Record::read(&path).unwrap();
        assert_eq!((record.client, record.events.len(), record.is_finished), (1, 2, false));
        let first = &record.events[0];
        assert!(first.operation == stat && first.start <= first.end);
        assert_eq!((&first.outcome, first.slowest_ns), (&Some(Outcome::Size(9)), 5));
        assert_eq!((record.events[1].end, &record.events[1].outcome), (NEVER, &None));

        recorder.file.write_all(b"\n").unwrap();
        recorder.finish(now()).unwrap();
        let refused = Record::read(&path).unwrap_err().to_string();
        assert!(refused.contains("1.jsonl:5:"), "{refused}");
    }
}
