//! Self-scheduling entities on NeXosim: each schedules itself again after an exponential delay with a
//! mean of one second.
//!
//! Models reach each other through connected ports only, so PHOLD's random receiver would need a
//! connection between each pair. This form is cheaper: no message passes between models.

#[path = "../../../src/measure.rs"]
mod measure;

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use measure::{Stopwatch, resident_bytes};

const WARM_UP: Duration = Duration::from_secs(3);

/// Of all entities: models cannot be asked from outside while they run.
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// Measures events per second of NeXosim.
#[derive(Parser)]
struct Arguments {
    /// How many entities.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    size: u32,
    /// Events to measure, about.
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
}

#[derive(Serialize, Deserialize)]
struct Entity {
    rng: Xoshiro256PlusPlus,
    visits: u64,
}

#[Model]
impl Entity {
    #[nexosim(init)]
    async fn init(&mut self, context: &Context<Self>) {
        self.schedule(context);
    }

    #[nexosim(schedulable)]
    fn visit(&mut self, _: (), context: &Context<Self>) {
        self.visits += 1;
        EVENTS.fetch_add(1, Ordering::Relaxed);
        self.schedule(context);
    }

    fn schedule(&mut self, context: &Context<Self>) {
        let delay: f64 = Exp1.sample(&mut self.rng);
        // NeXosim refuses an event now.
        let delay = Duration::from_secs_f64(delay).max(Duration::from_nanos(1));
        context.schedule_event(delay, schedulable!(Self::visit), ()).expect("it is in the future");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let before_bytes = resident_bytes();
    let mut bench = SimInit::with_num_threads(1);
    for entity in 0..arguments.size {
        let rng = Xoshiro256PlusPlus::seed_from_u64(entity.into());
        // One message at most is under way to each entity.
        bench = bench.add_model(Entity { rng, visits: 0 }, Mailbox::with_capacity(1), "");
    }
    let mut simulation = bench.init(MonotonicTime::EPOCH)?;
    simulation.step_until(WARM_UP)?;
    let warm_events = EVENTS.load(Ordering::Relaxed);
    let stopwatch = Stopwatch::start();
    let seconds = arguments.events as f64 / f64::from(arguments.size);
    simulation.step_until(Duration::from_secs_f64(seconds))?;
    let events = EVENTS.load(Ordering::Relaxed) - warm_events;
    let measurement = stopwatch.stop(events, arguments.size, before_bytes);
    println!("{}", serde_json::to_string(&measurement)?);
    Ok(())
}
