//! Results of real file systems, as outside reference points.
//!
//! The rows say what whole installations delivered. The number of client nodes is not among them, since
//! the sources are not reliable in that, so they bound what is plausible and validate nothing.

use serde::Serialize;

const TABLE: &str = include_str!("references.csv");
const GIB: f64 = 1_073_741_824.0;

/// A published IO500 result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// Whose system it is.
    pub institution: String,
    /// The system.
    pub system: String,
    /// The file system.
    pub file_system: String,
    /// The year of the submission.
    pub year: u32,
    /// Its name in the source.
    pub submission: String,
    /// MPI processes, not nodes; none where the source does not say.
    pub tasks: Option<u32>,
    /// Writes of whole files by each process, in bytes per second.
    pub easy_write_bytes_per_second: f64,
    /// Reads of the same.
    pub easy_read_bytes_per_second: f64,
    /// Small interleaved writes to one file, in bytes per second.
    pub hard_write_bytes_per_second: f64,
    /// Reads of the same.
    pub hard_read_bytes_per_second: f64,
    /// Creations of empty files in own directories, per second.
    pub easy_create_per_second: f64,
    /// Looks at the same, per second.
    pub easy_stat_per_second: f64,
    /// Creations of small files in one directory, per second.
    pub hard_create_per_second: f64,
    /// Looks at the same, per second.
    pub hard_stat_per_second: f64,
}

/// The results that come with the program, fastest writers first.
pub fn references() -> Vec<Reference> {
    TABLE.lines().skip(1).filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Reference> {
    let mut cells = line.split(',');
    let mut text = || cells.next().map(str::to_owned);
    let (institution, system, file_system) = (text()?, text()?, text()?);
    let (year, submission, tasks) = (text()?.parse().ok()?, text()?, text()?.parse().ok());
    let mut rate = |unit: f64| text()?.parse::<f64>().ok().map(|rate| rate * unit);
    Some(Reference {
        institution,
        system,
        file_system,
        year,
        submission,
        tasks,
        easy_write_bytes_per_second: rate(GIB)?,
        easy_read_bytes_per_second: rate(GIB)?,
        hard_write_bytes_per_second: rate(GIB)?,
        hard_read_bytes_per_second: rate(GIB)?,
        easy_create_per_second: rate(1e3)?,
        easy_stat_per_second: rate(1e3)?,
        hard_create_per_second: rate(1e3)?,
        hard_stat_per_second: rate(1e3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let references = references();
        assert_eq!(references.len(), TABLE.lines().count() - 1);
        assert!(references.iter().all(|r| r.easy_write_bytes_per_second > 0.0 && r.year > 2016));
        let aurora = references.iter().find(|r| r.system == "Aurora").unwrap();
        assert!((aurora.easy_write_bytes_per_second / GIB - 21_029.853_648).abs() < 1e-6);
    }
}
