//! Running other programs.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::Failure;

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate is in crates/ of the repository").to_owned()
}

/// Returns cargo's build directory. This program is in one of its subdirectories.
pub(crate) fn target_directory() -> PathBuf {
    let this = std::env::current_exe().ok();
    let target = this.as_deref().and_then(|this| this.ancestors().nth(2));
    target.map_or_else(|| repository().join("target"), Path::to_owned)
}

/// Prepares a cargo command. Uses the same cargo that started this program.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(repository());
    command
}

/// Formats a command as a user would type it.
fn shell_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Prints a command and runs it to completion.
pub(crate) fn run_step(command: &mut Command) -> Result<(), Failure> {
    let line = shell_line(command);
    eprintln!("\n$ {line}");
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|error| format!("\ncannot run {line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("\nfailed ({status}): {line}")) }
}

/// Prints a command and runs it to completion. Shows the output as it arrives, and returns it.
pub(crate) fn run_step_with_output(command: &mut Command) -> (String, Result<(), Failure>) {
    let line = shell_line(command);
    eprintln!("\n$ {line}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (String::new(), Err(format!("\ncannot run {line}: {error}"))),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let errors = thread::spawn(move || copy_lines(stderr, std::io::stderr()));
    let mut output = copy_lines(stdout, std::io::stdout());
    output += &errors.join().expect("copying lines does not panic");
    let outcome = match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("\nfailed ({status}): {line}")),
        Err(error) => Err(format!("\ncannot wait for {line}: {error}")),
    };
    (output, outcome)
}

/// Copies lines until there are no more. Returns all of them.
fn copy_lines(from: Option<impl Read>, mut to: impl Write) -> String {
    let mut all = String::new();
    for line in from.into_iter().flat_map(|from| BufReader::new(from).split(b'\n')).flatten() {
        let line = String::from_utf8_lossy(&line) + "\n";
        // A closed terminal must not end the tests.
        let _ = to.write_all(line.as_bytes());
        all += &line;
    }
    all
}

/// True if a command can be run and succeeds. Its output is not shown.
pub(crate) fn is_success(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
