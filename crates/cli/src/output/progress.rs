//! Shows, on a terminal, the progress of operations that take longer than a second.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use takeback_undo::view::text::group_digits;

use super::terminal::Size;
use super::text::{disarm, shorten, width_of};

/// The time after which progress is shown. Shorter operations show nothing.
const DELAY: Duration = Duration::from_secs(1);

const REFRESH: Duration = Duration::from_millis(200);

/// A line on standard error that shows the elapsed time or a count. It disappears when this value
/// is dropped.
pub(crate) struct Progress {
    counts: Arc<Counts>,
    /// The sender that is dropped to end the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The counts so far, shared with the thread that shows them.
#[derive(Default)]
struct Counts {
    done: AtomicU64,
    /// The total; 0 if it is not known.
    total: AtomicU64,
    /// A counter that the operation itself increments, and its value at the beginning.
    handled: Arc<AtomicU64>,
    before: u64,
}

impl Progress {
    /// Shows the elapsed time.
    pub(crate) fn new(what: &str) -> Progress {
        Progress::start(what, None)
    }

    /// Shows the count that [`Progress::step`] sets.
    pub(crate) fn counting(what: &str, noun: &'static str) -> Progress {
        Progress::start(what, Some(noun))
    }

    /// Shows how many files have been handled. The operation increments the counter `handled`.
    pub(crate) fn of_files(what: &str, handled: Option<Arc<AtomicU64>>) -> Progress {
        let before = handled.as_ref().map_or(0, |handled| handled.load(Ordering::Relaxed));
        let counts = Counts { before, handled: handled.unwrap_or_default(), ..Counts::default() };
        Progress::start_with(what, Some("files"), Arc::new(counts))
    }

    fn start(what: &str, noun: Option<&'static str>) -> Progress {
        Progress::start_with(what, noun, Arc::default())
    }

    fn start_with(what: &str, noun: Option<&'static str>, counts: Arc<Counts>) -> Progress {
        if !io::stderr().is_terminal() || super::is_paging() {
            return Progress { counts, running: None, thread: None };
        }
        let (running, ended) = mpsc::channel();
        let (what, shared) = (disarm(what), Arc::clone(&counts));
        let thread = thread::spawn(move || {
            let start = Instant::now();
            let (mut wait, mut shown) = (DELAY, 0);
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let counted = noun.and_then(|noun| shared.describe(noun));
                let text = match counted {
                    Some(counted) => format!("{what}: {counted}"),
                    None => format!("{what} … {} s", start.elapsed().as_secs()),
                };
                shown = show(&text, shown);
                wait = REFRESH;
            }
            show("", shown);
        });
        Progress { counts, running: Some(running), thread: Some(thread) }
    }

    /// Sets how many items are done, and the total if it is known.
    pub(crate) fn step(&self, done: u64, total: Option<u64>) {
        self.counts.done.store(done, Ordering::Relaxed);
        self.counts.total.store(total.unwrap_or(0), Ordering::Relaxed);
    }
}

impl Counts {
    /// Describes the count so far. Returns `None` as long as nothing has been counted.
    fn describe(&self, noun: &str) -> Option<String> {
        let handled = self.handled.load(Ordering::Relaxed).saturating_sub(self.before);
        let done = self.done.load(Ordering::Relaxed) + handled;
        match (done, self.total.load(Ordering::Relaxed)) {
            (0, 0) => None,
            (done, 0) => Some(format!("{} {noun}", group_digits(done))),
            (done, total) => {
                Some(format!("{} of {} {noun}", group_digits(done), group_digits(total)))
            }
        }
    }
}

/// Replaces the current line, whose width is `shown`, with `text`. Returns the width of the new
/// line.
fn show(text: &str, shown: usize) -> usize {
    if text.is_empty() && shown == 0 {
        return 0;
    }
    // A line that is wider than the terminal could not be replaced later.
    let columns = Size::of(io::stderr()).map_or(80, |size| size.columns);
    let text = shorten(text, columns.saturating_sub(1));
    let width = width_of(&text);
    let rest = " ".repeat(shown.saturating_sub(width));
    let back = if text.is_empty() { "\r" } else { "" };
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "\r{text}{rest}{back}").and_then(|()| stderr.flush());
    width
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
