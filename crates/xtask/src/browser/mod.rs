//! `cargo xtask test-web` and `cargo xtask screenshots`: the pages of `takeback serve` in a real
//! Chromium.

mod accessibility;
mod api;
mod chat_checks;
mod checks;
mod driver;
mod model;
mod picture;
mod proxy;
mod screenshots;
mod served;
mod story;

use std::process::Command;

use rustix::process::geteuid;

use crate::Failure;
use crate::run::{cargo, is_success, run_step};

pub(crate) use self::api::test_api;
pub(crate) use self::checks::test_web;
pub(crate) use self::screenshots::write_screenshots;

/// The Debian packages that the browser needs. Faketime lets a story take place over several days.
const PACKAGES: [&str; 6] = [
    "chromium",
    "chromium-driver",
    "faketime",
    "fonts-dejavu-core",
    "fonts-noto-core",
    "fonts-noto-color-emoji",
];

/// Installs the browser if it is missing, and builds the program. Returns false if there is no
/// browser and it cannot be installed.
fn prepare() -> Result<bool, Failure> {
    build_program()?;
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
