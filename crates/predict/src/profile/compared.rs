//! How far runs were from what was foretold of them.

use crate::json::Node;
use crate::{Problem, as_float};

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

    /// The logarithm by which a further run is off at most, with this probability; none: there are too few runs to say.
    ///
    /// It is the k-th smallest error of n, k = ⌈(n + 1) · probability⌉: if the further run is one like these, it is as likely
    /// in any place among them, whatever law they follow. That is split conformal prediction (Lei, G'Sell, Rinaldo,
    /// Tibshirani, Wasserman, Journal of the American Statistical Association 113, 2018, section 2.2).
    pub(crate) fn bound(&self, probability: f64) -> Option<f64> {
        let mut sizes: Vec<f64> = self.errors.iter().map(|error| error.abs()).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let least = as_float(sizes.len() as u64 + 1) * probability;
        (1..).zip(sizes).find(|(place, _)| as_float(*place) >= least).map(|(_, size)| size)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_error_that_one_run_in_ten_exceeds() {
        // Of chance order, and of both signs.
        let of = |count: i32| {
            let errors =
                (1..=count).map(|size| f64::from(size * 7 % (count + 1)) * (-1_f64).powi(size));
            Compared { errors: errors.collect() }.bound(0.9)
        };
        assert_eq!(of(8), None, "of nine runs one in nine is the largest");
        assert_eq!(of(9), Some(9.0));
        assert_eq!(of(18), Some(18.0));
        assert_eq!(of(19), Some(18.0));
        assert_eq!(of(99), Some(90.0));
    }
}
