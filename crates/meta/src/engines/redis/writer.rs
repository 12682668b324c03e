//! The connection for writes to one server. A thread that finds it free sends the commands of all that wait, and after them
//! one question whether the replicas have everything. So many commits share one wait for the replicas.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_sync::{Condvar, Instant, Mutex, Relapse};

use redis::{Connection, Value, cmd};

use super::failure::Failure;
use super::server::{Server, checked, limit, unlimit};

/// Most commands of one exchange, and most bytes of them, not counting the last one: both sides keep them in memory.
const BATCH_COMMANDS: usize = 128;
const BATCH_BYTES: usize = 1 << 20;
/// How long a server waits for its replicas before it is asked anew who they are.
const WAIT_SLICE: Duration = Duration::from_millis(300);
/// How long replicas may take to acknowledge.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_millis(1500);

#[derive(Default)]
pub(super) struct Writer {
    queue: Mutex<Queue>,
    /// Signalled when an exchange is over.
    turn: Condvar,
    connection: Mutex<Option<Connection>>,
    /// The number of replicas in sync when they were last counted.
    replicas: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Ticket>>,
    is_busy: bool,
}

/// One caller's command and what became of it.
struct Ticket {
    /// Empty for a caller that only waits for the replicas.
    command: Vec<u8>,
    reply: Mutex<Option<Reply>>,
}

type Reply = Result<Value, Failure>;

impl Ticket {
    fn answer(&self, reply: Reply) {
        *self.reply.lock() = Some(reply);
    }
}

impl Writer {
    /// Sends a command. Returns its answer once all replicas in sync have what was written by it and before it. An empty
    /// command only waits for the replicas. With `must_replicate` it fails if there is no replica in sync.
    pub(super) fn send(
        &self,
        server: &Server,
        command: Vec<u8>,
        must_replicate: bool,
        deadline: Instant,
    ) -> Reply {
        let ticket = Arc::new(Ticket { command, reply: Mutex::default() });
        let mut queue = self.queue.lock();
        queue.waiting.push_back(Arc::clone(&ticket));
        loop {
            if let Some(reply) = ticket.reply.lock().take() {
                return reply;
            }
            if !queue.is_busy {
                queue.is_busy = true;
                let batch = queue.take_batch();
                drop(queue);
                self.carry(server, &batch, must_replicate, deadline);
                queue = self.queue.lock();
                queue.is_busy = false;
                self.turn.notify_all();
            } else if self.turn.wait_until(&mut queue, deadline).timed_out() {
                queue.waiting.retain(|waiting| !Arc::ptr_eq(waiting, &ticket));
                return Err(Failure::Transient("too many commands wait for this server".into()));
            }
        }
    }

    /// Sends a batch, and gives each of its tickets an answer.
    fn carry(
        &self,
        server: &Server,
        batch: &[Arc<Ticket>],
        must_replicate: bool,
        deadline: Instant,
    ) {
        let mut slot = self.connection.lock();
        let connection = match slot.take() {
            Some(connection) => Ok(connection),
            None => server.connect(deadline),
        };
        let outcome = connection.and_then(|mut connection| {
            let is_late = limit(&connection, deadline)?;
            let replies = self.exchange(&mut connection, batch, must_replicate, deadline)?;
            let is_kept = !is_late || unlimit(&connection);
            *slot = (is_kept && !Relapse::ForgottenConnections.is_back()).then_some(connection);
            Ok(replies)
        });
        match outcome {
            Ok(replies) => {
                for (ticket, reply) in batch.iter().zip(replies) {
                    ticket.answer(reply);
                }
            }
            Err(failure) => batch.iter().for_each(|ticket| ticket.answer(Err(failure.clone()))),
        }
    }

    /// Sends the commands of a batch and returns their answers. A command that succeeded at the server, but that its replicas
    /// have not acknowledged, counts as a transient failure.
    fn exchange(
        &self,
        connection: &mut Connection,
        batch: &[Arc<Ticket>],
        must_replicate: bool,
        deadline: Instant,
    ) -> Result<Vec<Reply>, Failure> {
        let least = u64::from(must_replicate);
        let expected = self.replicas.load(Ordering::Relaxed);
        let mut request = Vec::new();
        for ticket in batch {
            request.extend_from_slice(&ticket.command);
        }
        ask_replicas(&mut request, expected, deadline);
        connection.send_packed_command(&request)?;
        let mut replies = Vec::with_capacity(batch.len());
        for ticket in batch {
            replies.push(ticket.receive(connection)?);
        }
        if let Err(reason) = self.acknowledged(connection, least, deadline)? {
            for reply in replies.iter_mut().filter(|reply| reply.is_ok()) {
                *reply = Err(Failure::Transient(reason.clone()));
            }
        }
        Ok(replies)
    }

    /// Reads the answers to [`ask_replicas`], and asks again until all replicas in sync have everything or the time is up. The
    /// inner error says why they have not.
    fn acknowledged(
        &self,
        connection: &mut Connection,
        least: u64,
        deadline: Instant,
    ) -> Result<Result<(), String>, Failure> {
        let until = deadline.min(Instant::now() + ACKNOWLEDGE_TIMEOUT);
        loop {
            let role = connection.recv_response()?;
            let acknowledged = connection.recv_response()?;
            let Some(replicas) = replicas_of(&role) else {
                return Ok(Err("it is no primary any more".into()));
            };
            self.replicas.store(replicas, Ordering::Relaxed);
            if replicas < least {
                return Ok(Err("it has no replica in sync; attach one".into()));
            }
            let Value::Int(acknowledged) = checked(acknowledged)? else {
                return Err(Failure::Refused("WAIT was not answered by a number".into()));
            };
            if u64::try_from(acknowledged).is_ok_and(|count| count >= replicas) {
                return Ok(Ok(()));
            }
            if Instant::now() >= until {
                return Ok(Err(format!("{acknowledged} of {replicas} replicas acknowledged")));
            }
            let mut request = Vec::new();
            ask_replicas(&mut request, replicas, until);
            connection.send_packed_command(&request)?;
        }
    }
}

impl Queue {
    fn take_batch(&mut self) -> Vec<Arc<Ticket>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_COMMANDS && bytes < BATCH_BYTES {
            let Some(ticket) = self.waiting.pop_front() else { break };
            bytes += ticket.command.len();
            batch.push(ticket);
        }
        batch
    }
}

impl Ticket {
    fn receive(&self, connection: &mut Connection) -> Result<Reply, Failure> {
        if self.command.is_empty() {
            return Ok(Ok(Value::Okay));
        }
        Ok(checked(connection.recv_response()?))
    }
}

/// Appends two questions: who the replicas are (`ROLE`), and whether as many of them as `replicas` have everything (`WAIT`).
/// The server answers the second once they have, or after a part of the time until `until`.
fn ask_replicas(request: &mut Vec<u8>, replicas: u64, until: Instant) {
    let left = until.saturating_duration_since(Instant::now()) / 2;
    // 0 would mean to wait without end.
    let slice_ms = left.min(WAIT_SLICE).as_millis().max(1).to_string();
    cmd("ROLE").write_packed_command(request);
    cmd("WAIT").arg(replicas).arg(slice_ms).write_packed_command(request);
}

/// The number of replicas in sync, from a server's answer to `ROLE`: role, offset, replicas. `None` if it is no primary.
fn replicas_of(role: &Value) -> Option<u64> {
    let Value::Array(parts) = role else { return None };
    match parts.as_slice() {
        [Value::BulkString(role), _, Value::Array(replicas)] if role == b"master" => {
            Some(replicas.len() as u64)
        }
        _ => None,
    }
}
