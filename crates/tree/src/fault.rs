//! Points where tests make things fail or end the process. Without the feature `faults` they are
//! nothing at all.

/// What a test wants to happen at a point.
#[cfg(feature = "faults")]
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The process is gone, as after `kill -9`.
    Kill,
    /// The operation fails with this error number.
    Errno(i32),
}

#[cfg(feature = "faults")]
mod registry {
    use super::Fault;
    use std::sync::Mutex;

    pub(super) struct State {
        /// How many points were passed.
        pub(super) passed: usize,
        /// What happens at which one, and whether at all later ones too.
        pub(super) armed: Option<(usize, Fault, bool)>,
    }

    pub(super) static STATE: Mutex<State> = Mutex::new(State { passed: 0, armed: None });

    pub(super) fn state() -> std::sync::MutexGuard<'static, State> {
        STATE.lock().expect("no test panics in here")
    }
}

/// From now on, the `nth` point (from 0) fails; with `lasting`, all later ones too.
#[cfg(feature = "faults")]
pub fn arm(nth: usize, fault: Fault, lasting: bool) {
    *registry::state() = registry::State { passed: 0, armed: Some((nth, fault, lasting)) };
}

/// Nothing fails any more. Returns how many points were passed since it was armed or disarmed.
#[cfg(feature = "faults")]
pub fn disarm() -> usize {
    let mut state = registry::state();
    state.armed = None;
    std::mem::take(&mut state.passed)
}

#[cfg(feature = "faults")]
pub(crate) fn point(_name: &str) -> std::io::Result<()> {
    let mut state = registry::state();
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
        },
        _ => Ok(()),
    }
}

#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) fn point(_name: &str) -> std::io::Result<()> {
    Ok(())
}
