//! Samples become a table of medians with their spread, and of ratios to plain TCP.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::json;

use crate::Load;

/// One cell of one round.
pub(crate) struct Sample {
    per_second: f64,
    gigabytes_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us_per_request: f64,
}

/// A system under a load, over all rounds.
pub(crate) struct Cell {
    pub(crate) system: &'static str,
    pub(crate) load: String,
    pub(crate) samples: Vec<Sample>,
}

impl Sample {
    pub(crate) fn new(load: Load, mut times_ns: Vec<u64>, wall: Duration, cpu: Duration) -> Self {
        times_ns.sort_unstable();
        let quantile = |q: f64| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to len")]
            let index = (q * times_ns.len() as f64) as usize;
            times_ns.get(index).map_or(f64::NAN, |ns| *ns as f64 / 1e3)
        };
        let requests = times_ns.len() as f64;
        let per_second = requests / wall.as_secs_f64();
        Self {
            per_second,
            gigabytes_per_second: per_second * load.payload_bytes() as f64 / 1e9,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            cpu_us_per_request: cpu.as_secs_f64() * 1e6 / requests,
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn table(cells: &[Cell], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<10} {:<10} {:>10} {:>21} {:>7} {:>8} {:>8} {:>10} {:>6} {:>3}",
        "load",
        "system",
        "op/s",
        "min - max",
        "GB/s",
        "p50 us",
        "p99 us",
        "CPU us/op",
        "/ tcp",
        "n"
    )?;
    for cell in cells {
        let of = |figure: fn(&Sample) -> f64| median(cell.samples.iter().map(figure));
        let rates = || cell.samples.iter().map(|sample| sample.per_second);
        let least = rates().fold(f64::INFINITY, f64::min);
        let most = rates().fold(0.0, f64::max);
        writeln!(
            out,
            "{:<10} {:<10} {:>10.0} {:>21} {:>7.2} {:>8.1} {:>8.1} {:>10.1} {:>6.2} {:>3}",
            cell.load,
            cell.system,
            of(|s| s.per_second),
            format!("{least:.0} - {most:.0}"),
            of(|s| s.gigabytes_per_second),
            of(|s| s.p50_us),
            of(|s| s.p99_us),
            of(|s| s.cpu_us_per_request),
            ratio_to_tcp(cell, cells),
            cell.samples.len(),
        )?;
    }
    Ok(())
}

/// The median over the rounds of the ratio within each.
fn ratio_to_tcp(cell: &Cell, cells: &[Cell]) -> f64 {
    let Some(tcp) = cells.iter().find(|c| c.system == "tcp" && c.load == cell.load) else {
        return f64::NAN;
    };
    median(cell.samples.iter().zip(&tcp.samples).map(|(a, b)| a.per_second / b.per_second))
}

pub(crate) fn json(cells: &[Cell], out: &mut impl Write) -> io::Result<()> {
    let sample = |s: &Sample| {
        json!({
            "per_second": s.per_second,
            "gigabytes_per_second": s.gigabytes_per_second,
            "p50_us": s.p50_us,
            "p99_us": s.p99_us,
            "cpu_us_per_request": s.cpu_us_per_request,
        })
    };
    let cells: Vec<_> = cells
        .iter()
        .map(|cell| {
            let samples: Vec<_> = cell.samples.iter().map(sample).collect();
            json!({ "system": cell.system, "load": cell.load, "samples": samples })
        })
        .collect();
    writeln!(out, "{}", json!({ "cells": cells }))
}
