//! Random stories: verbs one after the other and at once, killed at random moments, while hosts crash and programs write.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use intarsia_posix_tests::Random;

use super::checks::{Findings, members};
use super::files::{self, Losses};
use super::report::Report;
use super::world::{HOSTS, World, words};

/// What is to be told.
#[derive(Clone, Debug)]
pub struct Stories {
    /// The program that is the guard of each world and the writers.
    pub program: PathBuf,
    /// How many.
    pub count: usize,
    /// From which everything follows but the moments of the machine.
    pub seed: u64,
    /// Worlds side by side.
    pub labs: usize,
    /// When no further story is begun.
    pub limit: Duration,
}

/// What a story keeps in mind.
struct Story<'a> {
    world: &'a World,
    plan: &'a Stories,
    random: Random,
    findings: Findings,
    writers: Vec<Child>,
    names: Vec<String>,
    /// Of a host that was taken out single copies may have been on the way; one that lost its disks may have had the
    /// only ones of what was written, and named, while another host was away.
    may_be: Losses,
    /// The host whose disks are gone, and where they are.
    away: Option<(usize, PathBuf)>,
}

/// Tells the stories, several at once. What is wrong is printed as it is found.
#[must_use]
pub fn tell(plan: &Stories) -> Report {
    let report = Mutex::new(Report { planned: plan.count, ..Report::default() });
    let next = AtomicUsize::new(0);
    let deadline = Instant::now() + plan.limit;
    std::thread::scope(|scope| {
        for _ in 0..plan.labs {
            let (report, next) = (&report, &next);
            scope.spawn(move || {
                let world = World::new(&plan.program);
                loop {
                    let story = next.fetch_add(1, Ordering::Relaxed);
                    if story >= plan.count {
                        return;
                    }
                    let report_now = || report.lock().unwrap_or_else(PoisonError::into_inner);
                    if Instant::now() > deadline {
                        report_now().skip("the time was over");
                        continue;
                    }
                    let seed = plan.seed.wrapping_add(story as u64);
                    let (findings, acknowledged) = tell_one(&world, plan, seed);
                    let mut report = report_now();
                    report.run += 1;
                    report.verbs += findings.verbs;
                    report.acknowledged += acknowledged;
                    report.accepted_losses += usize::from(findings.has_accepted_loss);
                    report.lost_roots += usize::from(findings.has_lost_root);
                    let verdict = if findings.wrong.is_empty() { "ok" } else { "WRONG" };
                    eprintln!(
                        "{verdict} story --count 1 --seed {seed} ({} verbs, {acknowledged} files)",
                        findings.verbs
                    );
                    if !findings.wrong.is_empty() {
                        let violation = format!(
                            "stories --count 1 --seed {seed}:\n    {}\n      {}\n{:?}",
                            findings.wrong.join("\n    "),
                            findings.history.join("\n      "),
                            findings.kept
                        );
                        eprintln!("{violation}");
                        report.violations.push(violation);
                    }
                    drop(report);
                    world.clear();
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn tell_one(world: &World, plan: &Stories, seed: u64) -> (Findings, usize) {
    let mut story = Story {
        world,
        plan,
        random: Random::new(seed),
        findings: Findings::default(),
        writers: Vec::new(),
        names: Vec::new(),
        may_be: Losses::None,
        away: None,
    };
    let acknowledged = match story.begin() {
        Ok(()) => {
            let steps = 5 + story.random.below(11);
            (0..steps).for_each(|_| story.step());
            story.end()
        }
        Err(why) => {
            story.findings.wrong.push(format!("the store did not begin: {why}"));
            0
        }
    };
    story.findings.purge(world);
    (story.findings, acknowledged)
}

impl Story<'_> {
    fn begin(&mut self) -> Result<(), String> {
        if self.random.below(4) == 0 {
            let options = self.small_tier();
            self.world.set_options(options);
        }
        let said = self.world.say(&self.world.up(&[1, 2, 3], &[]), None);
        self.findings.note(&said);
        if said.code != Some(0) {
            return Err(said.text);
        }
        self.names = files::prepare(self.world, &[1, 2, 3])?;
        Ok(())
    }

    /// A small memory file system as the tier of host 3, which soon is full.
    fn small_tier(&mut self) -> Vec<String> {
        for n in 1..=HOSTS {
            let place = self.world.dir().join(format!("tier-n{n}"));
            let _ = fs::create_dir_all(&place);
            if n == 3 {
                let mut mount = Command::new("mount");
                mount.args(["-t", "tmpfs", "-o", "size=24m", "life-cycle"]).arg(place);
                let _ = mount.status();
            }
        }
        let tier = self.world.dir().join("tier-{host}/tier").display().to_string();
        self.findings.history.push("(the tier of n3 has 24 MiB)".into());
        words(&["--tier", &tier, "--watermark", "4MiB"])
    }

    fn start_writers(&mut self) {
        let stop = self.world.dir().join("stop");
        let _ = fs::remove_file(&stop);
        for n in 1..=3 {
            let seed = self.random.next().to_string();
            let mut writer = Command::new(&self.plan.program);
            writer.arg("writer").arg(self.world.mount(n)).arg(self.log(n)).arg(&stop).arg(seed);
            writer.stdin(Stdio::null()).stdout(Stdio::null());
            self.writers.extend(writer.spawn().ok());
        }
        self.findings.history.push("(writers begin)".into());
    }

    fn log(&self, n: usize) -> PathBuf {
        self.world.dir().join(format!("writer-{n}.log"))
    }

    fn stop_writers(&mut self) {
        if self.writers.is_empty() {
            return;
        }
        let _ = fs::write(self.world.dir().join("stop"), "");
        for mut writer in self.writers.drain(..) {
            let begun = Instant::now();
            while writer.try_wait().ok().flatten().is_none() {
                if begun.elapsed() > Duration::from_secs(40) {
                    self.findings.wrong.push("a writer hangs in a call".into());
                    let _ = writer.kill();
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = writer.wait();
        }
        for n in 1..=3 {
            let log = fs::read_to_string(self.log(n)).unwrap_or_default();
            let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
            self.names.extend(whole.lines().map(str::to_owned));
            let _ = fs::remove_file(self.log(n));
        }
    }

    fn hosts(&self) -> Vec<usize> {
        members(self.world).unwrap_or_else(|| vec![1, 2, 3])
    }

    fn step(&mut self) {
        let hosts = self.hosts();
        let host = *self.random.choose(&hosts);
        match self.random.below(21) {
            // A host that has lost its disks would found a store of its own.
            6 if self.world.store(host).join("store.json").exists() => {
                self.verb(&self.world.up(&[host], &[]));
            }
            0..7 => self.verb(&self.world.up(&hosts, &[])),
            7..9 => {
                self.stop_writers();
                self.verb(&self.world.down(&hosts, &[]));
            }
            9 => self.verb(&self.world.down(&hosts, &[])),
            10 => self.verb(&self.world.down(&hosts, &["--force"])),
            11 => self.verb(&self.world.join(&[])),
            12 if hosts.len() > 2 => {
                self.may_be = self.may_be.max(Losses::Copies);
                self.verb(&self.world.about(&["leave", "n3"], 1, &[]));
            }
            13 => self.verb(&self.world.about(&["lost"], 1, &[])),
            14 => self.verb(&self.world.about(&["status"], host, &[])),
            15 => {
                let (up, down) = (self.world.up(&hosts, &[]), self.world.down(&hosts, &[]));
                let both = [up, down].map(|words| self.world.begin(&words, None));
                both.into_iter().for_each(|one| self.findings.note(&one.end()));
            }
            16 => {
                self.findings.history.push(format!("(the node of n{host} is killed)"));
                self.world.kill_node(host);
            }
            17 => {
                self.findings.history.push(format!("(a server of n{host} is killed)"));
                let number = usize::from(self.random.below(2) == 1);
                self.world.kill_server(host, number);
            }
            18 => {
                self.findings.history.push(format!("(n{host} loses its power)"));
                self.world.kill_host(host);
                if self.may_be != Losses::Names && self.random.below(2) == 0 && hosts.len() > 2 {
                    self.findings.history.push(format!("(the disks of n{host} are gone)"));
                    self.may_be = Losses::Names;
                    self.away = Some((host, self.world.take_disks(host)));
                }
            }
            19 => {
                let Some((host, away)) = self.away.take() else { return };
                self.findings.history.push(format!("(n{host} loses its power and has them again)"));
                self.world.kill_host(host);
                self.world.return_disks(host, away);
            }
            _ if self.writers.is_empty() => self.start_writers(),
            _ => self.stop_writers(),
        }
    }

    /// Gives a verb, and kills it at some moment now and then.
    fn verb(&mut self, words: &[String]) {
        let mut running = self.world.begin(words, None);
        if self.random.below(3) == 0 {
            std::thread::sleep(Duration::from_millis(self.random.below(4000)));
            running.kill();
        }
        let said = running.end();
        self.findings.note(&said);
    }

    /// Looks whether everything that was acknowledged is there, or named as lost where that may be.
    fn end(&mut self) -> usize {
        self.stop_writers();
        let names = std::mem::take(&mut self.names);
        self.findings.whole(self.world, &names, self.may_be);
        names.len()
    }
}
