//! Replicas that other hosts send here.
//!
//! A replica becomes the file's in three steps. It is written to a backing file that has no owner. Once it is complete, that
//! file goes into the ledger, with the number of the inode: it is offered. Then the host that sent it claims it from there, in
//! the commit that names it in the record. A crash between the steps leaves no file behind for good, and no record that names a
//! file which is not there. Garbage collection takes a file out of the ledger before it removes it, so a file is either
//! claimed or removed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_codec::PieceSum;
use intarsia_meta::{FreeFile, Namespace, allowance};
use intarsia_store::{BackingFile, Tier};
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{BackingRef, Durability, Error, InodeId, NodeId, Result, TierClass, TierId};
use intarsia_wire::Handle;

use crate::background::queue::Queue;
use crate::cache::remote_cache::RemoteCache;
use crate::options::NodeOptions;
use crate::space::ledger::{Ledger, is_uncertain};
use crate::space::placing::Placing;
use crate::space::tiers::{Filling, Tiers};

/// How long a complete copy waits for its sender to claim it.
pub(super) const CLAIMED_WITHIN: Duration = Duration::from_secs(60);

/// How long the metadata may take when a copy begins, to number a backing file, and when it ends, to offer it.
const METADATA_PATIENCE: Duration = Duration::from_millis(1_500);

/// A copy on its way here. Its backing file is given back when no thread works on it any more, unless it was offered.
pub(crate) struct Arrival {
    tiers: Arc<Tiers>,
    ino: InodeId,
    backing: BackingRef,
    /// With this the backing file goes back to the pool if the copy is not completed; none once it is offered or in doubt.
    pooled: Option<BackingFile>,
    file: BackingFile,
    total_bytes: u64,
    /// What the tier's accounting has set aside, in units of 512 bytes.
    reserved_512: u64,
    sum: Mutex<PieceSum>,
    _filling: Filling,
}

impl Arrival {
    /// Writes a piece.
    pub(crate) fn write(&self, offset_bytes: u64, piece: &[u8]) -> Result<()> {
        if offset_bytes.checked_add(piece.len() as u64).is_none_or(|end| end > self.total_bytes) {
            return Err(Error::Invalid("a piece beyond the end of the copy".into()));
        }
        self.file.write_all_at(piece, offset_bytes)?;
        self.sum.lock().add(offset_bytes, piece);
        Ok(())
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let Some(pooled) = self.pooled.take() else { return };
        let backing = self.backing;
        let given_back = self.tiers.get(backing.tier).and_then(|tier| {
            tier.account(self.reserved_512, 0);
            self.tiers.give_back(backing, pooled)
        });
        if let Err(error) = given_back {
            // No record names it, so the next start after a crash removes it.
            tracing::warn!(file = %backing.file, %error, "a copy that was not completed stays on disk");
        }
    }
}

/// The copies that one host is sending.
#[derive(Default)]
pub(crate) struct Arrivals(Mutex<HashMap<Handle, Arc<Arrival>>>);

impl Arrivals {
    pub(crate) fn add(&self, handle: Handle, arrival: Arrival) {
        self.0.lock().insert(handle, Arc::new(arrival));
    }

    pub(crate) fn get(&self, handle: Handle) -> Result<Arc<Arrival>> {
        self.0.lock().get(&handle).cloned().ok_or(Error::BadHandle)
    }

    /// Writes a piece of a copy. If that fails the copy cannot be completed, and it is given up at once: its sender may never
    /// say that it gave it up too.
    pub(crate) fn write(&self, handle: Handle, offset_bytes: u64, piece: &[u8]) -> Result<()> {
        let written = self.get(handle)?.write(offset_bytes, piece);
        if written.is_err() {
            let given_up = self.0.lock().remove(&handle);
            drop(given_up);
        }
        written
    }

    /// Takes an arrival out, to end it.
    ///
    /// # Errors
    /// [`Error::BadHandle`] when there is none, [`Error::Invalid`] when another thread is at work on it: then it is given up.
    pub(crate) fn take(&self, handle: Handle) -> Result<Arrival> {
        let arrival = self.0.lock().remove(&handle).ok_or(Error::BadHandle)?;
        Arc::try_unwrap(arrival)
            .map_err(|_| Error::Invalid("a copy was ended before all of it was sent".into()))
    }

    /// Gives an arrival up. If another thread is at work on it, it goes when that thread lets go of it.
    pub(crate) fn abandon(&self, handle: Handle) -> Result<()> {
        self.0.lock().remove(&handle).map(drop).ok_or(Error::BadHandle)
    }
}

/// A complete copy that stands in the ledger until its sender claims it.
struct Offer {
    since: Instant,
    /// When the commit ended by which the ledger names it; none before that.
    recorded: Option<Instant>,
}

/// The complete copies that wait for their senders.
#[derive(Default)]
struct Offers(Mutex<HashMap<BackingRef, Offer>>);

impl Offers {
    /// The ledger is about to name the file.
    fn add(&self, backing: BackingRef) {
        let offer = Offer { since: Instant::now(), recorded: None };
        self.0.lock().insert(backing, offer);
    }

    /// The ledger names the file.
    fn note_recorded(&self, backing: BackingRef) {
        if let Some(offer) = self.0.lock().get_mut(&backing) {
            offer.recorded = Some(Instant::now());
        }
    }

    /// The sender does not want the file: it can be collected.
    fn withdraw(&self, backing: BackingRef) {
        self.0.lock().remove(&backing);
    }

    /// The offered files of a tier that are not to be collected yet. `listed` are all free files of the tier, as the ledger was
    /// read from `asked` on. Forgets offers that have waited for too long, and those that are not in the ledger any more. An
    /// offer that was recorded after `asked` stays even if it is not listed, since the ledger may have been read before that.
    fn pending(&self, tier: TierId, listed: &[FreeFile], asked: Instant) -> Vec<BackingRef> {
        let mut offers = self.0.lock();
        offers.retain(|backing, offer| {
            let was_free = || listed.iter().any(|free| free.file == backing.file);
            let is_newer = offer.recorded.is_none_or(|recorded| recorded >= asked);
            let waits = offer.since.elapsed() < CLAIMED_WITHIN && (is_newer || was_free());
            backing.tier != tier || waits
        });
        offers.keys().filter(|backing| backing.tier == tier).copied().collect()
    }
}

/// Receives what other hosts send: copies, and empty parts of striped files.
pub(crate) struct Receiver {
    /// The name of this host.
    me: NodeId,
    durability: Durability,
    tiers: Arc<Tiers>,
    placing: Arc<Placing>,
    namespace: Arc<Namespace>,
    ledger: Arc<Ledger>,
    remote_cache: Arc<RemoteCache>,
    queue: Arc<Queue>,
    offers: Offers,
}

/// The rooms below that a receiver is built from.
pub(crate) struct ReceiverParts<'a> {
    pub(crate) tiers: &'a Arc<Tiers>,
    pub(crate) placing: &'a Arc<Placing>,
    pub(crate) namespace: &'a Arc<Namespace>,
    pub(crate) ledger: &'a Arc<Ledger>,
    pub(crate) remote_cache: &'a Arc<RemoteCache>,
    pub(crate) queue: &'a Arc<Queue>,
}

impl Receiver {
    pub(crate) fn new(options: &NodeOptions, parts: &ReceiverParts<'_>) -> Self {
        Self {
            me: options.name.clone(),
            durability: options.durability,
            tiers: Arc::clone(parts.tiers),
            placing: Arc::clone(parts.placing),
            namespace: Arc::clone(parts.namespace),
            ledger: Arc::clone(parts.ledger),
            remote_cache: Arc::clone(parts.remote_cache),
            queue: Arc::clone(parts.queue),
            offers: Offers::default(),
        }
    }

    /// Begins a copy of `total_bytes`.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when no tier here has room for it.
    pub(crate) fn begin(
        &self,
        ino: InodeId,
        class: TierClass,
        total_bytes: u64,
    ) -> Result<Arrival> {
        self.remote_cache.make_room();
        let tier = self.tiers.get(self.placing.tier_here(Some(class))?)?;
        if tier.is_low() || !tier.fits(total_bytes) {
            let dir = tier.dir().display();
            return Err(Error::NoSpace(format!("a copy of {total_bytes} bytes in tier {dir}")));
        }
        let (backing, pooled) = soon(|| self.tiers.take_file(tier.id(), &self.namespace))?;
        let file = match tier.open_file(backing.file, true) {
            Ok(file) => file,
            Err(error) => {
                self.tiers.untake_file(backing, pooled);
                return Err(error);
            }
        };
        if self.tiers.is_short() {
            self.queue.set_pool_short(true);
        }
        let reserved_512 = total_bytes.div_ceil(512);
        tier.account(0, reserved_512);
        let sum = Mutex::default();
        let (tiers, pooled) = (Arc::clone(&self.tiers), Some(pooled));
        let filling = self.tiers.fill(backing);
        Ok(Arrival {
            tiers,
            ino,
            backing,
            pooled,
            file,
            total_bytes,
            reserved_512,
            sum,
            _filling: filling,
        })
    }

    /// The copy is complete: compares it with the `sum` over its pieces, makes it as durable as the deployment promises, and
    /// offers it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is not what was sent; those of the tier and the metadata.
    pub(crate) fn end(&self, mut arrival: Arrival, sum: u64) -> Result<BackingRef> {
        match self.offer(&arrival, sum) {
            Ok(blocks_512) => {
                arrival.pooled = None;
                self.tier_of(&arrival)?.account(arrival.reserved_512, blocks_512);
                Ok(arrival.backing)
            }
            Err(error) if is_uncertain(&error) => {
                // The ledger may name the file, so it may be collected: it must not serve another inode.
                arrival.pooled = None;
                let free = FreeFile::of(arrival.ino, arrival.backing.file);
                self.ledger.doubt(arrival.backing, free, arrival.reserved_512);
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    fn offer(&self, arrival: &Arrival, sum: u64) -> Result<u64> {
        if arrival.sum.lock().value() != sum {
            return Err(Error::Corrupt {
                ino: arrival.ino,
                what: format!("a copy on its way to {}", self.me),
            });
        }
        arrival.file.set_len(arrival.total_bytes)?;
        if self.durability == Durability::Sync {
            arrival.file.sync(true)?;
        }
        let blocks_512 = arrival.file.stat()?.blocks_512;
        self.offers.add(arrival.backing);
        let offered = soon(|| self.namespace.offer_file(arrival.ino, arrival.backing));
        match offered {
            Ok(()) => self.offers.note_recorded(arrival.backing),
            Err(_) => self.offers.withdraw(arrival.backing),
        }
        offered.map(|()| blocks_512)
    }

    /// Removes a copy that was offered, unless it was claimed.
    pub(crate) fn refuse(&self, ino: InodeId, backing: BackingRef) -> Result<()> {
        let tier = self.tiers.get(backing.tier)?;
        self.offers.withdraw(backing);
        let free = FreeFile::of(ino, backing.file);
        if self.ledger.take_file(backing.tier, free)? {
            self.ledger.remove(tier, backing.file)?;
        }
        Ok(())
    }

    /// A file here was put into the ledger because no record names it any more: it can be collected, even if it was offered a
    /// short while ago.
    pub(crate) fn let_go(&self, backing: BackingRef) {
        self.offers.withdraw(backing);
        self.queue.collect();
    }

    /// Takes the free files of one of our tiers out of the ledger, so that they can be removed. Those stay that wait for their
    /// senders, and those that `spare` removes from the list.
    pub(crate) fn take_garbage(
        &self,
        tier: &Tier,
        spare: impl FnOnce(&mut Vec<FreeFile>),
    ) -> Result<Vec<FreeFile>> {
        let asked = Instant::now();
        let listed = self.namespace.free_files(tier.id())?;
        let pending = self.offers.pending(tier.id(), &listed, asked);
        let is_pending = |free: &FreeFile| pending.iter().any(|offer| offer.file == free.file);
        let mut garbage: Vec<_> = listed.into_iter().filter(|free| !is_pending(free)).collect();
        spare(&mut garbage);
        self.ledger.take_files(tier.id(), &garbage)
    }

    fn tier_of(&self, arrival: &Arrival) -> Result<&Tier> {
        self.tiers.get(arrival.backing.tier)
    }
}

/// Limits how long a question to the metadata may take. A sender waits for this host as long as it lives, though it could send
/// the copy to another host.
fn soon<T>(ask: impl FnOnce() -> T) -> T {
    let _limit = allowance::limit(Instant::now() + METADATA_PATIENCE);
    ask()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;
    use crate::membership::cluster::lone::Shared;
    use crate::replication::alone::Host;

    #[test]
    fn a_copy_whose_sender_is_gone_goes_with_the_last_who_writes_to_it() {
        let host = Host::join(&Shared::new(), "a");
        let tier = host.tiers.iter().next().unwrap();
        let used_bytes = || tier.space().used_bytes;
        let before = used_bytes();
        let endings: [&dyn Fn(Arrivals); 3] = [
            &|arrivals| arrivals.abandon(Handle(1)).unwrap(),
            &|arrivals| assert!(arrivals.take(Handle(1)).is_err(), "somebody writes to it"),
            &|arrivals| drop(arrivals),
        ];
        for end in endings {
            let arrival = host.receiver.begin(InodeId(7), TierClass::Disk, 1 << 20).unwrap();
            let backing = arrival.backing;
            let arrivals = Arrivals::default();
            arrivals.add(Handle(1), arrival);
            let writer = arrivals.get(Handle(1)).unwrap();
            assert!(used_bytes() > before, "room is set aside");
            end(arrivals);
            writer.write(0, b"a late piece").unwrap();
            drop(writer);
            assert_eq!(used_bytes(), before);
            assert!(host.tiers.is_pooled(backing) || tier.open_file(backing.file, false).is_err());
        }
    }

    #[test]
    fn a_copy_of_which_a_piece_cannot_be_written_leaves_nothing() {
        let host = Host::join(&Shared::new(), "a");
        let tier = host.tiers.iter().next().unwrap();
        let used_bytes = tier.space().used_bytes;
        let arrivals = Arrivals::default();
        arrivals.add(Handle(1), host.receiver.begin(InodeId(7), TierClass::Disk, 10).unwrap());
        let backing = arrivals.get(Handle(1)).unwrap().backing;
        arrivals.write(Handle(1), 0, b"some").unwrap();
        arrivals.write(Handle(1), 4, b"too many bytes").unwrap_err();
        assert!(matches!(arrivals.get(Handle(1)), Err(Error::BadHandle)));
        assert_eq!(tier.space().used_bytes, used_bytes);
        assert!(host.tiers.is_pooled(backing) || tier.open_file(backing.file, false).is_err());
    }

    #[test]
    fn a_copy_that_is_not_what_was_sent_is_refused_and_one_that_is_waits_for_its_sender() {
        let host = Host::join(&Shared::new(), "a");
        let tier = host.tiers.iter().next().unwrap();
        let used_bytes = tier.space().used_bytes;
        let send = |sum| {
            let arrival = host.receiver.begin(InodeId(7), TierClass::Disk, 10).unwrap();
            arrival.write(0, b"some bytes").unwrap();
            host.receiver.end(arrival, sum)
        };
        let mut sum = PieceSum::default();
        sum.add(0, b"some bytes");
        let refused = send(sum.value() ^ 1);
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
        assert!(host.namespace.free_files(tier.id()).unwrap().is_empty(), "it is not offered");
        assert_eq!(tier.space().used_bytes, used_bytes);

        let backing = send(sum.value()).unwrap();
        let free = FreeFile::of(InodeId(7), backing.file);
        assert_eq!(host.namespace.free_files(tier.id()).unwrap(), [free]);
        let collect = || host.receiver.take_garbage(tier, |_| {}).unwrap();
        assert!(collect().is_empty(), "its sender may claim it");
        let before = Instant::now();
        let later = send(sum.value()).unwrap();
        let pending = host.receiver.offers.pending(tier.id(), &[free], before);
        assert!(pending.contains(&later), "the ledger was read before it came");
        assert!(collect().is_empty(), "nor is it collected the next time");
        host.receiver.refuse(InodeId(7), later).unwrap();
        host.receiver.let_go(backing);
        assert_eq!(collect(), [free], "nobody waits for it");
    }
}
