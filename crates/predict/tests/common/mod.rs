//! A small platform: gigabit links, a manager of its own, one file operation after the other.

#![allow(dead_code, reason = "each test program uses a part of it")]

use intarsia_predict::configuration::{Configuration, Scheduler};
use intarsia_predict::model::{Prediction, predict};
use intarsia_predict::profile::Profile;
use intarsia_predict::workload::Workload;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) app: u32,
    pub(crate) stores: u32,
    /// Tasks and storage on the same hosts, the manager too.
    pub(crate) collocated: bool,
    pub(crate) local_messages: bool,
    pub(crate) read_seconds: f64,
    pub(crate) write_seconds: f64,
    /// For the first bytes of an operation, if they take another time.
    pub(crate) first_seconds: Option<f64>,
    pub(crate) latency_seconds: f64,
    pub(crate) outstanding: Option<u32>,
    pub(crate) frame_bytes: u64,
    pub(crate) burst_bytes: u64,
    pub(crate) queue_bytes: u64,
    /// `frames` or `fair`.
    pub(crate) sharing: &'static str,
    pub(crate) keeps_striped: bool,
    pub(crate) opens_parts: bool,
    pub(crate) bytes_per_second: f64,
    pub(crate) cache_bytes: u64,
    pub(crate) capacity_bytes: u64,
    /// Where the store puts new files by itself.
    pub(crate) placement: &'static str,
    /// Hosts whose card takes in at another rate.
    pub(crate) unlike: Vec<(u32, f64)>,
    pub(crate) configuration: Configuration,
    pub(crate) files: Vec<Value>,
    pub(crate) tasks: Vec<Value>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            app: 1,
            stores: 1,
            collocated: false,
            local_messages: false,
            read_seconds: 0.0,
            write_seconds: 0.0,
            first_seconds: None,
            latency_seconds: 0.0,
            outstanding: None,
            frame_bytes: 65_536,
            burst_bytes: 0,
            queue_bytes: 0,
            sharing: "frames",
            keeps_striped: true,
            opens_parts: false,
            bytes_per_second: 125e6,
            cache_bytes: 0,
            capacity_bytes: 1 << 50,
            placement: "local",
            unlike: Vec::new(),
            configuration: Configuration {
                scheduler: Scheduler::Workqueue,
                ..Configuration::new(1)
            },
            files: Vec::new(),
            tasks: Vec::new(),
        }
    }
}

impl Setup {
    pub(crate) fn file(mut self, name: &str, size_bytes: u64) -> Self {
        self.files.push(json!({ "name": name, "size_bytes": size_bytes }));
        self
    }

    pub(crate) fn task(self, operations: &[(&str, &str)]) -> Self {
        let operations: Vec<Value> =
            operations.iter().map(|(what, file)| json!({ (*what): file })).collect();
        let name = format!("task-{}", self.tasks.len());
        self.raw_task(json!({ "name": name, "operations": operations }))
    }

    pub(crate) fn raw_task(mut self, task: Value) -> Self {
        self.tasks.push(task);
        self
    }

    pub(crate) fn workload(&self) -> Workload {
        let text = json!({
            "format": "intarsia-workload", "version": 1, "files": self.files, "tasks": self.tasks,
        });
        Workload::parse("workload.json", &text.to_string()).unwrap()
    }

    pub(crate) fn profile(&self) -> Profile {
        let unlike: Vec<Value> = self
            .unlike
            .iter()
            .map(|(host, rate)| json!({ "numbers": [host], "in_bytes_per_second": rate }))
            .collect();
        let access = |seconds: f64| {
            let first = self
                .first_seconds
                .map(|first| json!({ "request_seconds": first, "bytes_per_second": 1e30 }));
            json!({ "request_seconds": seconds, "bytes_per_second": 1e30, "first": first })
        };
        let text = json!({
            "format": "intarsia-profile", "version": 1, "name": "small",
            "provenance": { "source": "assumed", "note": "a test" },
            "hosts": 1000, "placement": self.placement,
            "host": {
                "slots": 1, "in_bytes_per_second": self.bytes_per_second,
                "out_bytes_per_second": self.bytes_per_second,
                "cache_bytes": self.cache_bytes, "cache_bytes_per_second": 1e9,
            },
            "unlike_hosts": unlike,
            "network": {
                "latency_seconds": self.latency_seconds, "frame_bytes": self.frame_bytes,
                "burst_bytes": self.burst_bytes, "queue_bytes": self.queue_bytes, "sharing": self.sharing,
                "control_bytes": 1024, "loopback_bytes_per_second": 1e9,
            },
            "manager": { "open_seconds": 500e-6, "allocate_seconds": 500e-6, "commit_seconds": 500e-6 },
            "tiers": [{
                "class": "memory", "capacity_bytes": self.capacity_bytes,
                "read": access(self.read_seconds), "write": access(self.write_seconds),
            }],
            "client": {
                "local_access": if self.local_messages { "message" } else { "call" },
                "outstanding_chunks": self.outstanding,
                "keeps_striped": self.keeps_striped, "opens_parts": self.opens_parts,
            },
        });
        Profile::parse("profile.json", &text.to_string()).unwrap()
    }

    pub(crate) fn configuration(&self) -> Configuration {
        let hosts = if self.collocated { self.app } else { self.app + self.stores + 1 };
        Configuration {
            hosts,
            storage_hosts: (!self.collocated).then_some(self.stores),
            managers_apart: !self.collocated,
            ..self.configuration.clone()
        }
    }

    pub(crate) fn predict(&self) -> Prediction {
        predict(&self.workload(), &self.profile(), &self.configuration(), 1).unwrap()
    }
}

/// Equal to the rounding of a few events to nanoseconds.
#[track_caller]
pub(crate) fn assert_seconds(found: f64, expected: f64) {
    assert!((found - expected).abs() < 5e-9, "{found} s instead of {expected} s");
}

#[track_caller]
pub(crate) fn roughly(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() < share, "{found} instead of about {expected}");
}
