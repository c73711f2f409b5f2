//! Installs each package into a scratch directory, and tests the program there with a short
//! scenario.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::packages::Packages;
use super::{run_for_output, write_file};
use crate::Failure;
use crate::results::Tally;
use crate::run::{repository, run_step};

/// Installs one of the packages in the given directory, and returns the path of the program.
type Install = fn(&Packages, &Path) -> Result<PathBuf, Failure>;

const WAYS: [(&str, Install); 6] = [
    ("the tarball", install_tarball),
    ("the commands of the README", follow_readme),
    ("the install script", install_by_script),
    ("the Debian package", install_debian),
    ("the npm packages", install_npm),
    ("the wheel", install_wheel),
];

/// Tests all packages, even if some fail.
pub(super) fn test_packages(packages: &Packages, tally: &mut Tally) -> Result<(), Failure> {
    // Projects must be outside this repository, which would otherwise be the workspace.
    let scratch = std::env::temp_dir().join(format!("takeback-dist-{}", std::process::id()));
    let mut failures = Vec::new();
    for (number, (name, install)) in WAYS.iter().enumerate() {
        let directory = scratch.join(number.to_string());
        fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        match install(packages, &directory).and_then(|program| play_story(&program, &directory)) {
            Ok(()) => tally.add_passed(),
            Err(failure) => {
                tally.add_failed();
                failures.push(format!("\n{name}: {failure}"));
            }
        }
    }
    // Background processes of takeback may still be writing. Files that they leave behind do no
    // harm.
    let _ = fs::remove_dir_all(&scratch);
    if failures.is_empty() { Ok(()) } else { Err(failures.join("")) }
}

fn install_tarball(packages: &Packages, to: &Path) -> Result<PathBuf, Failure> {
    let mut tar = Command::new("tar");
    tar.args(["--strip-components=1", "-xzf"]).arg(&packages.tarball).arg("-C").arg(to);
    run_step(&mut tar)?;
    must_have(to, "share/man/man1/takeback-rollback.1")?;
    Ok(to.join("bin/takeback"))
}

/// Runs the commands of the README with the program from the tarball.
fn follow_readme(packages: &Packages, to: &Path) -> Result<PathBuf, Failure> {
    let program = install_tarball(packages, to)?;
    let script = repository().join("packaging/follow-readme.sh");
    let readme = repository().join("README.md");
    run_step(Command::new("sh").arg(script).arg(readme).arg(&program))?;
    Ok(program)
}

fn install_by_script(packages: &Packages, to: &Path) -> Result<PathBuf, Failure> {
    let mut script = Command::new("sh");
    script.arg(&packages.install_script).env("PREFIX", to);
    run_step(script.env("TAKEBACK_URL", &packages.directory))?;
    Ok(to.join("bin/takeback"))
}

fn install_debian(packages: &Packages, to: &Path) -> Result<PathBuf, Failure> {
    run_step(Command::new("dpkg").arg("-x").arg(&packages.debian).arg(to))?;
    must_have(to, "usr/share/man/man1/takeback.1.gz")?;
    must_have(to, "usr/share/bash-completion/completions/takeback")?;
    Ok(to.join("usr/bin/takeback"))
}

fn install_npm(packages: &Packages, to: &Path) -> Result<PathBuf, Failure> {
    write_file(&to.join("package.json"), "{\"private\": true}\n")?;
    let mut npm = Command::new("npm");
    npm.current_dir(to).args(["install", "--offline", "--ignore-scripts", "--no-audit"]);
    npm.arg("--cache").arg(to.join("cache"));
    run_step(npm.args(&packages.npm))?;
    let launcher = to.join("node_modules/.bin/takeback");
    pass_signal(&launcher, to)?;
    Ok(launcher)
}

/// Ends a launcher with a signal, and waits until the program that it started has also ended.
fn pass_signal(launcher: &Path, directory: &Path) -> Result<(), Failure> {
    let mut command = Command::new(launcher);
    command.arg("serve").current_dir(directory).env("HOME", directory.join("home"));
    command.env_remove("TAKEBACK_HOME").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut output = BufReader::new(child.stdout.take().expect("the output is piped"));
    let mut text = String::new();
    output.read_line(&mut text).map_err(|error| error.to_string())?;
    kill_process(Pid::from_child(&child), Signal::TERM).map_err(|error| error.to_string())?;
    // The output ends once no process has it open.
    output.read_to_string(&mut text).map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    match text.starts_with("http://") && status.code().is_some() {
        true => Ok(()),
        false => Err(format!("`takeback serve` ended with {status}: {text}")),
    }
}

fn install_wheel(packages: &Packages, to: &Path) -> Result<PathBuf, Failure> {
    run_step(Command::new("python3").args(["-m", "venv"]).arg(to.join("venv")))?;
    let mut pip = Command::new(to.join("venv/bin/pip"));
    run_step(pip.args(["install", "--quiet", "--no-index"]).arg(&packages.wheel))?;
    Ok(to.join("venv/bin/takeback"))
}

fn must_have(directory: &Path, file: &str) -> Result<(), Failure> {
    match directory.join(file).exists() {
        true => Ok(()),
        false => Err(format!("{file} is missing")),
    }
}

/// Asks an installed program for its version. Then saves a file, deletes it, and restores it.
fn play_story(program: &Path, directory: &Path) -> Result<(), Failure> {
    let project = directory.join("project");
    let file = project.join("src/cart.py");
    write_file(&file, "mine\n")?;
    let run = |words: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(&project).env("HOME", directory.join("home"));
        run_for_output(command.env_remove("TAKEBACK_HOME").args(words))
    };
    let version = run(&["--version"])?;
    if version.trim() != concat!("takeback ", env!("CARGO_PKG_VERSION")) {
        return Err(format!("unexpected version: {version}"));
    }
    run(&["checkpoint", "--reason", "before the story"])?;
    fs::remove_file(&file).map_err(|error| error.to_string())?;
    run(&["rollback", "1", "--yes"])?;
    match fs::read_to_string(&file) {
        Ok(text) if text == "mine\n" => Ok(()),
        _ => Err("the rollback did not restore the file".into()),
    }
}
