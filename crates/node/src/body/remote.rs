//! A file, or a part of a striped one, whose bytes another host serves.

pub(crate) mod read;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_meta::Inode;
use intarsia_sync::{Mutex, Relapse, RwLock, may_wait_long};
use intarsia_transport::{Answer, Buffer, MAX_PATIENCE, Patience, Pending};
use intarsia_types::{BackingRef, Error, InodeId, NodeId, Result};
use intarsia_wire::{Handle, MAX_PAYLOAD_BYTES, PublishedFor, Request, Response, Target};

use crate::body::beside::{CopyBeside, Piecewise};
use crate::body::pieces::{Landed, Pieces};
use crate::body::striped::wire_mode;
use crate::membership::cluster::{Cluster, unexpected};
use crate::ranks::COPY_TURN;

/// A file up to this length comes whole with the answer to its opening.
const WHOLE_BYTES: u64 = 128 << 10;
/// How long the answer to a request that was sent ahead may take; it waits behind other such requests.
const AHEAD_PATIENCE: Duration = Duration::from_secs(10);

/// Where a file is open: a host, and the handle there.
#[derive(Clone)]
struct Way {
    /// The host that serves it.
    home: NodeId,
    handle: Handle,
}

/// An open file on another host, or a part of one; closed there when the last reference goes.
pub(crate) struct RemoteFile {
    cluster: Arc<Cluster>,
    ino: InodeId,
    /// The part of a striped file that this is; then offsets and lengths are the part's own.
    part: Option<BackingRef>,
    /// The host and handle where it is open; replaced when that host or the connection is lost.
    way: RwLock<Way>,
    /// Where it was open before; closed together with the file, since other readers may still be asking there.
    left: Mutex<Vec<Way>>,
    /// Held by the thread that opens the file at another host, so that only one does.
    turn: Mutex<()>,
    /// Other hosts with a copy, to go on with when that one fails; the next is the last.
    spares: Mutex<Vec<NodeId>>,
    may_write: bool,
    /// The stamp under which its home vouches for the content (see [`crate::cache::vouch`]); 0 for none.
    stamp: AtomicU64,
    /// The length that the last answer told.
    size_bytes: AtomicU64,
    /// How many changes were made through this file.
    changes: AtomicU64,
    /// How many of these changes, from the first on, its home has published.
    published: AtomicU64,
    /// How often its home was asked to publish.
    publications: AtomicU64,
    /// Pieces that were fetched ahead and not read yet; none for a file that is written.
    pieces: Arc<Pieces>,
    /// A cached copy that is made of what is read.
    copy: Option<Box<dyn CopyBeside>>,
    /// A cached copy that is made piece by piece, also from other readers' hosts.
    spread: Option<Arc<dyn Piecewise>>,
}

impl Way {
    fn request(&self, range: &Range<u64>) -> Request {
        Request::Read {
            handle: self.handle,
            offset_bytes: range.start,
            len_bytes: u32::try_from(range.end - range.start).unwrap_or(u32::MAX),
            read_ahead_bytes: 0,
        }
    }
}

impl RemoteFile {
    /// Opens the file at `home`.
    ///
    /// # Errors
    /// The error that the host answers; ETIMEDOUT or EHOSTUNREACH if it does not answer, EIO if it is lost.
    pub(crate) fn open(
        cluster: &Arc<Cluster>,
        home: NodeId,
        ino: InodeId,
        may_write: bool,
    ) -> Result<Self> {
        match cluster.call(&home, &Request::Open { ino, may_write }, None)? {
            Response::Opened { handle, size_bytes } => {
                Ok(Self::opened(cluster, home, ino, (handle, size_bytes), None, may_write))
            }
            other => Err(unexpected(&home, &other)),
        }
    }

    /// Has `home` take in a file with this `content`, to which this host has the lease to write (see
    /// [`crate::inode::elsewhere`]).
    ///
    /// # Errors
    /// As [`open`](Self::open); when the host did not answer it may have taken the file.
    pub(crate) fn take_in(
        cluster: &Arc<Cluster>,
        home: &NodeId,
        ino: InodeId,
        content: &[u8],
    ) -> Result<Self> {
        let payload = Some(content).filter(|content| !content.is_empty());
        match cluster.call(home, &Request::TakeIn { ino }, payload)? {
            Response::Opened { handle, size_bytes } => {
                let open = (handle, size_bytes);
                let remote = Self::opened(cluster, home.clone(), ino, open, None, true);
                // The content that was sent along is published at the close, like what is written later.
                remote.note_change();
                Ok(remote)
            }
            other => Err(unexpected(home, &other)),
        }
    }

    /// Opens the file at `home` for reading; a small one is fetched with the same request.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_to_read(
        cluster: &Arc<Cluster>,
        home: NodeId,
        inode: &Inode,
    ) -> Result<Self> {
        let whole = Some(inode.size_bytes).filter(|bytes| *bytes <= WHOLE_BYTES);
        let len_bytes = whole.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
        let request = Request::OpenVouched { ino: inode.ino, len_bytes };
        cluster.note_asked(len_bytes.into());
        match cluster.ask_for(&home, &request)? {
            Answer { response: Response::Vouched { handle, size_bytes, stamp }, payload } => {
                let first = (len_bytes > 0).then_some(Landed { payload, size_bytes });
                let open = (handle, size_bytes);
                let file = Self::opened(cluster, home, inode.ino, open, first, false);
                file.stamp.store(stamp, Ordering::Release);
                Ok(file)
            }
            other => Err(unexpected(&home, &other.response)),
        }
    }

    /// Begins to open a part of a striped file, without waiting.
    pub(crate) fn begin_opening_part(
        cluster: &Arc<Cluster>,
        home: NodeId,
        ino: InodeId,
        backing: BackingRef,
        may_write: bool,
    ) -> PartOpening {
        let request = Request::OpenPart { ino, backing, may_write };
        let patience = Patience::slow(MAX_PATIENCE / 2);
        let begun = cluster.start_now(&home, &request, patience);
        PartOpening { cluster: Arc::clone(cluster), home, ino, backing, may_write, begun }
    }

    fn opened(
        cluster: &Arc<Cluster>,
        home: NodeId,
        ino: InodeId,
        (handle, size_bytes): (Handle, u64),
        first: Option<Landed>,
        may_write: bool,
    ) -> Self {
        Self {
            ino,
            part: None,
            way: RwLock::new(Way { home, handle }),
            turn: Mutex::ranked(COPY_TURN, ()),
            spares: Mutex::default(),
            left: Mutex::default(),
            may_write,
            stamp: AtomicU64::new(0),
            size_bytes: AtomicU64::new(size_bytes),
            changes: AtomicU64::new(0),
            published: AtomicU64::new(0),
            publications: AtomicU64::new(0),
            pieces: Pieces::new(cluster.piece_memory(), first),
            cluster: Arc::clone(cluster),
            copy: None,
            spread: None,
        }
    }

    /// Has the file read from `spread` where that has the bytes, or will have them soon.
    pub(crate) fn with_spread(mut self, spread: Arc<impl Piecewise + 'static>) -> Self {
        self.spread = Some(spread);
        self
    }

    /// The request for a range of bytes, to be sent to the host that serves the file.
    pub(crate) fn request(&self, range: &Range<u64>) -> Request {
        self.way().request(range)
    }

    /// Has what is read added to `copy`.
    pub(crate) fn with_copy(mut self, copy: Option<impl CopyBeside + 'static>) -> Self {
        self.copy = copy.map(|copy| Box::new(copy) as Box<dyn CopyBeside>);
        self
    }

    pub(crate) const fn may_write(&self) -> bool {
        self.may_write
    }

    /// Has reads go on at `spares`, in this order, when the host that serves the file fails.
    pub(crate) fn with_spares(self, mut spares: Vec<NodeId>) -> Self {
        spares.reverse();
        *self.spares.lock() = spares;
        self
    }

    /// The host that serves the file: its home, or one with another copy.
    pub(crate) fn home(&self) -> NodeId {
        self.way().home
    }

    fn way(&self) -> Way {
        self.way.read().clone()
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// The stamp under which its home vouches for the content, or 0.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    /// Forgets what was fetched ahead.
    pub(crate) fn forget_pieces(&self) {
        self.pieces.forget();
    }

    /// Forgets what was fetched ahead, and asks for the present length of the file.
    pub(crate) fn renew(&self) -> Result<()> {
        self.pieces.forget();
        self.fetch(&(0..0), None).map(|_| ())
    }

    /// Asks for a range of bytes, if that needs no waiting.
    fn ask_now(&self, range: &Range<u64>, patience: impl Into<Patience>) -> Option<Pending> {
        let way = self.way();
        let begun = self.cluster.start_now(&way.home, &way.request(range), patience)?;
        self.cluster.note_asked(range.end - range.start);
        Some(begun)
    }

    /// Asks for a range of bytes and waits for them.
    fn ask(&self, range: &Range<u64>) -> Result<Answer> {
        let way = self.way();
        self.cluster.note_asked(range.end - range.start);
        let request = way.request(range);
        if self.has_spares() {
            self.cluster.ask_for(&way.home, &request)
        } else {
            self.cluster.call_slow(&way.home, &request, None)
        }
    }

    /// How long the host may take to answer. A slow one is waited for longer than usual, unless other hosts have the bytes too.
    fn patience(&self) -> Patience {
        let usual = MAX_PATIENCE / 2;
        if self.has_spares() { usual.into() } else { Patience::slow(usual) }
    }

    fn has_spares(&self) -> bool {
        !self.spares.lock().is_empty()
    }

    /// The host and handle where the file is open, for callers that send requests of their own there.
    pub(crate) fn place(&self) -> (NodeId, Handle) {
        let Way { home, handle } = self.way();
        (home, handle)
    }

    /// Whether nothing is lost if the file is opened anew: it is only read, or it is a part, whose host keeps no writes back in
    /// the handle.
    const fn may_open_again(&self) -> bool {
        !self.may_write || self.part.is_some()
    }

    /// Opens the file anew at `home`: the host does not know the handle any more, since that ended with its connection, or another
    /// host is to serve the file.
    pub(crate) fn open_again(&self, home: NodeId) -> Result<()> {
        let request = match self.part {
            Some(backing) => {
                Request::OpenPart { ino: self.ino, backing, may_write: self.may_write }
            }
            None => Request::OpenVouched { ino: self.ino, len_bytes: 0 },
        };
        let (handle, stamp) = match self.cluster.call(&home, &request, None)? {
            Response::Opened { handle, .. } => (handle, 0),
            Response::Vouched { handle, stamp, .. } => (handle, stamp),
            other => return Err(unexpected(&home, &other)),
        };
        let before = std::mem::replace(&mut *self.way.write(), Way { home, handle });
        self.stamp.store(stamp, Ordering::Release);
        // What the host before has sent ahead may be older than what this one sends.
        self.pieces.forget();
        self.left.lock().push(before);
        Ok(())
    }

    fn close(&self, way: Way) {
        let Way { home, handle } = way;
        if let Err(error) = self.cluster.tell(&home, &Request::Close { handle }) {
            // The host closes the handle itself when the connection ends.
            tracing::debug!(%home, %error, "a file stays open at its home for a while");
        }
    }

    /// Goes on with the next host that serves the file, unless another reader has left the host `failed` already. False if there is
    /// none.
    fn leave(&self, failed: &NodeId) -> bool {
        let _turn = self.turn.lock();
        if self.home() != *failed {
            return true;
        }
        let next = || self.spares.lock().pop();
        while let Some(spare) = next() {
            match self.open_again(spare.clone()) {
                Ok(()) => {
                    tracing::warn!(ino = %self.ino, %failed, %spare, "reading another copy");
                    return true;
                }
                Err(error) => tracing::warn!(ino = %self.ino, %spare, %error, "no copy there"),
            }
        }
        false
    }

    /// Fetches a range of bytes: waits for the answer to `begun`, or asks first if nothing could be asked before. If the handle is
    /// gone the file is opened anew, and if the host fails the next one is asked.
    fn fetch(&self, range: &Range<u64>, begun: Option<Pending>) -> Result<Buffer> {
        let mut home = self.home();
        let mut answer = match begun {
            Some(pending) => self.cluster.wait_for(&home, pending),
            None => self.ask(range),
        };
        if matches!(answer, Err(Error::BadHandle)) && self.may_open_again() {
            answer = self.open_again(home.clone()).and_then(|()| self.ask(range));
        }
        while let Err(error) = &answer
            && is_of_the_host(error)
            && self.leave(&home)
        {
            home = self.home();
            answer = self.ask(range);
        }
        if Relapse::AskedTwice.is_back() {
            answer = self.ask(range);
        }
        match answer? {
            Answer { response: Response::Data { size_bytes }, payload } => {
                self.size_bytes.store(size_bytes, Ordering::Relaxed);
                Ok(payload)
            }
            other => Err(unexpected(&home, &other.response)),
        }
    }

    /// Writes all of `data`.
    pub(crate) fn write_all_at(&self, data: &[u8], offset_bytes: u64) -> Result<()> {
        let mut at = offset_bytes;
        for part in data.chunks(MAX_PAYLOAD_BYTES) {
            let target = Target::Handle(self.way().handle);
            let request = Request::Write { target, offset_bytes: at };
            self.change(&request, Some(part))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Cuts or grows the file.
    pub(crate) fn set_len(&self, size_bytes: u64) -> Result<()> {
        let target = Target::Handle(self.way().handle);
        self.change(&Request::Truncate { target, size_bytes }, None)
    }

    /// Allocates, zeroes or punches a range; `mode` as in `fallocate(2)`.
    pub(crate) fn allocate(&self, mode: u32, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let (target, mode) = (Target::Handle(self.way().handle), wire_mode(mode)?);
        self.change(&Request::Allocate { target, offset_bytes, len_bytes, mode }, None)
    }

    fn change(&self, request: &Request, payload: Option<&[u8]>) -> Result<()> {
        let home = self.home();
        let answer = self.cluster.call_slow(&home, request, payload);
        // Counted after the change, because a publication that began before may lack it; and counted also if no answer came,
        // because the change may have been made.
        self.note_change();
        match answer?.response {
            Response::Written { size_bytes } => {
                self.size_bytes.store(size_bytes, Ordering::Relaxed);
                Ok(())
            }
            other => Err(unexpected(&home, &other)),
        }
    }

    fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Has what was written published, as a close does. Each close asks for itself, even while another one waits: the other
    /// publication may have begun before this program's writes, and may fail.
    pub(crate) fn flush(&self) -> Result<()> {
        let changes = self.changes.load(Ordering::Acquire);
        if self.published.load(Ordering::Acquire) >= changes {
            return Ok(());
        }
        self.publish(PublishedFor::Close)
    }

    /// Has what was written published and put on stable storage, as `fsync` does. The home is asked even if a close has published
    /// everything, because that need not be on stable storage.
    pub(crate) fn sync(&self, data_only: bool) -> Result<()> {
        self.publish(if data_only { PublishedFor::SyncData } else { PublishedFor::Sync })
    }

    /// Has the home publish the file, and asks again until it has made the copies on other hosts. The home bounds the wait as it
    /// does for its own programs.
    fn publish(&self, published_for: PublishedFor) -> Result<()> {
        may_wait_long();
        let changes = self.changes.load(Ordering::Acquire);
        let Way { home, handle } = self.way();
        let call = self.publications.fetch_add(1, Ordering::Relaxed);
        let request = Request::Publish { handle, call, published_for };
        loop {
            match self.cluster.call_slow(&home, &request, None)?.response {
                Response::Done => break,
                Response::Busy { retry_ms } => {
                    intarsia_sync::thread::sleep(Duration::from_millis(u64::from(retry_ms)));
                }
                other => return Err(unexpected(&home, &other)),
            }
        }
        self.published.fetch_max(changes, Ordering::AcqRel);
        Ok(())
    }
}

/// A part of a striped file that is being opened.
pub(crate) struct PartOpening {
    cluster: Arc<Cluster>,
    home: NodeId,
    ino: InodeId,
    backing: BackingRef,
    may_write: bool,
    /// None when it could not be sent without waiting.
    begun: Option<Pending>,
}

impl PartOpening {
    /// Waits until the part is open. If the request could not be sent before, sends it now.
    pub(crate) fn finish(self) -> Result<RemoteFile> {
        let Self { cluster, home, ino, backing, may_write, begun } = self;
        let response = match begun {
            Some(pending) => cluster.finish(&home, pending)?,
            None => {
                let request = Request::OpenPart { ino, backing, may_write };
                cluster.call_slow(&home, &request, None)?.response
            }
        };
        match response {
            Response::Opened { handle, size_bytes } => {
                let open = (handle, size_bytes);
                let mut file = RemoteFile::opened(&cluster, home, ino, open, None, may_write);
                file.part = Some(backing);
                Ok(file)
            }
            other => Err(unexpected(&home, &other)),
        }
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.left.lock());
        left.into_iter().chain([self.way()]).for_each(|way| self.close(way));
    }
}

/// Whether the error is a failure of the host that was asked, so that another host may still serve the file.
pub(crate) fn is_of_the_host(error: &Error) -> bool {
    /// EIO, ETIMEDOUT and EHOSTUNREACH: the host cannot read its copy, or does not answer.
    const OF_THE_HOST: [i32; 3] = [5, 110, 113];
    OF_THE_HOST.contains(&error.errno())
}
