//! The side of the node: a few short-lived connections, each on a thread of its own.

use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::message::{Reply, Request, receive, send};
use super::{TIMEOUT, socket};
use crate::exit::{Failure, Outcome};

/// More connections at once are a mistake of the caller's.
const MAX_CONNECTIONS: usize = 16;
/// How often a long request shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What the node does when asked.
pub(crate) trait Operations: Send + Sync + 'static {
    /// Does what is asked; `progress` may be called while it lasts.
    fn perform(&self, request: Request, progress: &mut dyn FnMut(Value)) -> Outcome<Value>;
}

/// A listening control socket. Its file goes with it.
pub(crate) struct Server {
    path: PathBuf,
    open: Arc<AtomicUsize>,
}

impl Server {
    /// Listens, and serves each connection on a thread of its own.
    pub(crate) fn start(path: &Path, operations: Arc<impl Operations>) -> Outcome<Self> {
        let listener = socket::bind(path)
            .map_err(|e| Failure::io(format!("control socket {}", path.display()), &e))?;
        let open = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&open);
        std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept(&listener, &count, &operations))
            .map_err(|e| Failure::io("control thread", &e))?;
        Ok(Self { path: path.to_owned(), open })
    }

    /// Lets the answers under way leave before the process ends, for a moment only.
    pub(crate) fn drain(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        while self.open.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, open: &Arc<AtomicUsize>, operations: &Arc<impl Operations>) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "control socket: accept failed");
                // Out of descriptors, most likely: without a pause this would spin.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let guard = Connection::new(open);
        let operations = Arc::clone(operations);
        let spawned = std::thread::Builder::new()
            .name("control-call".into())
            .spawn(move || serve(stream, &guard, operations.as_ref()));
        if let Err(error) = spawned {
            tracing::warn!(%error, "control socket: no thread for a connection");
        }
    }
}

/// Counts a connection for as long as it lives.
struct Connection {
    open: Arc<AtomicUsize>,
    is_one_too_many: bool,
}

impl Connection {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        let is_one_too_many = open.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS;
        Self { open: Arc::clone(open), is_one_too_many }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

fn serve(mut stream: UnixStream, guard: &Connection, operations: &impl Operations) {
    let timeouts = stream
        .set_read_timeout(Some(TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
    let reader = match timeouts.and_then(|()| stream.try_clone()) {
        Ok(reader) => reader,
        Err(error) => return tracing::warn!(%error, "control socket: connection unusable"),
    };
    let reply = if guard.is_one_too_many {
        Reply::Failed(Failure::busy("too many control connections at once; try again"))
    } else {
        match receive::<Request>(&mut BufReader::new(reader)) {
            Ok(Some(request)) => answer(request, &mut stream, operations),
            Ok(None) => return,
            Err(why) => Reply::Failed(
                Failure::usage(format!("malformed request: {why}"))
                    .with_help("one line of JSON, such as {\"verb\":\"status\"}"),
            ),
        }
    };
    // The asker may be gone; the work is done either way.
    let _ = send(&mut stream, &reply);
}

/// Performs a request; a long one runs beside a heartbeat.
fn answer(request: Request, stream: &mut UnixStream, operations: &impl Operations) -> Reply {
    let outcome = if request.is_long() {
        with_heartbeat(request, stream, operations)
    } else {
        operations.perform(request, &mut |_| {})
    };
    match outcome {
        Ok(value) => Reply::Done(value),
        Err(failure) => Reply::Failed(failure),
    }
}

fn with_heartbeat(
    request: Request,
    stream: &mut UnixStream,
    operations: &impl Operations,
) -> Outcome<Value> {
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let work = scope.spawn(move || {
            operations.perform(request, &mut |value| {
                let _ = sender.send(value);
            })
        });
        loop {
            let progress = match receiver.recv_timeout(HEARTBEAT) {
                Ok(value) => value,
                Err(mpsc::RecvTimeoutError::Timeout) => Value::Null,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            };
            let _ = send(stream, &Reply::Progress(progress));
        }
        work.join().unwrap_or_else(|_| Err(Failure::general("the request ended in a panic")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::call;
    use std::io::{Read, Write};

    struct Fake;

    impl Operations for Fake {
        fn perform(&self, request: Request, progress: &mut dyn FnMut(Value)) -> Outcome<Value> {
            match request {
                Request::Status => Ok(serde_json::json!({"files": 3})),
                Request::Check { .. } => {
                    progress(serde_json::json!({"done": 1}));
                    Ok(Value::Bool(true))
                }
                _ => Err(Failure::busy("in use")),
            }
        }
    }

    fn serve_in(dir: &Path) -> (PathBuf, Server) {
        let path = dir.join("control.sock");
        let server = Server::start(&path, Arc::new(Fake)).unwrap();
        (path, server)
    }

    #[test]
    fn answers_failures_and_progress_arrive() {
        let dir = tempfile::tempdir().unwrap();
        let (path, server) = serve_in(dir.path());
        let status = call(&path, &Request::Status, |_| {}).unwrap();
        assert_eq!(status["files"], 3);
        let unmount = Request::Unmount { keep_servers: false, discard: false };
        assert_eq!(call(&path, &unmount, |_| {}).unwrap_err(), Failure::busy("in use"));
        let mut heard = Vec::new();
        let done = call(&path, &Request::Check { repair: false, content: true }, |v| heard.push(v))
            .unwrap();
        assert_eq!((done, heard.len()), (Value::Bool(true), 1));
        server.drain(Duration::from_secs(10));
        drop(server);
        assert!(!path.exists());
        assert!(call(&path, &Request::Status, |_| {}).is_err());
    }

    #[test]
    fn a_malformed_request_gets_an_answer_that_teaches() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _server) = serve_in(dir.path());
        for bad in ["nonsense\n", "{\"verb\":\"fly\"}\n", "\u{0}\n"] {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(bad.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.contains("malformed request"), "{answer}");
        }
    }

    #[test]
    fn a_long_path_and_a_private_socket() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(90)).join("e".repeat(90));
        std::fs::create_dir_all(&deep).unwrap();
        let (path, _server) = serve_in(&deep);
        assert!(call(&path, &Request::Status, |_| {}).is_ok());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
