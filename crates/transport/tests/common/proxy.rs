//! Someone on the path between two nodes.

#![allow(dead_code, reason = "not every test uses every part")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// Passes bytes on, and flips one where it is told to.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    wires: Arc<Wires>,
}

#[derive(Default)]
struct Wires {
    to_server: Mutex<Option<usize>>,
    to_client: Mutex<Option<usize>>,
}

impl Proxy {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let wires = Arc::new(Wires::default());
        let shared = Arc::clone(&wires);
        // Ends with the process: a listener that nobody connects to harms nobody.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                for (from, to, is_up) in [(&client, &server, true), (&server, &client, false)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let shared = Arc::clone(&shared);
                    std::thread::spawn(move || pass(from, to, &shared, is_up));
                }
            }
        });
        Self { address, wires }
    }

    /// Flips a bit of the byte that comes after `skip` further bytes from the server.
    pub(crate) fn flip_from_server(&self, skip: usize) {
        *self.wires.to_client.lock() = Some(skip);
    }

    /// Flips a bit of the byte that comes after `skip` further bytes to the server.
    pub(crate) fn flip_to_server(&self, skip: usize) {
        *self.wires.to_server.lock() = Some(skip);
    }

    /// Whether the flip has happened.
    pub(crate) fn has_flipped(&self) -> bool {
        self.wires.to_client.lock().is_none() && self.wires.to_server.lock().is_none()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, wires: &Wires, is_up: bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let bytes = &mut buffer[..n];
        let mut flip = if is_up { wires.to_server.lock() } else { wires.to_client.lock() };
        match flip.take() {
            Some(skip) if skip < n => bytes[skip] ^= 0x40,
            Some(skip) => *flip = Some(skip - n),
            None => {}
        }
        drop(flip);
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
