//! Programs of all hosts that write to the same few files: over them, into them, and after their names are gone.
//!
//! What each call ends with says little, for several write at once. So nothing of it is kept: in the end all hosts have to see the
//! same, and nothing may be left over.

use std::io::Result as IoResult;
use std::time::Duration;

use intarsia_history::System;
use intarsia_sync::{Instant, simulation, thread};

use crate::client::Program;
use crate::drawing::pick;

/// Where the files lie.
pub(crate) const DIRECTORY: &str = "w";
pub(crate) const FILES: u64 = 4;
/// Beside an inode, folded, in a few pieces, and large enough that readers share it.
const SIZES: [usize; 8] = [100, 100, 3_000, 3_000, 20_000, 20_000, 150_000, 700_000];

/// Writes after pauses of up to `pause_ms`, until `end`; cuts files as well, if `may_cut`: what was cut no close has acknowledged.
pub(crate) fn write_until(program: &Program, end: Instant, pause_ms: u64, may_cut: bool) {
    while Instant::now() < end {
        program.rest(Duration::from_millis(20 + simulation::below(pause_ms)));
        if let Err(error) = write_once(program, may_cut) {
            tracing::debug!(%error, "a writer does not come to its end");
        }
    }
}

/// The path of one of the files.
pub(crate) fn any_file() -> String {
    format!("{DIRECTORY}/f{}", simulation::below(FILES))
}

fn write_once(program: &Program, may_cut: bool) -> IoResult<()> {
    let path = any_file();
    match simulation::below(8) {
        0 if may_cut => return program.truncate(&path, simulation::below(200_000)),
        1 | 2 => return program.read_all(&path),
        _ => {}
    }
    let mut file = match simulation::below(3) {
        0 => program.open_to_write(&path)?,
        _ => program.open_to_change(&path)?,
    };
    let size = pick(&SIZES);
    let letter = b'a' + u8::try_from(simulation::below(26)).unwrap_or(0);
    program.write_all(&mut file, &vec![letter; size.unwrap_or(1)])?;
    match simulation::below(5) {
        0 => thread::sleep(Duration::from_millis(simulation::below(6000))),
        1 => {
            program.sync(&file)?;
            if simulation::below(2) == 0 {
                program.write_all(&mut file, &[letter; 5000])?;
            }
        }
        2 => {
            program.remove(&path)?;
            thread::sleep(Duration::from_millis(simulation::below(3000)));
        }
        _ => {}
    }
    program.close(file)
}
