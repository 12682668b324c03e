//! Events per second of one kernel on one workload, as a line of JSON. `run.py` runs it.

mod heap;
mod kernel;
mod measure;
mod workload;

use clap::{Parser, ValueEnum};

use measure::Measurement;
use workload::Workload;

#[derive(Clone, Copy, ValueEnum)]
enum Kernel {
    /// The event kernel of Intarsia.
    Intarsia,
    /// A loop around `std::collections::BinaryHeap`.
    Heap,
}

/// Measures events per second.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Whose events.
    #[arg(long)]
    kernel: Kernel,
    /// Entities of PHOLD; without it the empty model, one event that schedules itself again.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    entities: Option<u32>,
    /// Events to measure, about.
    #[arg(long, default_value_t = 5_000_000)]
    events: u64,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[expect(clippy::print_stdout, reason = "the measurement is what this program prints")]
fn main() -> Result<(), serde_json::Error> {
    let arguments = Arguments::parse();
    let workload = Workload::new(arguments.entities, arguments.events, arguments.seed);
    let measurement = match arguments.kernel {
        Kernel::Intarsia => kernel::run(&workload),
        Kernel::Heap => heap::run(&workload),
    };
    println!("{}", serde_json::to_string::<Measurement>(&measurement)?);
    Ok(())
}
