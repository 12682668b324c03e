//! A link: the flows over it in the order of their rates, and at which rate it is full.

use super::{Rate, Turn};

/// A link of which so much is taken, and that decides on none of its members, may be full.
const NEARLY_FULL: f64 = 0.99;
/// By how much a product of rates differs at least from another, as a share of it, where quotients do so for certain.
const APART: f64 = 1e-14;

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) capacity: f64,
    /// What its flows would take if no other link held them back: the sum of their bounds.
    pub(super) demand: f64,
    /// While it is watched, in the order of their rates, so that what they leave of it is told by one look at each.
    members: Vec<Member>,
    /// It may be full, or was: only then members have their rates here.
    is_watched: bool,
    /// Members that are held by it, and that are open; and what all take, but for rounding.
    held: usize,
    open: usize,
    taken: f64,
    is_touched: bool,
}

/// A flow on a link, with what the link has to know of it.
#[derive(Clone, Copy, Debug)]
struct Member {
    rate: f64,
    /// The last computation that gave it a rate.
    settled: u64,
    flow: u32,
    /// The link is full, and gives it its rate.
    is_held: bool,
    is_open: bool,
}

impl Member {
    const fn at_rest(flow: u32, rate: f64) -> Self {
        Self { rate, settled: 0, flow, is_held: false, is_open: false }
    }
}

impl Link {
    pub(super) const fn new(capacity: f64) -> Self {
        Self {
            capacity,
            demand: 0.0,
            members: Vec::new(),
            is_watched: false,
            held: 0,
            open: 0,
            taken: 0.0,
            is_touched: false,
        }
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|member| member.flow)
    }

    pub(super) fn may_be_full(&self) -> bool {
        self.demand > self.capacity
    }

    /// Whether it is full for certain, outside of computations.
    pub(super) const fn holds_any(&self) -> bool {
        self.held > 0
    }

    /// It has to say anew when it is full.
    pub(super) fn touch(&mut self, number: u32, touched: &mut Vec<u32>) {
        if self.is_watched && !std::mem::replace(&mut self.is_touched, true) {
            touched.push(number);
        }
    }

    /// From now on members have their rates here.
    pub(super) fn watch(&mut self, rate_of: impl Fn(u32) -> f64) {
        if std::mem::replace(&mut self.is_watched, true) {
            return;
        }
        for member in &mut self.members {
            *member = Member::at_rest(member.flow, rate_of(member.flow));
        }
        self.members.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        (self.held, self.open) = (0, 0);
        self.taken = self.members.iter().map(|member| member.rate).sum();
    }

    /// A flow comes that has no rate yet.
    pub(super) fn join(&mut self, flow: u32, bound: f64) {
        self.members.insert(0, Member::at_rest(flow, 0.0));
        self.demand += bound;
    }

    /// A flow of this rate goes.
    pub(super) fn leave(&mut self, flow: u32, rate: f64, bound: f64) {
        let place = match self.is_watched {
            true => self.place_of(rate, |member| member.flow == flow),
            false => self.members.iter().position(|member| member.flow == flow),
        };
        if let Some(place) = place {
            self.held -= usize::from(self.members.remove(place).is_held);
            self.taken -= rate;
        }
        // An empty link forgets what rounding left.
        self.demand = if self.members.is_empty() { 0.0 } else { self.demand - bound };
    }

    /// The first member of this rate, or of a higher one, that is the one meant.
    fn place_of(&self, rate: f64, is_meant: impl Fn(&Member) -> bool) -> Option<usize> {
        let first = self.members.partition_point(|member| member.rate < rate);
        self.members[first..].iter().position(is_meant).map(|further| first + further)
    }

    /// A member grows from its rate, which another link gave it if any did.
    pub(super) fn opens(&mut self, flow: u32, rate: f64) {
        if !self.is_watched {
            return;
        }
        // A path that names a link twice makes two members of one flow.
        let is_meant = |member: &Member| member.flow == flow && !member.is_open;
        if let Some(place) = self.place_of(rate, is_meant) {
            let member = &mut self.members[place];
            self.held -= usize::from(std::mem::take(&mut member.is_held));
            member.is_open = true;
            self.open += 1;
        }
    }

    /// All that it holds grows from its rate; these flows are added to `open`.
    pub(super) fn lets_go(&mut self, round: u64, open: &mut Vec<u32>) {
        for member in self.members.iter_mut().filter(|it| it.is_held && it.settled != round) {
            (member.is_open, member.is_held) = (true, false);
            self.held -= 1;
            self.open += 1;
            open.push(member.flow);
        }
    }

    /// A member gets a rate that this link does not give.
    pub(super) fn hears(&mut self, flow: u32, old_rate: f64, rate: f64, round: u64) {
        if !self.is_watched {
            return;
        }
        let is_meant = |member: &Member| member.flow == flow && member.settled != round;
        let Some(mut place) = self.place_of(old_rate, is_meant) else { return };
        let members = &mut self.members;
        self.held -= usize::from(members[place].is_held);
        self.open -= usize::from(members[place].is_open);
        self.taken += rate - old_rate;
        while let Some(next) = members.get(place + 1).filter(|next| next.rate < rate) {
            members[place] = *next;
            place += 1;
        }
        while let Some(before) = place.checked_sub(1).filter(|it| members[*it].rate > rate) {
            members[place] = members[before];
            place = before;
        }
        members[place] = Member { settled: round, ..Member::at_rest(flow, rate) };
    }

    /// It is full, and gives this rate to all that have none yet and no less; these are added to `given`.
    pub(super) fn gives(&mut self, rate: f64, round: u64, given: &mut Vec<u32>) {
        self.members.retain(|member| {
            let is_given =
                member.settled != round && (member.is_held || member.is_open || member.rate > rate);
            if is_given {
                self.held -= usize::from(member.is_held);
                self.open -= usize::from(member.is_open);
                self.taken += rate - member.rate;
                given.push(member.flow);
            }
            !is_given
        });
        let place = self.members.partition_point(|member| member.rate < rate);
        let held = |flow: &u32| {
            let member = Member::at_rest(*flow, rate);
            Member { settled: round, is_held: true, ..member }
        };
        self.members.splice(place..place, given.iter().map(held));
        self.held += given.len();
    }

    /// When it changes the rate of any of its members, if none that another holds gets more.
    pub(super) fn turn(&mut self, round: u64) -> Option<(Rate, Turn)> {
        self.is_touched = false;
        let decides = self.held + self.open > 0;
        let turn = match decides || self.taken > NEARLY_FULL * self.capacity {
            true => self.look_at_members(round),
            false => None,
        };
        self.is_watched = turn.is_some() || self.may_be_full();
        turn
    }

    fn look_at_members(&self, round: u64) -> Option<(Rate, Turn)> {
        // The rate of what it holds, the highest of any member that may come down, and whether any is open.
        let (mut level, mut highest, mut has_open) = (None, 0.0, false);
        let mut share = Share::new(self.capacity, self.members.len());
        for member in &self.members {
            if member.settled == round {
                share.take(member.rate);
            } else if member.is_open {
                has_open = true;
            } else {
                highest = member.rate;
                match member.is_held {
                    true => level = Some(member.rate),
                    false => share.take(member.rate),
                }
            }
        }
        let full_at = if self.may_be_full() { share.each() } else { f64::INFINITY };
        match level.filter(|level| *level < full_at) {
            Some(level) => Some((Rate(level), Turn::Room)),
            None if full_at < highest || (has_open && full_at < f64::INFINITY) => {
                Some((Rate(full_at), Turn::Full))
            }
            None => None,
        }
    }
}

/// What each member of a link gets that is not among those to whom less was given already.
struct Share {
    room: f64,
    left: f64,
    is_known: bool,
}

impl Share {
    const fn new(capacity: f64, members: usize) -> Self {
        Self { room: capacity, left: members as f64, is_known: false }
    }

    /// A member has got `rate`, which is no less than those before; it counts if it is less than the share of the others.
    fn take(&mut self, rate: f64) {
        self.is_known = self.is_known || !self.is_more_than(rate);
        if !self.is_known {
            self.room -= rate;
            self.left -= 1.0;
        }
    }

    /// As `rate < self.each()`, but divides only where products do not tell.
    fn is_more_than(&self, rate: f64) -> bool {
        let all = rate * self.left;
        match (all - self.room).abs() > APART * self.room {
            true => all < self.room,
            false => rate < self.room / self.left,
        }
    }

    /// Infinite where all have got less.
    fn each(&self) -> f64 {
        if self.left == 0.0 { f64::INFINITY } else { self.room / self.left }
    }
}
