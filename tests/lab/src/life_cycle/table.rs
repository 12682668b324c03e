//! The model: the states of a store, the verbs, what each verb answers in each state, and where verbs are interrupted.
//! `docs/internals/life-cycle.md` shows these tables; a test holds the two together.

use std::fmt::Write;

/// A state of a store over the hosts n1, n2 and n3; n4 can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Never,
    Abandoned,
    Up,
    Down,
    CrashedNode,
    CrashedHost,
    DisksRemoved,
    CrashedRemoved,
    DisksReturned,
    CrashedReturned,
    LeftUp,
    LeftDown,
    PartlyUp,
    PowerLoss,
}

/// A verb, or two at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Up,
    UpFewer,
    UpOne,
    UpHere,
    Join,
    Leave,
    Down,
    DownHere,
    DownPurge,
    DownForce,
    Lost,
    Status,
    TwoUps,
    UpBesideDown,
    TwoDowns,
}

/// Where a point is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// In the processes that the verb starts.
    Verb,
    /// In the nodes, when they are brought up before.
    Before,
}

/// The story that a point is meant for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Story {
    pub(crate) state: State,
    pub(crate) verb: Verb,
    pub(crate) arm: Arm,
    /// The host it is armed on; 0 for the command itself.
    pub(crate) host: usize,
}

impl State {
    pub(crate) const ALL: [Self; 14] = [
        Self::Never,
        Self::Abandoned,
        Self::Up,
        Self::Down,
        Self::CrashedNode,
        Self::CrashedHost,
        Self::DisksRemoved,
        Self::CrashedRemoved,
        Self::DisksReturned,
        Self::CrashedReturned,
        Self::LeftUp,
        Self::LeftDown,
        Self::PartlyUp,
        Self::PowerLoss,
    ];

    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Self::Never => "there never was a store",
            Self::Abandoned => "the `up` of a new store was killed before its hosts stayed",
            Self::Up => "up on all hosts",
            Self::Down => "down on all hosts",
            Self::CrashedNode => "up; the node of n2 was killed",
            Self::CrashedHost => "up; node and metadata servers of n2 were killed",
            Self::DisksRemoved => "down; the directories of n2 are gone",
            Self::CrashedRemoved => "up; all of n2 was killed and its directories are gone",
            Self::DisksReturned => {
                "down; n2 has the directories again without which the store was up since"
            }
            Self::CrashedReturned => {
                "up; all of n2 was killed and it has the directories again without which the store came up"
            }
            Self::LeftUp => "up on n1 and n2; n3 has left and is down",
            Self::LeftDown => "down; n3 has left",
            Self::PartlyUp => "up on n1 and n2; n3 was not named",
            Self::PowerLoss => "all processes of all hosts were killed",
        }
    }

    /// Whether hosts of the store serve.
    const fn serves(self) -> bool {
        use State::{
            CrashedHost, CrashedNode, CrashedRemoved, CrashedReturned, LeftUp, PartlyUp, Up,
        };
        let is_crashed =
            matches!(self, CrashedNode | CrashedHost | CrashedRemoved | CrashedReturned);
        is_crashed || matches!(self, Up | LeftUp | PartlyUp)
    }
}

impl Verb {
    pub(crate) const ALL: [Self; 15] = [
        Self::Up,
        Self::UpFewer,
        Self::UpOne,
        Self::UpHere,
        Self::Join,
        Self::Leave,
        Self::Down,
        Self::DownHere,
        Self::DownPurge,
        Self::DownForce,
        Self::Lost,
        Self::Status,
        Self::TwoUps,
        Self::UpBesideDown,
        Self::TwoDowns,
    ];

    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Self::Up => "`up` n1-n3",
            Self::UpFewer => "`up` of n1, n3; where n3 has left, of n1, n2",
            Self::UpOne => "`up` n2",
            Self::UpHere => "`up --this-host` on n2",
            Self::Join => "`up --join` n4",
            Self::Leave => "`leave n3`",
            Self::Down => "`down`",
            Self::DownHere => "`down --this-host` on n2",
            Self::DownPurge => "`down --purge`",
            Self::DownForce => "`down --force`",
            Self::Lost => "`lost`",
            Self::Status => "`status`",
            Self::TwoUps => "two `up` at once",
            Self::UpBesideDown => "`up` beside `down`",
            Self::TwoDowns => "two `down` at once",
        }
    }

    /// The exit codes that it may end with in a state, uninterrupted. Of two verbs at once: of each of them.
    pub(crate) const fn codes(self, state: State) -> &'static [i32] {
        use State::{
            Abandoned, CrashedHost, CrashedNode, CrashedRemoved, CrashedReturned, DisksReturned,
            Down, LeftDown, LeftUp, Never, PartlyUp, PowerLoss, Up,
        };
        match (self, state) {
            (Self::Up, Up) => &[4],
            // n3 has left: it is named, and refused.
            (Self::Up, LeftUp | LeftDown) => &[2],
            (Self::Up, _) => &[0],
            (
                Self::UpFewer,
                Up | CrashedNode | CrashedHost | CrashedRemoved | CrashedReturned | LeftUp,
            ) => &[4],
            (Self::UpFewer, _) => &[0],
            (Self::UpOne, Up | LeftUp | PartlyUp) => &[4],
            // One of three hosts has not all names, and one of two no second host for copies.
            (Self::UpOne, Down | PowerLoss | LeftDown | DisksReturned) => &[2],
            // The store may have been founded before its `up` was killed.
            (Self::UpOne, Abandoned) => &[0, 2],
            (Self::UpOne, _) => &[0],
            (Self::UpHere, CrashedNode | CrashedHost | CrashedReturned) => &[0],
            (Self::UpHere, Up | LeftUp | PartlyUp) => &[4],
            (Self::UpHere, _) => &[1],
            (Self::Join, Up | CrashedNode | LeftUp | PartlyUp) => &[0],
            // For seconds after the loss of a host some of the metadata takes no changes.
            (Self::Join, CrashedHost | CrashedRemoved | CrashedReturned) => &[0, 1],
            (Self::Join, _) => &[5],
            (Self::Leave, Up) => &[0],
            (Self::Leave, LeftUp) => &[2],
            // Files stay of which there would be too few copies, once it is known that a host is missing.
            (Self::Leave, CrashedNode | PartlyUp) => &[0, 3],
            (Self::Leave, CrashedHost | CrashedRemoved | CrashedReturned) => &[1, 2, 3],
            (Self::Leave, _) => &[5],
            (Self::Down | Self::DownForce | Self::DownHere, _) => &[0],
            // Nothing was ever there, so nothing can be deleted.
            (Self::DownPurge, Never) => &[5],
            (Self::DownPurge, Abandoned) => &[0, 5],
            (Self::DownPurge, _) => &[0],
            (Self::Status, Up | LeftUp) => &[0],
            (Self::Lost, Up | LeftUp) => &[0],
            // That a host is missing is noticed within seconds, and it may have had nothing that others have not.
            (
                Self::Lost | Self::Status,
                CrashedNode | CrashedHost | CrashedRemoved | CrashedReturned | PartlyUp,
            ) => &[0, 3],
            (Self::Status, PowerLoss) => &[3],
            (Self::Lost | Self::Status, _) => &[5],
            (Self::TwoUps, Up) => &[4],
            (Self::TwoUps, LeftUp | LeftDown) => &[2, 4],
            (Self::TwoUps, _) => &[0, 4],
            (Self::TwoDowns, _) => &[0, 4],
            (Self::UpBesideDown, LeftUp | LeftDown) => &[0, 2, 4],
            (Self::UpBesideDown, _) => &[0, 4],
        }
    }

    /// Why the verb is not tried in a state.
    pub(crate) const fn left_out(self, state: State) -> Option<&'static str> {
        use State::{CrashedRemoved, DisksRemoved};
        match (self, state) {
            (Self::UpOne | Self::UpHere, DisksRemoved | CrashedRemoved) => {
                Some("`up` of a host alone with empty disks founds another store there, as asked")
            }
            _ => None,
        }
    }

    /// Whether it changes what runs, so that it is interrupted at points.
    const fn is_interrupted(self) -> bool {
        matches!(self, Self::Up | Self::Join | Self::Down | Self::DownPurge)
    }
}

/// The story for a point: the state and verb in which a process surely reaches it.
pub(crate) fn story(point: &str) -> Option<Story> {
    let of = |state, verb, arm, host| Some(Story { state, verb, arm, host });
    let (process, step) = point.split_once(':')?;
    match (process, step) {
        ("up", _) => of(State::Down, Verb::Up, Arm::Verb, 0),
        ("join", _) => of(State::Up, Verb::Join, Arm::Verb, 0),
        ("agent-up", _) => of(State::Down, Verb::Up, Arm::Verb, 2),
        ("up-here", _) => of(State::CrashedNode, Verb::UpHere, Arm::Verb, 2),
        ("node", "unmounted" | "closed" | "ended") => of(State::Up, Verb::Down, Arm::Before, 2),
        ("node", "servers-stopping") => of(State::Up, Verb::DownHere, Arm::Before, 2),
        ("node", _) => of(State::Down, Verb::Up, Arm::Verb, 2),
        ("down", _) => of(State::Up, Verb::Down, Arm::Verb, 0),
        ("agent-down", _) => of(State::Up, Verb::Down, Arm::Verb, 2),
        ("down-here", _) => of(State::Up, Verb::DownHere, Arm::Verb, 0),
        ("purge", _) => of(State::Up, Verb::DownPurge, Arm::Verb, 2),
        ("leave", _) => of(State::Up, Verb::Leave, Arm::Before, 1),
        ("description", "joined") => of(State::Up, Verb::Join, Arm::Verb, 4),
        // A host that has left is taken out of the description by its own node, when that ends.
        ("description", _) => of(State::LeftUp, Verb::Status, Arm::Before, 3),
        _ => None,
    }
}

/// Further stories: the points of a verb in all other states.
pub(crate) fn further(point: &str) -> Vec<Story> {
    let Some(home) = story(point) else { return Vec::new() };
    if home.arm == Arm::Before {
        return Vec::new();
    }
    let verbs: &[Verb] = match home.verb {
        Verb::Up => &[Verb::Up, Verb::Join],
        Verb::Down => &[Verb::Down, Verb::DownPurge],
        _ => &[home.verb],
    };
    let mut stories = Vec::new();
    for verb in verbs.iter().copied().filter(|verb| verb.is_interrupted()) {
        for state in State::ALL.into_iter().filter(|state| verb != Verb::Join || state.serves()) {
            // The host that joins is n4.
            let host = if verb == Verb::Join && home.host > 0 { 4 } else { home.host };
            if (state, verb) != (home.state, home.verb) {
                stories.push(Story { state, verb, arm: Arm::Verb, host });
            }
        }
    }
    stories
}

/// The tables as the documentation shows them.
#[must_use]
pub fn tables() -> String {
    let mut text = String::from("| state | what it is |\n|---|---|\n");
    for state in State::ALL {
        let _ = writeln!(text, "| {state:?} | {} |", state.in_words());
    }
    let _ = writeln!(text, "\n| verb | exit codes by state |\n|---|---|");
    for verb in Verb::ALL {
        let mut cells: Vec<(String, Vec<String>)> = Vec::new();
        for state in State::ALL {
            let codes = match verb.left_out(state) {
                Some(_) => "not tried".to_owned(),
                None => {
                    verb.codes(state).iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
                }
            };
            match cells.iter_mut().find(|(known, _)| *known == codes) {
                Some((_, states)) => states.push(format!("{state:?}")),
                None => cells.push((codes, vec![format!("{state:?}")])),
            }
        }
        let cells: Vec<String> = cells
            .into_iter()
            .map(|(codes, states)| format!("**{codes}** {}", states.join(", ")))
            .collect();
        let _ = writeln!(text, "| {} | {} |", verb.in_words(), cells.join(" · "));
    }
    text
}
