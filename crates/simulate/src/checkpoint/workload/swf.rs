//! Job traces in the Standard Workload Format: S. J. Chapin et al., "Benchmarks and standards for the
//! evaluation of parallel job schedulers", JSSPP 1999; version 2.2 as the Parallel Workloads Archive
//! describes it (<https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>).

use std::fmt;

use crate::scenario::Problem;

/// The fields of a line, in their order.
const FIELDS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];
const JOB_NUMBER: usize = 0;
const SUBMIT_TIME: usize = 1;
const WAIT_TIME: usize = 2;
const RUN_TIME: usize = 3;
const ALLOCATED: usize = 4;
const REQUESTED: usize = 7;
const REQUESTED_TIME: usize = 8;
const STATUS: usize = 10;

/// A trace: what its header says, and its jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The header, without the semicolons: directives such as `MaxProcs: 128`, and remarks.
    pub header: Vec<String>,
    /// The jobs in the order of the trace.
    pub jobs: Vec<TraceJob>,
}

/// A job of a trace. What is unknown is −1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceJob {
    fields: [f64; FIELDS.len()],
}

impl Trace {
    /// Reads a trace; `source` names it in messages.
    ///
    /// # Errors
    /// When a line does not have 18 numbers, or its job was submitted before the one above it.
    pub fn parse(source: &str, text: &str) -> Result<Self, Problem> {
        let mut trace = Self::default();
        for (number, line) in (1_usize..).zip(text.lines()) {
            let line = line.trim();
            if let Some(remark) = line.strip_prefix(';') {
                trace.header.push(remark.trim().to_owned());
            } else if !line.is_empty() {
                let place = format!("{source}:{number}");
                let job = TraceJob::parse(&place, line)?;
                trace.check_order(&place, &job)?;
                trace.jobs.push(job);
            }
        }
        Ok(trace)
    }

    /// A trace of finished jobs: sorted by submit time, numbered from 1.
    #[must_use]
    pub fn of_finished(header: Vec<String>, mut jobs: Vec<TraceJob>) -> Self {
        jobs.sort_by(|a, b| a.submit_seconds().total_cmp(&b.submit_seconds()));
        for (job, number) in jobs.iter_mut().zip(1_u32..) {
            job.fields[JOB_NUMBER] = number.into();
        }
        Self { header, jobs }
    }

    fn check_order(&self, place: &str, job: &TraceJob) -> Result<(), Problem> {
        match self.jobs.last() {
            Some(last) if last.submit_seconds() > job.submit_seconds() => {
                let (now, before) = (job.submit_seconds(), last.submit_seconds());
                let why =
                    format!("{place}: submit time: {now} is before {before} of the job above");
                Err(Problem::new(why).with_help("sort the jobs by their second field"))
            }
            _ => Ok(()),
        }
    }

    /// The value of a directive of the header, such as `MaxProcs`.
    #[must_use]
    pub fn directive(&self, name: &str) -> Option<&str> {
        self.header.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then_some(value.trim())
        })
    }

    /// The size of the machine that was traced: `MaxProcs`, else `MaxNodes`, else the largest job.
    #[must_use]
    pub fn processors(&self) -> f64 {
        let stated = ["MaxProcs", "MaxNodes"]
            .iter()
            .find_map(|name| self.directive(name)?.parse::<f64>().ok())
            .filter(|size| *size > 0.0);
        let largest = || self.jobs.iter().filter_map(TraceJob::processors).fold(0.0, f64::max);
        stated.unwrap_or_else(largest)
    }

    /// The same jobs on another machine: their sizes grow or shrink in proportion to it.
    #[must_use]
    pub fn scaled(&self, processors: u32) -> Self {
        let factor = f64::from(processors) / self.processors();
        let is_size = |line: &String| {
            ["MaxProcs", "MaxNodes"]
                .iter()
                .any(|name| line.split_once(':').is_some_and(|(key, _)| key.trim() == *name))
        };
        let mut header = vec![format!("MaxProcs: {processors}")];
        header.extend(self.header.iter().filter(|line| !is_size(line)).cloned());
        let jobs = self.jobs.iter().map(|job| job.scaled(factor)).collect();
        Self { header, jobs }
    }
}

impl fmt::Display for Trace {
    /// The trace in its format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.header {
            writeln!(f, "; {line}")?;
        }
        for job in &self.jobs {
            let fields: Vec<String> = job.fields.iter().map(ToString::to_string).collect();
            writeln!(f, "{}", fields.join(" "))?;
        }
        Ok(())
    }
}

impl TraceJob {
    /// A job as a simulation finished it: submit, wait and run time in seconds, processors. A trace
    /// gives it its number.
    #[must_use]
    pub fn finished(
        submit_seconds: f64,
        wait_seconds: f64,
        run_seconds: f64,
        processors: f64,
    ) -> Self {
        const COMPLETED: f64 = 1.0;
        let mut fields = [-1.0; FIELDS.len()];
        fields[SUBMIT_TIME] = submit_seconds;
        fields[WAIT_TIME] = wait_seconds;
        fields[RUN_TIME] = run_seconds;
        fields[ALLOCATED] = processors;
        fields[REQUESTED] = processors;
        fields[STATUS] = COMPLETED;
        Self { fields }
    }

    fn parse(place: &str, line: &str) -> Result<Self, Problem> {
        let mut fields = [0.0; FIELDS.len()];
        let mut words = line.split_whitespace();
        for (index, (field, name)) in fields.iter_mut().zip(FIELDS).enumerate() {
            let word = words.next().ok_or_else(|| {
                Problem::new(format!("{place}: the line ends before field {}, {name}", index + 1))
                    .with_help("a job has 18 numbers; write -1 for what is unknown")
            })?;
            *field =
                word.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| {
                    Problem::new(format!(
                        "{place}: field {}, {name}: '{word}' is not a number",
                        index + 1
                    ))
                    .with_help("write a number, or -1 for what is unknown")
                })?;
        }
        match words.next() {
            None => Ok(Self { fields }),
            Some(more) => Err(Problem::new(format!("{place}: '{more}' follows the last field"))
                .with_help("a job has 18 numbers")),
        }
    }

    /// When it was submitted, in seconds since the start of the trace.
    #[must_use]
    pub fn submit_seconds(&self) -> f64 {
        self.fields[SUBMIT_TIME]
    }

    /// How long it ran, in seconds; none when that is unknown.
    #[must_use]
    pub fn run_seconds(&self) -> Option<f64> {
        Some(self.fields[RUN_TIME]).filter(|seconds| *seconds >= 0.0)
    }

    /// How long its user asked for, in seconds; none when that is unknown.
    #[must_use]
    pub fn requested_seconds(&self) -> Option<f64> {
        Some(self.fields[REQUESTED_TIME]).filter(|seconds| *seconds > 0.0)
    }

    /// The processors that it was given, else those that it wanted.
    #[must_use]
    pub fn processors(&self) -> Option<f64> {
        [ALLOCATED, REQUESTED].map(|field| self.fields[field]).into_iter().find(|size| *size > 0.0)
    }

    fn scaled(&self, factor: f64) -> Self {
        let mut job = *self;
        for field in [ALLOCATED, REQUESTED] {
            if job.fields[field] > 0.0 {
                job.fields[field] = (job.fields[field] * factor).round().max(1.0);
            }
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO_JOBS: &str = "; Version: 2.2\n; MaxProcs: 128\n\
        1 0 5 100 32 -1 -1 32 200 -1 1 1 1 -1 1 -1 -1 -1\n\
        2 60 0 50.5 -1 -1 -1 64 100 -1 1 2 1 -1 1 -1 -1 -1\n";

    #[test]
    fn reads_and_writes_the_same() {
        let trace = Trace::parse("t.swf", TWO_JOBS).unwrap();
        assert_eq!(trace.to_string(), TWO_JOBS);
        assert_eq!(trace.directive("Version"), Some("2.2"));
        assert_eq!(trace.jobs[1].processors(), Some(64.0));
        assert_eq!(trace.jobs[1].run_seconds(), Some(50.5));
    }

    #[test]
    fn sizes_grow_with_the_machine() {
        let trace = Trace::parse("t.swf", TWO_JOBS).unwrap().scaled(1024);
        assert_eq!(trace.directive("MaxProcs"), Some("1024"));
        assert_eq!(trace.jobs[0].processors(), Some(256.0));
        let tiny = trace.scaled(2);
        assert_eq!(tiny.jobs[0].processors(), Some(1.0));
    }

    #[test]
    fn names_the_line_and_the_field() {
        let refuse = |text: &str| Trace::parse("t.swf", text).unwrap_err().message;
        assert_eq!(refuse("; x\n1 2 3"), "t.swf:2: the line ends before field 4, run time");
        let bad = TWO_JOBS.replace("100 32", "1oo 32");
        assert_eq!(refuse(&bad), "t.swf:3: field 4, run time: '1oo' is not a number");
        let long = TWO_JOBS.trim_end().to_owned() + " 7";
        assert_eq!(refuse(&long), "t.swf:4: '7' follows the last field");
        let late = TWO_JOBS.replace("\n1 0 5", "\n1 90 5");
        assert!(refuse(&late).contains("t.swf:4: submit time: 60 is before 90"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9 ;.\\n:a-]{0,80}") { let _ = Trace::parse("t", &text); }
    }
}
