//! Checks of what a model is built from.

/// A parameter outside of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{owner}: {parameter} must be {requirement}, not {value}")]
pub struct InvalidParameter {
    /// Whose parameter it is.
    pub owner: &'static str,
    /// Which one.
    pub parameter: String,
    /// What was given.
    pub value: f64,
    /// What is allowed.
    pub requirement: &'static str,
}

pub(crate) fn invalid(
    owner: &'static str,
    parameter: &str,
    value: f64,
    requirement: &'static str,
) -> InvalidParameter {
    InvalidParameter { owner, parameter: parameter.to_owned(), value, requirement }
}

pub(crate) fn finite(
    owner: &'static str,
    parameter: &str,
    value: f64,
) -> Result<(), InvalidParameter> {
    if value.is_finite() { Ok(()) } else { Err(invalid(owner, parameter, value, "finite")) }
}

pub(crate) fn not_negative(
    owner: &'static str,
    parameter: &str,
    value: f64,
) -> Result<(), InvalidParameter> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(invalid(owner, parameter, value, "finite and not negative"))
    }
}

pub(crate) fn positive(
    owner: &'static str,
    parameter: &str,
    value: f64,
) -> Result<(), InvalidParameter> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(invalid(owner, parameter, value, "positive and finite"))
    }
}
