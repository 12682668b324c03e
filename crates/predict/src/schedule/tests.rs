//! The same decisions as those of the Python package, which `python/tests/test_schedule_recorded.py` records.

use serde_json::Value;

use super::{Affinity, ByHost, TaskQueue, Waiting};
use crate::workload::Workload;

fn recorded() -> Value {
    serde_json::from_str(include_str!("../../tests/data/schedule.json")).unwrap()
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|one| number(one) as usize).collect()
}

fn by_host(value: &Value) -> ByHost {
    let mut held = ByHost::default();
    for pair in value.as_array().unwrap() {
        held.add(number(&pair[0]), pair[1].as_u64().unwrap());
    }
    held
}

#[test]
fn tasks_go_where_the_scheduler_of_runs_sends_them() {
    for (case, recorded) in recorded()["queues"].as_array().unwrap().iter().enumerate() {
        let slots =
            numbers(&recorded["slots"]).into_iter().map(|slots| u32::try_from(slots).unwrap());
        let tasks = number(&recorded["tasks"]) as usize;
        let link = recorded["link_bytes_per_s"].as_f64().unwrap();
        let mut queue = TaskQueue::new(slots.collect(), tasks, link);
        for (at, step) in recorded["steps"].as_array().unwrap().iter().enumerate() {
            let now_s = step["now_s"].as_f64().unwrap_or_default();
            if let Some(task) = step.get("add") {
                let input_bytes = step["input_bytes"].as_u64().unwrap();
                let (held, affinity) = (by_host(&step["held"]), by_host(&step["affinity"]));
                let waiting = Waiting::new(held, input_bytes, number(&step["slots"]), affinity);
                queue.add(number(task), waiting);
            } else if let Some(task) = step.get("discard") {
                assert!(queue.discard(number(task)));
            } else if let Some(task) = step.get("finish") {
                queue.finish(number(task), number(&step["host"]), now_s);
            } else {
                let wanted =
                    step["next"].as_array().map(|pair| (number(&pair[0]), number(&pair[1])));
                assert_eq!(queue.next(now_s), wanted, "queue {case}, step {at}");
            }
        }
    }
}

#[test]
fn what_is_read_together_is_where_the_scheduler_of_runs_takes_it_to_be() {
    for (case, recorded) in recorded()["affinities"].as_array().unwrap().iter().enumerate() {
        let workload = Workload::parse("recorded", &recorded["workload"].to_string()).unwrap();
        let mut affinity = Affinity::new(&workload);
        for (at, step) in recorded["steps"].as_array().unwrap().iter().enumerate() {
            let at = format!("affinity {case}, step {at}");
            if let Some(turns) = step.get("turns") {
                let tasks = (0..workload.tasks.len()).collect();
                assert_eq!(affinity.in_turns(tasks), numbers(turns), "{at}");
            } else if let Some(task) = step.get("began") {
                let others = affinity.began(number(task) as usize, number(&step["host"]));
                assert_eq!(others, numbers(&step["others"]), "{at}");
            } else if let Some(task) = step.get("forget") {
                affinity.forget(number(task) as usize);
            } else {
                let mut found: Vec<(u32, u64)> =
                    affinity.of(number(&step["of"]) as usize).iter().collect();
                found.sort_unstable();
                let wanted: Vec<(u32, u64)> = by_host(&step["bytes"]).iter().collect();
                assert_eq!(found, wanted, "{at}");
            }
        }
    }
}
