//! Running other programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate is in crates/ of the repository").to_owned()
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(repository());
    command
}

/// What would have to be typed to run the same.
fn typed(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Shows a command and runs it; it has failed if it says so.
pub(crate) fn step(command: &mut Command) -> Result<(), Failure> {
    let typed = typed(command);
    eprintln!("\n$ {typed}");
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("\nfailed ({status}): {typed}")),
        Err(error) => Err(format!("\ncannot run {typed}: {error}")),
    }
}

/// Whether a command can be run and succeeds; what it says is not shown.
pub(crate) fn works(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
