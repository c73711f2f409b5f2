//! `cargo xtask bench`: measures time and space, compared with git and with the best that the
//! machine can do. Only ratios from the same run and the same tree are meaningful; milliseconds
//! merely illustrate them. The benchmark only reports: it never fails because of a figure.

mod cases;
mod chat;
mod fleet;
mod floor;
mod git;
mod growth;
mod hook;
pub(crate) mod ledger;
mod measure;
mod process;
mod report;
mod rpc;
mod scratch;
mod screen;
mod takeback;
mod targets;
mod trees;
pub(crate) mod web;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::run::{cargo, run_step, target_directory};
use cases::Subject;
use report::Report;
use scratch::Scratch;
use takeback::Program;
use trees::{Shape, Tree};

/// The options of the command.
#[derive(Debug, Default)]
struct Options {
    quick: bool,
    keep: bool,
    json: Option<PathBuf>,
    filters: Vec<String>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options, Failure> {
        let mut options = Options::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--quick" => options.quick = true,
                "--keep" => options.keep = true,
                "--json" => {
                    let file = arguments.next().ok_or("--json needs a file")?;
                    options.json = Some(PathBuf::from(file));
                }
                option if option.starts_with('-') => {
                    return Err(format!("unknown option {option}"));
                }
                filter => options.filters.push(filter.to_owned()),
            }
        }
        Ok(options)
    }

    /// True if the filters select a measurement.
    fn is_selected(&self, tree: &str, case: &str) -> bool {
        let name = format!("{tree}/{case}");
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }

    /// Returns the number of rounds for the first capture of a tree with `files` files.
    fn first_rounds(&self, files: usize) -> usize {
        match (self.quick, files) {
            (true, 20_000..) => 2,
            (true, _) => 3,
            (false, 20_000..) => 5,
            (false, _) => 7,
        }
    }

    /// Returns the number of rounds for everything else.
    fn rounds(&self) -> usize {
        if self.quick { 7 } else { 21 }
    }
}

/// The tools that all measurements use, and the results.
struct Bench {
    options: Options,
    scratch: Scratch,
    program: Program,
    report: Report,
}

pub(crate) fn run_bench(arguments: &[&str]) -> Result<(), Failure> {
    if let ["ledger", arguments @ ..] = arguments {
        return ledger::bench_ledger(arguments);
    }
    if let ["chat", arguments @ ..] = arguments {
        return chat::bench_chat(arguments);
    }
    if let ["web", arguments @ ..] = arguments {
        return web::bench_web(arguments);
    }
    if let ["fleet", arguments @ ..] = arguments {
        return fleet::bench_fleet(arguments);
    }
    if let ["screen", arguments @ ..] = arguments {
        return screen::bench_screen(arguments);
    }
    let options = Options::parse(arguments)?;
    let this = this_program()?;
    if !is_measured_build(&this) {
        return build_and_bench(&["takeback", "xtask"], &[], arguments);
    }
    let scratch = Scratch::new(&target_directory().join("bench"), options.keep)?;
    let program = Program::beside(&this);
    let mut bench = Bench { options, scratch, program, report: Report::default() };
    let others = process::busy_elsewhere();
    if others > 0.1 {
        bench.report.add_note(format!(
            "other processes used {:.0}% of the machine before this run, which slows down \
             programs that use all cores more than it slows down git",
            others * 100.0
        ));
    }
    let measured = bench.run_cases();
    print!("{}", bench.report.to_text());
    if let Some(file) = &bench.options.json {
        std::fs::write(file, bench.report.to_json())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    bench.scratch.delete_all();
    measured
}

/// The build profile of the published program, which the benchmark measures by default.
const PROFILE: &str = "dist";

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))
}

/// True if this program was built with the profile of the published program, or with the release
/// profile, which compiles in a fraction of the time. The program to measure is in the same
/// directory as this program.
fn is_measured_build(this: &Path) -> bool {
    let directory = this.parent();
    let is_release = directory.is_some_and(|directory| directory.ends_with("release"));
    if is_release {
        println!("note: measured with the release profile, not as the program is published");
    }
    is_release || directory.is_some_and(|directory| directory.ends_with(PROFILE))
}

/// Builds the measured packages and this program with the profile [`PROFILE`], and runs the
/// benchmark from that build.
fn build_and_bench(packages: &[&str], which: &[&str], arguments: &[&str]) -> Result<(), Failure> {
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    run_step(cargo().args(["build", "--profile", PROFILE]).args(packages))?;
    let program = target_directory().join(PROFILE).join("xtask");
    run_step(Command::new(program).arg("bench").args(which).args(arguments))
}

impl Bench {
    fn run_cases(&mut self) -> Result<(), Failure> {
        let shapes = [
            Shape::Source(1_000),
            Shape::Source(10_000),
            Shape::Ignored,
            Shape::Real,
            Shape::Source(50_000),
        ];
        for shape in shapes {
            let cases = cases::CASES.iter().filter(|case| case.applies_to(shape));
            let wanted: Vec<_> =
                cases.filter(|case| self.options.is_selected(shape.name(), case.name)).collect();
            if wanted.is_empty() {
                continue;
            }
            let Some(tree) = Tree::create(shape, &self.scratch)? else {
                self.report
                    .add_note(format!("{}: skipped: no real source tree found", shape.name()));
                continue;
            };
            let mut subject = Subject::new(tree);
            for case in wanted {
                self.scratch.announce(&format!("{}/{}", shape.name(), case.name));
                (case.measure)(self, &mut subject)?;
            }
        }
        Ok(())
    }
}
