//! Exponential failures: the published intervals and the exact expectations.

use intarsia_des::InvalidParameter;

use super::lambert::one_plus_w0;

/// What checkpointing costs one job: C, R and M of the literature, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    checkpoint_seconds: f64,
    restart_seconds: f64,
    mtbf_seconds: f64,
}

impl Costs {
    /// A job that takes `checkpoint_seconds` (C > 0) for a checkpoint, `restart_seconds` (R ≥ 0) to
    /// resume after a failure, and fails every `mtbf_seconds` (M > 0) on average.
    ///
    /// # Errors
    /// Names the parameter that is out of range.
    pub fn new(
        checkpoint_seconds: f64,
        restart_seconds: f64,
        mtbf_seconds: f64,
    ) -> Result<Self, InvalidParameter> {
        let check = |parameter: &str, value: f64, least: f64| {
            let holds = value.is_finite() && value >= least;
            let requirement =
                if least > 0.0 { "positive and finite" } else { "finite and not negative" };
            let owner = "checkpoint costs";
            if holds {
                Ok(value)
            } else {
                Err(InvalidParameter { owner, parameter: parameter.to_owned(), value, requirement })
            }
        };
        Ok(Self {
            checkpoint_seconds: check("checkpoint_seconds", checkpoint_seconds, f64::MIN_POSITIVE)?,
            restart_seconds: check("restart_seconds", restart_seconds, 0.0)?,
            mtbf_seconds: check("mtbf_seconds", mtbf_seconds, f64::MIN_POSITIVE)?,
        })
    }

    /// C, in seconds.
    pub fn checkpoint_seconds(&self) -> f64 {
        self.checkpoint_seconds
    }

    /// R, in seconds.
    pub fn restart_seconds(&self) -> f64 {
        self.restart_seconds
    }

    /// M, in seconds.
    pub fn mtbf_seconds(&self) -> f64 {
        self.mtbf_seconds
    }

    /// τ = sqrt(2 C M). J. W. Young, "A first order approximation to the optimum checkpoint
    /// interval", Communications of the ACM 17(9), 1974, 530–531.
    pub fn young_seconds(&self) -> f64 {
        (2.0 * self.checkpoint_seconds * self.mtbf_seconds).sqrt()
    }

    /// τ = sqrt(2 C (M + R)) − C. J. T. Daly, "A model for predicting the optimum checkpoint
    /// interval for restart dumps", ICCS 2003, LNCS 2660, 3–12; the form that the published
    /// reliability simulator RXSim uses. Where it is not positive (C ≥ 2 (M + R)), τ = M, as Daly
    /// settles the same case in 2006.
    pub fn daly_2003_seconds(&self) -> f64 {
        let (c, m, r) = (self.checkpoint_seconds, self.mtbf_seconds, self.restart_seconds);
        let tau = (2.0 * c * (m + r)).sqrt() - c;
        if tau > 0.0 { tau } else { m }
    }

    /// τ = sqrt(2 C M) · [1 + ⅓ sqrt(C / 2M) + ⅑ (C / 2M)] − C for C < 2M, else τ = M. J. T. Daly,
    /// "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
    /// Generation Computer Systems 22(3), 2006, 303–312.
    pub fn daly_2006_seconds(&self) -> f64 {
        let (c, m) = (self.checkpoint_seconds, self.mtbf_seconds);
        if c >= 2.0 * m {
            return m;
        }
        let half = c / (2.0 * m);
        self.young_seconds() * (1.0 + half.sqrt() / 3.0 + half / 9.0) - c
    }

    /// τ = M (1 + W₀(−e^(−C/M − 1))), which maximises [`Costs::efficiency`] exactly: the root of
    /// e^((τ+C)/M) (1 − τ/M) = 1 (Daly 2006 names the Lambert W solution).
    pub fn exact_seconds(&self) -> f64 {
        self.mtbf_seconds * one_plus_w0(self.checkpoint_seconds / self.mtbf_seconds)
    }

    /// Expected time to complete one interval of `interval_seconds` and its checkpoint:
    /// M e^(R/M) (e^((τ+C)/M) − 1), the complete cost function of Daly 2006.
    pub fn expected_cycle_seconds(&self, interval_seconds: f64) -> f64 {
        let m = self.mtbf_seconds;
        let cycle = interval_seconds + self.checkpoint_seconds;
        m * (self.restart_seconds / m).exp() * (cycle / m).exp_m1()
    }

    /// E = τ / (M e^(R/M) (e^((τ+C)/M) − 1)), between 0 and 1.
    pub fn efficiency(&self, interval_seconds: f64) -> f64 {
        interval_seconds / self.expected_cycle_seconds(interval_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::interval::{Attempt, maximise};

    const HOUR: f64 = 3600.0;

    fn costs(c: f64, r: f64, m: f64) -> Costs {
        Costs::new(c, r, m).unwrap()
    }

    /// Daly 2006, captions of figures 3 to 5: δ = 5 min, R = 10 min.
    #[test]
    fn daly_2006_prints_these_optima() {
        for (mtbf_minutes, optimum_minutes, half_a_digit) in
            [(24.0 * 60.0, 117.0, 0.5), (6.0 * 60.0, 57.0, 0.5), (15.0, 9.1, 0.05)]
        {
            let tau = costs(300.0, 600.0, mtbf_minutes * 60.0).daly_2006_seconds() / 60.0;
            assert!((tau - optimum_minutes).abs() <= half_a_digit, "{tau} min");
        }
    }

    /// The published simulator's own case: 1,048,576 nodes that fail every 1,000 years and write
    /// to one file system (d = 32,000 s, R = 26,690 s, M = 30,075 s) give an interval of 28,274 s.
    #[test]
    fn daly_2003_gives_the_published_simulators_interval() {
        let tau = costs(32_000.0, 26_690.0, 30_075.0).daly_2003_seconds();
        assert!((tau - 28_274.0).abs() < 1.0, "{tau}");
    }

    #[test]
    fn where_a_checkpoint_outlasts_the_mtbf_the_formulas_still_give_an_interval() {
        let hopeless = costs(10.0 * HOUR, 0.0, HOUR);
        assert_eq!(hopeless.daly_2006_seconds(), HOUR);
        assert_eq!(hopeless.daly_2003_seconds(), HOUR);
        assert!(hopeless.exact_seconds() > 0.0 && hopeless.exact_seconds() <= HOUR);
    }

    #[test]
    fn the_exact_interval_is_where_a_search_finds_the_best_efficiency() {
        for ratio in [1e-5, 1e-3, 0.02, 0.3, 1.0, 4.0] {
            let job = costs(ratio * HOUR, ratio * HOUR, HOUR);
            let found = maximise((1e-3 * job.exact_seconds(), HOUR), |tau| job.efficiency(tau));
            assert!((found.at / job.exact_seconds() - 1.0).abs() < 1e-5, "{ratio}: {found:?}");
            assert!(found.value <= job.efficiency(job.exact_seconds()) * (1.0 + 1e-12));
        }
    }

    #[test]
    fn the_closed_expectation_equals_the_algebra_of_attempts() {
        let job = costs(300.0, 120.0, HOUR);
        let tau = 1300.0;
        let rates = [1.0 / HOUR];
        let restart = Attempt::run(120.0, 0.0, &rates).restarted(0);
        let cycle = Attempt::run(tau + 300.0, 0.0, &rates).retried(0, &restart);
        assert!((cycle.cost.seconds / job.expected_cycle_seconds(tau) - 1.0).abs() < 1e-12);
    }
}
