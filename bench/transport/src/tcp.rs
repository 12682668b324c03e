//! The limit: one thread, one blocking socket, one thread. A request is 16 bytes, place and length; an answer its bytes, or
//! one byte where no payload is asked for.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use crate::{Client, FILE_BYTES, Load, Outcome};

pub(crate) fn serve(file: File) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let Ok(file) = file.try_clone() else { return };
            // The client's end is the end of this thread.
            std::thread::spawn(move || answer(socket, &file));
        }
    });
    Ok(address)
}

fn answer(mut socket: TcpStream, file: &File) -> Outcome<()> {
    socket.set_nodelay(true)?;
    let mut buffer = Vec::new();
    let mut request = [[0; 8]; 2];
    loop {
        socket.read_exact(request.as_flattened_mut())?;
        let [offset, len] = request.map(u64::from_le_bytes);
        if len == 0 {
            socket.write_all(&[1])?;
            continue;
        }
        buffer.resize(usize::try_from(len)?, 0);
        file.read_exact_at(&mut buffer, offset)?;
        socket.write_all(&buffer)?;
    }
}

pub(crate) struct Tcp {
    address: SocketAddr,
    sockets: Vec<TcpStream>,
}

impl Tcp {
    pub(crate) fn connect(address: SocketAddr) -> Outcome<Self> {
        Ok(Self { address, sockets: Vec::new() })
    }
}

impl Client for Tcp {
    fn run(&mut self, load: Load, duration: Duration) -> Outcome<Vec<u64>> {
        while self.sockets.len() < load.threads {
            let socket = TcpStream::connect(self.address)?;
            socket.set_nodelay(true)?;
            self.sockets.push(socket);
        }
        let end = Instant::now() + duration;
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .sockets
                .iter_mut()
                .take(load.threads)
                .map(|socket| scope.spawn(move || ask(socket, load, end)))
                .collect();
            let times =
                threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("panic".into())));
            Ok(times.collect::<Outcome<Vec<_>>>()?.concat())
        })
    }
}

fn ask(socket: &mut TcpStream, load: Load, end: Instant) -> Outcome<Vec<u64>> {
    let mut buffer = vec![0; load.payload_bytes().max(1)];
    let (mut times_ns, mut begun, mut offset) = (Vec::new(), VecDeque::new(), 0u64);
    loop {
        while begun.len() < load.in_flight && Instant::now() < end {
            begun.push_back(Instant::now());
            let request = [offset, load.payload_bytes() as u64].map(u64::to_le_bytes);
            socket.write_all(request.as_flattened())?;
            offset = (offset + load.payload_bytes() as u64) % FILE_BYTES;
        }
        let Some(first) = begun.pop_front() else { return Ok(times_ns) };
        socket.read_exact(&mut buffer)?;
        times_ns.push(u64::try_from(first.elapsed().as_nanos())?);
    }
}
