//! `advise --what-if`: what a change of the profile would bring.

use intarsia_predict::search::{Advice, Change, Gain, Options, Space, gain};

use super::inputs::{self, Inputs};
use crate::cli::Advise;
use crate::exit::Outcome;
use crate::verbs::given::refused;
use crate::verbs::simulate::table::number;

/// What each change brings that the flags name.
pub(super) fn gains(
    inputs: &Inputs,
    arguments: &Advise,
    before: &Advice,
    (space, options): (Space<'_>, Options),
) -> Outcome<Vec<Gain>> {
    let (file, profile) = &inputs.profile_file;
    let of = |change| {
        let mut changed = Change::applied(change, file, profile)?;
        inputs::mishaps(&mut changed, &arguments.inputs);
        gain(before, change, (&inputs.workload, &changed), space, options)
    };
    let gains = arguments.what_if.iter().map(|change| of(change).map_err(refused));
    gains.collect()
}

/// The same for people.
pub(super) fn text(before: &Advice, gains: &[Gain]) -> String {
    if gains.is_empty() {
        return String::new();
    }
    let mut text = "\nWhat if\n".to_owned();
    for gain in gains {
        let saved = gain.saved_seconds;
        let seconds = before.points[before.best].seconds;
        let half = saved.half_width.map(|half| format!(" ± {}", number(half, "s")));
        let what = match (gain.is_undecided, saved.mean < 0.0) {
            (true, _) => "changes nothing that can be told from noise".to_owned(),
            (false, is_worse) => format!(
                "{} {}{} ({:.1} %)",
                if is_worse { "costs" } else { "saves" },
                number(saved.mean.abs(), "s"),
                half.unwrap_or_default(),
                saved.mean.abs() / seconds * 100.0
            ),
        };
        text.push_str(&format!("  {}: {what}\n", gain.change));
        if gain.advice_changes {
            let best = &gain.after.points[gain.after.best].configuration;
            text.push_str(&format!("    then recommended: {best}\n"));
        }
    }
    text
}
