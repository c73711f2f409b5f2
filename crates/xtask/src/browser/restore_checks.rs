//! Checks of restoring: plans, dialogs, conflicts, and checkpoints.

use std::fs;
use std::process::Stdio;

use super::checks::{CheckContext, PLANNED, expect, open_incident};
use super::driver::Browser;
use super::served::takeback;
use super::story;
use crate::Failure;

pub(super) fn restore_files(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    open_incident(browser)?;
    let before = served.read("code/shop/src/models.py")?;
    browser.click(".file[data-path='\"src/models.py\"'] input")?;
    browser.wait_for(
        "document.querySelector('form.restore button').textContent.includes('1 selected file')",
    )?;
    // Opening another part of the turn keeps the plan and the selection.
    browser.click(".tabs a[data-key=e]")?;
    browser.wait_for("document.querySelector('.tab-effects')")?;
    browser.click(".tabs a[data-key=f]")?;
    browser
        .wait_for("document.querySelector('.file[data-path*=\"src/models.py\"] input').checked")?;
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

pub(super) fn keep_everything(
    browser: &Browser,
    context: &CheckContext<'_>,
) -> Result<(), Failure> {
    let served = context.served;
    open_incident(browser)?;
    browser.click("form.restore button")?;
    browser.wait_for("document.activeElement.textContent === 'Keep everything as it is'")?;
    // Enter presses the button that has the focus.
    browser.press(&["\u{e007}"])?;
    browser.wait_for("!document.querySelector('#confirm[open]')")?;
    expect(!served.read("code/shop/src/models.py")?.contains("Model39"), "something was restored")
}

pub(super) fn change_meanwhile(
    browser: &Browser,
    context: &CheckContext<'_>,
) -> Result<(), Failure> {
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

pub(super) fn resolve_a_conflict(
    browser: &Browser,
    context: &CheckContext<'_>,
) -> Result<(), Failure> {
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
    expect(served.read("code/shop/README.md")? == edited, "the edit was not restored")?;
    fs::write(&path, before).map_err(|error| error.to_string())
}

pub(super) fn label_a_checkpoint(browser: &Browser, _: &CheckContext<'_>) -> Result<(), Failure> {
    // The overview may be replaced at any moment, so the script finds and clicks the button in one
    // step.
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

pub(super) fn preview_a_prune(
    browser: &Browser,
    context: &CheckContext<'_>,
) -> Result<(), Failure> {
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

/// Rolls back in a terminal, and reverses the rollback on the page.
pub(super) fn follow_a_terminal(
    browser: &Browser,
    context: &CheckContext<'_>,
) -> Result<(), Failure> {
    let served = context.served;
    open_incident(browser)?;
    let before = served.read("code/shop/src/models.py")?;
    let id = browser.run("return document.querySelector('.detail').dataset.checkpoint")?;
    let rolled_back = takeback(served.base(), &story::shop(served.base()))
        .args(["rollback", id.as_str().unwrap_or_default(), "--yes"])
        .stdout(Stdio::null())
        .status();
    expect(rolled_back.is_ok_and(|status| status.success()), "nothing was rolled back")?;
    expect(served.read("code/shop/src/models.py")? != before, "nothing was restored")?;
    browser.wait_for("document.querySelector('.turn-head.back .badge')")?;
    browser.wait_for("document.querySelector('.plan').textContent.startsWith('Nothing to do')")?;
    browser.wait_for("document.querySelector('a.row[aria-current]').closest('.turn.back')")?;
    browser.click("#last-action button")?;
    browser.wait_for("document.querySelector('.turn-head:not(.back)')")?;
    browser.wait_for(PLANNED)?;
    expect(served.read("code/shop/src/models.py")? == before, "the rollback was not taken back")
}
