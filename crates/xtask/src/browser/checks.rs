//! `cargo xtask test-web`: what a user does, in a real Chromium.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::driver::Browser;
use super::model::Model;
use super::proxy::Proxy;
use super::served::{Served, takeback};
use super::{accessibility, chat_checks, prepare, story};
use crate::Failure;
use crate::run::target_directory;

/// The programs that a check works with.
pub(super) struct CheckContext<'a> {
    pub(super) served: &'a Served,
    pub(super) model: &'a Model,
    pub(super) proxy: &'a Proxy,
}

/// A check, with its name.
type Check = (&'static str, fn(&Browser, &CheckContext<'_>) -> Result<(), Failure>);

/// All checks, in order. Each begins with the timeline of the shop.
const CHECKS: [Check; 21] = [
    ("every page opens without errors", open_every_page),
    ("a turn opens beside the timeline", open_a_turn),
    ("a diff is shown unified and side by side", switch_the_diff),
    ("ticked files are restored, and taken back", restore_files),
    ("the safe button of the dialog has the focus", keep_everything),
    ("a changed workspace is planned again", change_meanwhile),
    ("a conflict is shown side by side and resolved for its file", resolve_a_conflict),
    ("a checkpoint is taken, named, pinned and deleted", label_a_checkpoint),
    ("a prune is shown before it deletes", preview_a_prune),
    ("an exported file works without a server", open_an_export),
    ("the keyboard alone is enough", use_the_keyboard),
    ("a new turn appears by itself", see_a_new_turn),
    ("hostile names are harmless", show_hostile_names),
    ("a turn is streamed and becomes a part of the conversation", chat_checks::talk),
    ("a chat reconnects in the middle of a stream", chat_checks::reconnect),
    ("a call is approved or refused by keyboard", chat_checks::approve),
    ("/rollback lists checkpoints with buttons", chat_checks::roll_back),
    ("a restore waits for a running turn", chat_checks::wait_for_turn),
    ("a turn is stopped by keyboard", chat_checks::stop),
    ("axe-core finds nothing serious, in light and dark", examine_all),
    // It adds many checkpoints, which would hide the incident.
    ("the timeline keeps only what is near the view", scroll_the_timeline),
];

pub(crate) fn test_web() -> Result<(), Failure> {
    if !prepare()? {
        println!("skipped: no Chromium (chromium and chromium-driver)");
        return Ok(());
    }
    let base = target_directory().join("browser-test");
    let _ = fs::remove_dir_all(&base);
    story::play_story(&base)?;
    let model = Model::start(&base)?;
    let served = Served::start(&base)?;
    let proxy = Proxy::start(served.origin())?;
    let context = CheckContext { served: &served, model: &model, proxy: &proxy };
    let browser = Browser::start()?;
    browser.set_look(1440, 900, "light")?;
    browser.open(&served.link)?;
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        let result = open_shop(&browser, &served)
            .and_then(|()| check(&browser, &context))
            .and_then(|()| browser.check_logs(&[served.origin(), &proxy.origin()]));
        match &result {
            Ok(()) => println!("ok      {name}"),
            Err(error) => println!("FAILED  {name}: {error}"),
        }
        failed.extend(result.err().map(|_| name));
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("{} checks failed", failed.len())) }
}

/// Opens the timeline of the shop.
pub(super) fn open_shop(browser: &Browser, served: &Served) -> Result<(), Failure> {
    browser.open(&format!("{}/w/{}", served.origin(), shop_id(browser)?))
}

pub(super) fn shop_id(browser: &Browser) -> Result<String, Failure> {
    let known =
        browser.run("return fetch('/api/v1/workspaces').then((answer) => answer.json())")?;
    let is_shop =
        |known: &&Value| known["path"].as_str().is_some_and(|path| path.ends_with("/code/shop"));
    let shop = known.as_array().and_then(|known| known.iter().find(is_shop).cloned());
    shop.and_then(|shop| Some(shop["id"].as_str()?.to_owned())).ok_or("no shop".into())
}

pub(super) fn expect(is_true: bool, message: &str) -> Result<(), Failure> {
    if is_true { Ok(()) } else { Err(message.to_owned()) }
}

const PLANNED: &str = "!document.querySelector('form.restore button').disabled";
const INCIDENT: &str = "a.row[href*='/c/']";

/// Opens the turn that deleted too much.
pub(super) fn open_incident(browser: &Browser) -> Result<(), Failure> {
    let click = "const rows = [...document.querySelectorAll('a.row')];
         rows.find((row) => row.textContent.includes('tidy up the imports')
           && !row.textContent.includes('Rolled')).click()";
    browser.run(click)?;
    browser.wait_for("document.querySelector('.turn-head h1')?.textContent.includes('tidy up')")?;
    browser.wait_for(PLANNED)
}

fn open_every_page(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    let pages = [
        "/",
        "/sessions",
        "/sessions/claude%3Ac2",
        "/search?q=legacy",
        "/usage",
        "/health",
        "/chat",
    ];
    for path in pages {
        browser.open(&format!("{}{path}", served.origin()))?;
        browser.wait_for("document.querySelector('h1')")?;
    }
    Ok(())
}

fn open_a_turn(browser: &Browser, _: &CheckContext<'_>) -> Result<(), Failure> {
    browser.click(INCIDENT)?;
    browser.wait_for("location.pathname.includes('/c/') && document.querySelector('.detail')")?;
    browser.wait_for("document.querySelector('a.row[aria-current]')")?;
    browser.run("history.back()")?;
    browser.wait_for("!location.pathname.includes('/c/')")
}

fn switch_the_diff(browser: &Browser, _: &CheckContext<'_>) -> Result<(), Failure> {
    open_incident(browser)?;
    browser.click(".tabs a[data-key=d]")?;
    browser.wait_for("document.querySelector('table.diff mark')")?;
    browser.click("[data-view=unified]")?;
    browser.wait_for("document.querySelector('table.diff:not(.split)')")?;
    browser.click("[data-view=split]")?;
    browser.wait_for("document.querySelector('table.diff.split')")
}

fn restore_files(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    open_incident(browser)?;
    let before = served.read("code/shop/src/models.py")?;
    browser.click(".file[data-path='\"src/models.py\"'] input")?;
    browser.wait_for(
        "document.querySelector('form.restore button').textContent.includes('1 selected file')",
    )?;
    browser.wait_for(PLANNED)?;
    browser
        .wait_for("document.querySelector('.plan').textContent.startsWith('Restores 1 file.')")?;
    browser.click("form.restore button")?;
    browser.wait_for("document.querySelector('#confirm[open]')?.textContent.includes('psql')")?;
    browser.click("#confirm button.danger")?;
    browser
        .wait_for("document.querySelector('.toast')?.textContent.includes('restored 1 file')")?;
    let restored = served.read("code/shop/src/models.py")?;
    expect(restored.contains("Model39"), "the file was not restored")?;
    browser.click(".toast button")?;
    browser.wait_for("document.querySelector('.toast')?.textContent.startsWith('Done') && !document.querySelector('.toast').textContent.includes('0 files')")?;
    browser
        .wait_for("document.querySelector('#last-action')?.textContent.includes('Took back')")?;
    expect(served.read("code/shop/src/models.py")? == before, "the file was not taken back")
}

fn keep_everything(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    open_incident(browser)?;
    browser.click("form.restore button")?;
    browser.wait_for("document.activeElement.textContent === 'Keep everything as it is'")?;
    // Enter takes the button that has the focus.
    browser.press(&["\u{e007}"])?;
    browser.wait_for("!document.querySelector('#confirm[open]')")?;
    expect(!served.read("code/shop/src/models.py")?.contains("Model39"), "something was restored")
}

fn change_meanwhile(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    open_incident(browser)?;
    let path = story::shop(served.base()).join("README.md");
    let before = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    fs::write(&path, "# My own edit\n").map_err(|error| error.to_string())?;
    browser.click("form.restore button")?;
    browser.wait_for("document.querySelector('#confirm[open]')")?;
    browser.click("#confirm button.danger")?;
    browser.wait_for(
        "document.querySelector('.toast.bad')?.textContent.includes('changed meanwhile')",
    )?;
    browser.wait_for("document.querySelector('#confirm[open]')")?;
    browser.click("#confirm button.safe")?;
    expect(served.read("code/shop/README.md")? == "# My own edit\n", "the edit was lost")?;
    fs::write(&path, before).map_err(|error| error.to_string())
}

fn resolve_a_conflict(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    let path = story::shop(served.base()).join("README.md");
    let before = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let edited = before.replace("checkout, reports", "checkout, REPORTS OF MINE");
    expect(edited != before, "the story has changed")?;
    fs::write(&path, &edited).map_err(|error| error.to_string())?;
    open_incident(browser)?;
    browser.click("form.restore input[value=undo]")?;
    browser.wait_for("document.querySelector('.plan').textContent.includes('conflict')")?;
    browser.wait_for(PLANNED)?;
    browser.click("form.restore button")?;
    browser.wait_for(
        "document.querySelector('#confirm .conflict table.split')?.textContent.includes('REPORTS OF MINE')",
    )?;
    browser.click("#confirm .conflict input[value=theirs]")?;
    browser.wait_for(
        "document.querySelector('#confirm .conflict input[value=theirs]:checked')
         && !document.querySelector('#confirm .body').textContent.includes('leaves 1 conflict')",
    )?;
    browser.click("#confirm button.danger")?;
    browser.wait_for("document.querySelector('.toast')?.textContent.startsWith('Done')")?;
    expect(served.read("code/shop/README.md")?.contains("legacy reports"), "not restored")?;
    browser.run("window.first = document.querySelector('.toast')")?;
    browser.run("document.querySelector('.toast').dataset.seen = 'yes'")?;
    browser.click(".toast button")?;
    browser.wait_for("document.querySelector('.toast:not([data-seen])')")?;
    browser.wait_for(
        "document.querySelector('.toast') && document.querySelector('.toast') !== window.first",
    )?;
    expect(served.read("code/shop/README.md")? == edited, "the edit was not brought back")?;
    fs::write(&path, before).map_err(|error| error.to_string())
}

fn label_a_checkpoint(browser: &Browser, _: &CheckContext<'_>) -> Result<(), Failure> {
    // The overview is replaced when something changes, so that the button may be a new one.
    browser.run("document.querySelector('button[data-label=take]').click()")?;
    browser.wait_for("document.activeElement.id === 'asked'")?;
    browser.press(&["l", "u", "n", "c", "h", "\u{e007}"])?;
    browser.wait_for("document.querySelector('.entries').textContent.includes('lunch')")?;
    browser.run("[...document.querySelectorAll('a.row')].find((row) => row.textContent.includes('lunch')).click()")?;
    browser.wait_for("document.querySelector('.turn-head h1')?.textContent.includes('lunch')")?;
    browser.click("button[data-label=name]")?;
    browser.wait_for("document.activeElement.id === 'asked'")?;
    browser.press(&["g", "o", "o", "d", "\u{e007}"])?;
    browser.wait_for("document.querySelector('.turn-head .badge.name')?.textContent === 'good'")?;
    browser.wait_for("document.querySelector('.pane-list .badge.name')?.textContent === 'good'")?;
    browser.click("button[data-label=pin]")?;
    browser.wait_for("document.querySelector('button[data-label=pin]').textContent === 'Unpin'")?;
    browser.click("button[data-label=pin]")?;
    browser.wait_for("document.querySelector('button[data-label=pin]').textContent === 'Pin'")?;
    browser.run("return fetch(location.pathname.replace('/w/', '/api/v1/checkpoints/').replace('/c/', '/'),
        { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{\"name\":null}' })")?;
    browser.click("button[data-label=delete]")?;
    browser.wait_for("document.activeElement.textContent === 'Keep everything as it is'")?;
    browser.click("#confirm button.danger")?;
    browser.wait_for("!location.pathname.includes('/c/')")?;
    browser.wait_for("!document.querySelector('.entries').textContent.includes('lunch')")
}

fn preview_a_prune(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    browser.open(&format!("{}/health", served.origin()))?;
    browser.wait_for("document.querySelector('figure.chart svg rect')")?;
    browser.wait_for("document.querySelector('form.prune:not([hidden])')")?;
    browser.click("form.prune input[name=max_size_mb]")?;
    browser.press(&["0"])?;
    browser.click("form.prune button")?;
    browser
        .wait_for("document.querySelector('#confirm[open]')?.textContent.includes('/code/shop')")?;
    browser.wait_for("document.activeElement.textContent === 'Keep everything as it is'")?;
    browser.click("#confirm button.safe")?;
    let list =
        browser.run("return fetch('/api/v1/checkpoints').then((answer) => answer.json())")?;
    expect(list["total"].as_u64().is_some_and(|total| total > 20), "something was deleted")
}

/// Opens exported files as a user would who got them by mail.
fn open_an_export(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    let file = served.base().join("page.html");
    let today = browser.run("return new Date().toISOString().slice(0, 10)")?;
    let today = today.as_str().unwrap_or_default().to_owned();
    for subject in ["1", "claude:c2", &today] {
        let written = takeback(served.base(), &story::shop(served.base()))
            .args(["export", "--html", subject, "-o"])
            .arg(&file)
            .stdout(Stdio::null())
            .status();
        expect(written.is_ok_and(|status| status.success()), "nothing was exported")?;
        browser.check_logs(&[served.origin()])?;
        let address = format!("file://{}", file.display());
        browser.open(&address)?;
        browser.wait_for("document.querySelector('.exported-turn .diff-file, .exported-turn')")?;
        browser.wait_for(
            "getComputedStyle(document.querySelector('.export-head')).display === 'flex'",
        )?;
        // No other request, and no error.
        browser.check_logs(&[&address])?;
    }
    browser.open(&format!("{}/", served.origin()))
}

fn scroll_the_timeline(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    let shop = story::shop(served.base());
    for number in 0..110 {
        let taken = takeback(served.base(), &shop)
            .args(["checkpoint", "--pin", "--reason", &format!("bulk {number}")])
            .stdout(Stdio::null())
            .status();
        expect(taken.is_ok_and(|status| status.success()), "no checkpoint was taken")?;
    }
    open_shop(browser, served)?;
    let scroll = "const pane = document.querySelector('[data-pane=list]'); pane.scrollTop = pane.scrollHeight;";
    for chunks in 2..=3 {
        browser.run(scroll)?;
        browser.wait_for(&format!("document.querySelectorAll('.chunk').length >= {chunks}"))?;
    }
    browser.run(scroll)?;
    browser.wait_for("document.querySelector('.chunk').childElementCount === 0")?;
    let first = "document.querySelector('.chunk')";
    browser.wait_for(&format!("{first}.offsetHeight > 1000"))?;
    // What was taken out returns when it comes near.
    browser.run("document.querySelector('[data-pane=list]').scrollTop = 0")?;
    browser.wait_for(&format!("{first}.textContent.includes('bulk 109')"))
}

/// Examines every page.
fn examine_all(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    let shop = shop_id(browser)?;
    let found = browser
        .run("return fetch('/api/v1/checkpoints?text=tidy').then((answer) => answer.json())")?;
    let turn = format!("/w/{shop}/c/{}", found["entries"][0]["id"].as_str().unwrap_or_default());
    let mut pages = vec![
        ("timeline", "/".to_owned()),
        ("workspace", format!("/w/{shop}")),
        ("sessions", "/sessions".into()),
        ("session", "/sessions/claude%3Ac2".into()),
        ("search", "/search?q=legacy".into()),
        ("usage", "/usage".into()),
        ("health", "/health".into()),
        ("chat", "/chat".into()),
        ("missing page", "/nothing".into()),
    ];
    for tab in ["files", "diff&split=0", "diff&split=1", "conversation", "effects", "coverage"] {
        pages.push((tab, format!("{turn}?tab={tab}")));
    }
    accessibility::examine(browser, served, &pages)
}

fn use_the_keyboard(browser: &Browser, _: &CheckContext<'_>) -> Result<(), Failure> {
    browser.press(&["j", "j"])?;
    browser.wait_for("document.activeElement.matches('a.row')")?;
    browser.press(&["\u{e007}"])?;
    browser.wait_for("document.querySelector('.detail')")?;
    browser.wait_for("document.querySelector('form.restore:not([hidden])')")?;
    browser.press(&["e"])?;
    browser.wait_for("document.querySelector('.tab-effects')")?;
    browser.press(&["d"])?;
    browser.wait_for("document.querySelector('.tab-diff')")?;
    browser.press(&["?"])?;
    browser.wait_for("document.querySelector('#keys[open]')")?;
    browser.press(&["\u{e00c}"])?;
    browser.wait_for("!document.querySelector('#keys[open]')")?;
    browser.press(&["/"])?;
    browser.wait_for("document.activeElement.matches('[data-key=\"/\"]')")
}

fn see_a_new_turn(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    browser.run("document.querySelector('.entries').dataset.seen = 'yes'")?;
    let taken = takeback(served.base(), &story::shop(served.base()))
        .args(["checkpoint", "--reason", "from the terminal"])
        .stdout(Stdio::null())
        .status();
    expect(taken.is_ok_and(|status| status.success()), "no checkpoint was taken")?;
    browser
        .wait_for("document.querySelector('.entries').textContent.includes('from the terminal')")?;
    browser.wait_for("document.querySelector('.entries').dataset.seen === 'yes'")
}

fn show_hostile_names(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    let shop = story::shop(served.base());
    browser.run("window.alert = () => { window.hit = true; }")?;
    for name in ["<img src=x onerror=alert(1)>", "a\u{202e}b", "line\nbreak", &"x".repeat(255)] {
        fs::write(shop.join(name), "<script>alert(2)</script>")
            .map_err(|error| error.to_string())?;
    }
    let name = "<img src=x onerror=alert(3)>";
    let taken = takeback(served.base(), &shop)
        .args(["checkpoint", "--reason", name])
        .stdout(Stdio::null())
        .status();
    expect(taken.is_ok_and(|status| status.success()), "no checkpoint was taken")?;
    browser
        .wait_for("document.querySelector('.entries').textContent.includes('onerror=alert(3)')")?;
    open_incident(browser)?;
    browser.click(".tabs a[data-key=d]")?;
    browser.wait_for("document.querySelector('.tab-diff')")?;
    browser.run(
        "[...document.querySelectorAll('.diff-tools a')].find((link) => link.textContent.startsWith('Since')).click()",
    )?;
    browser
        .wait_for("document.querySelector('.tab-diff').textContent.includes('onerror=alert(1)')")?;
    browser.wait_for(PLANNED)?;
    browser.click("form.restore button")?;
    browser.wait_for(
        "document.querySelector('#confirm[open]')?.textContent.includes('onerror=alert(1)')",
    )?;
    browser.click("#confirm button.safe")?;
    let is_hit = browser
        .run("return Boolean(window.hit) || document.querySelectorAll('main img').length > 0")?;
    expect(is_hit == Value::Bool(false), "a name became markup")
}
