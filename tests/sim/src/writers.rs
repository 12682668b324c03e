//! Programs of all hosts that write to the same few files: over them, into them, and after their names are gone.
//!
//! What each call ends with says little, for several write at once. So nothing of it is kept: in the end all hosts have to see the
//! same, and nothing may be left over.

use std::io::Result as IoResult;
use std::time::Duration;

use intarsia_history::System;
use intarsia_sync::{Instant, thread};

use crate::client::Program;
use crate::drawing::Draws;

/// Where the files lie.
pub(crate) const DIRECTORY: &str = "w";
pub(crate) const FILES: u64 = 4;
/// Beside an inode, folded, in a few pieces, and large enough that readers share it.
const SIZES: [usize; 8] = [100, 100, 3_000, 3_000, 20_000, 20_000, 150_000, 700_000];

/// One of these programs.
pub(crate) struct Writer {
    pub(crate) draws: Draws,
    /// Whether files are cut as well: what was cut no close has acknowledged.
    pub(crate) may_cut: bool,
}

/// The path of one of the files.
pub(crate) fn any_file(draws: &mut Draws) -> String {
    format!("{DIRECTORY}/f{}", draws.below(FILES))
}

impl Writer {
    /// Writes after pauses of up to `pause_ms`, until `end`.
    pub(crate) fn write_until(mut self, program: &Program, end: Instant, pause_ms: u64) {
        while Instant::now() < end {
            program.rest(Duration::from_millis(20 + self.draws.below(pause_ms)));
            if let Err(error) = self.write_once(program) {
                tracing::debug!(%error, "a writer does not come to its end");
            }
        }
    }

    fn write_once(&mut self, program: &Program) -> IoResult<()> {
        let draws = &mut self.draws;
        let path = any_file(draws);
        match draws.below(8) {
            0 if self.may_cut => return program.truncate(&path, draws.below(200_000)),
            1 | 2 => return program.read_all(&path),
            _ => {}
        }
        let mut file = match draws.below(3) {
            0 => program.open_to_write(&path)?,
            _ => program.open_to_change(&path)?,
        };
        let size = draws.pick(&SIZES).unwrap_or(1);
        let letter = b'a' + u8::try_from(draws.below(26)).unwrap_or(0);
        program.write_all(&mut file, &vec![letter; size])?;
        match draws.below(5) {
            0 => thread::sleep(Duration::from_millis(draws.below(6000))),
            1 => {
                program.sync(&file)?;
                if draws.is_one_in(2) {
                    program.write_all(&mut file, &[letter; 5000])?;
                }
            }
            2 => {
                program.remove(&path)?;
                thread::sleep(Duration::from_millis(draws.below(3000)));
            }
            _ => {}
        }
        program.close(file)
    }
}
