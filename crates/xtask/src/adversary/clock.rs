//! Makes the clock jump, but only for the program under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::run::is_success;

/// A library that shifts the time of day by `CLOCK_SHIFT` seconds when it is preloaded.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    const char *shift = getenv("CLOCK_SHIFT");
    if (result == 0 && shift && clock == CLOCK_REALTIME)
        time->tv_sec += atol(shift);
    return result;
}
"#;

pub(crate) struct ClockShim(PathBuf);

impl ClockShim {
    /// Compiles the library with the C compiler, which is also needed to build takeback.
    pub(crate) fn build(directory: &Path) -> Result<ClockShim, Failure> {
        let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
        fs::write(&source, SOURCE).map_err(|error| format!("cannot write {source:?}: {error}"))?;
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        match is_success(&mut compile) {
            true => Ok(ClockShim(library)),
            false => Err("cc cannot compile the library that moves the clock".into()),
        }
    }

    /// Moves the clock of a command by a number of seconds.
    pub(crate) fn shift(&self, command: &mut Command, seconds: i64) {
        if seconds != 0 {
            command.env("LD_PRELOAD", &self.0).env("CLOCK_SHIFT", seconds.to_string());
        }
    }
}
