//! Stands between a client and a server and loses answers: what was asked is done, and nobody hears of it. It can also
//! make them late.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) struct Proxy {
    port: u16,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    to_lose: AtomicU32,
    lost: AtomicU32,
    late_ms: AtomicU64,
}

impl Proxy {
    /// A proxy before the server at this port. Its threads end with their connections.
    pub(crate) fn before(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, counts) = (client.unwrap(), Arc::clone(&shared));
                let server = TcpStream::connect(("127.0.0.1", server_port)).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || forward(from, to, || false));
                thread::spawn(move || forward(server, client, || counts.loses()));
            }
        });
        Self { port, counts }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The next answer breaks its connection instead of arriving.
    pub(crate) fn lose_next_answer(&self) {
        self.counts.to_lose.fetch_add(1, Ordering::SeqCst);
    }

    /// From now on answers take so much longer.
    pub(crate) fn delay_answers(&self, by: Duration) {
        self.counts.late_ms.store(by.as_millis().try_into().unwrap(), Ordering::SeqCst);
    }

    /// Answers lost so far.
    pub(crate) fn lost(&self) -> u32 {
        self.counts.lost.load(Ordering::SeqCst)
    }
}

impl Counts {
    fn loses(&self) -> bool {
        thread::sleep(Duration::from_millis(self.late_ms.load(Ordering::SeqCst)));
        let left = |count: u32| count.checked_sub(1);
        let loses = self.to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok();
        self.lost.fetch_add(u32::from(loses), Ordering::SeqCst);
        loses
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, loses: impl Fn() -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if loses() || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
