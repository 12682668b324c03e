//! The model with real processes: every verb in every state, and every verb killed at every point.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use intarsia_posix_tests::{intarsia, run as run_program};

use super::checks::Findings;
use super::files::{self, Losses};
use super::report::Report;
use super::table::{Arm, State, Story, Verb, further, story};
use super::world::{Said, World};

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that is the guard of each world and the writers.
    pub program: PathBuf,
    /// Worlds side by side.
    pub labs: usize,
    /// When no further case is begun.
    pub limit: Duration,
    /// Of the cases, each so-manieth.
    pub every: usize,
    /// Only the cases of these names; a word that is no whole name means all that have it in theirs.
    pub only: Vec<String>,
}

/// A state, a verb, and where it is interrupted.
#[derive(Clone, Debug)]
struct Case {
    state: State,
    verb: Verb,
    point: Option<(String, Story)>,
    is_home: bool,
}

impl Case {
    fn name(&self) -> String {
        let point = self.point.as_ref().map(|(point, story)| match story.host {
            0 => format!("-{point}"),
            host => format!("-{point}@n{host}"),
        });
        format!("{:?}-{:?}{}", self.state, self.verb, point.unwrap_or_default())
    }

    fn arm(&self, when: Arm) -> Option<String> {
        let (point, story) = self.point.as_ref().filter(|(_, story)| story.arm == when)?;
        Some(match story.host {
            0 => point.clone(),
            host => format!("{point}@n{host}"),
        })
    }
}

/// All points that the program has.
#[must_use]
pub fn points() -> Vec<String> {
    let said = run_program(Command::new(intarsia()).args(["agent", "points"]));
    String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect()
}

/// The points for which no story is meant.
#[must_use]
pub fn points_without_story() -> Vec<String> {
    points().into_iter().filter(|point| story(point).is_none()).collect()
}

/// All cases: each verb in each state, each point in its own story, and then the points in all other states.
fn cases(report: &mut Report) -> Vec<Case> {
    let mut cases = Vec::new();
    for state in State::ALL {
        for verb in Verb::ALL {
            match verb.left_out(state) {
                Some(reason) => report.skip(reason),
                None => cases.push(Case { state, verb, point: None, is_home: false }),
            }
        }
    }
    let all = points();
    for point in &all {
        report.points.insert(point.clone());
        let Some(home) = story(point) else {
            report.violations.push(format!("{point}: no story is meant for this point"));
            continue;
        };
        let point = Some((point.clone(), home));
        cases.push(Case { state: home.state, verb: home.verb, point, is_home: true });
    }
    for point in &all {
        for story in further(point) {
            let point = Some((point.clone(), story));
            cases.push(Case { state: story.state, verb: story.verb, point, is_home: false });
        }
    }
    cases
}

/// Runs the cases. What is wrong is printed as it is found.
#[must_use]
pub fn run(plan: &Plan) -> Report {
    let mut report = Report::default();
    let mut cases = cases(&mut report);
    if !plan.only.is_empty() {
        let names: BTreeSet<String> = cases.iter().map(Case::name).collect();
        let is_meant = |name: &str, word: &String| match names.contains(word) {
            true => name == word,
            false => name.contains(word.as_str()),
        };
        let all = cases.len();
        cases.retain(|case| plan.only.iter().any(|word| is_meant(&case.name(), word)));
        report.skip_several("not asked for", all - cases.len());
    }
    let left_out = cases.len() - cases.len().div_ceil(plan.every.max(1));
    report.skip_several("a sample was asked for", left_out);
    let cases: VecDeque<Case> = cases.into_iter().step_by(plan.every.max(1)).collect();
    report.planned = cases.len();
    let (cases, report) = (Mutex::new(cases), Mutex::new(report));
    let deadline = Instant::now() + plan.limit;
    std::thread::scope(|scope| {
        for _ in 0..plan.labs {
            let (cases, report) = (&cases, &report);
            scope.spawn(move || {
                let world = World::new(&plan.program);
                loop {
                    let next = locked(cases).pop_front();
                    let Some(case) = next else { return };
                    if Instant::now() > deadline {
                        locked(report).skip("the time was over");
                        continue;
                    }
                    try_case(&world, &case, report);
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_case(world: &World, case: &Case, report: &Mutex<Report>) {
    let (mut findings, begun) = (Findings::default(), Instant::now());
    let outcome = go_through(world, case, &mut findings);
    let reached = world.reached();
    let mut report = locked(report);
    report.verbs += findings.verbs;
    report.acknowledged += findings.files;
    let name = case.name();
    if let Err(why) = outcome {
        findings.wrong.push(format!("the state is not come to: {why}"));
    }
    report.run += 1;
    report.states.insert(format!("{:?}", case.state));
    for line in reached.lines() {
        report.reached.insert(line.split('@').next().unwrap_or_default().to_owned());
    }
    if let Some((point, _)) = &case.point
        && !reached.contains(point.as_str())
    {
        if case.is_home {
            findings.wrong.push(format!("{point} was not reached"));
        } else {
            report.skip("the verb does not come by the point in that state; run without a kill");
        }
    }
    let seconds = begun.elapsed().as_secs();
    let verdict = if findings.wrong.is_empty() { "ok" } else { "WRONG" };
    eprintln!("{verdict} {name} ({} verbs, {seconds} s)", findings.verbs);
    if !findings.wrong.is_empty() {
        let kept = findings
            .kept
            .as_ref()
            .map_or_else(String::new, |to| format!(" logs: {}", to.display()));
        let wrong = findings.wrong.join("\n    ");
        let history = findings.history.join("\n      ");
        let violation = format!("{name}:\n    {wrong}\n      {history}{kept}");
        eprintln!("{violation}");
        report.violations.push(violation);
    }
    drop(report);
    world.clear();
}

fn go_through(world: &World, case: &Case, findings: &mut Findings) -> Result<(), String> {
    let names = come_to(world, case, findings)?;
    let interrupted = case.point.is_some();
    let saids = give(world, case, case.arm(Arm::Verb).as_deref());
    for said in &saids {
        findings.note(said);
        if !interrupted {
            findings.expect(said, case.verb.codes(case.state));
        }
    }
    if case.verb == Verb::TwoUps && !interrupted {
        exactly_one_goes_on(case.state, &saids, findings);
    }
    let is_deleted = case.verb == Verb::DownPurge;
    if is_deleted {
        if !interrupted {
            findings.purge(world);
            return Ok(());
        }
        // It can be taken up again.
        findings.purge(world);
    }
    if case.is_home && case.verb == Verb::Up {
        findings.down_ends_all(world);
    }
    let names = if is_deleted { Vec::new() } else { names };
    findings.whole(world, &names, Losses::None);
    findings.purge(world);
    Ok(())
}

/// Of two `up` at once one brings the store up where it was not, and the other touches nothing.
fn exactly_one_goes_on(state: State, saids: &[Said], findings: &mut Findings) {
    let done = saids.iter().filter(|said| said.code == Some(0)).count();
    let expected = usize::from(!matches!(state, State::Up | State::LeftUp | State::LeftDown));
    if done != expected {
        findings
            .wrong
            .push(format!("{done} of two `up` at once say that they brought the store up"));
    }
}

const ALL: [usize; 3] = [1, 2, 3];

/// Brings a new store into the state of a case; the files that must survive.
fn come_to(world: &World, case: &Case, findings: &mut Findings) -> Result<Vec<String>, String> {
    let mut say = |words: Vec<String>, arm: Option<&str>| {
        let said = world.say(&words, arm);
        findings.note(&said);
        let is_well = said.code == Some(0) || arm.is_some();
        is_well.then_some(()).ok_or_else(|| format!("{}: {}", said.command, said.text))
    };
    match case.state {
        State::Never => return Ok(Vec::new()),
        State::Abandoned => {
            say(world.up(&ALL, &[]), Some("up:started"))?;
            return world.wait_for_end().map(|()| Vec::new());
        }
        _ => {}
    }
    let arm = case.arm(Arm::Before);
    say(world.up(&ALL, &[]), arm.as_deref())?;
    let mut names = files::prepare(world, &ALL)?;
    match case.state {
        State::Never | State::Abandoned | State::Up => {}
        State::Down => say(world.down(&ALL, &[]), None)?,
        State::CrashedNode => world.kill_node(2),
        State::CrashedHost => world.kill_host(2),
        State::DisksRemoved => {
            say(world.down(&ALL, &[]), None)?;
            world.remove_disks(2);
        }
        State::CrashedRemoved => {
            world.kill_host(2);
            world.remove_disks(2);
        }
        State::DisksReturned | State::CrashedReturned => {
            say(world.down(&ALL, &[]), None)?;
            let disks = world.take_disks(2);
            say(world.up(&ALL, &[]), None)?;
            names.extend(files::more(world, &ALL, 1)?);
            if case.state == State::DisksReturned {
                say(world.down(&ALL, &[]), None)?;
            } else {
                world.kill_host(2);
            }
            world.return_disks(2, disks);
        }
        State::LeftUp | State::LeftDown => {
            say(world.about(&["leave", "n3"], 1, &[]), None)?;
            say(world.about(&["down", "--this-host"], 3, &[]), None)?;
            if case.state == State::LeftDown {
                say(world.down(&[1, 2], &[]), None)?;
            }
        }
        State::PartlyUp => {
            say(world.down(&ALL, &[]), None)?;
            say(world.up(&[1, 2], &[]), None)?;
        }
        State::PowerLoss => ALL.iter().for_each(|n| world.kill_host(*n)),
    }
    Ok(names)
}

/// Gives a verb, or two at once.
fn give(world: &World, case: &Case, arm: Option<&str>) -> Vec<Said> {
    let one = |words: Vec<String>| vec![world.say(&words, arm)];
    let two = |first: Vec<String>, second: Vec<String>| {
        let under_way = [first, second].map(|words| world.begin(&words, arm));
        under_way.into_iter().map(super::world::Running::end).collect()
    };
    let is_smaller = matches!(case.state, State::LeftUp | State::LeftDown);
    match case.verb {
        Verb::Up => one(world.up(&ALL, &[])),
        Verb::UpFewer => one(world.up(if is_smaller { &[1, 2] } else { &[1, 3] }, &[])),
        Verb::UpOne => one(world.up(&[2], &[])),
        Verb::UpHere => one(world.up_here(2, &[])),
        Verb::Join => one(world.join(&[])),
        Verb::Leave => one(world.about(&["leave", "n3"], 1, &[])),
        Verb::Down => one(world.down(&ALL, &[])),
        Verb::DownHere => one(world.about(&["down", "--this-host"], 2, &[])),
        Verb::DownPurge => one(world.down(&ALL, &["--purge"])),
        Verb::DownForce => one(world.down(&ALL, &["--force"])),
        Verb::Lost => one(world.about(&["lost"], 1, &[])),
        Verb::Status => one(world.about(&["status"], 1, &[])),
        Verb::TwoUps => two(world.up(&ALL, &[]), world.up(&ALL, &[])),
        Verb::UpBesideDown => two(world.up(&ALL, &[]), world.down(&ALL, &[])),
        Verb::TwoDowns => two(world.down(&ALL, &[]), world.down(&ALL, &[])),
    }
}
