//! How far runs were from what was foretold of them.

use crate::Problem;
use crate::json::Node;

/// A run that is further off than this many times tells of something else; `refine` leaves it out of its corrections, too.
const OUTLIER: f64 = 10.0;

/// The runs that `intarsia refine` held against a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    errors: Vec<f64>,
}

impl Compared {
    /// Reads `measured` of a profile.
    pub(super) fn read(measured: &Node<'_>) -> Result<Self, Problem> {
        let mut errors = Vec::new();
        let Some(refinement) = measured.optional("refinement")? else { return Ok(Self { errors }) };
        for run in refinement.items_of("runs")? {
            if let Some(ratio) =
                ratio(&run)?.filter(|ratio| (1.0 / OUTLIER..=OUTLIER).contains(ratio))
            {
                errors.push(ratio.ln());
            }
        }
        Ok(Self { errors })
    }

    /// How many runs there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.errors.len()
    }

    /// The logarithms of actual over predicted makespans.
    pub(crate) fn errors(&self) -> &[f64] {
        &self.errors
    }
}

/// Actual over predicted makespan of a run: as `refine` found it with the corrections by the other runs, or, in profiles of
/// earlier releases, as it was when the run ended.
fn ratio(run: &Node<'_>) -> Result<Option<f64>, Problem> {
    if let Some(ratio) = run.optional("makespan_ratio")? {
        return ratio.number().map(Some);
    }
    let Some(compared) = run.optional("compared")? else { return Ok(None) };
    let makespan = compared.optional("makespan")?.filter(Node::is_object);
    let Some(makespan) = makespan else { return Ok(None) };
    let predicted = makespan.field("predicted_s")?.number()?;
    let actual = makespan.field("actual_s")?.number()?;
    Ok((predicted > 0.0).then(|| actual / predicted))
}
