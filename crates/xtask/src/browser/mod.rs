//! `cargo xtask test-web` and `cargo xtask screenshots`: the pages of `takeback serve` in a real
//! Chromium.

mod accessibility;
mod api;
mod chat_checks;
mod checks;
mod driver;
mod long_checks;
mod model;
mod picture;
mod proxy;
mod restore_checks;
mod screenshots;
mod served;
mod story;

use std::fs;
use std::process::Command;

use rustix::process::geteuid;

use self::model::Model;
use self::served::Served;
use self::story::Length;
use crate::Failure;
use crate::results::Tally;
use crate::run::{cargo, is_success, run_step, target_directory};

pub(crate) use self::api::test_api;
pub(crate) use self::checks::test_web;
pub(crate) use self::screenshots::write_screenshots;

/// The Debian packages that the tests need. Faketime lets the generated history span several days.
const PACKAGES: [&str; 6] = [
    "chromium",
    "chromium-driver",
    "faketime",
    "fonts-dejavu-core",
    "fonts-noto-core",
    "fonts-noto-color-emoji",
];

/// Installs the browser if it is missing. Returns false if there is no browser and it cannot be
/// installed.
fn install_browser() -> Result<bool, Failure> {
    let has = |program: &str| is_success(Command::new(program).arg("--version"));
    if has("chromium") && has("chromedriver") {
        return Ok(true);
    }
    if !geteuid().is_root() || !is_success(Command::new("apt-get").arg("--version")) {
        return Ok(false);
    }
    run_step(Command::new("apt-get").args(["update", "--quiet"]))?;
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    run_step(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(install)
            .args(PACKAGES),
    )?;
    Ok(true)
}

/// Builds the program.
fn build_program() -> Result<(), Failure> {
    run_step(
        cargo()
            .args(["build", "--quiet", "--package", "takeback", "--package", "xtask"])
            .arg("--all-features"),
    )
}

/// Fetches the browser, axe-core and schemathesis in the background. Problems are reported later,
/// when these tools are needed.
pub(crate) fn fetch_tools() {
    let _ = install_browser();
    let _ = accessibility::fetch_axe();
    let _ = api::fetch_schemathesis();
}

/// Runs `cargo xtask test-web --quick`.
pub(crate) fn test_quickly() -> Result<(), Failure> {
    build_program()?;
    fetch_tools();
    let mut tally = Tally::default();
    let outcome = test_usual(&mut tally);
    eprintln!("\n{tally}");
    outcome
}

/// Tests the pages and the API as part of `cargo xtask test`. This is a small version of `test-web`
/// and `test-api`, with a short generated history. Takeback must already have been built.
pub(crate) fn test_usual(tally: &mut Tally) -> Result<(), Failure> {
    let base = target_directory().join("browser-usual");
    let _ = fs::remove_dir_all(&base);
    story::play_story(&base, Length::Short)?;
    let model = Model::start(&base)?;
    let served = Served::start(&base)?;
    let pages = match install_browser() {
        Ok(true) => checks::test_usual_pages(&served, &model, tally),
        Ok(false) | Err(_) => {
            tally.add_skipped(
                "the pages in Chromium",
                "chromium and chromedriver are not installed",
            );
            Ok(())
        }
    };
    // The requests of the next test must not begin turns.
    model.remove(&base)?;
    let requests = api::test_usual_requests(&served, tally);
    let failures: Vec<Failure> = [pages, requests].into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.concat()) }
}
