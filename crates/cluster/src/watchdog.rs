//! The end of a host's part of a deployment when the one who launched it is gone.
//!
//! What runs on a host is started with its standard input held open by the launcher, which sends a
//! byte now and then. When the input closes, because the launcher ended or was killed, or falls
//! silent, because its host or the link is gone, the part ends itself and leaves nothing behind.

use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::process::wait_readable;

/// Between two signs of life of a launcher.
pub const HEARTBEAT: Duration = Duration::from_secs(5);
/// Silence after which a launcher counts as gone: several signs in a row are missing.
pub const SILENCE: Duration = Duration::from_secs(30);

/// Why a launcher counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The input was closed.
    Closed,
    /// Nothing came for too long.
    Silent,
}

/// Blocks until the launcher at the other end of `input` is gone. `silence` bounds the wait between
/// two signs of life, see [`SILENCE`]; without it only the end of the input counts.
pub fn wait(input: impl AsFd, silence: Option<Duration>) -> Gone {
    listen(input, silence, |_| {})
}

/// What the launcher at the other end of `input` says, line by line; the channel ends when the launcher is gone. Blank
/// lines are signs of life.
pub fn lines(input: impl AsFd + Send + 'static, silence: Option<Duration>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut begun: Vec<u8> = Vec::new();
        listen(input, silence, |bytes| {
            begun.extend_from_slice(bytes);
            while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = begun.drain(..=end).collect();
                let text = String::from_utf8_lossy(&line);
                if !text.trim().is_empty() {
                    let _ = sender.send(text.trim().to_owned());
                }
            }
        });
    });
    receiver
}

fn listen(input: impl AsFd, silence: Option<Duration>, mut hear: impl FnMut(&[u8])) -> Gone {
    /// A wait without a bound is divided into these.
    const STEP: Duration = Duration::from_secs(3600);
    let mut last_sign = Instant::now();
    loop {
        let left = silence.map_or(STEP, |s| s.saturating_sub(last_sign.elapsed()));
        if left.is_zero() {
            return Gone::Silent;
        }
        let mut polled = [PollFd::new(&input, PollFlags::IN)];
        wait_readable(&mut polled, left);
        let [polled] = polled;
        if polled.revents().is_empty() {
            continue;
        }
        let mut bytes = [0u8; 4096];
        match rustix::io::read(&input, &mut bytes[..]) {
            Ok(0) => return Gone::Closed,
            Ok(length) => {
                last_sign = Instant::now();
                hear(bytes.get(..length).unwrap_or_default());
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return Gone::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_closed_input_is_noticed_at_once() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"\n\n").unwrap();
        let waiting = std::thread::spawn(move || wait(reader, None));
        drop(writer);
        assert_eq!(waiting.join().unwrap(), Gone::Closed);
    }

    #[test]
    fn lines_come_whole_and_end_with_the_launcher() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let lines = lines(reader, None);
        writer.write_all(b"one\n\ntw").unwrap();
        writer.write_all(b"o\nthree without an end").unwrap();
        drop(writer);
        assert_eq!(lines.iter().collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn silence_counts_from_the_last_sign() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let started = Instant::now();
        let waiting = std::thread::spawn(move || wait(reader, Some(Duration::from_millis(400))));
        std::thread::sleep(Duration::from_millis(200));
        writer.write_all(b"\n").unwrap();
        assert_eq!(waiting.join().unwrap(), Gone::Silent);
        assert!(started.elapsed() >= Duration::from_millis(600));
    }
}
