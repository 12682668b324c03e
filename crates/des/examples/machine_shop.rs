//! A repair shop: machines fail, one repairer mends the costly ones first, and takes a part for each from
//! a shelf that a supplier fills.
//!
//! `cargo run -p intarsia-des --example machine_shop -- 7` prints what happens in the first hours and how
//! long machines of each kind waited; 7 is the seed.

#![allow(clippy::print_stdout, reason = "an example says what it sees")]

use intarsia_des::rand::RngExt;
use intarsia_des::{
    Agenda, Distribution, InvalidParameter, Model, PriorityServer, Put, Simulation, Span, Store,
    Streams, Time,
};
use rand_xoshiro::Xoshiro256PlusPlus;

const HOUR: f64 = 3600.0;
const MACHINES: usize = 12;
/// Costly machines have the lower number: they go first.
const COSTLY: u32 = 0;
const CHEAP: u32 = 1;

#[derive(Debug)]
enum Event {
    Fails(usize),
    Mended(usize),
    PartArrives,
}

struct Shop {
    repairer: PriorityServer<usize>,
    /// Parts; who waits for one is the machine on the bench.
    shelf: Store<(), usize>,
    life: Distribution,
    repair: Distribution,
    delivery: Distribution,
    rng: Xoshiro256PlusPlus,
}

impl Shop {
    fn new(seed: u64) -> Result<Self, InvalidParameter> {
        Ok(Self {
            repairer: PriorityServer::new(1)?,
            shelf: Store::new(3),
            life: Distribution::weibull_with_mean(0.8, 30.0 * HOUR)?,
            repair: Distribution::log_normal((1.5 * HOUR).ln(), 0.5)?,
            delivery: Distribution::exponential(2.2 * HOUR)?,
            rng: Streams::new(seed).stream("shop", 0),
        })
    }

    fn after(&mut self, of: impl Fn(&Self) -> &Distribution) -> Span {
        let distribution = of(self).clone();
        Span::from_secs_f64(distribution.sample(&mut self.rng))
    }

    /// A machine is on the bench: it needs a part first.
    fn fetch_part(&mut self, machine: usize, agenda: &mut Agenda<Event>) {
        if self.shelf.take(machine, agenda.now()).is_some() {
            self.mend(machine, agenda);
        }
    }

    fn mend(&mut self, machine: usize, agenda: &mut Agenda<Event>) {
        let repair = self.after(|shop| &shop.repair);
        agenda.after(repair, Event::Mended(machine));
    }
}

fn priority(machine: usize) -> u32 {
    if machine < MACHINES / 3 { COSTLY } else { CHEAP }
}

impl Model for Shop {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        match event {
            Event::Fails(machine) => {
                if let Some(next) = self.repairer.arrive(machine, priority(machine), now) {
                    self.fetch_part(next, agenda);
                }
            }
            Event::Mended(machine) => {
                let life = self.after(|shop| &shop.life);
                agenda.after(life, Event::Fails(machine));
                if let Some(next) = self.repairer.depart(now) {
                    self.fetch_part(next, agenda);
                }
            }
            Event::PartArrives => {
                // A full shelf sends the delivery back.
                let is_full = self.shelf.level().value() >= 3.0;
                if !is_full && let Put::Handed { to, .. } = self.shelf.put((), usize::MAX, now) {
                    self.mend(to, agenda);
                }
                let delivery = self.after(|shop| &shop.delivery);
                agenda.after(delivery, Event::PartArrives);
            }
        }
    }
}

fn main() -> Result<(), InvalidParameter> {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut simulation = Simulation::new(Shop::new(seed)?);
    let (shop, agenda) = simulation.parts_mut();
    for machine in 0..MACHINES {
        // Machines of every age.
        let age = shop.rng.random::<f64>();
        let life = shop.after(|shop| &shop.life).as_secs_f64();
        agenda.at(Time::ZERO + Span::from_secs_f64(age * life), Event::Fails(machine));
    }
    agenda.at(Time::ZERO, Event::PartArrives);
    let hours = |hours: f64| Time::ZERO + Span::from_secs_f64(hours * HOUR);
    simulation.run_observed(hours(8.0), |time, event, shop| {
        let waiting = shop.repairer.waiting();
        println!("{:6.2} h  {event:?}, {waiting} waiting", time.as_secs_f64() / HOUR);
    });
    simulation.run_until(hours(10_000.0));
    let shop = simulation.model();
    for (name, priority) in [("costly", COSTLY), ("cheap", CHEAP)] {
        if let Some(waits) = shop.repairer.waits_seconds(priority) {
            println!("{name:6}  {:5} repairs, waited {:5.2} h", waits.count(), waits.mean() / HOUR);
        }
    }
    println!("parts on the shelf: {:.2} in the mean", shop.shelf.level().mean(simulation.now()));
    Ok(())
}
