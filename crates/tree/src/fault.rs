//! Fault points: places where tests make an operation fail or kill the process. Without the
//! `faults` feature, they compile to nothing.

/// The fault that a test injects at a point.
#[cfg(feature = "faults")]
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Kills the process, as `kill -9` does.
    Kill,
    /// The operation fails with this error number.
    Errno(i32),
    /// This function runs, to simulate another process that interferes. Then the operation fails
    /// with this error number.
    Meanwhile(fn(), i32),
}

#[cfg(feature = "faults")]
mod registry {
    use super::Fault;
    use std::sync::Mutex;

    pub(super) struct State {
        /// The number of points passed since the last call to `arm` or `disarm`.
        pub(super) passed: usize,
        /// The number of the point that fails, its fault, and a flag that is true if all later
        /// points also fail.
        pub(super) armed: Option<(usize, Fault, bool)>,
    }

    pub(super) static STATE: Mutex<State> = Mutex::new(State { passed: 0, armed: None });

    /// The number of directories that were opened by path.
    pub(super) static OPENED: std::sync::atomic::AtomicUsize =
        std::sync::atomic::AtomicUsize::new(0);

    /// A function that runs at the moment with this name.
    pub(super) struct Interruption {
        pub(super) moment: &'static str,
        pub(super) run: fn(),
    }

    pub(super) static INTERRUPTION: Mutex<Option<Interruption>> = Mutex::new(None);

    pub(super) fn lock_state() -> std::sync::MutexGuard<'static, State> {
        STATE.lock().expect("no code panics while it holds this lock")
    }
}

/// Makes the `nth` point from now fail, counting from zero. If `lasting` is true, all later points
/// also fail.
#[cfg(feature = "faults")]
pub fn arm(nth: usize, fault: Fault, lasting: bool) {
    *registry::lock_state() = registry::State { passed: 0, armed: Some((nth, fault, lasting)) };
}

/// Stops all points from failing. Returns the number of points that were passed since the last call
/// to `arm` or `disarm`.
#[cfg(feature = "faults")]
pub fn disarm() -> usize {
    let mut state = registry::lock_state();
    state.armed = None;
    std::mem::take(&mut state.passed)
}

/// Runs `run` when the moment with this name is next reached, to simulate another process that
/// interferes.
#[cfg(feature = "faults")]
pub fn interrupt_at(moment: &'static str, run: fn()) {
    *registry::INTERRUPTION.lock().expect("no code panics while it holds this lock") =
        Some(registry::Interruption { moment, run });
}

/// Returns the number of directories that were opened by path since the last call.
#[cfg(feature = "faults")]
pub fn take_opened_directories() -> usize {
    registry::OPENED.swap(0, std::sync::atomic::Ordering::Relaxed)
}

#[cfg(feature = "faults")]
pub(crate) fn count_opened_directory() {
    registry::OPENED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn count_opened_directory() {}

/// Marks a moment at which another process can interfere.
#[cfg(feature = "faults")]
pub(crate) fn moment(name: &str) {
    let mut armed = registry::INTERRUPTION.lock().expect("no code panics while it holds this lock");
    if let Some(interruption) = armed.take_if(|armed| armed.moment == name) {
        drop(armed);
        (interruption.run)();
    }
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn moment(_name: &str) {}

#[cfg(feature = "faults")]
pub(crate) fn point(_name: &str) -> std::io::Result<()> {
    let mut state = registry::lock_state();
    let passed = state.passed;
    state.passed += 1;
    match state.armed {
        Some((nth, fault, lasting)) if passed == nth || (lasting && passed > nth) => match fault {
            Fault::Kill => {
                let own = rustix::process::getpid();
                let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
                unreachable!("the process was killed");
            }
            Fault::Errno(number) => Err(std::io::Error::from_raw_os_error(number)),
            Fault::Meanwhile(run, number) => {
                drop(state);
                run();
                Err(std::io::Error::from_raw_os_error(number))
            }
        },
        _ => Ok(()),
    }
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn point(_name: &str) -> std::io::Result<()> {
    Ok(())
}
