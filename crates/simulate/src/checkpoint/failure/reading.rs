//! Distributions of times as a scenario writes them.

use intarsia_des::InvalidParameter;

use super::TimeDistribution;
use crate::scenario::{Files, Problem, Section, TIME};

impl TimeDistribution {
    /// Reads a distribution; `files` gives the text of a file that it names.
    ///
    /// # Errors
    /// When a parameter is missing or out of range.
    pub fn read(section: &mut Section<'_>, files: &Files<'_>) -> Result<Self, Problem> {
        let made = match section.choice("model", &MODELS).required()? {
            Model::Exponential => Self::exponential(section.seconds("mean").positive().required()?),
            Model::Weibull => {
                let shape = section.number("shape").positive().required()?;
                if section.has("mean") {
                    let mean = section.seconds("mean").positive().required()?;
                    Self::weibull_with_mean(shape, mean)
                } else {
                    Self::weibull(shape, section.seconds("scale").positive().required()?)
                }
            }
            Model::LogNormal => {
                let median = section.seconds("median").positive().required()?;
                Self::log_normal(median.ln(), section.number("sigma").positive().required()?)
            }
            Model::Gamma => {
                let shape = section.number("shape").positive().required()?;
                Self::gamma(shape, section.seconds("scale").positive().required()?)
            }
            Model::Empirical => Self::empirical(recorded(section, files)?),
        };
        made.map_err(|wrong| refusal(section, &wrong))
    }
}

#[derive(Clone, Copy)]
enum Model {
    Exponential,
    Weibull,
    LogNormal,
    Gamma,
    Empirical,
}

static MODELS: [(&str, Model); 5] = [
    ("exponential", Model::Exponential),
    ("weibull", Model::Weibull),
    ("log-normal", Model::LogNormal),
    ("gamma", Model::Gamma),
    ("empirical", Model::Empirical),
];

/// The values of an empirical distribution, in seconds: the field `values`, or the lines of a file.
fn recorded(section: &mut Section<'_>, files: &Files<'_>) -> Result<Vec<f64>, Problem> {
    if section.has("values") {
        return section.list("values", |value| TIME.read(value)).required();
    }
    let name = section.text("file").required()?;
    let text = files(&name).map_err(|why| section.refuse("file", &why))?;
    let content = text.lines().enumerate().map(|(index, line)| {
        let number = line.split('#').next().unwrap_or_default().trim();
        (!number.is_empty()).then(|| {
            number.parse::<f64>().map_err(|_| {
                Problem::new(format!("{name}:{}: '{number}' is not a number", index + 1))
                    .with_help("write one time in seconds per line")
            })
        })
    });
    content.flatten().collect()
}

/// What a reader says about a parameter that a constructor refuses.
fn refusal(section: &Section<'_>, wrong: &InvalidParameter) -> Problem {
    let why = format!("{} must be {}, not {}", wrong.parameter, wrong.requirement, wrong.value);
    section.refuse("model", &why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    fn read(text: &str) -> Result<TimeDistribution, Problem> {
        let files = |name: &str| match name {
            "gaps.txt" => Ok("# seconds\n10\n\n30 # late\n".to_owned()),
            "broken.txt" => Ok("10\nten\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        let document = Document::parse("f.toml", text)?;
        document.read(|root| TimeDistribution::read(root, &files)).map(|(read, _)| read)
    }

    #[test]
    fn reads_every_model() {
        for (text, mean_seconds) in [
            ("model = 'exponential'\nmean = '2 h'", 7200.0),
            ("model = 'weibull'\nshape = 0.5\nscale = '1 h'", 7200.0),
            ("model = 'weibull'\nshape = 0.5\nmean = '2 h'", 7200.0),
            ("model = 'log-normal'\nmedian = '1 h'\nsigma = 1", 3600.0 * 0.5_f64.exp()),
            ("model = 'gamma'\nshape = 0.5\nscale = '1 h'", 1800.0),
            ("model = 'empirical'\nvalues = ['1 min', '3 min']", 120.0),
            ("model = 'empirical'\nfile = 'gaps.txt'", 20.0),
        ] {
            let mean = read(text).unwrap().mean_seconds();
            assert!((mean / mean_seconds - 1.0).abs() < 1e-9, "{text}: {mean}");
        }
    }

    #[test]
    fn says_where_and_what_is_wrong() {
        for (text, complaint) in [
            ("", "model: missing"),
            ("model = 'weibul'", "f.toml:1:9: model: 'weibul' is none of the choices"),
            ("model = 'weibull'\nshape = 0\nscale = '1 h'", "f.toml:2:9: shape: 0 must be"),
            ("model = 'weibull'\nshape = 0.001\nscale = '1 h'", "model: mean must be above 0 s"),
            ("model = 'exponential'\nmean = 7200", "f.toml:2:8: mean: 7200 has no unit"),
            ("model = 'exponential'\nmean_hours = 3", "mean: missing"),
            ("model = 'log-normal'\nmedian = '1 h'\nsigma = 90", "mean must be above 0 s"),
            ("model = 'empirical'\nvalues = ['0 s']", "mean must be above 0 s"),
            ("model = 'empirical'\nvalues = []", "at least one"),
            ("model = 'empirical'\nfile = 'none'", "file: no such file"),
            ("model = 'empirical'\nfile = 'broken.txt'", "broken.txt:2: 'ten' is not a number"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.message.contains(complaint), "{text}: {problem}");
        }
    }
}
