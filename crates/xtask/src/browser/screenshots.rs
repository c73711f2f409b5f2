//! `cargo xtask screenshots`: every page, light and dark, wide and narrow.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::driver::Browser;
use super::served::Served;
use super::{prepare, story};
use crate::Failure;
use crate::run::{repository, target_directory};

/// The sizes of the pictures: a desk and a phone.
const SIZES: [(u32, u32); 2] = [(1440, 900), (390, 844)];

pub(crate) fn write_screenshots() -> Result<(), Failure> {
    if !prepare()? {
        return Err("no Chromium: install chromium and chromium-driver, or run this as root".into());
    }
    let base = target_directory().join("browser-story");
    let _ = fs::remove_dir_all(&base);
    story::play_story(&base)?;
    let served = Served::start(&base)?;
    let browser = Browser::start()?;
    let folder = repository().join("target/screenshots");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    browser.open(&served.link)?;
    for (width, height) in SIZES {
        for scheme in ["light", "dark"] {
            browser.set_look(width, height, scheme)?;
            take_all(&browser, &served, &folder, &format!("{width}-{scheme}"))?;
        }
    }
    println!("{}", folder.display());
    Ok(())
}

/// Takes a picture of every page.
fn take_all(browser: &Browser, served: &Served, folder: &Path, look: &str) -> Result<(), Failure> {
    let origin = served.origin();
    browser.open(origin)?;
    let list = "return fetch('/api/v1/checkpoints?text=tidy').then((answer) => answer.json())";
    let found = browser.run(list)?;
    let entry = &found["entries"][0];
    let workspace = entry["workspace"].as_str().ok_or("the story has no incident")?;
    let turn = format!("/w/{workspace}/c/{}", entry["id"].as_str().unwrap_or_default());
    let pages = [
        ("timeline-all", "/".to_owned(), ""),
        ("timeline", format!("/w/{workspace}"), ""),
        ("turn-files", turn.clone(), PLANNED),
        ("turn-diff", format!("{turn}?tab=diff"), PLANNED),
        ("turn-conversation", format!("{turn}?tab=conversation"), PLANNED),
        ("turn-effects", format!("{turn}?tab=effects"), PLANNED),
        ("turn-coverage", format!("{turn}?tab=coverage"), PLANNED),
        ("sessions", "/sessions".to_owned(), ""),
        ("session", "/sessions/claude%3Ac2".to_owned(), ""),
        ("search", "/search?q=legacy".to_owned(), ""),
        ("usage", "/usage".to_owned(), ""),
        ("health", "/health".to_owned(), ""),
        ("not-found", "/nothing".to_owned(), ""),
    ];
    for (name, path, condition) in pages {
        browser.open(&format!("{origin}{path}"))?;
        if !condition.is_empty() {
            browser.wait_for(condition)?;
        }
        if path.ends_with("tab=diff") {
            // The address says which view was chosen for the width of the window.
            browser.wait_for("location.search.includes('split') || innerWidth < 1400")?;
        }
        save(browser, folder, &format!("{name}-{look}"))?;
    }
    browser.open(&format!("{origin}{turn}"))?;
    browser.wait_for(PLANNED)?;
    browser.click("form.restore button")?;
    browser.wait_for("document.querySelector('#confirm[open]')")?;
    save(browser, folder, &format!("dialog-{look}"))?;
    browser.run("document.querySelector('#confirm').close()").map(drop)
}

/// The plan at the foot is there.
const PLANNED: &str = "!document.querySelector('form.restore button').disabled";

fn save(browser: &Browser, folder: &Path, name: &str) -> Result<(), Failure> {
    let png = STANDARD.decode(browser.take_screenshot()?).map_err(|error| error.to_string())?;
    let path = folder.join(format!("{name}.png"));
    fs::write(&path, png).map_err(|error| format!("{}: {error}", path.display()))
}
