//! Programs of all hosts that write to the same few files: over them, into them, and after their names are gone.
//!
//! What each call ends with says little, for several write at once. So nothing of it is kept: in the end all hosts have to see the
//! same, and nothing may be left over.

use std::io::Result as IoResult;
use std::time::Duration;

use intarsia_history::System;
use intarsia_sync::{Instant, simulation, thread};

use crate::client::Program;

/// Where the files lie.
pub(crate) const DIRECTORY: &str = "w";
const FILES: u64 = 4;
/// Beside an inode, folded, in a few pieces.
const SIZES: [usize; 4] = [100, 3_000, 20_000, 150_000];

/// Writes now and then, until `end`.
pub(crate) fn write_until(program: &Program, end: Instant) {
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(20 + simulation::below(1500)));
        if let Err(error) = write_once(program) {
            tracing::debug!(%error, "a writer does not come to its end");
        }
    }
}

fn write_once(program: &Program) -> IoResult<()> {
    let path = format!("{DIRECTORY}/f{}", simulation::below(FILES));
    let mut file = match simulation::below(3) {
        0 => program.open_to_write(&path)?,
        _ => program.open_to_change(&path)?,
    };
    let size = usize::try_from(simulation::below(4)).ok().and_then(|n| SIZES.get(n)).copied();
    let letter = b'a' + u8::try_from(simulation::below(26)).unwrap_or(0);
    program.write_all(&mut file, &vec![letter; size.unwrap_or(1)])?;
    match simulation::below(5) {
        0 => thread::sleep(Duration::from_millis(simulation::below(6000))),
        1 => program.sync(&file)?,
        2 => {
            program.remove(&path)?;
            thread::sleep(Duration::from_millis(simulation::below(3000)));
        }
        _ => {}
    }
    program.close(file)
}
