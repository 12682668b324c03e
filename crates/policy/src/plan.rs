//! The one plan for placement. Whoever makes, opens, settles, copies or moves a file asks for it.

use intarsia_types::{NodeId, TierClass, TierId};

use crate::balance::emptiest;
use crate::copies::{Candidate, rank, usable};
use crate::fold::inline_or_not;
use crate::home::{choose_home, choose_tier_here};
use crate::io_mode::choose_io_mode;
use crate::keep::keep_or_not;
use crate::tier::change_tier;
use crate::wish::as_wished;
use crate::{
    FoldLimits, Home, HostState, HostWish, IoMode, KeepRequest, OpenRequest, Reason, TierState,
};

/// What a place is wanted for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// A new file, or one that stood beside its inode and grows, is born at the host that its hints wish.
    Birth(HostWish<'a>),
    /// Bytes are to be in a tier of this host whatever room others have: a copy or a part that arrives, a file that
    /// is brought here.
    Here,
    /// A file of this host has got a hint on its tier: does it change to another one?
    Hinted {
        /// The tier that has its bytes.
        tier: TierId,
    },
    /// This host may write a file that has its bytes at another one.
    Rewrite {
        /// That other one.
        home: &'a NodeId,
        /// The hints put the file there.
        is_put_there: bool,
    },
    /// The first handle of a file is opened.
    Open(OpenRequest),
    /// Another host's file is opened for reading, and may be kept here.
    Keep(KeepRequest),
    /// A backing file is not written to any more, and may go beside the inode.
    Settle {
        /// What may stand there.
        limits: FoldLimits,
        /// What does already.
        inline_total_bytes: u64,
    },
    /// Content gets further copies: of a publication, or to make up for those that are lost.
    Copies {
        /// Hosts that have one, or had their chance.
        holds: &'a [NodeId],
        /// How many more.
        count: usize,
    },
    /// A file is dealt over hosts in chunks.
    Parts {
        /// Over how many at most.
        hosts: usize,
        /// Length of a chunk.
        chunk_bytes: u64,
    },
    /// A file has to leave its host: which of the others holds least for its size?
    Move,
}

/// What is known of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileState {
    /// The number of its inode, by which files spread over hosts that are about equal.
    pub seed: u64,
    /// Bytes that are to be placed; 0 of a file that is still to be written.
    pub size_bytes: u64,
    /// The class of tier that is wanted.
    pub class: Option<TierClass>,
    /// Reads of it must be verified.
    pub is_strict: bool,
}

/// What is known of the host that asks.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    /// Its name.
    pub node: &'a NodeId,
    /// Its tiers, in the order of the configuration. Only for a place in one of them.
    pub tiers: &'a [TierState],
    /// Whether it was told to leave.
    pub is_leaving: bool,
    /// Whether its kernel can serve files by itself.
    pub has_passthrough: bool,
}

/// What a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct PlaceRequest<'a> {
    /// What for.
    pub purpose: Purpose<'a>,
    /// The file.
    pub file: FileState,
    /// The host that asks.
    pub here: Here<'a>,
}

/// How the bytes are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedLayout {
    /// As they are.
    Unchanged,
    /// Beside the inode.
    Inline,
    /// In one backing file, at the home.
    Whole,
    /// In chunks, over the first of these hosts that can.
    Dealt {
        /// All that may have a part, in the order in which they are asked.
        hosts: Vec<NodeId>,
        /// Length of a chunk.
        chunk_bytes: u64,
    },
}

/// Where the bytes of a file are to be, how they are reached, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The host, and if it is the one that asks, the tier.
    pub home: Home,
    /// How they are laid out.
    pub layout: PlannedLayout,
    /// Hosts for further copies, the best first.
    pub copies: Vec<NodeId>,
    /// Whether the host that asks keeps what it reads of another host's file.
    pub is_kept: bool,
    /// Who serves the file to programs of the host that asks.
    pub io_mode: IoMode,
    /// Why.
    pub reason: Reason,
}

impl Plan {
    const fn new(home: Home, reason: Reason) -> Self {
        let layout = match home {
            Home::Unchanged => PlannedLayout::Unchanged,
            _ => PlannedLayout::Whole,
        };
        Self { home, layout, copies: Vec::new(), is_kept: false, io_mode: IoMode::Cached, reason }
    }

    const fn stay(reason: Reason) -> Self {
        Self::new(Home::Unchanged, reason)
    }
}

/// Plans where the bytes of a file are to be, how they are reached, and says why.
///
/// `hosts` are all hosts that take files, and are asked for only where the answer depends on them; of the host that asks
/// its own entry among them counts only for a striped file. A wish that cannot be met, because its host is gone, full or
/// about to leave, counts as none: the file is born where it would be without the hint.
#[must_use]
pub fn place<H: AsRef<[HostState]>>(request: &PlaceRequest<'_>, hosts: impl FnOnce() -> H) -> Plan {
    let PlaceRequest { purpose, ref file, ref here } = *request;
    match purpose {
        Purpose::Birth(wish) => birth(file, here, wish, hosts),
        Purpose::Here => {
            let (home, reason) = choose_tier_here(here.tiers, file.class);
            served(file, here, Plan::new(home, reason))
        }
        Purpose::Hinted { tier } => {
            let (home, reason) = change_tier(here.tiers, tier, file);
            Plan::new(home, reason)
        }
        Purpose::Rewrite { home, is_put_there } => rewrite(file, here, home, is_put_there),
        Purpose::Open(request) => {
            let (io_mode, reason) = choose_io_mode(&request, here.has_passthrough, file.is_strict);
            Plan { io_mode, ..Plan::stay(reason) }
        }
        Purpose::Keep(request) => {
            let reason = keep_or_not(&request, file);
            Plan { is_kept: reason == Reason::WorthKeeping, ..Plan::stay(reason) }
        }
        Purpose::Settle { limits, inline_total_bytes } => {
            let reason = inline_or_not(limits, file, inline_total_bytes);
            let is_inline = reason == Reason::FitsInline;
            let layout = if is_inline { PlannedLayout::Inline } else { PlannedLayout::Unchanged };
            Plan { layout, ..Plan::stay(reason) }
        }
        Purpose::Copies { holds, count } => {
            let hosts = hosts();
            let candidates = usable(hosts.as_ref(), holds, file.size_bytes);
            let copies = rank(candidates, count, file.seed);
            let is_enough = copies.len() >= count;
            let reason = if is_enough { Reason::CopiesWanted } else { Reason::TooFewHosts };
            Plan { copies, ..Plan::stay(reason) }
        }
        Purpose::Parts { hosts: wanted, chunk_bytes } => {
            let all = hosts();
            let candidates = usable(all.as_ref(), &[], file.size_bytes);
            let hosts =
                rank(candidates.into_iter().map(Candidate::at_rest).collect(), wanted, file.seed);
            let reason = if hosts.is_empty() { Reason::TooFewHosts } else { Reason::Dealt };
            let home = if hosts.is_empty() { Home::Nowhere } else { Home::Unchanged };
            Plan { layout: PlannedLayout::Dealt { hosts, chunk_bytes }, ..Plan::new(home, reason) }
        }
        Purpose::Move => match emptiest(hosts().as_ref(), here.node, file.size_bytes) {
            Some(host) => {
                let home = Home::Elsewhere { hosts: vec![host.clone()], otherwise: None };
                Plan::new(home, Reason::RoomElsewhere)
            }
            None => Plan::new(Home::Nowhere, Reason::Full),
        },
    }
}

fn birth<H: AsRef<[HostState]>>(
    file: &FileState,
    here: &Here<'_>,
    wish: HostWish<'_>,
    hosts: impl FnOnce() -> H,
) -> Plan {
    let (home, reason) = if wish == HostWish::Maker {
        choose_home(file, here, hosts)
    } else {
        let hosts = hosts();
        let hosts = hosts.as_ref();
        as_wished(file, here, wish, hosts).unwrap_or_else(|| choose_home(file, here, || hosts))
    };
    served(file, here, Plan::new(home, reason))
}

/// What may be written here comes here, unless its hints put it where it is or there is no room for it.
fn rewrite(file: &FileState, here: &Here<'_>, home: &NodeId, is_put_there: bool) -> Plan {
    let is_roomy = here.tiers.iter().any(TierState::is_roomy);
    let (chosen, reason) = choose_tier_here(here.tiers, file.class);
    if is_roomy && !is_put_there {
        return served(file, here, Plan::new(chosen, reason));
    }
    let otherwise = match chosen {
        Home::Here(tier) => Some(tier),
        _ => None,
    };
    let home = Home::Elsewhere { hosts: vec![home.clone()], otherwise };
    let reason = if is_put_there { Reason::PutThere } else { Reason::RoomElsewhere };
    Plan::new(home, reason)
}

/// The plan with who will serve a new file: in a tier here it may be the kernel.
fn served(file: &FileState, here: &Here<'_>, plan: Plan) -> Plan {
    let Home::Here(id) = plan.home else { return plan };
    let tier = here.tiers.iter().find(|tier| tier.id == id).copied();
    let request = OpenRequest { tier, is_written: true, is_encoded: false, clears_set_id: false };
    let (io_mode, _) = choose_io_mode(&request, here.has_passthrough, file.is_strict);
    Plan { io_mode, ..plan }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
