//! The file that tells `intarsia balance` how fast each host of a store is, or each tier of this host.

use std::path::Path;

use intarsia_policy::Speeds;
use serde::Deserialize;

use crate::config::position;
use crate::exit::{Failure, Outcome};

const HELP: &str = "'intarsia characterise speeds' writes it: [speeds], and a line such as node01 = 5200 for each host; or [tiers], and a line such as \"/local/ssd/work\" = 5200 for each tier of this host";

/// How fast hosts are, or the tiers of one; the other table is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpeedsFile {
    #[serde(default)]
    pub(super) speeds: Speeds,
    #[serde(default)]
    pub(super) tiers: Speeds<String>,
}

/// Reads the file; whether its hosts or tiers are those of the store is for the node to say.
pub(super) fn read(path: &Path) -> Outcome<SpeedsFile> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::usage(format!("speeds {}: {e}", path.display())).with_help(HELP))?;
    let file = parse(path, &text)?;
    let why = match (file.speeds.is_empty(), file.tiers.is_empty()) {
        (true, true) => "no host and no tier is named",
        (false, false) => "it has [speeds] of hosts and [tiers]; give one of them at a time",
        _ => return Ok(file),
    };
    Err(Failure::usage(format!("{}: {why}", path.display())).with_help(HELP))
}

fn parse(path: &Path, text: &str) -> Outcome<SpeedsFile> {
    toml::from_str(text).map_err(|error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        let why = error.message().replace('\n', " ");
        let place = format!("{}:{line}:{column}", path.display());
        Failure::usage(format!("{place}: {why}")).with_help(HELP)
    })
}

#[cfg(test)]
mod tests {
    use intarsia_types::NodeId;

    use super::*;

    fn parsed(text: &str) -> Result<SpeedsFile, String> {
        parse(Path::new("s.toml"), text).map_err(|failure| failure.message)
    }

    #[test]
    fn a_speed_for_each_host() {
        let found = parsed("# requests a minute\n[speeds]\nnode01 = 5200\n\"n 2\" = 1\n").unwrap();
        assert_eq!((found.speeds.len(), found.tiers.len()), (2, 0));
        assert_eq!(found.speeds.get(&NodeId("node01".into())).unwrap().get(), 5200);
    }

    #[test]
    fn a_speed_for_each_tier() {
        let found = parsed("[tiers]\n\"/local/ssd\" = 900\n\"/disk\" = 40\n").unwrap();
        assert_eq!((found.speeds.len(), found.tiers.len()), (0, 2));
        assert_eq!(found.tiers["/disk"].get(), 40);
    }

    #[test]
    fn a_file_of_nothing_or_of_both_is_refused() {
        let told = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            read(file.path()).unwrap_err().message
        };
        assert!(told("").ends_with("no host and no tier is named"));
        assert!(told("[speeds]\na = 1\n[tiers]\nb = 1\n").contains("one of them at a time"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, place, why) in [
            ("[speeds]\na = 3\nb = 0\n", "s.toml:3:5: ", "nonzero"),
            ("[speeds]\na = -3\n", "s.toml:2:5: ", "-3"),
            ("[speeds]\na = \"fast\"\n", "s.toml:2:5: ", "fast"),
            ("[speed]\na = 1\n", "s.toml:1:", "speed"),
            ("[speeds\n", "s.toml:1:8: ", ""),
            ("[tiers]\n\"/d\" = 0\n", "s.toml:2:8: ", "nonzero"),
        ] {
            let told = parsed(text).unwrap_err();
            assert!(told.starts_with(place) && told.contains(why), "{text:?}: {told}");
        }
    }
}
