//! Analyses of stores and of data, which the Python package does:
//! `characterise|model|balance-stores|forecast-dedup`.

use super::python::{self, Part};
use crate::cli::PythonArguments;
use crate::exit::{Exit, Outcome};

/// Several stores: experiments on them, models of them, and which should hold what.
const STORES: Part = Part {
    module: "intarsia.characterise",
    needs: &["scipy", "pandas", "sklearn", "pyDOE3", "matplotlib"],
    extra: "analysis",
};

/// What deduplication will bring.
const DEDUP: Part = Part {
    module: "intarsia.dedup",
    needs: &["pyfastcdc", "scipy", "matplotlib"],
    extra: "analysis",
};

pub(crate) fn characterise(arguments: &PythonArguments) -> Outcome<Exit> {
    python::run(&STORES, Some("characterise"), arguments)
}

pub(crate) fn model(arguments: &PythonArguments) -> Outcome<Exit> {
    python::run(&STORES, Some("model"), arguments)
}

pub(crate) fn balance_stores(arguments: &PythonArguments) -> Outcome<Exit> {
    python::run(&STORES, Some("balance-stores"), arguments)
}

pub(crate) fn forecast_dedup(arguments: &PythonArguments) -> Outcome<Exit> {
    python::run(&DEDUP, None, arguments)
}
