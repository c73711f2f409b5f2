//! `cargo xtask screenshots`: every page, light and dark, wide and narrow.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::driver::Browser;
use super::model::Model;
use super::served::{Served, takeback};
use super::story::Length;
use super::{build_program, install_browser, story};
use crate::Failure;
use crate::run::{repository, target_directory};

/// The sizes of the pictures: for a desktop and for a phone.
const SIZES: [(u32, u32); 2] = [(1440, 900), (390, 844)];

pub(crate) fn write_screenshots() -> Result<(), Failure> {
    build_program()?;
    if !install_browser()? {
        return Err("no Chromium: install chromium and chromium-driver, or run this as root".into());
    }
    let base = target_directory().join("browser-story");
    let _ = fs::remove_dir_all(&base);
    story::play_story(&base, Length::Whole)?;
    let _model = Model::start(&base)?;
    let served = Served::start(&base)?;
    let browser = Browser::start()?;
    let folder = repository().join("target/screenshots");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    browser.open(&served.link)?;
    for_each_look(&browser, |look| take_all(&browser, &served, &folder, look))?;
    // The dialogs look different while an agent is working, so the conversations begin only after
    // the other pictures have been taken.
    let chats = begin_chats(&browser)?;
    for_each_look(&browser, |look| take_chats(&browser, &served, &chats, &folder, look))?;
    println!("{}", folder.display());
    Ok(())
}

/// Tries each combination of size and color scheme, and calls `take` with the name of the
/// combination.
fn for_each_look(
    browser: &Browser,
    take: impl Fn(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for (width, height) in SIZES {
        for scheme in ["light", "dark"] {
            browser.set_look(width, height, scheme)?;
            take(&format!("{width}-{scheme}"))?;
        }
    }
    Ok(())
}

/// Takes a picture of every page except the conversations.
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
        if path.ends_with("tab=diff") {
            // The address shows which view was chosen for the width of the window.
            browser.wait_for("location.search.includes('split') || innerWidth < 1400")?;
        }
        if !condition.is_empty() {
            browser.wait_for(condition)?;
        }
        save(browser, folder, &format!("{name}-{look}"))?;
    }
    browser.open(&format!("{origin}{turn}"))?;
    browser.wait_for(PLANNED)?;
    browser.click("form.restore button")?;
    browser.wait_for("document.querySelector('#confirm[open]')")?;
    save(browser, folder, &format!("dialog-{look}"))?;
    browser.run("document.querySelector('#confirm').close()")?;
    take_pictures(browser, served, folder, look)?;
    take_conflict(browser, served, folder, &turn, look)?;
    take_export(browser, served, folder, look)
}

/// Takes a picture of the diff of a turn that changed an image.
fn take_pictures(
    browser: &Browser,
    served: &Served,
    folder: &Path,
    look: &str,
) -> Result<(), Failure> {
    let list =
        "return fetch('/api/v1/checkpoints?text=landing+status').then((answer) => answer.json())";
    let entry = browser.run(list)?["entries"][0].clone();
    let (workspace, id) = (&entry["workspace"], &entry["id"]);
    let (Some(workspace), Some(id)) = (workspace.as_str(), id.as_str()) else {
        return Err("the story has no pictures".into());
    };
    browser.open(&format!("{}/w/{workspace}/c/{id}?tab=diff", served.origin()))?;
    browser.wait_for("document.querySelector('.images img')?.complete")?;
    browser.wait_for("document.querySelector('form.restore button')?.disabled === false")?;
    save(browser, folder, &format!("turn-pictures-{look}"))
}

/// Takes a picture of the dialog for undoing a turn, after the user has edited lines that the turn
/// changed.
fn take_conflict(
    browser: &Browser,
    served: &Served,
    folder: &Path,
    turn: &str,
    look: &str,
) -> Result<(), Failure> {
    let path = story::shop(served.base()).join("src/cart.py");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let before = fs::read_to_string(&path).map_err(failed)?;
    let edited = before.replace("# Totals, without the old discounts", "# Totals, see ticket 4711");
    fs::write(&path, edited).map_err(failed)?;
    browser.open(&format!("{}{turn}", served.origin()))?;
    browser.wait_for(PLANNED)?;
    browser.click("form.restore input[value=undo]")?;
    browser.wait_for("document.querySelector('.plan').textContent.includes('conflict')")?;
    browser.wait_for(PLANNED)?;
    browser.click("form.restore button")?;
    browser.wait_for("document.querySelector('#confirm .conflict table.diff')")?;
    save(browser, folder, &format!("conflict-{look}"))?;
    fs::write(&path, before).map_err(failed)
}

/// Takes a picture of an exported file.
fn take_export(
    browser: &Browser,
    served: &Served,
    folder: &Path,
    look: &str,
) -> Result<(), Failure> {
    let file = served.base().join("incident.html");
    let written = takeback(served.base(), &story::shop(served.base()))
        .args(["export", "--html", "claude:c2", "-o"])
        .arg(&file)
        .stdout(Stdio::null())
        .status();
    if !written.is_ok_and(|status| status.success()) {
        return Err("nothing was exported".into());
    }
    browser.open(&format!("file://{}", file.display()))?;
    browser.run("document.querySelectorAll('.part')[1].open = true; document.querySelector('.exported-turn').scrollIntoView()")?;
    save(browser, folder, &format!("export-{look}"))?;
    browser.open(served.origin())
}

/// Begins the conversations for the pictures: one whose turn has ended, one with a question, and
/// one with a goal. Returns their sessions.
fn begin_chats(browser: &Browser) -> Result<[String; 3], Failure> {
    let begin = |path: &str, body: &str| {
        let script = format!(
            "return fetch('/api/v1/workspaces').then((answer) => answer.json()).then((all) => {{
               const workspace = all.find((known) => known.path.endsWith('/code/shop')).id;
               return fetch('/api/v1/{path}', {{ method: 'POST',
                 headers: {{ 'content-type': 'application/json' }},
                 body: JSON.stringify({{ workspace, ...{body} }}) }});
             }}).then((answer) => answer.json())"
        );
        let started = browser.run(&script)?;
        let session = started["session"].as_str().map(str::to_owned);
        session.ok_or_else(|| format!("no conversation began: {started}"))
    };
    let done = begin(
        "chats",
        "{ prompt: 'Round all prices to two digits, and cover that with a test.' }",
    )?;
    let asked = begin("chats", "{ prompt: 'Everything is ready: publish the release.' }")?;
    let goal =
        "{ objective: 'Make the nightly report work again', turns: 8, usd: 0.5, tokens: 60000 }";
    let goal = begin("goals", goal)?;
    Ok([done, asked, goal])
}

/// Takes pictures of the conversations.
fn take_chats(
    browser: &Browser,
    served: &Served,
    [done, asked, goal]: &[String; 3],
    folder: &Path,
    look: &str,
) -> Result<(), Failure> {
    let origin = served.origin();
    let save_chat = |name: &str, session: &str, condition: &str| {
        browser.open(&format!("{origin}/chat/{session}"))?;
        browser.wait_for(condition)?;
        save(browser, folder, &format!("{name}-{look}"))
    };
    save_chat("chat", done, "document.querySelector('#history .prose pre')")?;
    save_chat("chat-question", asked, "document.querySelector('.question')")?;
    save_chat("chat-goal", goal, "document.querySelector('.question')")?;
    browser.open(&format!("{origin}/chat/{done}"))?;
    browser.wait_for("document.activeElement.matches('.composer textarea')")?;
    browser.press(&["/", "r", "o", "l", "l", "b", "a", "c", "k", "\u{e007}"])?;
    browser.wait_for("document.querySelector('.checkpoints li')")?;
    browser.wait_for("document.querySelector('.composer textarea').value === ''")?;
    save(browser, folder, &format!("chat-rollback-{look}"))?;
    browser.open(&format!("{origin}/chat"))?;
    browser.wait_for("document.activeElement.matches('.composer textarea')")?;
    browser.press(&["/"])?;
    browser.wait_for("!document.querySelector('#commands').hidden")?;
    save(browser, folder, &format!("chat-commands-{look}"))?;
    browser
        .run("document.querySelector('.composer textarea').value = ''; sessionStorage.clear()")?;
    browser.open(&format!("{origin}/chat"))?;
    save(browser, folder, &format!("chat-new-{look}"))
}

/// A JavaScript expression that is true once the plan at the foot of the page has been loaded.
const PLANNED: &str = "!document.querySelector('form.restore button').disabled";

fn save(browser: &Browser, folder: &Path, name: &str) -> Result<(), Failure> {
    let png = STANDARD.decode(browser.take_screenshot()?).map_err(|error| error.to_string())?;
    let path = folder.join(format!("{name}.png"));
    fs::write(&path, png).map_err(|error| format!("{}: {error}", path.display()))
}
