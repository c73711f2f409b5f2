//! `cargo xtask bench fleet`: measures shipping, appends and searches with a throw-away PostgreSQL
//! server. The measurements are in `crates/fleet/tests/it/bench.rs`, because they use the server
//! that the tests of that crate start.

use std::path::PathBuf;

use crate::Failure;
use crate::run::{cargo, run_step, target_directory};

pub(crate) fn bench_fleet(arguments: &[&str]) -> Result<(), Failure> {
    let mut is_quick = false;
    let mut profile = "release";
    let mut program = None;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--quick" => is_quick = true,
            "--profile" => profile = arguments.next().ok_or("--profile needs a name")?,
            "--program" => {
                program = Some(PathBuf::from(arguments.next().ok_or("--program needs a path")?));
            }
            _ => {
                return Err(
                    "usage: cargo xtask bench fleet [--quick] [--profile NAME] [--program PATH]"
                        .into(),
                );
            }
        }
    }
    let program = match program {
        Some(program) => program,
        None => {
            run_step(cargo().args(["build", "--profile", profile, "--package", "takeback"]))?;
            let directory = if profile == "dev" { "debug" } else { profile };
            target_directory().join(directory).join("takeback")
        }
    };
    let program = program.canonicalize().map_err(|error| format!("no program: {error}"))?;
    println!("note: measured with the profile {profile}");
    let mut measure = cargo();
    measure.args(["test", "--profile", profile, "--package", "takeback-fleet", "--test", "it"]);
    measure.args([
        "--",
        "--exact",
        "bench::measure",
        "bench_objects::measure",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    if is_quick {
        measure.env("BENCH_QUICK", "1");
    }
    run_step(measure.env("BENCH_PROGRAM", program))
}
