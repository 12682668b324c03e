//! What a change of the platform or of the store would bring, before anybody makes it.
//!
//! A change is written as `PATH=VALUE` or `PATH=xFACTOR`, where the path names a field of the profile:
//! `host.in_bytes_per_second=x10`, `manager.open_seconds=0`, `client.local_access=message`. A feature that is planned is
//! such a change too: one that makes opening a file free is `manager.open_seconds=0`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::uncertainty::Known;
use super::{Advice, Options, Space, Summary, advise};
use crate::Problem;
use crate::advice::advice;
use crate::profile::Profile;
use crate::workload::Workload;

/// A change of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As the user wrote it.
    pub text: String,
    path: Vec<String>,
    to: To,
}

#[derive(Clone, Debug, PartialEq)]
enum To {
    Value(Value),
    Factor(f64),
}

/// What a change brings.
#[derive(Clone, Debug, Serialize)]
pub struct Gain {
    /// The change.
    pub change: String,
    /// The best configuration after it, and what it takes.
    pub after: Advice,
    /// Whether another configuration is advised than without it.
    pub advice_changes: bool,
    /// Seconds that it saves, from runs with the same random numbers.
    pub saved_seconds: Summary,
    /// Whether that cannot be told from nothing.
    pub is_undecided: bool,
}

impl Change {
    /// Reads one.
    ///
    /// # Errors
    /// When it has no `=`, or the factor is no number.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let help = "write FIELD=VALUE or FIELD=xFACTOR, as in host.in_bytes_per_second=x10";
        let refuse = |why: &str| Problem::new(format!("--what-if {text}: {why}")).with_help(help);
        let Some((path, to)) = text.split_once('=') else { return Err(refuse("no '='")) };
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) || to.is_empty() {
            return Err(refuse("a part of it is empty"));
        }
        let to = match to.strip_prefix('x').map(str::parse::<f64>) {
            Some(Ok(factor)) if factor.is_finite() && factor >= 0.0 => To::Factor(factor),
            Some(Ok(_)) => return Err(refuse("the factor is no number of 0 or more")),
            _ => To::Value(serde_json::from_str(to).unwrap_or_else(|_| Value::from(to))),
        };
        Ok(Self { text: text.to_owned(), path, to })
    }

    /// The profile with this change. `file` is named in errors.
    ///
    /// # Errors
    /// When the profile has no such field, or the value is refused there.
    pub fn applied(&self, file: &str, profile: &Value) -> Result<Profile, Problem> {
        let mut changed = profile.clone();
        let refuse = |why: String| Problem::new(format!("--what-if {}: {why}", self.text));
        let (last, before) = self.path.split_last().ok_or_else(|| refuse("no field".into()))?;
        let mut within: &mut Value = &mut changed;
        for name in before {
            within = child(within, name).map_err(|help| {
                refuse(format!("the profile has no '{name}' there")).with_help(help)
            })?;
        }
        let advised = child(within, last).err();
        match (&self.to, advised) {
            // A field that may be left out.
            (To::Value(value), Some(_)) if within.is_object() => {
                within[last] = value.clone();
            }
            (_, Some(help)) => {
                let why = format!("the profile has no '{last}' there");
                return Err(refuse(why).with_help(help));
            }
            (to, None) => {
                let field = child(within, last).map_err(&refuse)?;
                *field = match to {
                    To::Value(value) => value.clone(),
                    To::Factor(factor) => scaled(field, *factor)
                        .ok_or_else(|| refuse(format!("'{last}' is no number to multiply")))?,
                };
            }
        }
        Profile::parse(file, &changed.to_string()).map_err(|problem| {
            let refused = refuse(problem.message);
            match problem.help {
                Some(help) => refused.with_help(help),
                None => refused,
            }
        })
    }
}

fn child<'a>(within: &'a mut Value, name: &str) -> Result<&'a mut Value, String> {
    match within {
        Value::Object(object) => {
            if !object.contains_key(name) {
                return Err(advice(name, &names(object)));
            }
            object.get_mut(name).ok_or_else(String::new)
        }
        Value::Array(items) => {
            let count = items.len();
            let item = name.parse().ok().and_then(|place: usize| items.get_mut(place));
            item.ok_or_else(|| format!("it is a list: write a number below {count}"))
        }
        _ => Err("it has no fields".to_owned()),
    }
}

fn names(object: &Map<String, Value>) -> Vec<&str> {
    object.keys().map(String::as_str).collect()
}

/// A number, or samples of one, multiplied. What is whole stays so.
fn scaled(value: &Value, factor: f64) -> Option<Value> {
    if let Some(samples) = value.get("samples").and_then(Value::as_array) {
        let samples: Option<Vec<Value>> = samples.iter().map(|one| scaled(one, factor)).collect();
        return Some(serde_json::json!({ "samples": samples? }));
    }
    let number = value.as_f64()? * factor;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    let whole = number.round() as u64;
    Some(if value.is_u64() { Value::from(whole) } else { Value::from(number) })
}

/// Advises again on the changed profile, in the space in which was searched before, and compares the best of both.
///
/// # Errors
/// As [`advise`].
pub fn gain<'a>(
    before: &Advice,
    change: &Change,
    (workload, changed): (&Workload, &Profile),
    space: impl Into<Space<'a>>,
    options: Options,
) -> Result<Gain, Problem> {
    let after = advise(workload, changed, space, options)?;
    let (old, new) = (&before.points[before.best], &after.points[after.best]);
    let known = Known::of(changed);
    // The same seeds, and the same rounds of the seed.
    let saved = new.sampled.difference(&old.sampled, &known, |figures| figures.seconds);
    let saved_seconds = Summary {
        mean: saved.map_or(old.seconds - new.seconds, |saved| saved.mean),
        half_width: saved.map(|saved| saved.half_width),
        runs: old.runs.min(new.runs),
        interval: None,
    };
    let noise = saved_seconds.half_width.unwrap_or(0.0);
    Ok(Gain {
        change: change.text.clone(),
        advice_changes: old.configuration != new.configuration,
        is_undecided: saved_seconds.mean.abs() <= noise,
        saved_seconds,
        after,
    })
}
