//! Queues whose means are known exactly, inside the intervals that the simulation prints.
//!
//! Formulas: L. Kleinrock, "Queueing Systems", volumes 1 (1975) and 2 (1976).

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::{Discipline, Network, Station, check};
use intarsia_des::{Distribution, Span};

/// A station with Poisson arrivals that serves one second on average.
fn open(discipline: Discipline, utilisation: f64, servers: u32, service: Distribution) -> Network {
    let interarrival = service.mean() / (utilisation * f64::from(servers));
    let length = 20_000.0 * interarrival;
    Network {
        stations: vec![Station { discipline, service_seconds: service, next: Vec::new() }],
        interarrival_seconds: Some(Distribution::exponential(interarrival).unwrap()),
        circulating: 0,
        warm_up: Span::from_secs_f64(0.1 * length),
        length: Span::from_secs_f64(length),
    }
}

fn exponential(mean: f64) -> Distribution {
    Distribution::exponential(mean).unwrap()
}

/// Distributions with mean 1 and different variances.
fn services() -> Vec<(&'static str, Distribution)> {
    let sigma: f64 = 0.8;
    vec![
        ("constant", Distribution::constant(1.0).unwrap()),
        ("uniform", Distribution::uniform(0.0, 2.0).unwrap()),
        ("exponential", exponential(1.0)),
        ("Weibull 0.8", Distribution::weibull_with_mean(0.8, 1.0).unwrap()),
        ("gamma 3", Distribution::gamma(3.0, 1.0 / 3.0).unwrap()),
        ("log-normal", Distribution::log_normal(-sigma * sigma / 2.0, sigma).unwrap()),
        ("empirical", Distribution::empirical(&[0.1, 0.4, 0.5, 3.0]).unwrap()),
        ("interpolated", Distribution::empirical_interpolated(&[0.0, 0.5, 2.5]).unwrap()),
    ]
}

#[test]
fn m_m_1() {
    for utilisation in [0.3, 0.7] {
        let exact = 1.0 / (1.0 - utilisation);
        for (name, discipline) in [
            ("queue", Discipline::fifo(1)),
            ("timetable", Discipline::booked(1)),
            ("sharing", Discipline::shared()),
        ] {
            let network = open(discipline, utilisation, 1, exponential(1.0));
            let estimate = network.estimate(|seen| seen.sojourn_seconds[0].mean());
            check(
                &format!("M/M/1 at {utilisation}, {name}: seconds in the system"),
                exact,
                estimate,
            );
        }
    }
}

#[test]
fn m_m_c() {
    let utilisation = 0.7;
    for servers in [2, 5] {
        let offered = utilisation * f64::from(servers);
        // Erlang's B by its recursion, then C.
        let blocking = (1..=servers)
            .fold(1.0, |blocking, n| offered * blocking / (f64::from(n) + offered * blocking));
        let waiting = blocking / (1.0 - utilisation * (1.0 - blocking));
        let exact = 1.0 + waiting / (f64::from(servers) * (1.0 - utilisation));
        for discipline in [Discipline::fifo(servers), Discipline::booked(servers)] {
            let network = open(discipline, utilisation, servers, exponential(1.0));
            let estimate = network.estimate(|seen| seen.sojourn_seconds[0].mean());
            check(
                &format!("M/M/{servers} at {utilisation}: seconds in the system"),
                exact,
                estimate,
            );
        }
    }
}

/// M/D/1 among others.
#[test]
fn m_g_1_by_pollaczek_and_khinchine() {
    let utilisation = 0.6;
    for (name, service) in services() {
        let second_moment = service.variance() + service.mean().powi(2);
        let rate = utilisation / service.mean();
        let exact = service.mean() + rate * second_moment / (2.0 * (1.0 - utilisation));
        let network = open(Discipline::fifo(1), utilisation, 1, service);
        let estimate = network.estimate(|seen| seen.sojourn_seconds[0].mean());
        check(&format!("M/G/1, {name}: seconds in the system"), exact, estimate);
    }
}

/// Under processor sharing the mean depends on nothing but the mean service.
#[test]
fn m_g_1_processor_sharing_is_insensitive() {
    let utilisation = 0.6;
    for (name, service) in services() {
        let exact = service.mean() / (1.0 - utilisation);
        let network = open(Discipline::shared(), utilisation, 1, service);
        let estimate = network.estimate(|seen| seen.sojourn_seconds[0].mean());
        check(&format!("M/G/1-PS, {name}: seconds in the system"), exact, estimate);
    }
}

/// The central server model: a shared processor, two disks with queues, and users who think.
///
/// Exact by mean-value analysis (M. Reiser and S. S. Lavenberg, J. ACM 27(2), 1980); the shared
/// processor and the users may have any distribution (F. Baskett et al., J. ACM 22(2), 1975).
#[test]
fn closed_network_by_mean_value_analysis() {
    let station = |discipline, service_seconds, next: &[(usize, f64)]| Station {
        discipline,
        service_seconds,
        next: next.to_vec(),
    };
    let stations = vec![
        station(Discipline::Delay, Distribution::uniform(1.0, 5.0).unwrap(), &[(1, 1.0)]),
        station(
            Discipline::shared(),
            Distribution::gamma(0.5, 0.4).unwrap(),
            &[(2, 0.3), (3, 0.5), (0, 0.2)],
        ),
        station(Discipline::fifo(1), exponential(0.5), &[(1, 1.0)]),
        station(Discipline::booked(1), exponential(0.2), &[(1, 1.0)]),
    ];
    let visits = [1.0, 5.0, 1.5, 2.5];
    for customers in [1, 3, 8] {
        let (throughput, sojourns) = mean_values(&stations, &visits, customers);
        let length = 8_000.0;
        let network = Network {
            stations: stations.clone(),
            interarrival_seconds: None,
            circulating: customers,
            warm_up: Span::from_secs_f64(0.1 * length),
            length: Span::from_secs_f64(length),
        };
        let estimate = network.estimate(|seen| seen.sojourn_seconds[0].count() as f64 / length);
        check(&format!("closed, {customers} customers: cycles per second"), throughput, estimate);
        for (place, exact) in sojourns.into_iter().enumerate() {
            let estimate = network.estimate(|seen| seen.sojourn_seconds[place].mean());
            check(&format!("closed, {customers}: seconds at station {place}"), exact, estimate);
        }
    }
}

/// Cycles per second, and seconds at each station a visit.
fn mean_values(stations: &[Station], visits: &[f64], customers: u32) -> (f64, Vec<f64>) {
    let mut lengths = vec![0.0; stations.len()];
    let (mut throughput, mut sojourns) = (0.0, Vec::new());
    for population in 1..=customers {
        sojourns = stations
            .iter()
            .zip(&lengths)
            .map(|(station, length)| match station.discipline {
                Discipline::Delay => station.service_seconds.mean(),
                _ => station.service_seconds.mean() * (1.0 + length),
            })
            .collect();
        let cycle: f64 =
            visits.iter().zip(&sojourns).map(|(visits, seconds)| visits * seconds).sum();
        throughput = f64::from(population) / cycle;
        for ((length, visits), seconds) in lengths.iter_mut().zip(visits).zip(&sojourns) {
            *length = throughput * visits * seconds;
        }
    }
    (throughput, sojourns)
}
