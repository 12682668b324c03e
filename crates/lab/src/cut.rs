//! Cutting links, at the bridge: a set of (from, to) whose frames it drops, of all protocols, silently.
//!
//! A cut stands in the kernel alone, with its time: it ends on time although nobody waits for it.

use std::time::Duration;

use intarsia_types::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use crate::call::Call;
use crate::name::{LabName, Node};
use crate::namespace::Namespace;
use crate::spec::Spec;

/// The filter of the hub. Nothing of it exists outside the hub's namespace.
pub(crate) const RULES: &[&str] = &[
    "table bridge lab {",
    "  set cut { type ifname . ifname; flags timeout; }",
    "  chain forward {",
    "    type filter hook forward priority 0; policy accept;",
    "    iifname . oifname @cut drop",
    "  }",
    "}",
];

/// Which links a cut or its healing concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// What these two send each other.
    Between(Node, Node),
    /// What the first sends the second.
    FromTo(Node, Node),
    /// All that a node sends and receives.
    Of(Node),
    /// All that a node sends.
    From(Node),
}

impl Selection {
    /// The ordered pairs, sender first.
    pub(crate) fn pairs(self, spec: &Spec) -> Vec<(Node, Node)> {
        let others = |a: Node| spec.nodes().filter(move |b| *b != a);
        match self {
            Self::Between(a, b) => vec![(a, b), (b, a)],
            Self::FromTo(a, b) => vec![(a, b)],
            Self::Of(a) => others(a).flat_map(|b| [(a, b), (b, a)]).collect(),
            Self::From(a) => others(a).map(|b| (a, b)).collect(),
        }
    }
}

/// One direction between two nodes that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cut {
    /// Who sends in vain.
    pub from: Node,
    /// Who receives nothing.
    pub to: Node,
    /// After how many seconds the kernel ends it, rounded down; `None` is until it is healed.
    pub ends_in_s: Option<u64>,
}

/// Cuts these pairs; a pair that is cut already gets the new time.
pub(crate) fn cut(lab: &LabName, pairs: &[(Node, Node)], time: Option<Duration>) -> Call {
    let mut lines = taken_out(pairs);
    let time = time.map_or_else(String::new, |t| format!(" timeout {}ms", t.as_millis().max(1)));
    lines.push(format!("add element bridge lab cut {{ {} }}", elements(pairs, &time)));
    nft(lab, &lines)
}

/// Heals these pairs, cut or not.
pub(crate) fn heal(lab: &LabName, pairs: &[(Node, Node)]) -> Call {
    nft(lab, &taken_out(pairs))
}

/// Heals all.
pub(crate) fn heal_all(lab: &LabName) -> Call {
    nft(lab, &["flush set bridge lab cut".to_owned()])
}

/// What is cut now.
pub(crate) fn cuts(lab: &LabName) -> Result<Vec<Cut>> {
    let call = Call::new("nft -j list set bridge lab cut").inside(Namespace::of_hub(lab));
    parse(&call.output()?)
}

/// Takes elements out that may be absent: one added twice is there once, and may then be deleted.
fn taken_out(pairs: &[(Node, Node)]) -> Vec<String> {
    let all = elements(pairs, "");
    ["add", "delete"].map(|verb| format!("{verb} element bridge lab cut {{ {all} }}")).to_vec()
}

fn elements(pairs: &[(Node, Node)], time: &str) -> String {
    let texts: Vec<String> =
        pairs.iter().map(|(a, b)| format!("\"{a}\" . \"{b}\"{time}")).collect();
    texts.join(", ")
}

/// All lines in one transaction.
fn nft(lab: &LabName, lines: &[String]) -> Call {
    Call::new("nft -f -").inside(Namespace::of_hub(lab)).reading(lines)
}

fn parse(text: &str) -> Result<Vec<Cut>> {
    let answer: Value = serde_json::from_str(text).map_err(|e| Error::io("nft -j", e.into()))?;
    let objects = answer.get("nftables").and_then(Value::as_array).into_iter().flatten();
    let elements = objects.filter_map(|o| o.get("set")?.get("elem")?.as_array()).flatten();
    let mut cuts: Vec<Cut> = elements.filter_map(of_element).collect();
    cuts.sort();
    Ok(cuts)
}

/// `{"concat":["n1","n2"]}`, or with a time `{"elem":{"val":{"concat":…},"expires":4}}`.
fn of_element(element: &Value) -> Option<Cut> {
    let timed = element.get("elem");
    let concat = timed.map_or(Some(element), |e| e.get("val"))?.get("concat")?.as_array()?;
    let node = |value: &Value| Node::parse(value.as_str()?);
    let [from, to] = concat.as_slice() else { return None };
    let ends_in_s = timed.and_then(|e| e.get("expires")).and_then(Value::as_u64);
    Some(Cut { from: node(from)?, to: node(to)?, ends_in_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> [Node; 3] {
        [1, 2, 3].map(Node::numbered)
    }

    #[test]
    fn selections_are_ordered_pairs() {
        let spec = Spec::new("x".parse().unwrap(), 3, crate::Subnet::default(), None).unwrap();
        let [a, b, c] = nodes();
        assert_eq!(Selection::Between(a, b).pairs(&spec), [(a, b), (b, a)]);
        assert_eq!(Selection::FromTo(a, b).pairs(&spec), [(a, b)]);
        assert_eq!(Selection::Of(b).pairs(&spec), [(b, a), (a, b), (b, c), (c, b)]);
        assert_eq!(Selection::From(b).pairs(&spec), [(b, a), (b, c)]);
    }

    #[test]
    fn a_cut_is_one_transaction() {
        let [a, b, _] = nodes();
        let call = cut(&"x".parse().unwrap(), &[(a, b)], Some(Duration::from_secs(5))).to_string();
        let lines: Vec<&str> = call.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "add element bridge lab cut { \"n1\" . \"n2\" }",
                "delete element bridge lab cut { \"n1\" . \"n2\" }",
                "add element bridge lab cut { \"n1\" . \"n2\" timeout 5000ms }",
                "END",
            ]
        );
    }

    #[test]
    fn the_report_of_nft_is_read() {
        let text = r#"{"nftables":[{"metainfo":{"version":"1.0.6"}},{"set":{"family":"bridge","name":"cut",
            "elem":[{"elem":{"val":{"concat":["n2","n1"]},"timeout":5,"expires":4}},{"concat":["n1","n2"]}]}}]}"#;
        let [a, b, _] = nodes();
        assert_eq!(
            parse(text).unwrap(),
            [Cut { from: a, to: b, ends_in_s: None }, Cut { from: b, to: a, ends_in_s: Some(4) }]
        );
        assert_eq!(parse(r#"{"nftables":[{"set":{"name":"cut"}}]}"#).unwrap(), []);
        assert!(parse("").is_err());
    }
}
