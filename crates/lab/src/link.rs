//! The rates of links: a token bucket at both ends.

use intarsia_types::{Error, Result};
use serde_json::Value;

use crate::call::Call;
use crate::name::{LabName, Node};
use crate::namespace::Namespace;
use crate::rate::Rate;

/// The node's end of its link.
pub(crate) const NODE_END: &str = "eth0";

/// What `tc` is told to hold a device to a rate.
pub(crate) fn shaped(device: &str, rate: Rate) -> String {
    let (burst, limit) = (rate.burst_bytes(), rate.queue_bytes());
    let rate = rate.bit_per_s();
    format!("qdisc replace dev {device} root tbf rate {rate}bit burst {burst} limit {limit}")
}

/// The calls that change the rate of one node's link; `None` makes it as fast as the machine.
pub(crate) fn change(lab: &LabName, node: Node, rate: Option<Rate>) -> [Call; 2] {
    let words = |device: &str| match rate {
        Some(rate) => format!("tc {}", shaped(device, rate)),
        // Replacing first, because there may be nothing to delete.
        None => format!("tc qdisc replace dev {device} root noqueue"),
    };
    [
        Call::new(&words(NODE_END)).inside(Namespace::of_node(lab, node)),
        Call::new(&words(&node.to_string())).inside(Namespace::of_hub(lab)),
    ]
}

/// The rates in force, as the hub's ends have them.
pub(crate) fn rates(lab: &LabName) -> Result<Vec<(Node, Option<Rate>)>> {
    let text = Call::new("tc -json qdisc show").inside(Namespace::of_hub(lab)).output()?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<(Node, Option<Rate>)>> {
    let entries: Vec<Value> =
        serde_json::from_str(text).map_err(|e| Error::io("tc -json qdisc show", e.into()))?;
    let of_entry = |entry: &Value| {
        let node = Node::parse(entry.get("dev")?.as_str()?)?;
        let rate = entry.get("options").and_then(|o| o.get("rate")).and_then(Value::as_u64);
        Some((node, rate.and_then(Rate::of_bytes_per_s)))
    };
    Ok(entries.iter().filter_map(of_entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_burst_and_a_queue() {
        let line = shaped("eth0", Rate::mbit(100));
        assert_eq!(
            line,
            "qdisc replace dev eth0 root tbf rate 100000000bit burst 62500 limit 687500"
        );
    }

    #[test]
    fn the_report_of_tc_is_read() {
        let text = r#"[{"kind":"noqueue","dev":"lo","root":true,"options":{}},
            {"kind":"tbf","handle":"8001:","dev":"n1","root":true,"options":{"rate":12500000,"lat":1}},
            {"kind":"noqueue","dev":"n2","root":true,"options":{}}]"#;
        let rates = parse(text).unwrap();
        assert_eq!(rates, [(Node::numbered(1), Some(Rate::mbit(100))), (Node::numbered(2), None)]);
        assert!(parse("oops").is_err());
    }
}
