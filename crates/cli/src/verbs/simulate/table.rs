//! A report for people, and as CSV.

use intarsia_simulate::report::{Estimate, Report};

use crate::output;

/// One line an estimate: name, mean, half width, replications, unit.
pub(super) fn csv(report: &Report) -> String {
    let mut text = String::from("name,mean,half_width,n,unit\n");
    for (name, Estimate { mean, half_width, n, unit }) in &report.estimates {
        let half_width = half_width.map(|h| h.to_string()).unwrap_or_default();
        text.push_str(&format!("{name},{mean},{half_width},{n},{unit}\n"));
    }
    text
}

/// What was run, what follows from it, and what was estimated.
pub(super) fn text(report: &Report, wall_seconds: f64) -> String {
    let derived = report
        .derived
        .iter()
        .map(|(name, quantity)| vec![name.clone(), number(quantity.value, quantity.unit)]);
    // The first estimate is what the study is about.
    let is_shown = |(index, (_, e)): &(usize, &(String, Estimate))| *index == 0 || happened(e);
    let shown = report.estimates.iter().enumerate().filter(is_shown);
    let estimates = shown.map(|(_, (name, estimate))| {
        let half_width = estimate.half_width.map(|half_width| {
            // Less than the digits of a float can tell is nothing.
            let is_noise = half_width < estimate.mean.abs() * 1e-9;
            format!("± {}", number(if is_noise { 0.0 } else { half_width }, estimate.unit))
        });
        vec![name.clone(), number(estimate.mean, estimate.unit), half_width.unwrap_or_default()]
    });
    format!(
        "Follows from the scenario\n{}\nSimulated: {}, seed {}, {} events in {:.2} s\n{}",
        output::columns(&indented(derived)),
        output::count(usize::try_from(report.replications).unwrap_or(usize::MAX), "replication"),
        report.seed,
        report.events,
        wall_seconds,
        output::columns(&indented(estimates)),
    )
}

/// Whether anything of it happened: what is zero in every replication only takes the view.
fn happened(estimate: &Estimate) -> bool {
    estimate.mean != 0.0 || estimate.half_width.is_some_and(|half_width| half_width != 0.0)
}

fn indented(rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let indent = |mut row: Vec<String>| {
        if let Some(first) = row.first_mut() {
            first.insert_str(0, "  ");
        }
        row
    };
    rows.map(indent).collect()
}

/// A number as people read it: shares in percent, times, bytes and counts with a fitting unit.
pub(in crate::verbs) fn number(value: f64, unit: &str) -> String {
    const TIMES: [(f64, &str); 6] = [
        (365.0 * 86_400.0, "years"),
        (86_400.0, "days"),
        (3600.0, "h"),
        (60.0, "min"),
        (1.0, "s"),
        (1e-3, "ms"),
    ];
    const SI: [(f64, &str); 6] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let scaled = |scales: &[(f64, &str)], unit: &str| {
        let scale = scales.iter().find(|(scale, _)| value.abs() >= *scale);
        scale.map(|(scale, prefix)| format!("{} {prefix}{unit}", digits(value / scale)))
    };
    match unit {
        "share" => format!("{:.2} %", value * 100.0),
        "s" => scaled(&TIMES, "").unwrap_or_else(|| format!("{} s", digits(value))),
        // A number of things, or money in the currency of its prices.
        "1" | "money" => digits(value),
        unit => scaled(&SI, unit).unwrap_or_else(|| format!("{} {unit}", digits(value))),
    }
}

/// Four significant digits; whole numbers in full.
fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    if value.abs() < 1e-3 {
        return format!("{value:.2e}");
    }
    let before = if value.abs() >= 1.0 { value.abs().log10().floor() + 1.0 } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 4")]
    let decimals = (4.0 - before).clamp(0.0, 4.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (value, unit, expected) in [
            (0.92634, "share", "92.63 %"),
            (30_075.07, "s", "8.354 h"),
            (0.5, "s", "500 ms"),
            (3.2e10, "B", "32 GB"),
            (1_048_576.0, "1", "1048576"),
            (0.0, "s", "0 s"),
            (12.3456, "1", "12.35"),
        ] {
            assert_eq!(number(value, unit), expected);
        }
    }
}
