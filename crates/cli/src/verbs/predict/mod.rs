//! `predict` and `advise`: what a workflow takes on a store that need not exist.

mod advice;
mod coverage;
mod inputs;
mod run;
mod what_if;

use crate::cli::{Advise, Predict};
use crate::exit::{Exit, Outcome};

pub(crate) fn predict(arguments: &Predict) -> Outcome<Exit> {
    run::run(arguments)
}

pub(crate) fn advise(arguments: &Advise) -> Outcome<Exit> {
    advice::run(arguments)
}
