//! What hosts draw, and what they and their energy cost.

use intarsia_types::TierClass;

use super::Provenance;

/// What a host draws: idle, and in each further state in addition to that.
#[derive(Clone, Debug, PartialEq)]
pub struct Power {
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// The whole host while it does nothing.
    pub idle_watts: f64,
    /// In addition, while all its slots compute; less of it while fewer do.
    pub compute_watts: f64,
    /// In addition, while a tier reads or writes.
    pub storage_watts: f64,
    /// In addition, while its card sends or takes in.
    pub network_watts: f64,
}

/// A frequency of the processors of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequency {
    /// In MHz.
    pub mhz: u32,
    /// How many times as fast it computes as at the frequency for which the host is described.
    pub speed: f64,
    /// What it draws then.
    pub power: Power,
}

/// What is paid, in any currency.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// Its name, for people.
    pub currency: String,
    /// An hour of a host, whatever it does.
    pub per_host_hour: f64,
    /// A kilowatt hour.
    pub per_kilowatt_hour: f64,
    /// An hour of a gigabyte (10^9 bytes) that lies on a tier of a class.
    pub per_gigabyte_hour: Vec<(TierClass, f64)>,
}

impl Prices {
    /// An hour of a gigabyte on a tier of this class.
    #[must_use]
    pub fn of_tier(&self, class: TierClass) -> f64 {
        let known = self.per_gigabyte_hour.iter().find(|(other, _)| *other == class);
        known.map_or(0.0, |(_, price)| *price)
    }
}
