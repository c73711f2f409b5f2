//! Checking a timeline that is much longer than the part that the page keeps.

use serde_json::Value;

use super::checks::{CheckContext, expect};
use super::driver::Browser;
use crate::Failure;
use crate::bench::web::history::LongHistory;

/// The number of turns at first, and the number of turns that appear while the user is reading.
const TURNS: usize = 600;
const LATER: usize = 60;

/// The maximum number of entries that the page may keep at the same time.
const MAX_IN_PAGE: u64 = 300;

/// Scrolls through a list, from its top to its end, by less than a page at a time. Returns the ids
/// of the entries that were in view, in order, and the largest number of entries in the page.
const SCROLL: &str = "
const list = document.querySelector('[data-pane=list]');
const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
const inView = (node) => {
  const [own, view] = [node.getBoundingClientRect(), list.getBoundingClientRect()];
  return own.height > 0 && own.bottom > view.top && own.top < view.bottom;
};
return (async () => {
  const seen = new Set();
  let most = 0;
  list.scrollTop = 0;
  for (;;) {
    await frame();
    // The page may still have to fetch or insert the entries in view.
    const isEmpty = (chunk) => inView(chunk) && !chunk.childElementCount;
    if ([...list.querySelectorAll('.chunk')].some(isEmpty) || [...list.querySelectorAll('.more')].some(inView)) continue;
    const turns = [...list.querySelectorAll('.turn')];
    most = Math.max(most, turns.length);
    turns.filter(inView).forEach((turn) => seen.add(turn.dataset.id));
    if ([...list.querySelectorAll('.end')].some(inView)) return { seen: [...seen], most };
    list.scrollTop += list.clientHeight * 0.8;
  }
})();";

/// Remembers the entry at the top of the view, and the position of this entry.
const READ: &str = "
const top = document.querySelector('[data-pane=list]').getBoundingClientRect().top;
window.read = [...document.querySelectorAll('.turn')].find((turn) => turn.getBoundingClientRect().top > top + 100);
window.place = window.read.getBoundingClientRect().top;";

pub(super) fn scroll_a_long_timeline(
    browser: &Browser,
    context: &CheckContext<'_>,
) -> Result<(), Failure> {
    let served = context.served;
    let mut history =
        LongHistory::begin(&served.base().join(".takeback"), &served.base().join("code/long"))?;
    history.play(TURNS)?;
    history.tend()?;
    let workspace = find_workspace(browser)?;
    browser.open(&format!("{}/w/{workspace}", served.origin()))?;
    expect_whole(browser, &workspace, TURNS)?;
    // More than a page of new entries appears above the entries that the user is reading.
    browser.run("document.querySelector('[data-pane=list]').scrollTop *= 0.6")?;
    browser.wait_for("document.querySelectorAll('.chunk > .day').length")?;
    browser.run(READ)?;
    for _ in 0..LATER / 20 {
        history.play(20)?;
    }
    browser.wait_for(&format!(
        "document.querySelector('.new-entries button')?.textContent === '{LATER} new ↑'"
    ))?;
    let moved =
        browser.run("return Math.abs(window.read.getBoundingClientRect().top - window.place)")?;
    expect(moved.as_f64().is_some_and(|moved| moved <= 2.0), &format!("it moved by {moved} px"))?;
    browser.click(".new-entries button")?;
    browser.wait_for("document.querySelector('[data-pane=list]').scrollTop === 0")?;
    expect_whole(browser, &workspace, TURNS + LATER)
}

fn find_workspace(browser: &Browser) -> Result<String, Failure> {
    let id = browser.run(
        "return fetch('/api/v1/workspaces').then((answer) => answer.json())
           .then((all) => all.find((known) => known.path.endsWith('/code/long')).id)",
    )?;
    id.as_str().map(str::to_owned).ok_or_else(|| "the workspace is unknown".into())
}

/// Checks that every entry can be reached, in order, while the page keeps only a part of them.
fn expect_whole(browser: &Browser, workspace: &str, turns: usize) -> Result<(), Failure> {
    let found = browser.run_slowly(SCROLL)?;
    let most = found["most"].as_u64().unwrap_or(u64::MAX);
    expect(most <= MAX_IN_PAGE, &format!("the page kept {most} entries"))?;
    let seen: Vec<&Value> = found["seen"].as_array().into_iter().flatten().collect();
    let known = browser.run_slowly(&format!(
        "return (async () => {{
           const ids = [];
           let next = '';
           do {{
             const answer = await fetch('/api/v1/checkpoints?workspace={workspace}&limit=500&before=' + next);
             const page = await answer.json();
             ids.push(...page.entries.map((entry) => entry.id));
             next = page.next;
           }} while (next);
           return ids;
         }})()"
    ))?;
    let known: Vec<&Value> = known.as_array().into_iter().flatten().collect();
    expect(known.len() == turns, &format!("the API lists {} turns", known.len()))?;
    let differs = seen.iter().zip(&known).position(|(seen, known)| seen != known);
    expect(
        seen == known,
        &format!(
            "{} of {} turns were in view; they differ at {differs:?}",
            seen.len(),
            known.len()
        ),
    )
}
