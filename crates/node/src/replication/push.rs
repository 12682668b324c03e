//! Sending a file's content to other hosts, each of which stores it as a backing file of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use intarsia_codec::{BLOCK_BYTES, BlockSums, PieceSum};
use intarsia_store::BackingFile;
use intarsia_transport::{Buffer, Pending};
use intarsia_types::{BackingRef, Error, InodeId, NodeId, Result, TierClass};
use intarsia_wire::{Handle, Request, Response};

use crate::background::throttle::Pace;
use crate::membership::cluster::Cluster;
use crate::membership::cluster::unexpected;

/// The length of a piece, which is read and sent at once. Each piece begins at a multiple of it.
const PIECE_BYTES: u64 = 1 << 20;
/// Pieces on their way to one host at the same time.
const WINDOW: usize = 4;

/// Content to be copied: the bytes of `file` up to `size_bytes`.
pub(crate) struct CopySource<'a> {
    pub(crate) ino: InodeId,
    /// The version of the inode's record, as it was last read.
    pub(crate) version: u64,
    pub(crate) file: &'a BackingFile,
    pub(crate) size_bytes: u64,
    /// The sums that its blocks must have, if they are known.
    pub(crate) sums: Option<&'a BlockSums>,
    /// The class of tier in which copies are to lie.
    pub(crate) class: TierClass,
}

/// What became of sending a content to several hosts.
#[derive(Default)]
pub(crate) struct Pushed {
    /// The copies, offered by their hosts (see [`crate::replication::arrivals`]).
    pub(crate) copies: Vec<(NodeId, BackingRef)>,
    /// Hosts that have none, and why.
    pub(crate) failures: Vec<(NodeId, Error)>,
    /// The sum over the pieces.
    pub(crate) sum: u64,
}

/// A copy that is being sent to one host in pieces.
struct Lane<'a> {
    cluster: &'a Cluster,
    node: &'a NodeId,
    handle: Handle,
    in_flight: VecDeque<Pending>,
}

impl Lane<'_> {
    fn send(&mut self, offset_bytes: u64, piece: Buffer) -> Result<()> {
        while self.in_flight.len() >= WINDOW {
            self.receive()?;
        }
        let request = Request::PushChunk { handle: self.handle, offset_bytes };
        self.in_flight.push_back(self.cluster.start(self.node, request, Some(piece))?);
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        let Some(pending) = self.in_flight.pop_front() else { return Ok(()) };
        match self.cluster.finish(self.node, pending)? {
            Response::Done => Ok(()),
            other => Err(unexpected(self.node, &other)),
        }
    }

    /// Asks the host to complete the copy, once it has all pieces.
    fn begin_end(&mut self, sum: u64) -> Result<Pending> {
        while !self.in_flight.is_empty() {
            self.receive()?;
        }
        self.cluster.start(self.node, Request::PushEnd { handle: self.handle, sum }, None)
    }

    /// Waits until the copy is complete; one that cannot be completed is abandoned.
    fn end(self, begun: Result<Pending>) -> Result<BackingRef> {
        let answer = begun.and_then(|begun| self.cluster.finish(self.node, begun));
        let ended = answer.and_then(|answer| offered(self.node, &answer));
        if ended.is_err() {
            self.abandon();
        }
        ended
    }

    fn abandon(self) {
        // The host drops a copy that was not ended when the connection closes; with this message it does so at once.
        if let Err(error) = self.cluster.tell(self.node, &Request::Close { handle: self.handle }) {
            tracing::debug!(node = %self.node, %error, "a copy that was begun stays there for a while");
        }
    }
}

fn offered(node: &NodeId, response: &Response) -> Result<BackingRef> {
    match response {
        Response::Pushed { backing } => Ok(*backing),
        other => Err(unexpected(node, other)),
    }
}

/// Sends `content` to all of `targets` at the same time.
///
/// # Errors
/// When the content cannot be read, or does not match its sums. Failures of single hosts are in the outcome.
pub(crate) fn push(
    cluster: &Arc<Cluster>,
    content: &CopySource<'_>,
    targets: &[NodeId],
    pace: Pace<'_>,
) -> Result<Pushed> {
    if content.size_bytes <= PIECE_BYTES {
        push_whole(cluster, content, targets, pace)
    } else {
        push_pieces(cluster, content, targets, pace)
    }
}

fn push_whole(
    cluster: &Cluster,
    content: &CopySource<'_>,
    targets: &[NodeId],
    pace: Pace<'_>,
) -> Result<Pushed> {
    let piece = piece(content, 0)?;
    let mut sum = PieceSum::default();
    if !piece.is_empty() {
        sum.add(0, &piece);
    }
    let request = Request::PushWhole { ino: content.ino, class: content.class, sum: sum.value() };
    let mut pushed = Pushed { sum: sum.value(), ..Pushed::default() };
    let mut begun = Vec::new();
    for node in targets {
        pace.spend(piece.len() as u64)?;
        let payload = Some(cluster.payload(&piece)).filter(|payload| !payload.is_empty());
        match cluster.start(node, request.clone(), payload) {
            Ok(pending) => begun.push((node, pending)),
            Err(error) => pushed.failures.push((node.clone(), error)),
        }
    }
    for (node, pending) in begun {
        let answer = cluster.finish(node, pending);
        pushed.note(node, answer.and_then(|answer| offered(node, &answer)));
    }
    Ok(pushed)
}

fn push_pieces(
    cluster: &Cluster,
    content: &CopySource<'_>,
    targets: &[NodeId],
    pace: Pace<'_>,
) -> Result<Pushed> {
    let mut pushed = Pushed::default();
    let mut lanes = Vec::new();
    for node in targets {
        match begin(cluster, content, node) {
            Ok(lane) => lanes.push(lane),
            Err(error) => pushed.failures.push((node.clone(), error)),
        }
    }
    match send_pieces(cluster, content, &mut lanes, &mut pushed, pace) {
        Ok(sum) => {
            pushed.sum = sum;
            // All hosts complete their copies at the same time: an offered copy is not kept for long.
            let begun = lanes.into_iter().map(|mut lane| (lane.begin_end(sum), lane));
            for (begun, lane) in begun.collect::<Vec<_>>() {
                pushed.note(lane.node, lane.end(begun));
            }
            Ok(pushed)
        }
        Err(error) => {
            lanes.into_iter().for_each(Lane::abandon);
            Err(error)
        }
    }
}

fn send_pieces(
    cluster: &Cluster,
    content: &CopySource<'_>,
    lanes: &mut Vec<Lane<'_>>,
    pushed: &mut Pushed,
    pace: Pace<'_>,
) -> Result<u64> {
    let mut sum = PieceSum::default();
    let mut at = 0;
    while !lanes.is_empty()
        && let Some(next) = next_piece(content, at)?
    {
        let piece = piece(content, next)?;
        sum.add(next, &piece);
        pace.spend(piece.len() as u64 * lanes.len() as u64)?;
        let mut kept = Vec::new();
        for mut lane in lanes.drain(..) {
            match lane.send(next, cluster.payload(&piece)) {
                Ok(()) => kept.push(lane),
                Err(error) => {
                    pushed.failures.push((lane.node.clone(), error));
                    lane.abandon();
                }
            }
        }
        *lanes = kept;
        at = next + PIECE_BYTES;
    }
    Ok(sum.value())
}

/// The sum over the pieces of a content, the same that [`push`] computes while it sends them.
pub(crate) fn piece_sum(content: &CopySource<'_>) -> Result<u64> {
    let mut sum = PieceSum::default();
    let mut at = 0;
    while let Some(next) = next_piece(content, at)? {
        sum.add(next, &piece(content, next)?);
        at = next + PIECE_BYTES;
    }
    Ok(sum.value())
}

/// Reads the piece at `offset_bytes`, and compares it with the sums of its blocks if they are known.
///
/// # Errors
/// [`Error::Busy`] when the file is shorter by now, [`Error::Corrupt`] when a block does not match its sum; those of the
/// system.
fn piece(content: &CopySource<'_>, offset_bytes: u64) -> Result<Vec<u8>> {
    let len_bytes = PIECE_BYTES.min(content.size_bytes.saturating_sub(offset_bytes));
    let mut piece = vec![0; usize::try_from(len_bytes).unwrap_or(usize::MAX)];
    if content.file.read_at(&mut piece, offset_bytes)? < piece.len() {
        return Err(Error::Busy("the file was cut while it was being copied".into()));
    }
    let Some(sums) = content.sums else { return Ok(piece) };
    let blocks = piece.chunks(usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX));
    for (index, block) in (offset_bytes / BLOCK_BYTES..).zip(blocks) {
        if !sums.verify(usize::try_from(index).unwrap_or(usize::MAX), block) {
            let what = format!("block {index} of the content, which is not copied");
            return Err(Error::Corrupt { ino: content.ino, what });
        }
    }
    Ok(piece)
}

impl Pushed {
    fn note(&mut self, node: &NodeId, outcome: Result<BackingRef>) {
        match outcome {
            Ok(backing) => self.copies.push((node.clone(), backing)),
            Err(error) => self.failures.push((node.clone(), error)),
        }
    }
}

fn begin<'a>(cluster: &'a Cluster, content: &CopySource<'_>, node: &'a NodeId) -> Result<Lane<'a>> {
    let begin = Request::PushBegin {
        ino: content.ino,
        version: content.version,
        class: content.class,
        total_bytes: content.size_bytes,
    };
    match cluster.call(node, &begin, None)? {
        Response::Opened { handle, .. } => {
            Ok(Lane { cluster, node, handle, in_flight: VecDeque::new() })
        }
        other => Err(unexpected(node, &other)),
    }
}

/// The offset of the first piece at or after `at` that is not all hole; none if there is no such piece.
fn next_piece(content: &CopySource<'_>, at: u64) -> Result<Option<u64>> {
    if at >= content.size_bytes {
        return Ok(None);
    }
    match content.file.seek(at, false) {
        Ok(data) if data < content.size_bytes => Ok(Some(data - data % PIECE_BYTES)),
        Ok(_) | Err(Error::NoData) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::os::unix::fs::FileExt;

    use super::*;

    /// A file system may show allocated space as a hole first, and as zeros later.
    #[test]
    fn a_hole_that_becomes_zeros_leaves_the_sum_as_it_is() {
        let written = tempfile::tempfile().unwrap();
        written.set_len(4 * PIECE_BYTES).unwrap();
        written.write_all_at(b"some bytes", 2 * PIECE_BYTES + 5).unwrap();
        let file = BackingFile::of(written.try_clone().unwrap());
        let sum = || {
            let size_bytes = 4 * PIECE_BYTES;
            let (ino, class) = (InodeId(7), TierClass::Disk);
            let source = CopySource { ino, version: 0, file: &file, size_bytes, sums: None, class };
            piece_sum(&source).unwrap()
        };
        let before = sum();
        written.write_all_at(&vec![0; 5000], PIECE_BYTES - 100).unwrap();
        assert_eq!(sum(), before);
        written.write_all_at(&[1], PIECE_BYTES - 100).unwrap();
        assert_ne!(sum(), before);
    }
}
