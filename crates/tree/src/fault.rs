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

    /// (points passed so far, what happens at which one, whether it goes on failing afterwards)
    pub(super) static STATE: Mutex<(usize, Option<(usize, Fault, bool)>)> = Mutex::new((0, None));
}

/// From now on, the `nth` point (from 0) fails; with `lasting`, all later ones too.
#[cfg(feature = "faults")]
pub fn arm(nth: usize, fault: Fault, lasting: bool) {
    *registry::STATE.lock().expect("no test panics in here") = (0, Some((nth, fault, lasting)));
}

/// Nothing fails any more. Returns how many points were passed since it was armed or disarmed.
#[cfg(feature = "faults")]
pub fn disarm() -> usize {
    std::mem::replace(&mut *registry::STATE.lock().expect("no test panics in here"), (0, None)).0
}

#[cfg(feature = "faults")]
pub(crate) fn point(_name: &str) -> std::io::Result<()> {
    let mut state = registry::STATE.lock().expect("no test panics in here");
    let passed = state.0;
    state.0 += 1;
    match state.1 {
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
