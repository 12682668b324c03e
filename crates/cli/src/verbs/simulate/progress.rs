//! How far a run has come: a bar on a terminal, else a line every ten seconds.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use intarsia_simulate::progress::Progress;

use crate::output;

const STEPS: u64 = 1000;

/// Does `work` and shows what it counts in `counters`.
pub(super) fn watch<R: Send>(counters: &Progress, work: impl FnOnce() -> R + Send) -> R {
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let display = Display::new(counters);
            while is_done.recv_timeout(display.period()) == Err(RecvTimeoutError::Timeout) {
                display.show();
            }
            display.end();
        });
        let result = work();
        drop(done);
        result
    })
}

struct Display<'a> {
    counters: &'a Progress,
    started: Instant,
    /// None where nobody looks at a terminal.
    bar: Option<ProgressBar>,
}

impl<'a> Display<'a> {
    fn new(counters: &'a Progress) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar =
            std::io::stderr().is_terminal().then(|| ProgressBar::new(STEPS).with_style(style));
        Self { counters, started: Instant::now(), bar }
    }

    fn period(&self) -> Duration {
        if self.bar.is_some() { Duration::from_millis(100) } else { Duration::from_secs(10) }
    }

    fn show(&self) {
        let share = self.counters.share();
        let text = format!("{}{}", self.rate(), self.time_left(share));
        match &self.bar {
            Some(bar) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "a share of STEPS"
                )]
                bar.set_position((share * STEPS as f64) as u64);
                bar.set_message(text);
            }
            None => output::message(&format!("{:.1} %, {text}", share * 100.0)),
        }
    }

    fn rate(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let per_second = self.counters.events() as f64 / self.started.elapsed().as_secs_f64();
        match per_second {
            r if r >= 1e6 => format!("{:.1} M events/s", r / 1e6),
            r if r >= 1e3 => format!("{:.0} k events/s", r / 1e3),
            r => format!("{r:.0} events/s"),
        }
    }

    fn time_left(&self, share: f64) -> String {
        let left = self.started.elapsed().as_secs_f64() * (1.0 - share) / share;
        match Duration::try_from_secs_f64(left) {
            Ok(left) => format!(", {} left", HumanDuration(left)),
            Err(_) => String::new(),
        }
    }

    fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
