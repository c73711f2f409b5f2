//! Ctrl-C while a turn runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use takeback_runtime::Cancel;

use super::terminal::keyboard::restore_keyboard;
use crate::failure::Failure;

/// Stops the running turn on Ctrl-C.
#[derive(Clone, Default)]
pub(super) struct Stopper {
    is_running: Arc<AtomicBool>,
    cancel: Arc<Mutex<Cancel>>,
}

impl Stopper {
    /// Handles Ctrl-C from now on: the first one stops the turn, and a second one, or one between
    /// turns, ends the program.
    pub(super) fn listen(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new("cannot handle Ctrl-C").because(&error);
        let mut signals = Signals::new([SIGINT]).map_err(failed)?;
        let stopper = self.clone();
        let wait = move || {
            for signal in signals.forever() {
                if !stopper.stop() {
                    restore_keyboard();
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        };
        std::thread::Builder::new().spawn(wait).map_err(failed)?;
        Ok(())
    }

    /// Stops the running turn. Returns false if there is none, or if it is already being stopped.
    fn stop(&self) -> bool {
        let cancel = self.cancel.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_first = self.is_running.load(Ordering::SeqCst) && !cancel.is_cancelled();
        if is_first {
            cancel.cancel();
        }
        is_first
    }

    /// Notes that a turn runs, which this switch stops.
    pub(super) fn begin(&self, cancel: &Cancel) {
        cancel.reset();
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = cancel.clone();
        self.is_running.store(true, Ordering::SeqCst);
    }

    /// Notes that no turn runs.
    pub(super) fn end(&self) {
        self.is_running.store(false, Ordering::SeqCst);
    }
}
