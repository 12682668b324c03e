//! Striped files: how they are made, opened and published.
//!
//! A file becomes striped when it is opened for writing, has no bytes yet, and its hints ask for it (`place=stripe:N`, for
//! example). The host that opens it has the lease to write, has an empty part made on each host, and names all parts in one
//! commit that also gives the lease up. From then on all hosts may write to the file, and none needs a lease.

use std::sync::Arc;

use intarsia_meta::{Extra, FreeFile, Inode, Namespace};
use intarsia_policy::{HostState, Stripe};
use intarsia_sync::Relapse;
use intarsia_types::{
    BackingRef, Durability, Error, Hint, HintKey, HintSet, InodeId, Integrity, Layout, NodeId,
    Pattern, Placement, Result, TierClass,
};
use intarsia_wire::{Request, Response};

use crate::body::BodyParts;
use crate::body::parts::Parts;
use crate::body::remote::{PartOpening, RemoteFile};
use crate::body::striped::{Part, StripedFile, Unpublished};
use crate::clock::now;
use crate::membership::cluster::Cluster;
use crate::membership::cluster::unexpected;
use crate::metrics::hinted::Hinted;
use crate::options::NodeOptions;
use crate::space::hints::own_hints;
use crate::space::ledger::Ledger;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

/// Length of a chunk in bytes if no hint says another one.
const CHUNK_BYTES: u64 = 1 << 20;
/// Attempts to publish a length while other hosts set it.
const ATTEMPTS: usize = 64;

/// How a new file is to be striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Over how many hosts at most.
    hosts: u16,
    chunk_bytes: u64,
}

/// An empty part that was made, and that no record names yet.
struct NewPart {
    backing: BackingRef,
    /// The open file, if the part is on this host.
    here: Option<intarsia_store::BackingFile>,
}

/// Makes, opens and publishes striped files.
pub(crate) struct Stripes {
    /// The name of this host.
    me: NodeId,
    /// Whether a sync has to reach stable storage (durability `sync`).
    is_durable: bool,
    /// The other hosts; none in a store of one host, which has no striped files.
    cluster: Option<Arc<Cluster>>,
    namespace: Arc<Namespace>,
    tiers: Arc<Tiers>,
    placing: Arc<Placing>,
    /// The parts that are open here.
    parts: Arc<Parts>,
    ledger: Arc<Ledger>,
    hinted: Arc<Hinted>,
}

impl Stripes {
    pub(super) fn new(options: &NodeOptions, of: &BodyParts<'_>) -> Self {
        Self {
            me: options.name.clone(),
            is_durable: options.durability == Durability::Sync,
            cluster: of.cluster.cloned(),
            namespace: Arc::clone(of.namespace),
            tiers: Arc::clone(of.tiers),
            placing: Arc::clone(of.placing),
            parts: Arc::clone(of.parts),
            ledger: Arc::clone(of.ledger),
            hinted: Arc::clone(of.hinted),
        }
    }

    /// Whether a new file with these hints is to be striped, and how.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `place` asks for stripes, but the file is to have copies or strict integrity; the log says what to do.
    pub(crate) fn wanted(&self, hints: &HintSet) -> Result<Option<Wish>> {
        let Some(dealing) = hints.dealing().filter(|_| self.cluster.is_some()) else {
            return Ok(None);
        };
        let refused = if self.placing.copies_wanted(hints) > 1 {
            Some(
                "a striped file has one copy of each part: set replicas=1 on it (or on its directory), or choose another place",
            )
        } else if hints.integrity() == Integrity::Strict {
            Some(
                "what several hosts write at once has no checksums: set integrity=normal, or choose another place",
            )
        } else {
            None
        };
        if let Some(why) = refused {
            if hints.place().is_none() {
                self.note_dealt(hints, Err(why));
                return Ok(None);
            }
            let place = hints.get(HintKey::Place).unwrap_or_default();
            tracing::warn!(place, "refused: {why}");
            return Err(Error::Invalid(format!("place={place}: {why}")));
        }
        let hosts = dealing.hosts.unwrap_or(u16::MAX);
        Ok(Some(Wish { hosts, chunk_bytes: dealing.chunk_bytes.unwrap_or(CHUNK_BYTES) }))
    }

    /// Refuses a hint that asks for copies of a striped file, which has one copy of each part.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn refuse_copies(&self, ino: InodeId, hint: &Hint) -> Result<()> {
        let wants_copies = hint.key() == HintKey::Replicas && hint.value() != "1";
        if wants_copies && matches!(self.namespace.get(ino)?.layout, Layout::Striped { .. }) {
            let why =
                "a striped file has one copy of each part; copy it to a file of another place";
            tracing::warn!(%ino, %hint, "refused: {why}");
            return Err(Error::Invalid(format!("{hint}: {why}")));
        }
        Ok(())
    }

    /// Whether an existing file is to become striped before it is written, and how; with its hints.
    pub(crate) fn wanted_by(&self, inode: &Inode) -> Result<Option<(Wish, HintSet)>> {
        if inode.layout != Layout::Empty || inode.size_bytes > 0 || !inode.has_xattrs {
            return Ok(None);
        }
        let hints = own_hints(&self.namespace, inode)?;
        Ok(self.wanted(&hints)?.map(|wish| (wish, hints)))
    }

    /// Makes an empty file, to which this host has the lease to write, a striped one. Returns its new record. The lease is given up
    /// in the same commit.
    ///
    /// # Errors
    /// [`Error::Busy`] if the file was changed meanwhile, [`Error::NoSpace`] if no host takes a part.
    pub(crate) fn lay(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        wish: Wish,
        hints: &HintSet,
    ) -> Result<Inode> {
        let hosts = Self::hosts_for_stripes(cluster, wish);
        let seed = if Relapse::ConstantOrder.is_back() { 0 } else { inode.ino.0 };
        let mut ranked = self.placing.hosts_for_parts(&hosts, wish.chunk_bytes, seed);
        if Relapse::RoomiestFirst.is_back()
            && let Some(roomiest) = hosts.iter().max_by_key(|host| host.free_bytes)
        {
            ranked.sort_by_key(|host| *host != roomiest.node);
        }
        let parts = self.make_parts(cluster, inode.ino, ranked, wish, hints.tier())?;
        let files: Vec<_> = parts.iter().map(|part| part.backing).collect();
        let named = self.namespace.change(inode.ino, |now, extras| {
            if now.layout != Layout::Empty || now.size_bytes > 0 {
                return Err(Error::Busy("the file was changed while it was being striped".into()));
            }
            extras.extend([Extra::HoldWritable, Extra::ClearWritable]);
            extras.extend(parts.iter().map(|part| match part.here {
                Some(_) => Extra::TakeFree(part.backing),
                None => Extra::ClaimFree(part.backing),
            }));
            let chunk_bytes = wish.chunk_bytes;
            now.layout = Layout::Striped { parts: files.clone(), chunk_bytes, cuts: 0 };
            Ok(())
        });
        let is_spread = files.len() > 1;
        let named = named.inspect_err(|error| self.abandon_parts(cluster, inode, parts, error))?;
        self.note_dealt(hints, if is_spread { Ok(()) } else { Err("one host alone takes files") });
        Ok(named)
    }

    /// Counts whether the hint of a file to be dealt over many hosts was followed.
    fn note_dealt(&self, hints: &HintSet, outcome: std::result::Result<(), &'static str>) {
        match (hints.pattern(), hints.place()) {
            (Some(Pattern::Gather), _) => self.hinted.note(Pattern::Gather, outcome),
            (Some(Pattern::Scatter), _) | (_, Some(Placement::Scatter(_))) => {
                self.hinted.note(Pattern::Scatter, outcome);
            }
            _ => {}
        }
    }

    /// The hosts that take files. If fewer are known than the wish asks for, the members are read anew, since some may have joined.
    fn hosts_for_stripes(cluster: &Cluster, wish: Wish) -> Vec<HostState> {
        let hosts = cluster.roomy_hosts();
        if hosts.len() >= usize::from(wish.hosts) {
            return hosts;
        }
        if let Err(error) = cluster.meet() {
            tracing::debug!(%error, "whether more hosts take stripes cannot be found out");
        }
        cluster.roomy_hosts()
    }

    /// Has empty parts made on several hosts at the same time. Hosts are tried in the order of `hosts` until there are as many
    /// parts as the wish asks for, or no more hosts.
    ///
    /// # Errors
    /// If no host can make a part: the failure of the last one, or [`Error::NoSpace`] if there is no host.
    fn make_parts(
        &self,
        cluster: &Arc<Cluster>,
        ino: InodeId,
        hosts: Vec<NodeId>,
        wish: Wish,
        class: Option<TierClass>,
    ) -> Result<Vec<NewPart>> {
        let wanted = usize::from(wish.hosts);
        let mut hosts = hosts.into_iter();
        let mut parts = Vec::new();
        let mut failure = None;
        while parts.len() < wanted {
            let batch: Vec<_> = hosts.by_ref().take(wanted - parts.len()).collect();
            if batch.is_empty() {
                break;
            }
            for (host, made) in self.make_parts_at(cluster, ino, batch, class) {
                match made {
                    Ok(part) => parts.push(part),
                    Err(error) => {
                        tracing::warn!(%ino, %host, %error, "no part of a striped file there");
                        failure = Some(error);
                    }
                }
            }
        }
        if parts.is_empty() {
            let none = || Error::NoSpace("no host of this store takes files".into());
            return Err(failure.unwrap_or_else(none));
        }
        Ok(parts)
    }

    /// Has a part made on each of `hosts`, at the same time; what came of it for each.
    fn make_parts_at(
        &self,
        cluster: &Arc<Cluster>,
        ino: InodeId,
        hosts: Vec<NodeId>,
        class: Option<TierClass>,
    ) -> Vec<(NodeId, Result<NewPart>)> {
        let tier = || self.placing.tier_here(class);
        let asked = class.or_else(|| self.tiers.get(tier().ok()?).ok().map(|tier| tier.class()));
        let request = Request::PushWhole { ino, class: asked.unwrap_or(TierClass::Disk), sum: 0 };
        let begin = |host: &NodeId| {
            let is_here = *host == self.me;
            (!is_here).then(|| cluster.start(host, request.clone(), None))
        };
        let begun: Vec<_> = hosts.iter().map(begin).collect();
        let finish = |(host, begun): (NodeId, Option<Result<_>>)| {
            let part = match begun {
                None => tier()
                    .and_then(|tier| self.tiers.take_file(tier, &self.namespace))
                    .map(|(backing, file)| NewPart { backing, here: Some(file) }),
                Some(begun) => begun.and_then(|pending| match cluster.finish(&host, pending)? {
                    Response::Pushed { backing } => Ok(NewPart { backing, here: None }),
                    other => Err(unexpected(&host, &other)),
                }),
            };
            (host, part)
        };
        hosts.into_iter().zip(begun).map(finish).collect()
    }

    /// Gives up parts that no record names, because of `error`.
    fn abandon_parts(&self, cluster: &Cluster, inode: &Inode, parts: Vec<NewPart>, error: &Error) {
        let elsewhere: Vec<_> =
            parts.iter().filter(|part| part.here.is_none()).map(|part| part.backing).collect();
        cluster.refuse_copies(inode.ino, inode, &elsewhere);
        for NewPart { backing, here } in parts {
            if let Some(file) = here {
                let free = FreeFile::of(inode.ino, backing.file);
                self.ledger.untake_unrecorded(backing.tier, free, file, error);
            }
        }
    }

    /// Opens all parts of a striped file, at the same time.
    ///
    /// # Errors
    /// EIO, ETIMEDOUT or EHOSTUNREACH when the host of a part does not serve it.
    pub(crate) fn open(&self, inode: &Inode, may_write: bool) -> Result<StripedFile> {
        let ino = inode.ino;
        let damaged = |what: &str| Error::Corrupt { ino, what: what.into() };
        let Layout::Striped { parts, chunk_bytes, cuts } = &inode.layout else {
            return Err(damaged("a layout that is not striped"));
        };
        let cluster = self.cluster.as_ref().ok_or_else(|| damaged("a part on another host"))?;
        let stripe = Stripe::new(parts.len(), *chunk_bytes)
            .ok_or_else(|| damaged("stripes without parts or length"))?;
        let begin = |backing: &BackingRef| {
            if self.tiers.has(backing.tier) {
                return Ok(None);
            }
            let home = cluster.home_of(backing.tier)?;
            Ok(Some(RemoteFile::begin_opening_part(cluster, home, ino, *backing, may_write)))
        };
        let begun: Vec<Result<Option<PartOpening>>> = parts.iter().map(begin).collect();
        let finish = |(backing, begun): (&BackingRef, Result<Option<PartOpening>>)| {
            Ok(match begun? {
                None => Part::Here(self.parts.open_named(ino, *backing)?),
                Some(opening) => Part::There(Arc::new(opening.finish()?)),
            })
        };
        // All openings that were begun are finished, even if one failed: otherwise their hosts would keep the parts open.
        let opened: Vec<Result<Part>> = parts.iter().zip(begun).map(finish).collect();
        let opened = opened.into_iter().collect::<Result<_>>()?;
        let known = (inode.size_bytes, *cuts);
        Ok(StripedFile::new(cluster, ino, (stripe, opened), known, may_write))
    }

    /// Opens all parts for writing; returns the hints of the file with them.
    pub(crate) fn open_to_write(&self, inode: &Inode) -> Result<(StripedFile, HintSet)> {
        let striped = self.open(inode, true)?;
        Ok((striped, own_hints(&self.namespace, inode)?))
    }

    /// Publishes what was written here to a striped file, if anything was.
    pub(crate) fn publish(&self, striped: &StripedFile, ino: InodeId) -> Result<()> {
        let drained = striped.drain();
        let Some(unpublished) = striped.take_unpublished() else { return drained };
        let published = self.try_publish(striped, ino, &unpublished);
        if published.is_err() {
            striped.put_back(unpublished);
        }
        drained.and(published)
    }

    /// Measures the parts and records the length. Begins anew if another host has set the length meanwhile.
    fn try_publish(
        &self,
        striped: &StripedFile,
        ino: InodeId,
        unpublished: &Unpublished,
    ) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let known = striped.cuts();
            let measure = striped.measure(Some(unpublished))?;
            let mut found = known;
            let now = now();
            let published = self.namespace.update(ino, |inode| {
                found = cuts_of(inode)?;
                if found != known {
                    // Another host has set the length since, and the parts may have been measured before that.
                    return Ok(());
                }
                inode.size_bytes = inode.size_bytes.max(measure.size_bytes);
                // Another host may have measured later and published earlier.
                inode.blocks_512 = inode.blocks_512.max(measure.blocks_512.unwrap_or(0));
                if inode.mtime < unpublished.mtime || inode.mtime > now {
                    inode.mtime = unpublished.mtime;
                }
                inode.ctime = inode.ctime.max(unpublished.mtime);
                Ok(())
            });
            match published {
                // Another host removed the file while it is open here.
                Err(Error::NotFound) => return Ok(()),
                Err(error) => return Err(error),
                Ok(inode) => striped.learn(inode.size_bytes, found),
            }
            if found == known {
                return Ok(());
            }
        }
        Err(Error::Busy("other hosts keep setting the length of the file".into()))
    }

    /// Cuts or grows a striped file. Returns its new record; none if another host removed the file while it is open here.
    pub(crate) fn cut(
        &self,
        striped: &StripedFile,
        ino: InodeId,
        size_bytes: u64,
    ) -> Result<Option<Inode>> {
        striped.set_len(size_bytes)?;
        let blocks_512 = match size_bytes {
            0 => Some(0),
            _ => striped.measure(None)?.blocks_512,
        };
        let now = now();
        let mut cuts = 0;
        let recorded = self.namespace.update(ino, |inode| {
            let blocks = blocks_512.unwrap_or(inode.blocks_512);
            let Layout::Striped { cuts: counted, .. } = &mut inode.layout else {
                return Err(not_striped());
            };
            *counted += 1;
            cuts = *counted;
            inode.size_bytes = size_bytes;
            inode.blocks_512 = blocks;
            inode.mtime = now;
            inode.ctime = now;
            Ok(())
        });
        let inode = match recorded {
            Err(Error::NotFound) => None,
            Err(error) => return Err(error),
            Ok(inode) => Some(inode),
        };
        striped.note_cut(size_bytes, cuts);
        Ok(inode)
    }

    /// Has what was written to the parts of a striped file put on stable storage, if the deployment promises that.
    pub(super) fn sync(&self, striped: &StripedFile, data_only: bool) -> Result<()> {
        if self.is_durable { striped.sync(data_only) } else { Ok(()) }
    }
}

impl StripedFile {
    /// Notes what the record says of the file, which other hosts may have changed. Whether the file is still striped.
    pub(crate) fn learn_record(&self, inode: &Inode) -> bool {
        let cuts = cuts_of(inode);
        if let Ok(cuts) = cuts {
            self.learn(inode.size_bytes, cuts);
        }
        cuts.is_ok()
    }
}

/// How often the length of a striped file was set, as its record says.
fn cuts_of(inode: &Inode) -> Result<u64> {
    match &inode.layout {
        Layout::Striped { cuts, .. } => Ok(*cuts),
        _ => Err(not_striped()),
    }
}

fn not_striped() -> Error {
    Error::Busy("the file is not striped any more".into())
}
