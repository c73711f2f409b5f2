//! `cargo xtask bench screen`: measures how fast the history in the terminal is. One figure is the
//! time until its rows are shown. The other is the time until a key is answered while a large
//! workspace is being compared.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::process::{busy_elsewhere, clean_command};
use super::scratch::{Scratch, io_failure};
use super::web::history::{prompt, write_history};
use super::{build_and_bench, is_measured_build, this_program};
use crate::Failure;
use crate::agents::terminal::Terminal;
use crate::run::target_directory;

/// The number of rows of the history, and the number of files in the workspace.
const ROWS: usize = 1_000;
const FILES: usize = 50_000;

/// The number of times that the screen is opened.
const ROUNDS: usize = 21;

/// The number of keys that are pressed while the workspace is being compared.
const KEYS: usize = 30;

/// The maximum time until the rows are shown, in milliseconds.
const FIRST_PAINT: f64 = 60.0;

pub(crate) fn bench_screen(arguments: &[&str]) -> Result<(), Failure> {
    let program = match arguments {
        ["--program", path] => PathBuf::from(path),
        [] => {
            let this = this_program()?;
            if !is_measured_build(&this) {
                return build_and_bench(&["takeback", "xtask"], &["screen"], arguments);
            }
            this.with_file_name("takeback")
        }
        _ => return Err("usage: cargo xtask bench screen [--program PATH]".into()),
    };
    let program = fs::canonicalize(&program).map_err(io_failure("find", &program))?;
    let scratch = Scratch::new(&target_directory().join("bench"), false)?;
    let others = busy_elsewhere();
    let measured = measure_all(&scratch, &program);
    scratch.delete_all();
    measured?;
    println!("note: other processes used {:.0}% of the machine before this run", others * 100.0);
    Ok(())
}

fn measure_all(scratch: &Scratch, program: &Path) -> Result<(), Failure> {
    let (home, project) = (scratch.fresh_path("home"), scratch.fresh_path("project"));
    scratch.announce(&format!("writing {ROWS} rows"));
    write_history(&home, &project, ROWS)?;
    let screen = Screen { program, home: &home, project: &project };
    scratch.announce("first paint");
    let start = measure_start(program)?;
    let mut paints = (0..ROUNDS).map(|_| screen.measure_paint()).collect::<Result<Vec<_>, _>>()?;
    paints.sort_by(f64::total_cmp);
    print_figure("a program that prints its version", start, None);
    print_figure(
        &format!("first paint, {ROWS} rows, median"),
        paints[ROUNDS / 2],
        Some(FIRST_PAINT),
    );
    print_figure("first paint, fastest", paints[0], None);
    scratch.announce(&format!("writing {FILES} files"));
    write_files(&project)?;
    let mut keys = screen.measure_keys()?;
    keys.sort_by(f64::total_cmp);
    print_figure(
        &format!("a key while {FILES} new files are compared, median"),
        keys[KEYS / 2],
        None,
    );
    print_figure("a key, slowest", keys[KEYS - 1], None);
    Ok(())
}

fn print_figure(what: &str, value: f64, limit: Option<f64>) {
    let limit = limit
        .map(|limit| format!("at most {limit}{}", if value <= limit { "" } else { "  MISSED" }));
    println!("{what:<56} {value:>8.1} ms  {}", limit.unwrap_or_default());
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Measures how long the program takes to start and end without doing anything.
fn measure_start(program: &Path) -> Result<f64, Failure> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let output = clean_command(program).arg("--version").output();
        output.map_err(io_failure("run", program))?;
        times.push(milliseconds(start.elapsed()));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

/// Writes files that no checkpoint contains, so that the comparison has to read all of them.
fn write_files(project: &Path) -> Result<(), Failure> {
    for file in 0..FILES {
        let path = project.join(format!("data/{}/{file}.txt", file / 500));
        if file % 500 == 0 {
            let parent = path.parent().unwrap_or(&path);
            fs::create_dir_all(parent).map_err(io_failure("create", parent))?;
        }
        fs::write(&path, format!("{file}\n")).map_err(io_failure("write", &path))?;
    }
    Ok(())
}

/// The history of a workspace, to be opened in a terminal.
struct Screen<'a> {
    program: &'a Path,
    home: &'a Path,
    project: &'a Path,
}

impl Screen<'_> {
    /// Opens the screen. Returns the terminal, and the time until the first rows were shown.
    fn open(&self) -> Result<(Terminal, Duration), Failure> {
        let mut command = clean_command(self.program);
        command.arg("--home").arg(self.home).current_dir(self.project);
        command.env("LANG", "C.UTF-8").env("HOME", self.home);
        let log = File::create("/dev/null").map_err(io_failure("open", Path::new("/dev/null")))?;
        let start = Instant::now();
        let terminal = Terminal::start(&command, log)?;
        // The list shortens prompts, so their last words cannot be seen.
        let newest = prompt(ROWS - 1);
        let shown: String = newest.chars().take(33).collect();
        terminal.wait_until("the newest row", |screen| screen.contains(&shown))?;
        Ok((terminal, start.elapsed()))
    }

    fn measure_paint(&self) -> Result<f64, Failure> {
        Ok(milliseconds(self.open()?.1))
    }

    /// Presses keys while the screen compares the workspace. Returns the time until each key was
    /// answered.
    fn measure_keys(&self) -> Result<Vec<f64>, Failure> {
        let (mut terminal, _) = self.open()?;
        let mut times = Vec::new();
        for key in 0..KEYS {
            // The help needs no data, so only the response to a key is measured.
            let start = Instant::now();
            terminal.press("?")?;
            terminal.wait_until("an answer", |screen| {
                screen.contains("any key closes this") == (key % 2 == 0)
            })?;
            times.push(milliseconds(start.elapsed()));
        }
        Ok(times)
    }
}
