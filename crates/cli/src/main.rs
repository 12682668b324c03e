//! `intarsia`: bring a store up, look at it, give hints, take it down.
//!
//! ```text
//! main ── cli (command line) ── verbs ── config    flag, environment, file, default
//!                                     ├─ preflight, launch, registry    bringing a store up
//!                                     ├─ control   talking to a running node
//!                                     └─ runtime   the one door to the node and the mount
//! ```

mod assembly;
mod cli;
mod config;
mod control;
mod deployment;
mod description;
mod ending;
mod exit;
mod failpoint;
mod holders;
mod launch;
mod logging;
mod made_dir;
mod mounts;
mod output;
mod preflight;
mod process;
mod registry;
mod remains;
mod runtime;
mod stage;
mod target;
mod tenure;
mod verbs;
mod write_back;

use clap::Parser;

use crate::cli::{Cli, Verb};
use crate::exit::{Exit, Outcome};

/// The system's allocator grows and shrinks its arenas by `mprotect`, once or so for every file created,
/// and each stops all threads of the node.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    run(&cli)
        .unwrap_or_else(|failure| {
            output::failure(&failure);
            failure.exit
        })
        .into()
}

fn run(cli: &Cli) -> Outcome<Exit> {
    if let Verb::Node(arguments) = &cli.verb {
        // A node logs far more than a verb, and a detached one is told how.
        return verbs::node::run(arguments, &cli.global);
    }
    logging::start(cli.global.log_format, "warn")?;
    match &cli.verb {
        Verb::Up(arguments) => verbs::up::run(arguments, &cli.global),
        Verb::Down(arguments) => verbs::down::run(arguments),
        Verb::Status(arguments) => verbs::status::run(arguments),
        Verb::Locate(arguments) => verbs::locate::run(arguments),
        Verb::Hint(arguments) => verbs::hint::run(&arguments.verb),
        Verb::Check(arguments) => verbs::check::run(arguments),
        Verb::Lost(arguments) => verbs::lost::run(arguments),
        Verb::Balance(arguments) => verbs::balance::run(arguments),
        Verb::Leave(arguments) => verbs::leave::run(arguments),
        Verb::Doctor(arguments) => verbs::doctor::run(arguments, &cli.global),
        Verb::Config(arguments) => verbs::config::run(&arguments.verb, &cli.global),
        Verb::Simulate(arguments) => verbs::simulate::run(&arguments.verb),
        Verb::Predict(arguments) => verbs::predict::predict(arguments),
        Verb::Record(arguments) => verbs::record::run(&arguments.verb),
        Verb::Trace(arguments) => verbs::analysis::trace(arguments),
        Verb::Refine(arguments) => verbs::analysis::refine(arguments),
        Verb::Seed(arguments) => verbs::analysis::seed(arguments),
        Verb::Advise(arguments) => verbs::predict::advise(arguments),
        Verb::Run(arguments) => verbs::workflow::run(arguments),
        Verb::Characterise(arguments) => verbs::analysis::characterise(arguments),
        Verb::Model(arguments) => verbs::analysis::model(arguments),
        Verb::BalanceStores(arguments) => verbs::analysis::balance_stores(arguments),
        Verb::ForecastDedup(arguments) => verbs::analysis::forecast_dedup(arguments),
        Verb::Stage(arguments) => verbs::stage::run(&arguments.verb),
        Verb::Lab(arguments) => verbs::lab::run(&arguments.verb),
        Verb::Completions(arguments) => verbs::pages::completions(arguments),
        Verb::Man(arguments) => verbs::pages::man(arguments),
        Verb::Agent(arguments) => verbs::agent::run(arguments),
        Verb::Launcher => verbs::fleet::launcher::run(),
        Verb::WriteBack { path, device } => write_back::run(path, device),
        Verb::Node(_) => Ok(Exit::Ok),
    }
}
