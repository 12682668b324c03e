//! One recording, from its first record to its last.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use intarsia_sync::{Instant, Mutex, system_now, thread};
use intarsia_trace::log::Writer;
use intarsia_trace::{Detail, Direction, Host, Record, VERSION};
use intarsia_types::InodeId;
use rustix::event::{Timespec, epoll};

use super::names::Names;
use super::open_file::{ASKED_FROM_BYTES, OpenFile, OpenFiles};
use super::processes::{Met, Processes};
use super::{ChangedName, OpenedFile, RecordStatus, log_name};
use crate::record::counting::ProcessIo;

/// Records wait so long in memory at most; a node that is killed loses these.
const WRITTEN_EVERY: Duration = Duration::from_millis(100);
/// What goes on in files that are open for long is written so often.
const RUNS_EVERY: Duration = Duration::from_secs(1);
/// Records in memory; what is more is left out.
const MOST_WAITING_BYTES: usize = 8 << 20;
/// Processes whose end is waited for.
const MOST_WATCHED: usize = 1024;
/// What is left for the last records of a log that is full.
const RESERVE_BYTES: u64 = 4096;

/// Where a log goes.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) host: String,
    pub(crate) store: String,
    pub(crate) limit_bytes: u64,
}

pub(crate) struct Session {
    detail: Detail,
    log: PathBuf,
    limit_bytes: u64,
    began: Instant,
    pub(crate) names: Names,
    files: OpenFiles,
    processes: Processes,
    waiting: Mutex<Waiting>,
    log_bytes: AtomicU64,
    lost_records: AtomicU64,
    /// Why it ended by itself.
    ended: Mutex<Option<String>>,
    has_ended: AtomicBool,
    is_over: AtomicBool,
    /// Wakes when a process ends.
    ends: OwnedFd,
    watched: Mutex<HashMap<u64, (u32, OwnedFd)>>,
    writer: Mutex<Option<thread::JoinHandle<()>>>,
}

/// Records that are not in the log yet.
#[derive(Default)]
struct Waiting {
    records: Vec<u8>,
    lost: u64,
}

impl Session {
    pub(crate) fn start(place: &Place, detail: Detail) -> std::io::Result<Arc<Self>> {
        std::fs::create_dir_all(&place.dir)?;
        let now = system_now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let began_unix_ns = u64::try_from(now.as_nanos()).unwrap_or_default();
        let log = log_name(&place.dir, &place.host, began_unix_ns);
        let mut writer = Writer::create(&log)?;
        let host = Host {
            version: VERSION,
            name: place.host.clone(),
            store: place.store.clone(),
            began_unix_ns,
            detail,
        };
        let mut first = Vec::new();
        Writer::encode(&Record::Host(host), &mut first);
        writer.append(&first)?;
        let session = Arc::new(Self {
            detail,
            log,
            limit_bytes: place.limit_bytes,
            began: Instant::now(),
            names: Names::default(),
            files: OpenFiles::default(),
            processes: Processes::default(),
            waiting: Mutex::default(),
            log_bytes: AtomicU64::new(writer.written_bytes()),
            lost_records: AtomicU64::new(0),
            ended: Mutex::new(None),
            has_ended: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            ends: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            watched: Mutex::default(),
            writer: Mutex::new(None),
        });
        let own = Arc::clone(&session);
        let thread =
            thread::Builder::new().name("record".into()).spawn(move || own.write(writer))?;
        *session.writer.lock() = Some(thread);
        Ok(session)
    }

    pub(crate) fn status(&self) -> RecordStatus {
        let ended = self.ended.lock().clone();
        RecordStatus {
            detail: if ended.is_some() { Detail::Off } else { self.detail },
            log: Some(self.log.clone()),
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
            lost_records: self.lost_records.load(Ordering::Relaxed),
            ended,
        }
    }

    /// Whether it ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn at_ns(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.began);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn push(&self, record: &Record) {
        let mut waiting = self.waiting.lock();
        if waiting.records.len() < MOST_WAITING_BYTES {
            Writer::encode(record, &mut waiting.records);
        } else {
            waiting.lost += 1;
        }
    }

    /// The process of a thread; it is logged if it is not in the log yet.
    fn meet(&self, thread: u32, at_ns: u64) -> Met {
        let mut met = self.processes.meet(thread, at_ns);
        if let Some(process) = met.news.take() {
            self.push(&Record::Process(process));
        }
        if let Some(end) = met.end.take() {
            self.watch(met.number, met.pid, end);
        }
        met
    }

    fn watch(&self, number: u64, pid: u32, end: OwnedFd) {
        let mut watched = self.watched.lock();
        let data = epoll::EventData::new_u64(number);
        if watched.len() < MOST_WATCHED
            && epoll::add(&self.ends, &end, data, epoll::EventFlags::IN).is_ok()
        {
            watched.insert(number, (pid, end));
        }
    }

    fn tell_directory(&self, dir: InodeId, path: impl Fn(InodeId) -> Option<Vec<u8>>) {
        if dir.0 != 0
            && self.names.is_news(dir)
            && let Some(path) = path(dir)
        {
            self.push(&Record::Directory { ino: dir.0, path });
        }
    }

    pub(crate) fn opened(
        &self,
        opened: &OpenedFile,
        size_bytes: u64,
        path: impl Fn(InodeId) -> Option<Vec<u8>>,
    ) {
        let at_ns = self.at_ns(opened.came);
        let met = self.meet(opened.thread, at_ns);
        let (directory, name) = self.names.of(opened.ino).unwrap_or((InodeId(0), Box::default()));
        self.tell_directory(directory, path);
        self.push(&Record::Open {
            handle: opened.handle,
            process: met.number,
            file: opened.ino.0,
            directory: directory.0,
            name: name.into(),
            access: opened.access,
            size_bytes,
            at_ns,
            took_ns: self.at_ns(Instant::now()).saturating_sub(at_ns),
        });
        let is_asked = opened.access.is_passthrough && size_bytes >= ASKED_FROM_BYTES;
        let file = OpenFile {
            pid: met.pid,
            access: opened.access,
            size_bytes,
            runs: intarsia_trace::Runs::default(),
            moved: is_asked.then(|| ProcessIo::of(met.pid)).flatten(),
        };
        self.files.insert(opened.handle, file);
    }

    pub(crate) fn moved(
        &self,
        handle: u64,
        direction: Direction,
        (offset, bytes): (u64, usize),
        came: Instant,
    ) {
        let (began_ns, ended_ns) = (self.at_ns(came), self.at_ns(Instant::now()));
        let request = (offset, bytes as u64, began_ns, ended_ns);
        let range = self
            .files
            .with(handle, |file| file.runs.note(handle, direction, request, self.detail))
            .flatten();
        if let Some(range) = range {
            self.push(&Record::Range(range));
        }
    }

    pub(crate) fn closed(&self, handle: u64, length: impl FnOnce() -> u64) {
        let Some(mut file) = self.files.remove(handle) else { return };
        let closed_bytes = if file.access.writes { length() } else { file.size_bytes };
        file.runs.take().for_each(|range| self.push(&Record::Range(range)));
        self.push(&file.close(handle, closed_bytes, self.at_ns(Instant::now())));
    }

    pub(crate) fn name_changed(
        &self,
        changed: &ChangedName<'_>,
        path: impl Fn(InodeId) -> Option<Vec<u8>>,
    ) {
        let at_ns = self.at_ns(changed.came);
        let process = self.meet(changed.thread, at_ns).number;
        let (directory, name) = changed.old;
        let (new_directory, new_name) = changed.new.unwrap_or((InodeId(0), &[]));
        self.tell_directory(directory, &path);
        self.tell_directory(new_directory, &path);
        self.push(&Record::Name {
            process,
            change: changed.change,
            directory: directory.0,
            name: name.to_vec(),
            new_directory: new_directory.0,
            new_name: new_name.to_vec(),
            at_ns,
            took_ns: self.at_ns(Instant::now()).saturating_sub(at_ns),
        });
    }

    /// Writes what waits, until the recording is over.
    fn write(&self, mut writer: Writer) {
        let mut runs_next = Instant::now() + RUNS_EVERY;
        loop {
            let until = Instant::now() + WRITTEN_EVERY;
            // Processes that end wake this thread, but cost no block of the log each.
            while !self.is_over.load(Ordering::Acquire) && Instant::now() < until {
                self.await_ends(until);
            }
            let is_over = self.is_over.load(Ordering::Acquire);
            if is_over || Instant::now() >= runs_next {
                self.files.take_runs().into_iter().for_each(|run| self.push(&Record::Range(run)));
                runs_next = Instant::now() + RUNS_EVERY;
            }
            if self.ended.lock().is_none()
                && let Err(why) = self.write_waiting(&mut writer, is_over)
            {
                tracing::warn!(log = %self.log.display(), "recording ends: {why}");
                *self.ended.lock() = Some(why);
                self.has_ended.store(true, Ordering::Relaxed);
            }
            if is_over {
                return;
            }
        }
    }

    /// Waits for processes to end, and notes those that have.
    fn await_ends(&self, until: Instant) {
        let mut events = Vec::with_capacity(64);
        let wait = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        if epoll::wait(&self.ends, rustix::buffer::spare_capacity(&mut events), wait.as_ref())
            .is_err()
        {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        let at_ns = self.at_ns(Instant::now());
        for event in events {
            let number = { event.data }.u64();
            if let Some((pid, end)) = self.watched.lock().remove(&number) {
                let _ = epoll::delete(&self.ends, &end);
                self.processes.ended(pid, number);
                self.push(&Record::Ended { process: number, at_ns });
            }
        }
    }

    fn write_waiting(&self, writer: &mut Writer, is_last: bool) -> Result<(), String> {
        let Waiting { mut records, lost } = std::mem::take(&mut *self.waiting.lock());
        if lost > 0 {
            self.lost_records.fetch_add(lost, Ordering::Relaxed);
            Writer::encode(&Record::Lost { records: lost }, &mut records);
        }
        let at_ns = self.at_ns(Instant::now());
        let room = self.limit_bytes.saturating_sub(writer.written_bytes() + RESERVE_BYTES);
        let is_full = records.len() as u64 > room;
        if is_full {
            records.clear();
        }
        if is_full || is_last {
            Writer::encode(&Record::End { at_ns, is_full }, &mut records);
        }
        let written = writer.append(&records);
        self.log_bytes.store(writer.written_bytes(), Ordering::Relaxed);
        written.map_err(|error| format!("the log cannot be written: {error}"))?;
        if is_full {
            return Err("the log is full; a larger one is allowed by record_limit".into());
        }
        Ok(())
    }

    /// Ends the recording, with all that waits written.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let writer = self.writer.lock().take();
        // A panic there is in the log of the node.
        let _ = writer.map(thread::JoinHandle::join);
    }
}
