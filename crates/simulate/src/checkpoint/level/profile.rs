//! What a store delivers, and what checkpoints on each level cost by it.

use super::Kind;
use crate::scenario::{Problem, Section};

/// Bandwidths and latencies of one node of a store: the `[storage]` table. Figures are measured
/// (`bench/profile_store.py` writes such a table) or taken from the publications on a machine.
///
/// ```toml
/// [storage]
/// memory = { write = "2 GB/s", read = "4 GB/s", latency = "1 ms" }
/// local = { write = "1 GB/s", read = "2 GB/s" }
/// lower = { write = "10 TB/s", read = "14 TB/s" }    # of the whole machine
/// network = "25 GB/s"                                # into and out of a node at the same time
/// partner_copy = "1 GB/s"                            # through both stores, without the network
/// xor = "10 GB/s"                                    # data folded into a parity
/// reed_solomon = "5 GB/s"                            # data times parities
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoreProfile {
    /// A memory file system of one node.
    pub memory: Option<Tier>,
    /// Storage of one node that outlasts a reboot.
    pub local: Option<Tier>,
    /// The lower file system: bandwidth of the whole machine.
    pub lower: Option<Tier>,
    /// Into and out of one node at the same time, in bytes per second.
    pub network_bytes_per_second: Option<f64>,
    /// From the store of a node into that of its partner, if the network were free, in bytes per
    /// second.
    pub partner_copy_bytes_per_second: Option<f64>,
    /// Data that one node folds into a parity, in bytes per second.
    pub xor_bytes_per_second: Option<f64>,
    /// Data times parities that one node codes, in bytes per second.
    pub reed_solomon_bytes_per_second: Option<f64>,
}

/// One tier of storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tier {
    /// Writing a checkpoint until it is durable, in bytes per second.
    pub write_bytes_per_second: f64,
    /// Reading it again, in bytes per second.
    pub read_bytes_per_second: f64,
    /// To create and sync an empty file, in seconds.
    pub latency_seconds: f64,
}

/// What a job has to save.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Payload {
    /// State of one node, in bytes.
    pub bytes_per_node: f64,
    /// Nodes that save it at the same time.
    pub nodes: u32,
}

/// What one checkpoint takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelTimes {
    /// To write it, in seconds.
    pub write_seconds: f64,
    /// To read it again, lost parts rebuilt, in seconds.
    pub restore_seconds: f64,
}

/// A figure that a level needs and a profile does not have; the field's name in `[storage]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its time derives from `storage.{0}`, which is missing")]
pub struct MissingFigure(pub &'static str);

impl StoreProfile {
    /// Reads the table; everything in it may be missing.
    ///
    /// # Errors
    /// When a figure is refused.
    pub fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        let bandwidth =
            |section: &mut Section<'_>, name| section.bytes_per_second(name).positive().optional();
        Ok(Self {
            memory: section.optional_section("memory", Tier::read)?,
            local: section.optional_section("local", Tier::read)?,
            lower: section.optional_section("lower", Tier::read)?,
            network_bytes_per_second: bandwidth(section, "network")?,
            partner_copy_bytes_per_second: bandwidth(section, "partner_copy")?,
            xor_bytes_per_second: bandwidth(section, "xor")?,
            reed_solomon_bytes_per_second: bandwidth(section, "reed_solomon")?,
        })
    }

    /// What a checkpoint of `payload` on a level of this `kind` takes.
    ///
    /// With B bytes per node, all nodes at work at once:
    /// - memory, local: one pass through the tier.
    /// - partner: the local pass, then B to the partner while the other partner's B comes in.
    /// - XOR over g nodes, as SCR codes it: the local pass; B out and B in (a reduce-scatter of
    ///   pieces of B / (g − 1)), folded; the parity of B / (g − 1) written. To rebuild a node its
    ///   group reads, sends and folds B, and the new node writes B.
    /// - Reed–Solomon with m of g: the same with m parities over pieces of B / (g − m).
    /// - lower: the whole machine's bandwidth or a node's link, whichever is slower.
    ///
    /// # Errors
    /// Names the figure that is missing.
    pub fn times(&self, kind: Kind, payload: Payload) -> Result<LevelTimes, MissingFigure> {
        let bytes = payload.bytes_per_node;
        match kind {
            Kind::Memory => Ok(self.memory.ok_or(MissingFigure("memory"))?.times(bytes)),
            Kind::Local => Ok(self.local()?.times(bytes)),
            Kind::Partner => {
                let own = self.local()?.times(bytes);
                let copy = bytes / self.partner_bytes_per_second()?;
                Ok(LevelTimes {
                    write_seconds: own.write_seconds + copy,
                    restore_seconds: own.restore_seconds + copy,
                })
            }
            Kind::Xor { group } => {
                let xor = self.xor_bytes_per_second.ok_or(MissingFigure("xor"))?;
                self.coded(bytes, f64::from(group), 1.0, xor)
            }
            Kind::ReedSolomon { group, parity } => {
                let coding = self.reed_solomon_bytes_per_second;
                let coding = coding.ok_or(MissingFigure("reed_solomon"))?;
                self.coded(bytes, f64::from(group), f64::from(parity), coding)
            }
            Kind::Lower => {
                let lower = self.lower.ok_or(MissingFigure("lower"))?;
                let link = self.network_bytes_per_second.unwrap_or(f64::INFINITY);
                let share = |bandwidth: f64| link.min(bandwidth / f64::from(payload.nodes.max(1)));
                Ok(LevelTimes {
                    write_seconds: lower.latency_seconds
                        + bytes / share(lower.write_bytes_per_second),
                    restore_seconds: lower.latency_seconds
                        + bytes / share(lower.read_bytes_per_second),
                })
            }
        }
    }

    fn coded(
        &self,
        bytes: f64,
        group: f64,
        parities: f64,
        coding_bytes_per_second: f64,
    ) -> Result<LevelTimes, MissingFigure> {
        let local = self.local()?;
        let network = self.network_bytes_per_second.ok_or(MissingFigure("network"))?;
        let own = local.times(bytes);
        let exchanged = parities * bytes / network + parities * bytes / coding_bytes_per_second;
        let parity_bytes = parities * bytes / (group - parities);
        Ok(LevelTimes {
            write_seconds: own.write_seconds
                + exchanged
                + parity_bytes / local.write_bytes_per_second,
            restore_seconds: own.restore_seconds + exchanged + bytes / local.write_bytes_per_second,
        })
    }

    fn local(&self) -> Result<Tier, MissingFigure> {
        self.local.ok_or(MissingFigure("local"))
    }

    fn partner_bytes_per_second(&self) -> Result<f64, MissingFigure> {
        let network = self.network_bytes_per_second.ok_or(MissingFigure("network"))?;
        let stores = match self.partner_copy_bytes_per_second {
            Some(copy) => copy,
            None => self.local()?.write_bytes_per_second,
        };
        Ok(network.min(stores))
    }
}

impl Tier {
    fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        Ok(Self {
            write_bytes_per_second: section.bytes_per_second("write").positive().required()?,
            read_bytes_per_second: section.bytes_per_second("read").positive().required()?,
            latency_seconds: section.seconds("latency").not_negative().or("0 s")?,
        })
    }

    fn times(&self, bytes: f64) -> LevelTimes {
        LevelTimes {
            write_seconds: self.latency_seconds + bytes / self.write_bytes_per_second,
            restore_seconds: self.latency_seconds + bytes / self.read_bytes_per_second,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;
    use proptest::prelude::*;

    const TEXT: &str = r#"
        memory = { write = "2 GB/s", read = "4 GB/s", latency = "1 s" }
        local = { write = "1 GB/s", read = "2 GB/s" }
        lower = { write = "100 GB/s", read = "200 GB/s", latency = "3 s" }
        network = "5 GB/s"
        xor = "10 GB/s"
        reed_solomon = "4 GB/s"
    "#;

    fn profile(text: &str) -> StoreProfile {
        let document = Document::parse("p.toml", text).unwrap();
        document.read(StoreProfile::read).unwrap().0
    }

    /// 20 GB on each of 40 nodes, by hand.
    #[test]
    fn times_are_what_a_pencil_says() {
        let profile = profile(TEXT);
        let payload = Payload { bytes_per_node: 20e9, nodes: 40 };
        for (kind, write, restore) in [
            (Kind::Memory, 1.0 + 10.0, 1.0 + 5.0),
            (Kind::Local, 20.0, 10.0),
            (Kind::Partner, 20.0 + 20.0, 10.0 + 20.0),
            (Kind::Xor { group: 5 }, 20.0 + 4.0 + 2.0 + 5.0, 10.0 + 4.0 + 2.0 + 20.0),
            (
                Kind::ReedSolomon { group: 10, parity: 2 },
                20.0 + 8.0 + 10.0 + 5.0,
                10.0 + 8.0 + 10.0 + 20.0,
            ),
            (Kind::Lower, 3.0 + 8.0, 3.0 + 4.0),
        ] {
            let times = profile.times(kind, payload).unwrap();
            assert!((times.write_seconds - write).abs() < 1e-9, "{kind:?}: {times:?}");
            assert!((times.restore_seconds - restore).abs() < 1e-9, "{kind:?}: {times:?}");
        }
        let alone = profile.times(Kind::Lower, Payload { nodes: 1, ..payload }).unwrap();
        assert!((alone.write_seconds - 7.0).abs() < 1e-9, "the node's own link");
    }

    #[test]
    fn names_the_figure_that_is_missing() {
        let payload = Payload { bytes_per_node: 1.0, nodes: 1 };
        let of =
            |kind| profile("local = { write = '1 GB/s', read = '1 GB/s' }").times(kind, payload);
        assert_eq!(of(Kind::Memory), Err(MissingFigure("memory")));
        assert_eq!(of(Kind::Partner), Err(MissingFigure("network")));
        assert_eq!(of(Kind::Xor { group: 4 }), Err(MissingFigure("xor")));
        assert_eq!(
            of(Kind::ReedSolomon { group: 4, parity: 1 }),
            Err(MissingFigure("reed_solomon"))
        );
        assert_eq!(of(Kind::Lower), Err(MissingFigure("lower")));
        assert!(of(Kind::Local).is_ok());
        assert!(MissingFigure("lower").to_string().contains("`storage.lower`"));
    }

    proptest! {
        /// More protection never costs less, and every time grows with the payload.
        #[test]
        fn protection_costs(
            bytes in 1e6..1e12f64, group in 3u32..32, parity in 1u32..3, nodes in 1u32..100_000,
        ) {
            let profile = profile(TEXT);
            let of = |kind, bytes_per_node| {
                profile.times(kind, Payload { bytes_per_node, nodes }).unwrap().write_seconds
            };
            let coded = Kind::ReedSolomon { group, parity };
            let xor = Kind::Xor { group };
            prop_assert!(of(coded, bytes) > of(xor, bytes));
            prop_assert!(of(xor, bytes) > of(Kind::Local, bytes));
            for kind in [Kind::Memory, Kind::Local, Kind::Partner, coded, Kind::Lower] {
                prop_assert!(of(kind, 2.0 * bytes) > of(kind, bytes));
            }
        }
    }
}
