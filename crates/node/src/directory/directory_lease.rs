//! Leases on directories: when this host asks for one, and how it gives one back.
//!
//! `intarsia_meta` defines what a lease is. This host asks for the lease on a directory that it uses several times in a row.
//! After it was asked to give one back it waits before it asks again, longer each time, so that hosts that all change one
//! directory soon stop passing its lease around. While it uses a directory often enough it keeps the lease and is told what
//! others change (`sharing`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use intarsia_meta::Namespace;
use intarsia_sync::{Instant, Mutex, RwLock};
use intarsia_types::{InodeId, Result};

use crate::directory::told::Told;
use crate::membership::cluster::Cluster;
use crate::ranks::DIRECTORY_USES;

/// The number of uses within [`TOGETHER`] after which a lease is asked for.
const USES: u32 = 4;
const TOGETHER: Duration = Duration::from_secs(2);
/// The pause before a recalled lease is asked for again; doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The longest pause is this times the number of hosts: few hosts disturb each other less, and should get the lease back soon
/// when the stage of a workflow in which they changed the directory is over.
const PAUSE_OF_A_HOST: Duration = Duration::from_millis(50);
/// After a lease was kept for this many pauses, the next pause is the shortest again.
const CALM: u32 = 8;
/// Misses after which everything in a leased directory is read at once.
const MISSES: u32 = 16;
/// How many uses of a directory by this host one change by another host outweighs. The other one loses more time by it than one use
/// saves, but less than a program's call does, which is several uses: with more, runs of workflows took longer.
const USES_PER_CHANGE: u32 = 1;
/// A lease is kept as long as the uses since it was granted, and so many, outweigh the changes; at first and at most.
const USES_FIRST: u32 = 16;
const USES_MAX: u32 = 64;
/// A lease that was not used for this long is not kept when another host changes the directory.
const UNUSED: Duration = Duration::from_secs(1);
/// A lease that has not been used for this long is given back.
const IDLE: Duration = Duration::from_secs(60);
/// Most leases of one host, and most directories whose use is remembered.
const LEASES_MAX: usize = 1024;
const REMEMBERED_MAX: usize = 8192;

/// The kernel may cache something only of a directory that no other host has changed for this time, as far as this one can
/// tell. Another host that changes the directory waits until the kernel's cache has expired, which takes as long as some
/// thousand calls; stages of a workflow in which a directory changes hands are shorter than this time.
const KERNEL_CALM_MIN: Duration = Duration::from_secs(10);

/// How long the kernel keeps what a lease covers, and how long after our answer that time may begin: the kernel takes the
/// answer only when the program that asked runs again.
pub(super) const KEPT_BY_KERNEL: Duration = Duration::from_millis(20);
pub(super) const ON_ITS_WAY: Duration = Duration::from_millis(180);

/// How one directory is used here.
pub(super) struct Use {
    count: u32,
    first: Instant,
    last: Instant,
    /// Since when its lease is held.
    pub(super) held: Option<Instant>,
    /// How long the directory had not been changed when the lease came.
    calm_before: Duration,
    /// How often a lease was given back, or another host asked for it: a lease asked for before that does not count after it.
    returns: u64,
    /// Threads that are giving it back.
    returning: u32,
    /// When the kernel was last sent something of it that it may keep for [`KEPT_BY_KERNEL`].
    pub(super) kept_by_kernel: Option<Instant>,
    /// When a lease may be asked for again, and how long the next pause will be. The kernel may cache names and attributes
    /// only under a lease that was held for longer than that pause, because giving back such a lease takes time.
    pauses_until: Option<Instant>,
    pause: Duration,
    /// Misses since the whole directory was last read, and how many make it read again.
    misses: u32,
    misses_max: u32,
    /// How many more uses there were than the changes of other hosts outweigh.
    uses_left: u32,
}

impl Use {
    const fn new(now: Instant) -> Self {
        Self {
            count: 0,
            first: now,
            last: now,
            held: None,
            calm_before: Duration::ZERO,
            returns: 0,
            returning: 0,
            kept_by_kernel: None,
            pauses_until: None,
            pause: PAUSE_MIN,
            misses: 0,
            misses_max: MISSES,
            uses_left: 0,
        }
    }

    /// Counts a use. Returns the present `returns` if a lease is to be asked for now.
    fn note(&mut self, now: Instant) -> Option<u64> {
        self.last = now;
        self.uses_left = (self.uses_left + 1).min(USES_MAX);
        let is_pausing = self.pauses_until.is_some_and(|until| now < until);
        if self.held.is_some() || self.returning > 0 || is_pausing {
            return None;
        }
        if now.duration_since(self.first) > TOGETHER {
            (self.first, self.count) = (now, 0);
        }
        self.count += 1;
        (self.count >= USES).then_some(self.returns)
    }

    /// A lease has come that was asked for at `returns`. False if it has been given back since, and does not count.
    fn begin(&mut self, now: Instant, returns: u64, calm_before: Duration) -> bool {
        if self.returns != returns {
            return false;
        }
        (self.held, self.calm_before) = (Some(now), calm_before);
        (self.misses, self.misses_max) = (0, MISSES);
        self.uses_left = USES_FIRST;
        true
    }

    /// Another host changes the directory. Whether the lease is kept all the same: it is worth being told of changes as long as
    /// there are not many more of them than uses.
    pub(super) fn outlasts_change(&mut self, now: Instant) -> bool {
        let is_used = self.held.is_some() && now.duration_since(self.last) <= UNUSED;
        let is_kept = is_used && self.uses_left > 0;
        self.uses_left = self.uses_left.saturating_sub(USES_PER_CHANGE);
        is_kept
    }

    /// What was read before now of the directory may not be what it is: the lease counts from now on, after a change.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        if self.held.is_some() {
            (self.held, self.calm_before) = (Some(now), Duration::ZERO);
        }
    }

    /// Whether the lease, held since `since`, is not likely to be recalled soon.
    pub(super) fn is_calm(&self, now: Instant, since: Instant) -> bool {
        let held = now.duration_since(since);
        held > self.pause && held + self.calm_before > KERNEL_CALM_MIN
    }

    /// The lease ends. With a `longest_pause` it ends because another host recalled it: then it is not asked for again before a
    /// pause, at most that long, is over.
    fn end(&mut self, now: Instant, longest_pause: Option<Duration>) {
        self.returns += 1;
        self.count = 0;
        let Some(held) = self.held.take() else { return };
        if let Some(longest) = longest_pause {
            let was_calm = now.duration_since(held) > self.pause.min(longest) * CALM;
            if was_calm {
                self.pause = PAUSE_MIN;
            }
            self.pauses_until = Some(now + self.pause.min(longest));
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }
}

/// When this host asks for leases, keeps them, and gives them back.
pub(crate) struct DirectoryLeases {
    pub(super) namespace: Arc<Namespace>,
    /// The other hosts; none in a store of one, which needs no leases.
    cluster: Option<Arc<Cluster>>,
    /// Whether leases are asked for.
    is_asking: bool,
    uses: Mutex<HashMap<InodeId, Use>>,
    /// Read-locked while the kernel is sent something, so that a lease is not given back before the kernel has it.
    pub(super) telling: RwLock<()>,
    /// The attributes that the kernel was sent.
    pub(crate) told: Told,
}

impl DirectoryLeases {
    /// With `is_asking` leases are asked for where that pays.
    pub(crate) fn new(
        namespace: Arc<Namespace>,
        cluster: Option<Arc<Cluster>>,
        is_asking: bool,
    ) -> Self {
        let uses = Mutex::ranked(DIRECTORY_USES, HashMap::new());
        Self {
            namespace,
            is_asking: is_asking && cluster.is_some(),
            cluster,
            uses,
            telling: RwLock::default(),
            told: Told::default(),
        }
    }

    /// What `f` returns for the notes on how a directory is used; none if there are no notes.
    pub(super) fn with<T>(&self, dir: InodeId, f: impl FnOnce(&mut Use) -> T) -> Option<T> {
        self.uses.lock().get_mut(&dir).map(f)
    }

    /// See [`Use::note`].
    fn note(&self, dir: InodeId) -> Option<u64> {
        let now = Instant::now();
        let mut uses = self.uses.lock();
        if uses.len() >= REMEMBERED_MAX && !uses.contains_key(&dir) {
            uses.retain(|_, seen| {
                let is_pausing = seen.pauses_until.is_some_and(|until| now < until);
                let is_in_use = seen.held.is_some() || seen.returning > 0;
                is_in_use || is_pausing || now.duration_since(seen.last) < TOGETHER
            });
        }
        uses.entry(dir).or_insert_with(|| Use::new(now)).note(now)
    }

    /// The directories whose leases have not been used for [`IDLE`], and, if there are more than [`LEASES_MAX`] leases, those
    /// whose leases were unused for longest.
    fn idle(&self) -> Vec<InodeId> {
        let now = Instant::now();
        let uses = self.uses.lock();
        let mut held: Vec<_> = uses
            .iter()
            .filter(|(_, seen)| seen.held.is_some())
            .map(|(d, s)| (s.last, *d))
            .collect();
        held.sort_unstable();
        let surplus = held.len().saturating_sub(LEASES_MAX);
        let is_idle = |(at, (last, _)): &(usize, (Instant, InodeId))| {
            *at < surplus || now.duration_since(*last) > IDLE
        };
        held.into_iter().enumerate().filter(is_idle).map(|(_, (_, dir))| dir).collect()
    }
}

impl DirectoryLeases {
    /// Notes that programs here use a directory, and asks for its lease when that pays.
    pub(crate) fn use_directory(&self, dir: InodeId) {
        if !self.is_asking {
            return;
        }
        if let Some(returns) = self.note(dir) {
            self.lease_directory(dir, returns);
            return;
        }
        let misses = self.namespace.take_directory_misses(dir);
        if misses == 0 {
            return;
        }
        let is_due = self.with(dir, |seen| {
            seen.misses += misses;
            let is_due = seen.misses >= seen.misses_max;
            if is_due {
                // Whatever keeps it from being known completely may happen again, so it is read less often each time.
                (seen.misses, seen.misses_max) = (0, seen.misses_max.saturating_mul(2));
            }
            is_due
        });
        if is_due == Some(true)
            && let Err(error) = self.namespace.fetch_directory(dir)
        {
            tracing::debug!(%dir, %error, "a leased directory could not be read as a whole");
        }
    }

    fn lease_directory(&self, dir: InodeId, returns: u64) {
        match self.namespace.lease_directory(dir) {
            Ok(true) => {
                let (now, calm) = (Instant::now(), self.unchanged_for(dir));
                let counts = self.with(dir, |seen| seen.begin(now, returns, calm));
                if counts != Some(true)
                    && let Err(error) = self.return_directory(dir, false)
                {
                    tracing::debug!(%dir, %error, "a lease that came too late was not given back");
                }
            }
            Ok(false) => {
                self.with(dir, |seen| {
                    seen.pauses_until = Some(Instant::now() + PAUSE_MAX);
                });
            }
            Err(error) => tracing::debug!(%dir, %error, "no lease on the directory"),
        }
    }

    /// How long a directory has not been changed. A guess, because it is by the clock of the host that changed it.
    fn unchanged_for(&self, dir: InodeId) -> Duration {
        let changed = self.namespace.get(dir).map(|inode| SystemTime::from(inode.ctime));
        changed.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default()
    }

    /// Gives a lease back that another host recalls, because it wants to change something of the directory.
    pub(crate) fn give_up_directory(&self, dir: InodeId) -> Result<()> {
        self.return_directory(dir, true)
    }

    fn return_directory(&self, dir: InodeId, is_recalled: bool) -> Result<()> {
        // First this host and the kernel stop caching; then what the kernel was sent before expires; only then is the lease
        // given back.
        let longest_pause = is_recalled.then(|| self.longest_pause());
        self.begin_returning(dir, longest_pause);
        self.namespace.forget_directory(dir);
        drop(self.telling.write());
        self.told.take_attributes_back(dir);
        self.outlast_kernel(dir);
        let outcome = self.namespace.release_directory(dir);
        self.with(dir, |seen| seen.returning -= 1);
        outcome
    }

    /// Waits until what the kernel was sent of a directory has expired.
    pub(super) fn outlast_kernel(&self, dir: InodeId) {
        let kept = self.with(dir, |seen| seen.kept_by_kernel);
        if let Some(kept) = kept.flatten() {
            intarsia_sync::thread::sleep_until(kept + KEPT_BY_KERNEL + ON_ITS_WAY);
        }
    }

    /// Notes it also of a directory that was not in use here: should it come into use meanwhile, its lease is not to be asked for
    /// before the one that goes has gone.
    fn begin_returning(&self, dir: InodeId, longest_pause: Option<Duration>) {
        let (now, mut uses) = (Instant::now(), self.uses.lock());
        let seen = uses.entry(dir).or_insert_with(|| Use::new(now));
        seen.end(now, longest_pause);
        seen.returning += 1;
    }

    fn longest_pause(&self) -> Duration {
        let hosts = self.cluster.as_ref().map_or(1, |cluster| cluster.members().len());
        let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
        PAUSE_OF_A_HOST.saturating_mul(hosts).min(PAUSE_MAX)
    }

    /// This host was given up: others may have taken its leases, so nothing that they covered counts any more.
    pub(crate) fn lose_directories(&self) {
        let now = Instant::now();
        self.uses.lock().values_mut().for_each(|seen| seen.end(now, None));
        for dir in self.namespace.leased_directories() {
            // Others may have changed the directory since, without asking this host.
            self.namespace.forget_directory(dir);
            self.told.drop_attributes(dir);
        }
    }

    /// Gives back leases that nobody uses any more, and those under which a change of another host seems never to end.
    pub(crate) fn return_idle_directories(&self) {
        for dir in self.idle().into_iter().chain(self.namespace.changed_for_long()) {
            if let Err(error) = self.return_directory(dir, false) {
                tracing::debug!(%dir, %error, "an idle lease was not given back");
            }
        }
    }

    /// Gives back all leases, for a clean stop. Else other hosts would have to find out first that this one is gone.
    pub(crate) fn return_directories(&self) -> Result<()> {
        let mut outcome = Ok(());
        for dir in self.namespace.leased_directories() {
            outcome = outcome.and(self.namespace.release_directory(dir));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::neighbours::Neighbours;
    use crate::directory::telling::Cover;

    #[test]
    fn the_kernel_is_told_of_a_directory_that_has_been_calm() {
        let now = Instant::now();
        let mut seen = Use::new(now);
        assert!(seen.begin(now, 0, Duration::ZERO));
        assert!(!seen.is_calm(now + PAUSE_MIN * 2, now));
        assert!(seen.is_calm(now + KERNEL_CALM_MIN + PAUSE_MIN, now));
        // Time without changes before the lease counts, but not for the pause after a recall.
        assert!(seen.begin(now, 0, KERNEL_CALM_MIN));
        assert!(!seen.is_calm(now + PAUSE_MIN / 2, now));
        assert!(seen.is_calm(now + PAUSE_MIN * 2, now));
    }

    #[test]
    fn a_lease_that_was_recalled_while_it_was_asked_for_does_not_count() {
        let mut now = Instant::now();
        let mut seen = Use::new(now);
        let asked = (0..USES).find_map(|_| seen.note(now)).unwrap();
        seen.end(now, Some(PAUSE_MAX));
        assert!(!seen.begin(now, asked, Duration::ZERO));
        assert!(seen.held.is_none());
        // Nor is it asked for while it is being given back.
        seen.returning += 1;
        assert!((0..USES * 2).all(|_| seen.note(now).is_none()));
        seen.returning -= 1;
        let asked = (0..USES).find_map(|_| seen.note(now)).unwrap();
        assert!(seen.begin(now, asked, Duration::ZERO));
        assert_eq!(seen.note(now), None);
        // Each recall of a lease that was not kept for long makes the pause longer.
        for _ in 0..20 {
            seen.end(now, Some(PAUSE_MAX));
            assert!((0..USES * 2).all(|_| seen.note(now).is_none()));
            now = seen.pauses_until.unwrap();
            let asked = (0..USES * 2).find_map(|_| seen.note(now)).unwrap();
            assert!(seen.begin(now, asked, Duration::ZERO));
        }
        assert_eq!(seen.pause, PAUSE_MAX);
        // Few hosts have it back sooner, though the kernel may not cache it sooner.
        seen.end(now, Some(PAUSE_OF_A_HOST * 4));
        assert_eq!(seen.pauses_until, Some(now + PAUSE_OF_A_HOST * 4));
        assert_eq!(seen.pause, PAUSE_MAX);
        now += PAUSE_OF_A_HOST * 4;
        let asked = (0..USES * 2).find_map(|_| seen.note(now)).unwrap();
        assert!(seen.begin(now, asked, Duration::ZERO));
        assert!(!seen.is_calm(now + PAUSE_MAX, now));
        seen.end(now + PAUSE_MAX * (CALM + 1), Some(PAUSE_MAX));
        assert_eq!(seen.pause, PAUSE_MIN * 2);
    }

    #[test]
    fn a_directory_in_use_is_leased_until_another_host_wants_it() {
        let (cluster, namespace) = crate::membership::cluster::lone::lone();
        let namespace = Arc::new(namespace.with_leases(Arc::new(Neighbours(Arc::clone(&cluster)))));
        let leases = |is_asking| {
            let cluster = Some(Arc::clone(&cluster));
            DirectoryLeases::new(Arc::clone(&namespace), cluster, is_asking)
        };
        let root = InodeId::ROOT;
        let (asking, silent) = (leases(true), leases(false));
        (0..USES * 2).for_each(|_| silent.use_directory(root));
        assert!(!namespace.holds_directory(root));
        (0..USES).for_each(|_| asking.use_directory(root));
        assert!(namespace.holds_directory(root));
        let read_after = Instant::now();
        let telling = asking.tell_kernel();
        // It has not been unchanged for long enough.
        assert_eq!(telling.lasts(Cover { dir: root, read_after }), Duration::ZERO);
        assert!(!telling.is_binding());
        drop(telling);
        asking.give_up_directory(root).unwrap();
        assert!(!namespace.holds_directory(root));
    }

    #[test]
    fn a_directory_that_comes_into_use_while_its_lease_goes_is_leased_afterwards() {
        let (cluster, namespace) = crate::membership::cluster::lone::lone();
        let namespace = Arc::new(namespace.with_leases(Arc::new(Neighbours(Arc::clone(&cluster)))));
        let leases = DirectoryLeases::new(Arc::clone(&namespace), Some(cluster), true);
        let root = InodeId::ROOT;
        let use_it = || (0..USES * 2).for_each(|_| leases.use_directory(root));
        intarsia_sync::thread::scope(|scope| {
            // A lease goes only when the kernel has what it is being sent.
            let telling = leases.telling.read();
            let returned = scope.spawn(|| leases.give_up_directory(root));
            let deadline = Instant::now() + Duration::from_secs(60);
            while leases.with(root, |seen| seen.returning) != Some(1) {
                assert!(Instant::now() < deadline, "nobody gives it back");
                intarsia_sync::thread::sleep(Duration::from_millis(1));
            }
            use_it();
            assert!(!namespace.holds_directory(root));
            drop(telling);
            returned.join().unwrap().unwrap();
        });
        assert_eq!(leases.with(root, |seen| seen.returning), Some(0));
        use_it();
        assert!(namespace.holds_directory(root));
    }
}
