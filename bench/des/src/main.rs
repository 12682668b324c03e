//! Events per second of one kernel on one workload, as a line of JSON. `run.py` runs it.

mod heap;
mod kernel;
mod measure;
mod star;
mod workload;

use std::error::Error;

use clap::{Parser, ValueEnum};

use workload::Workload;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kernel {
    /// The event kernel of Intarsia.
    Intarsia,
    /// A loop around `std::collections::BinaryHeap`.
    Heap,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// One event that schedules itself again.
    Empty,
    /// Events that schedule events at random entities.
    Phold,
    /// Hosts around a switch that send and compute.
    Star,
}

/// Measures events per second.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Whose events.
    #[arg(long)]
    kernel: Kernel,
    /// What is simulated.
    #[arg(long)]
    workload: Kind,
    /// Entities or hosts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    size: u32,
    /// Events to measure, about; activities for `star`.
    #[arg(long, default_value_t = 5_000_000)]
    events: u64,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[expect(clippy::print_stdout, reason = "the measurement is what this program prints")]
fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { kernel, workload, size, events, seed } = Arguments::parse();
    let measurement = match (workload, kernel) {
        (Kind::Star, Kernel::Intarsia) if size >= 2 => star::run(size, events, seed)?,
        (Kind::Star, Kernel::Intarsia) => return Err("star needs at least --size 2".into()),
        (Kind::Star, Kernel::Heap) => return Err("star needs --kernel intarsia".into()),
        (Kind::Empty | Kind::Phold, _) => {
            let entities = (workload == Kind::Phold).then_some(size);
            let workload = Workload::new(entities, events, seed);
            match kernel {
                Kernel::Intarsia => kernel::run(&workload),
                Kernel::Heap => heap::run(&workload),
            }
        }
    };
    println!("{}", serde_json::to_string(&measurement)?);
    Ok(())
}
