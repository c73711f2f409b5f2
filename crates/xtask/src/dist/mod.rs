//! `cargo xtask dist`: the static program, and the packages that contain it. Each package is
//! installed into a scratch directory and run there.

mod install_tests;
mod packages;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::packages::{Binary, PLATFORMS, Packager};
use crate::Failure;
use crate::results::Tally;
use crate::run::{cargo, repository, run_step, target_directory};

/// The platform that a static program can be built for without other tools.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The compiler flags that link everything into the program, and store the relocations compactly.
const STATIC: &str = "-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs";

/// The maximum size of the program in bytes, so that it does not grow unnoticed. BENCHMARKS.md says
/// what the size consists of.
const MAX_SIZE: u64 = 25_000_000;

/// A placeholder for the address of the releases, until they are published.
const BASE_URL: &str = "https://example.com/takeback/releases";

/// Runs `cargo xtask dist`.
pub(crate) fn make_packages(options: &[&str]) -> Result<(), Failure> {
    let (mut binaries, mut base_url) = (Vec::new(), BASE_URL);
    let mut rest = options;
    loop {
        rest = match rest {
            [] => break,
            ["--binary", value, rest @ ..] => {
                binaries.push(parse_binary(value)?);
                rest
            }
            ["--base-url", url, rest @ ..] => {
                base_url = url;
                rest
            }
            [unknown, ..] => return Err(format!("unknown option {unknown}")),
        }
    }
    let this = &PLATFORMS[0];
    if !binaries.iter().any(|(platform, _)| platform.name == this.name) {
        binaries.push((this, build_program()?));
    }
    binaries.sort_by_key(|(platform, _)| platform.name != this.name);
    let directory = target_directory().join("packages");
    let packages = Packager::new(&binaries, &directory, base_url)?.write_all()?;
    let mut tally = Tally::default();
    let outcome = install_tests::test_packages(&packages, &mut tally);
    eprintln!("\n{tally}");
    outcome
}

/// Parses `PATH` or `PLATFORM=PATH`. A path alone is a program for this machine.
fn parse_binary(value: &str) -> Result<Binary, Failure> {
    let (name, path) = value.split_once('=').unwrap_or((PLATFORMS[0].name, value));
    let platform = PLATFORMS.iter().find(|platform| platform.name == name);
    let platform = platform.ok_or_else(|| format!("unknown platform {name}"))?;
    let path = fs::canonicalize(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok((platform, path))
}

/// Builds the static program, prints and checks its size, and checks that it needs no library.
fn build_program() -> Result<PathBuf, Failure> {
    let mut build = cargo();
    build.args(["build", "--locked", "--package", "takeback", "--bin", "takeback"]);
    build.args(["--profile", "dist", "--target", TARGET]);
    run_step(build.env("RUSTFLAGS", STATIC))?;
    let program = target_directory().join(TARGET).join("dist/takeback");
    let size = fs::metadata(&program).map_err(|error| error.to_string())?.len();
    eprintln!("\n{}: {} bytes", program.display(), size);
    if size > MAX_SIZE {
        return Err(format!("{} is larger than {MAX_SIZE} bytes", program.display()));
    }
    let headers = run_for_output(Command::new("readelf").args(["-l", "-W"]).arg(&program))?;
    if headers.contains("INTERP") {
        return Err(format!("{} is not static", program.display()));
    }
    Ok(program)
}

/// Runs a command, and returns what it prints.
fn run_for_output(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("failed ({}): {name}\n{}", output.status, text(&output.stderr))),
    }
}

/// Reads a file below `packaging/`.
fn read_packaging_file(name: &str) -> Result<String, Failure> {
    let path = repository().join("packaging").join(name);
    fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes a file, and creates its directory.
fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, content)
    };
    write().map_err(|error| format!("cannot write {}: {error}", path.display()))
}
