//! Analyses of stores and of data, which the Python package does:
//! `characterise|model|balance-stores|forecast-dedup|trace|seed`, and the page of `advise`.

use std::ffi::OsString;

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

/// Workloads from records of runs.
const TRACE: Part = Part { module: "intarsia.trace", needs: &[], extra: "run" };

/// Profiles by what runs took.
const REFINE: Part = Part { module: "intarsia.refine", needs: &[], extra: "run" };

/// Profiles from measurements.
const SEED: Part = Part { module: "intarsia.seed", needs: &["scipy"], extra: "analysis" };

/// The page on an advice.
const ADVICE: Part = Part {
    module: "intarsia.advice",
    needs: &["pandas", "jinja2", "matplotlib"],
    extra: "analysis",
};

/// The search among more configurations than can be predicted.
const SEARCH: Part = Part { needs: &["pandas", "jinja2", "matplotlib", "optuna"], ..ADVICE };

pub(crate) fn refine(arguments: &PythonArguments) -> Outcome<Exit> {
    python::run(&REFINE, None, arguments)
}

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

pub(crate) fn trace(arguments: &PythonArguments) -> Outcome<Exit> {
    python::run(&TRACE, None, arguments)
}

pub(crate) fn seed(arguments: &PythonArguments) -> Outcome<Exit> {
    python::run(&SEED, None, arguments)
}

/// `advise --report` and `advise --search`: asks this program again, for the answer as JSON, and draws it.
pub(crate) fn advice_page() -> Outcome<Exit> {
    let words = std::env::args_os().skip_while(|word| word != "advise").skip(1);
    let arguments = PythonArguments { arguments: words.collect::<Vec<OsString>>() };
    let is_search =
        arguments.arguments.iter().any(|word| word.to_string_lossy().starts_with("--search"));
    python::run(if is_search { &SEARCH } else { &ADVICE }, None, &arguments)
}
