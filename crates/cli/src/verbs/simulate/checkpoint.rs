//! `simulate checkpoint`: a study of checkpoints and failures.

use super::study;
use crate::cli::SimulateCheckpoint;
use crate::exit::{Exit, Failure, Outcome};

pub(super) fn run(arguments: &SimulateCheckpoint) -> Outcome<Exit> {
    let study = study::prepare(&study::CHECKPOINT, &arguments.study)?;
    let exit = study::run(&*study, &arguments.study)?;
    if let Some(path) = &arguments.jobs {
        let jobs = study.jobs().unwrap_or_default();
        std::fs::write(path, jobs).map_err(|e| Failure::io(path.display(), &e))?;
    }
    Ok(exit)
}
