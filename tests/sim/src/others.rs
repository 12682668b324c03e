//! Further programs of all hosts, each kind in some of the runs, as the seed says.

use std::time::Duration;

use intarsia_sync::Instant;

use crate::client::Program;
use crate::drawing::Draws;
use crate::findings::Findings;
use crate::host::Care;
use crate::uses::Hints;
use crate::{last_readers, long_files, numbers, questions, ranges};

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    LastReaders,
    Ranges,
    Numbers,
    Questions,
    LongFiles,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::LastReaders, Self::Ranges, Self::Numbers, Self::Questions, Self::LongFiles];

    /// Its name, by which its draws are told from those of others.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::LastReaders => "reader",
            Self::Ranges => "ranges",
            Self::Numbers => "numbers",
            Self::Questions => "questions",
            Self::LongFiles => "long",
        }
    }

    /// It is in one run of so many.
    const fn one_in(self) -> u64 {
        match self {
            Self::Ranges => 2,
            Self::LastReaders | Self::Numbers | Self::Questions => 3,
            Self::LongFiles => 4,
        }
    }
}

/// What one of these programs is given.
pub(crate) struct Role<'a> {
    pub(crate) findings: &'a Findings,
    pub(crate) care: Care,
    pub(crate) draws: Draws,
    /// Its host, and in which life of it.
    pub(crate) life: String,
}

/// How long and how fast they work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) end: Instant,
    pub(crate) pause_ms: u64,
}

impl Shift {
    /// A pause between two things that a program does.
    pub(crate) fn rest(&self, program: &Program, draws: &mut Draws) {
        program.rest(Duration::from_millis(20 + draws.below(self.pause_ms)));
    }
}

/// The kinds that a run has, what each of them knows, and what all of them have found.
#[derive(Debug)]
pub(crate) struct Others {
    seed: u64,
    care: Care,
    kinds: Vec<Kind>,
    directories: Vec<(String, Hints)>,
    readers: last_readers::Board,
    ranges: ranges::Board,
    numbers: numbers::Board,
    long_files: long_files::Board,
    pub(crate) findings: Findings,
}

impl Others {
    /// Which there are follows from the seed alone, so that what the simulation draws stays the same. Long files need hosts that
    /// all have room for them.
    pub(crate) fn draw(seed: u64, care: Care, has_room: bool) -> Self {
        let is_there = |kind: &Kind| {
            Draws::of(seed, kind.name(), 0).is_one_in(kind.one_in())
                && (has_room || *kind != Kind::LongFiles)
        };
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_there).collect();
        let of = |kind: &Kind| match kind {
            Kind::LastReaders => {
                vec![last_readers::directory(&mut Draws::of(seed, kind.name(), 1))]
            }
            Kind::Ranges => ranges::directories().to_vec(),
            Kind::Numbers => vec![(numbers::DIRECTORY.to_owned(), Hints::new())],
            Kind::LongFiles => vec![(long_files::DIRECTORY.to_owned(), Hints::new())],
            Kind::Questions => Vec::new(),
        };
        let directories = kinds.iter().flat_map(of).collect();
        let (readers, ranges, numbers, long_files, findings) = Default::default();
        Self { seed, care, kinds, directories, readers, ranges, numbers, long_files, findings }
    }

    /// The kinds that there are.
    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Where they work, each directory with what it says.
    pub(crate) fn directories(&self) -> &[(String, Hints)] {
        &self.directories
    }

    /// Whether this run has files that go with their last reader.
    pub(crate) fn has_readers(&self) -> bool {
        self.kinds.contains(&Kind::LastReaders)
    }

    /// Whether a file has to be gone with its last reader.
    pub(crate) fn is_gone(&self, path: &str) -> bool {
        self.readers.is_gone(path)
    }

    /// Works as a program of this kind until the shift ends, in a life of its host that has this name and number.
    pub(crate) fn work(&self, kind: Kind, program: &Program, life: (String, u64), shift: Shift) {
        let (name, number) = life;
        // The first two are those of the run.
        let draws = Draws::of(self.seed, kind.name(), number + 2);
        let role = Role { findings: &self.findings, care: self.care, draws, life: name };
        match kind {
            Kind::LastReaders => last_readers::read_until(program, &self.readers, role, shift),
            Kind::Ranges => ranges::write_until(program, &self.ranges, role, shift),
            Kind::Numbers => numbers::keep_until(program, &self.numbers, role, shift),
            Kind::Questions => questions::ask_until(program, role, shift),
            Kind::LongFiles => long_files::write_until(program, &self.long_files, role, shift),
        }
    }
}
