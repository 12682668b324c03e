//! The section `[system]`.

use intarsia_des::Distribution;

use super::{bytes_field, count_field, spread_field};
use crate::scale::system::{
    Device, MetadataService, Outage, Placement, Stripes, System, SystemKind,
};
use crate::scenario::{Problem, Section, Value};

#[derive(Clone, Copy)]
enum Kind {
    LocalFirst,
    Striped,
    Central,
}

const KINDS: &[(&str, Kind)] =
    &[("local-first", Kind::LocalFirst), ("striped", Kind::Striped), ("central", Kind::Central)];

const PLACEMENTS: &[(&str, Placement)] =
    &[("round-robin", Placement::RoundRobin), ("hashed", Placement::Hashed)];

pub(super) fn read(section: &mut Section<'_>) -> Result<System, Problem> {
    let kind = match section.choice("kind", KINDS).required()? {
        Kind::LocalFirst => SystemKind::LocalFirst,
        Kind::Striped => SystemKind::Striped(stripes(section)?),
        Kind::Central => SystemKind::Central {
            servers: count_field(section, "servers", 1 << 24, 128)?,
            metadata_servers: count_field(section, "metadata_servers", 1 << 24, 1)?,
            stripes: stripes(section)?,
        },
    };
    Ok(System {
        kind,
        device: device(section)?,
        metadata: section.section("metadata", metadata)?,
        call_seconds: section.seconds("call").not_negative().or("0 s")?,
        control_bytes: bytes_field(section, "control_message", "256 B")?,
        copies_fetched: section.flag("copies_fetched").or(false)?,
        // Log-normal with mean one: mu = -sigma^2 / 2.
        device_spread: spread_field(section, "device_variation", |variation| {
            let squared_sigma = variation.powi(2).ln_1p();
            Distribution::log_normal(-squared_sigma / 2.0, squared_sigma.sqrt())
        })?,
        slow_share: section.number("slow_share").share().or(0.0)?,
        slow_factor: section.number("slow_factor").positive().or(1.0)?,
        directory_partitions: count_field(section, "directory_partitions", 1 << 24, 1)?,
        // A section of its own, read after this one.
        outage: None,
    })
}

/// The section `[failures]`.
pub(super) fn read_outage(section: &mut Section<'_>) -> Result<Outage, Problem> {
    Ok(Outage {
        mtbf_seconds: section.seconds("node_mtbf").positive().required()?,
        seconds: section.seconds("outage").not_negative().required()?,
    })
}

fn stripes(section: &mut Section<'_>) -> Result<Stripes, Problem> {
    let chunk_bytes = bytes_field(section, "chunk", "1 MiB")?;
    let width = section.field("width", |value| match value {
        Value::Text(text) if text == "all" => Ok(None),
        Value::Integer(width @ 1..) => u32::try_from(*width)
            .map(Some)
            .map_err(|_| Problem::new(format!("{width} is too large"))),
        other => Err(Problem::new(format!("{other} is no number of devices"))
            .with_help("write a whole number from 1 on, or \"all\"")),
    });
    Ok(Stripes {
        chunk_bytes,
        width: width.or("all")?,
        placement: section.choice("placement", PLACEMENTS).or("round-robin")?,
    })
}

fn device(section: &mut Section<'_>) -> Result<Device, Problem> {
    Ok(Device {
        write_bytes_per_second: section.bytes_per_second("device_write").positive().required()?,
        read_bytes_per_second: section.bytes_per_second("device_read").positive().required()?,
        request_seconds: section.seconds("device_request").not_negative().or("0 s")?,
    })
}

fn metadata(section: &mut Section<'_>) -> Result<MetadataService, Problem> {
    let create_seconds = section.seconds("create").positive().required()?;
    // A missing time is that of creating a record.
    let mut like_create = |name| -> Result<f64, Problem> {
        section.seconds(name).positive().or(format!("{create_seconds} s").as_str())
    };
    Ok(MetadataService {
        create_seconds,
        lookup_seconds: like_create("lookup")?,
        update_seconds: like_create("update")?,
        remove_seconds: like_create("remove")?,
        append_seconds: like_create("append")?,
        // Gamma with mean one; at a variation of 1 it is the exponential one.
        spread: spread_field(section, "variation", |variation| {
            Distribution::gamma(variation.powi(-2), variation.powi(2))
        })?,
    })
}
