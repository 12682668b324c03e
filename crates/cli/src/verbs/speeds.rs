//! The file that tells `intarsia balance` how fast each host is.

use std::path::Path;

use intarsia_policy::Speeds;
use serde::Deserialize;

use crate::config::position;
use crate::exit::{Failure, Outcome};

const HELP: &str = "'intarsia characterise speeds' writes it: [speeds], and a line such as node01 = 5200 for each host";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpeedsFile {
    speeds: Speeds,
}

/// Reads the file; whether its hosts are those of the store is for the node to say.
pub(super) fn read(path: &Path) -> Outcome<Speeds> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::usage(format!("speeds {}: {e}", path.display())).with_help(HELP))?;
    let speeds = parse(path, &text)?;
    if speeds.is_empty() {
        let why = format!("{}: speeds: no host is named", path.display());
        return Err(Failure::usage(why).with_help(HELP));
    }
    Ok(speeds)
}

fn parse(path: &Path, text: &str) -> Outcome<Speeds> {
    toml::from_str(text).map(|file: SpeedsFile| file.speeds).map_err(|error| {
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

    fn parsed(text: &str) -> Result<Speeds, String> {
        parse(Path::new("s.toml"), text).map_err(|failure| failure.message)
    }

    #[test]
    fn a_speed_for_each_host() {
        let found = parsed("# requests a minute\n[speeds]\nnode01 = 5200\n\"n 2\" = 1\n").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found.get(&NodeId("node01".into())).unwrap().get(), 5200);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, place, why) in [
            ("[speeds]\na = 3\nb = 0\n", "s.toml:3:5: ", "nonzero"),
            ("[speeds]\na = -3\n", "s.toml:2:5: ", "-3"),
            ("[speeds]\na = \"fast\"\n", "s.toml:2:5: ", "fast"),
            ("[speed]\na = 1\n", "s.toml:1:", "speed"),
            ("[speeds\n", "s.toml:1:8: ", ""),
            ("", "s.toml:1:1: ", "missing field `speeds`"),
        ] {
            let told = parsed(text).unwrap_err();
            assert!(told.starts_with(place) && told.contains(why), "{text:?}: {told}");
        }
    }
}
