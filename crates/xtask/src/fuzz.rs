//! `cargo xtask fuzz`: passes arbitrary bytes, guided by coverage, to all code that reads input
//! from outside.
//!
//! The targets are in `fuzz/fuzz_targets`, and their first inputs are in `fuzz/seeds`. No nightly
//! compiler is needed, because the compiler flags that make libFuzzer's coverage possible are
//! stable.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Failure;
use crate::memory::ScratchDirectory;
use crate::results::Tally;
use crate::run::{cargo, repository, run_step, target_directory};

/// The flags that `cargo fuzz --sanitizer none` also passes.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// The time for which each target runs as part of `cargo xtask test`.
const USUAL_SECONDS: u64 = 60;

/// The number of targets that run at the same time.
const WORKERS: usize = 2;

/// The number of targets that run at the same time as part of `cargo xtask test`. This exceeds the
/// number of processors, so that the targets use every processor whenever other tests are waiting.
const USUAL_WORKERS: usize = 14;

/// The number of lines that are shown from the end of a failed target's output.
const SHOWN_LINES: usize = 20;

/// The options of the command.
#[derive(Debug, PartialEq)]
struct FuzzOptions {
    seconds: u64,
    targets: Vec<String>,
    /// True if each run begins with the seeds and uses the same random numbers.
    is_repeatable: bool,
}

impl FuzzOptions {
    fn parse(arguments: &[&str], known: &[String]) -> Result<FuzzOptions, Failure> {
        let usage = || {
            let known = known.join(" ");
            format!("usage: cargo xtask fuzz [--seconds N] [target…]\n\nTargets: {known}")
        };
        let mut options =
            FuzzOptions { seconds: USUAL_SECONDS, targets: Vec::new(), is_repeatable: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if *argument == "--seconds" {
                let number = arguments.next().and_then(|number| number.parse().ok());
                options.seconds = number.ok_or_else(usage)?;
            } else if known.iter().any(|target| target == argument) {
                options.targets.push((*argument).to_owned());
            } else {
                return Err(usage());
            }
        }
        if options.targets.is_empty() {
            options.targets = known.to_vec();
        }
        Ok(options)
    }
}

/// Runs `cargo xtask fuzz [--seconds N] [target…]`.
pub(crate) fn run_fuzz(arguments: &[&str]) -> Result<(), Failure> {
    let options = FuzzOptions::parse(arguments, &list_targets()?)?;
    let build = Build::prepare()?;
    run_step(&mut build.command())?;
    fuzz_targets(&build.programs(), options, WORKERS).into_outcome()
}

/// The targets that `cargo xtask test` runs. Their build starts together with the checks, so that
/// it ends before the tests do.
pub(crate) struct UsualTargets {
    build: Build,
    process: Child,
}

impl UsualTargets {
    /// Starts building the targets. Only errors are shown.
    pub(crate) fn start_build() -> Result<UsualTargets, Failure> {
        let build = Build::prepare()?;
        let mut command = build.command();
        let process = command.arg("--quiet").stdin(Stdio::null()).spawn();
        let process = process.map_err(|error| format!("cannot build the fuzz targets: {error}"))?;
        Ok(UsualTargets { build, process })
    }

    /// Waits until the targets are built, and runs each of them for a minute.
    pub(crate) fn run(mut self) -> Result<FuzzedTargets, Failure> {
        let status = self.process.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err("\nthe fuzz targets cannot be built: run `cargo xtask fuzz`".into());
        }
        eprintln!("\nFuzz targets …");
        let options =
            FuzzOptions { seconds: USUAL_SECONDS, targets: list_targets()?, is_repeatable: true };
        Ok(fuzz_targets(&self.build.programs(), options, USUAL_WORKERS))
    }
}

impl Drop for UsualTargets {
    /// Stops the build, which may still be running if a check has failed.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The number of targets that were run, and their findings.
#[derive(Default)]
pub(crate) struct FuzzedTargets {
    count: usize,
    findings: Vec<String>,
}

impl FuzzedTargets {
    /// Counts each target as a test.
    pub(crate) fn count(self, tally: &mut Tally) -> Result<(), Failure> {
        (0..self.count - self.findings.len()).for_each(|_| tally.add_passed());
        self.findings.iter().for_each(|_| tally.add_failed());
        self.into_outcome()
    }

    fn into_outcome(self) -> Result<(), Failure> {
        if self.findings.is_empty() { Ok(()) } else { Err(self.findings.join("\n")) }
    }
}

/// Lists the names of all targets.
fn list_targets() -> Result<Vec<String>, Failure> {
    let directory = repository().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory).map_err(|error| format!("{directory:?}: {error}"))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let sources = paths.filter(|path| path.extension() == Some("rs".as_ref()));
    let mut names: Vec<String> =
        sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Runs each target for a limited time.
fn fuzz_targets(programs: &Path, options: FuzzOptions, workers: usize) -> FuzzedTargets {
    let width = options.targets.iter().map(String::len).max().unwrap_or(0);
    let waiting = Mutex::new(VecDeque::from(options.targets));
    let fuzzed = Mutex::new(FuzzedTargets::default());
    let next = || lock(&waiting).pop_front();
    let run_waiting = || {
        while let Some(name) = next() {
            let run = TargetRun { program: programs.join(&name), name };
            let outcome = run.start(options.seconds, options.is_repeatable);
            let (summary, finding) = match outcome {
                Ok(result) => (result.summary(), run.describe_finding(&result)),
                Err(error) => ("cannot be run".into(), Some(format!("\n{}: {error}", run.name))),
            };
            eprintln!("{:width$}  {summary}", run.name);
            let mut fuzzed = lock(&fuzzed);
            fuzzed.count += 1;
            fuzzed.findings.extend(finding);
        }
    };
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(run_waiting))));
    fuzzed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the directory for the build of the targets, their corpora and their findings.
fn fuzz_directory() -> PathBuf {
    target_directory().join("fuzz")
}

/// The build of all targets.
struct Build {
    host: String,
    directory: PathBuf,
}

impl Build {
    fn prepare() -> Result<Build, Failure> {
        Ok(Build { host: find_host()?, directory: fuzz_directory().join("build") })
    }

    fn command(&self) -> Command {
        let mut command = cargo();
        command.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--locked"]);
        // Naming the host keeps these flags from applying to build scripts and macros.
        command.args(["--target", &self.host]).env("RUSTFLAGS", FLAGS);
        command.arg("--target-dir").arg(&self.directory);
        command
    }

    /// Returns the directory that contains the built programs.
    fn programs(&self) -> PathBuf {
        self.directory.join(&self.host).join("release")
    }
}

/// Prepares a command that uses only the processor time that other processes leave unused.
fn nice(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nice");
    command.arg("-n19").arg(program).current_dir(repository());
    command
}

/// Finds the platform that this machine's compiler builds for.
fn find_host() -> Result<String, Failure> {
    let output = cargo().arg("-vV").output().map_err(|error| format!("cannot run cargo: {error}"));
    let text = String::from_utf8_lossy(&output?.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "cargo does not name its host".into())
}

/// A run of a target.
struct TargetRun {
    name: String,
    program: PathBuf,
}

impl TargetRun {
    /// Runs the target until its time is up or until its first finding.
    fn start(&self, seconds: u64, is_repeatable: bool) -> io::Result<RunResult> {
        let corpus = self.directory("corpus");
        if is_repeatable {
            remove_directory(&corpus)?;
        }
        copy_files(&repository().join("fuzz/seeds").join(&self.name), &corpus)?;
        let artifacts = self.directory("artifacts");
        fs::create_dir_all(&artifacts)?;
        let mut command = nice(&self.program);
        command.arg(&corpus);
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.arg(format!("-max_total_time={seconds}"));
        command.args(["-rss_limit_mb=1024", "-print_final_stats=1"]);
        // While other tests run, even an input that is usually quick may take seconds.
        command.args(if is_repeatable {
            ["-seed=1", "-timeout=60"]
        } else {
            ["-seed=0", "-timeout=10"]
        });
        let scratch = ScratchDirectory::create(&format!("-{}", self.name))?;
        let output = scratch.give_to(&mut command).stdin(Stdio::null()).output()?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(RunResult { has_failed: !output.status.success(), log })
    }

    fn directory(&self, purpose: &str) -> PathBuf {
        fuzz_directory().join(purpose).join(&self.name)
    }

    /// Describes the finding of a run, and how to repeat it.
    fn describe_finding(&self, result: &RunResult) -> Option<String> {
        let program = self.program.display();
        let input = result.find_after("Test unit written to ").unwrap_or("(no input was kept)");
        let lines: Vec<&str> = result.log.lines().filter(|line| is_telling(line)).collect();
        let lines = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n  ");
        let name = &self.name;
        result.has_failed.then(|| {
            format!("\n{name} has a finding. Repeat it with `{program} {input}`\n  {lines}")
        })
    }
}

/// The result of a run.
struct RunResult {
    has_failed: bool,
    /// The output of libFuzzer.
    log: String,
}

impl RunResult {
    /// Summarizes the run in one line.
    fn summary(&self) -> String {
        let number = |name| self.find_after(name).unwrap_or("?");
        let coverage = |line: Option<&str>| {
            let count = line.and_then(|line| line.split_once("cov: ")?.1.split(' ').next());
            count.unwrap_or("?").to_owned()
        };
        let mut lines = self.log.lines().filter(|line| line.contains(" cov: "));
        let (first, last) = (lines.next(), lines.next_back());
        let finding = if self.has_failed { "a finding" } else { "no findings" };
        format!(
            "{} runs, {} new inputs, coverage {} to {}, {finding}",
            number("stat::number_of_executed_units:"),
            number("stat::new_units_added:"),
            coverage(first),
            coverage(last.or(first)),
        )
    }

    /// Finds the word after `text` in the log.
    fn find_after(&self, text: &str) -> Option<&str> {
        self.log.split_once(text)?.1.split_whitespace().next()
    }
}

/// True if a line of libFuzzer's output belongs to a finding, not to the progress of the search.
fn is_telling(line: &str) -> bool {
    let is_progress = line.starts_with('#') && line.contains("\t");
    let is_notice = ["INFO: ", "WARNING: ", "stat::"].iter().any(|start| line.starts_with(start));
    !is_progress && !is_notice && !line.contains("NEW_FUNC[")
}

fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let known = ["a", "b"].map(str::to_owned);
        let options = |seconds, targets: &[&str]| FuzzOptions {
            seconds,
            targets: targets.iter().map(|name| (*name).to_owned()).collect(),
            is_repeatable: false,
        };
        let parse = |arguments: &[&str]| FuzzOptions::parse(arguments, &known);
        assert_eq!(parse(&[]), Ok(options(60, &["a", "b"])));
        assert_eq!(parse(&["--seconds", "5", "b"]), Ok(options(5, &["b"])));
        assert!(parse(&["--seconds"]).is_err());
        assert!(parse(&["c"]).is_err());
    }

    #[test]
    fn every_target_is_built_and_has_seeds() {
        let manifest = fs::read_to_string(repository().join("fuzz/Cargo.toml")).unwrap();
        for target in list_targets().unwrap() {
            let path = format!("path = \"fuzz_targets/{target}.rs\"");
            assert!(manifest.contains(&path), "{target} is not in fuzz/Cargo.toml");
            let seeds = repository().join("fuzz/seeds").join(&target);
            assert!(fs::read_dir(seeds).unwrap().count() > 0, "{target} has no seeds");
        }
    }

    #[test]
    fn the_targets_have_the_dependencies_of_the_program() {
        // The pages, the terminal history and the fleet are not part of the fuzzed library.
        let left_out = ["takeback-fleet", "takeback-tui", "takeback-web"];
        let program = fs::read_to_string(repository().join("crates/cli/Cargo.toml")).unwrap();
        let targets = fs::read_to_string(repository().join("fuzz/Cargo.toml")).unwrap();
        let (_, dependencies) = program.split_once("[dependencies]\n").unwrap();
        for line in dependencies.lines().take_while(|line| !line.is_empty()) {
            let (name, _) = line.split_once(['.', ' ']).unwrap();
            let is_known = targets.contains(&format!("\n{name} = "));
            assert!(is_known || left_out.contains(&name), "{name} is not in fuzz/Cargo.toml");
        }
    }

    #[test]
    fn a_run_is_summarized_in_one_line() {
        let log = "INFO: Seed: 1\n#3\tINITED cov: 10 ft: 11 corp: 2/3b\n\
                   #9\tNEW    cov: 25 ft: 30 corp: 3/5b\n\
                   \tNEW_FUNC[1/2]: 0x5\nthread panicked at a.rs:1\nTest unit written to /a/crash-1\n\
                   stat::number_of_executed_units: 9\nstat::new_units_added:          1\n";
        let result = RunResult { has_failed: true, log: log.into() };
        let summary = "9 runs, 1 new inputs, coverage 10 to 25, a finding";
        assert_eq!(result.summary(), summary);
        let run = TargetRun { name: "a".into(), program: "/p/a".into() };
        let finding = run.describe_finding(&result).unwrap();
        assert!(finding.contains("Repeat it with `/p/a /a/crash-1`"), "{finding}");
        assert!(finding.contains("\n  thread panicked at a.rs:1"), "{finding}");
        assert!(!finding.contains("cov:") && !finding.contains("NEW_FUNC"), "{finding}");
    }
}
