//! `cargo xtask test-web`: uses the pages as a user does, in a real Chromium.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::driver::Browser;
use super::model::Model;
use super::proxy::Proxy;
use super::served::{Served, takeback};
use super::story::Length;
use super::{
    accessibility, build_program, chat_checks, install_browser, long_checks, restore_checks, story,
};
use crate::Failure;
use crate::results::Tally;
use crate::run::target_directory;

/// The programs that a check works with.
pub(super) struct CheckContext<'a> {
    pub(super) served: &'a Served,
    pub(super) model: &'a Model,
    pub(super) proxy: &'a Proxy,
}

/// A check of the pages.
struct Check {
    name: &'static str,
    /// True if `cargo xtask test` includes the check.
    is_usual: bool,
    run: fn(&Browser, &CheckContext<'_>) -> Result<(), Failure>,
}

/// Creates a check that only `cargo xtask test-web` includes.
const fn full(
    name: &'static str,
    run: fn(&Browser, &CheckContext<'_>) -> Result<(), Failure>,
) -> Check {
    Check { name, is_usual: false, run }
}

/// Creates a check that `cargo xtask test` also includes.
const fn usual(
    name: &'static str,
    run: fn(&Browser, &CheckContext<'_>) -> Result<(), Failure>,
) -> Check {
    Check { name, is_usual: true, run }
}

/// All checks, in order. Each check begins at the timeline of `shop`, a workspace in the generated
/// history.
const CHECKS: [Check; 25] = [
    usual("every page opens without errors", open_every_page),
    full("a turn opens beside the timeline", open_a_turn),
    full("a diff is shown unified and side by side", switch_the_diff),
    usual("a restore of selected files is taken back", restore_checks::restore_files),
    full("the safe button of the dialog has the focus", restore_checks::keep_everything),
    full("a plan is made again if the workspace changed", restore_checks::change_meanwhile),
    full(
        "a conflict is shown side by side and resolved for its file",
        restore_checks::resolve_a_conflict,
    ),
    full("a checkpoint is taken, named, pinned and deleted", restore_checks::label_a_checkpoint),
    full("a prune is shown before it deletes anything", restore_checks::preview_a_prune),
    full("an exported file works without a server", open_an_export),
    usual("the keyboard alone is enough", use_the_keyboard),
    full("a search leads to the message that it found", follow_a_hit),
    usual("a new turn appears without reloading", see_a_new_turn),
    full("a rollback in a terminal is seen and taken back", restore_checks::follow_a_terminal),
    full("a lost connection is shown until it is restored", lose_the_connection),
    usual("hostile names are harmless", show_hostile_names),
    usual("a turn is streamed and becomes a part of the conversation", chat_checks::talk),
    full("a chat reconnects in the middle of a stream", chat_checks::reconnect),
    full("a call is approved or refused with the keyboard", chat_checks::approve),
    full("/rollback lists checkpoints with buttons", chat_checks::roll_back),
    full("a restore waits for a running turn", chat_checks::wait_for_turn),
    full("a turn is stopped with the keyboard", chat_checks::stop),
    full("axe-core finds nothing serious, in light and dark", examine_all),
    usual("axe-core finds nothing serious on the pages used most", examine_some),
    full("a long timeline is scrolled from end to end", long_checks::scroll_a_long_timeline),
];

/// Runs `cargo xtask test-web [word…]`: the checks whose names contain one of the words, or all.
pub(crate) fn test_web(words: &[&str]) -> Result<(), Failure> {
    let is_chosen =
        |check: &Check| words.is_empty() || words.iter().any(|word| check.name.contains(word));
    build_program()?;
    if !install_browser()? {
        println!("skipped: no Chromium (chromium and chromium-driver)");
        return Ok(());
    }
    let base = target_directory().join("browser-test");
    let _ = fs::remove_dir_all(&base);
    story::play_story(&base, Length::Whole)?;
    let model = Model::start(&base)?;
    let served = Served::start(&base)?;
    let results = run_checks(&served, &model, is_chosen)?;
    let failed = results.iter().filter(|(_, result)| result.is_err()).count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} checks failed")) }
}

/// Runs the checks that `cargo xtask test` includes. The browser must already be installed.
pub(super) fn test_usual_pages(
    served: &Served,
    model: &Model,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let has_axe = accessibility::fetch_axe()?.is_some();
    let is_chosen = |check: &Check| check.is_usual && (has_axe || !check.name.starts_with("axe"));
    if !has_axe {
        tally.add_skipped("the pages with axe-core", "axe-core cannot be fetched");
    }
    let mut failures = Vec::new();
    for (name, result) in run_checks(served, model, is_chosen)? {
        match result {
            Ok(()) => tally.add_passed(),
            Err(failure) => {
                tally.add_failed();
                failures.push(format!("\nthe pages in Chromium: {name}: {failure}"));
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.concat()) }
}

/// The name of a check, and its result.
type CheckResult = (&'static str, Result<(), Failure>);

/// Runs the chosen checks, even if some fail, and prints the result of each.
fn run_checks(
    served: &Served,
    model: &Model,
    is_chosen: impl Fn(&Check) -> bool,
) -> Result<Vec<CheckResult>, Failure> {
    let proxy = Proxy::start(served.origin())?;
    let context = CheckContext { served, model, proxy: &proxy };
    let browser = Browser::start()?;
    browser.set_look(1440, 900, "light")?;
    browser.open(&served.link)?;
    let mut results = Vec::new();
    for check in CHECKS.iter().filter(|check| is_chosen(check)) {
        let name = check.name;
        let result = open_shop(&browser, served)
            .and_then(|()| (check.run)(&browser, &context))
            .and_then(|()| browser.check_logs(&[served.origin(), &proxy.origin()]));
        match &result {
            Ok(()) => println!("ok      {name}"),
            Err(error) => println!("FAILED  {name}: {error}\n{}", browser.describe_page()),
        }
        results.push((name, result));
    }
    Ok(results)
}

/// Opens the timeline of the workspace `shop`.
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

/// A JavaScript expression that is true once the plan at the foot of the page has been loaded.
pub(super) const PLANNED: &str = "!document.querySelector('form.restore button').disabled";
const INCIDENT: &str = "a.row[href*='/c/']";

/// Opens the turn that deleted too much. The rows of rollbacks may contain the turn's prompt as
/// well, so these rows are skipped.
pub(super) fn open_incident(browser: &Browser) -> Result<(), Failure> {
    let click = "const rows = [...document.querySelectorAll('a.row')];
         rows.find((row) => row.textContent.includes('tidy up the imports')
           && !row.closest('.safety')).click()";
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
    // Going back in the browser's history must not replace the list.
    browser.run("document.querySelector('.entries').dataset.seen = 'yes'; history.back()")?;
    browser
        .wait_for("!location.pathname.includes('/c/') && document.querySelector('.overview')")?;
    browser.wait_for("!document.querySelector('a.row[aria-current]')")?;
    browser.wait_for("document.querySelector('.entries').dataset.seen === 'yes'")
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

/// Opens exported files, as a user who received them by email would.
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
        // The page sends no other request, and logs no error.
        browser.check_logs(&[&address])?;
    }
    browser.open(&format!("{}/", served.origin()))
}

/// Checks the accessibility of every page.
fn examine_all(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let turn = find_incident(browser)?;
    let mut pages = vec![
        ("timeline", "/".to_owned()),
        ("workspace", format!("/w/{}", shop_id(browser)?)),
        ("sessions", "/sessions".into()),
        ("session", "/sessions/claude%3Ac2".into()),
        ("search", "/search?q=legacy".into()),
        ("usage", "/usage".into()),
        ("health", "/health".into()),
        ("new chat", "/chat".into()),
        ("missing page", "/nothing".into()),
    ];
    for tab in ["files", "diff&split=0", "diff&split=1", "conversation", "effects", "coverage"] {
        pages.push((tab, format!("{turn}?tab={tab}")));
    }
    for (name, session) in chat_checks::begin_for_examination(browser, context)? {
        pages.push((name, format!("/chat/{session}")));
    }
    accessibility::examine(browser, context.served, &pages)
}

/// Checks the accessibility of the pages that are used most.
fn examine_some(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let pages = [("turn", find_incident(browser)?), ("new chat", "/chat".to_owned())];
    accessibility::examine(browser, context.served, &pages)
}

/// Returns the address of the turn that deleted too much.
fn find_incident(browser: &Browser) -> Result<String, Failure> {
    let found = browser
        .run("return fetch('/api/v1/checkpoints?text=tidy').then((answer) => answer.json())")?;
    let entry = &found["entries"][0];
    let (Some(workspace), Some(id)) = (entry["workspace"].as_str(), entry["id"].as_str()) else {
        return Err("the story has no incident".into());
    };
    Ok(format!("/w/{workspace}/c/{id}"))
}

/// Searches with the keyboard, and opens the first hit.
fn follow_a_hit(browser: &Browser, _: &CheckContext<'_>) -> Result<(), Failure> {
    browser.press(&["/"])?;
    browser.wait_for("document.activeElement.matches('.find input')")?;
    browser.press(&["u", "n", "u", "s", "e", "d", "\u{e007}"])?;
    browser.wait_for("location.pathname === '/search' && document.querySelector('.hits mark')")?;
    browser.click(".hits li a[href*='claude%3Ac2?']")?;
    browser.wait_for(
        "location.pathname.startsWith('/sessions/') && document.querySelector('.message:target')",
    )?;
    browser.wait_for("document.querySelector('.checkpoint-mark a[href*=\"/c/\"]')")?;
    browser.wait_for(
        "document.querySelector('.message:target').getBoundingClientRect().top < innerHeight",
    )
}

fn use_the_keyboard(browser: &Browser, _: &CheckContext<'_>) -> Result<(), Failure> {
    // Earlier checks may have added rows above the incident.
    let focus = "return document.activeElement.textContent.includes('tidy up the imports')
       && !document.activeElement.closest('.safety')";
    for _ in 0..40 {
        browser.press(&["j"])?;
        browser.wait_for("document.activeElement.matches('a.row')")?;
        if browser.run(focus)? == true {
            break;
        }
    }
    browser.press(&["\u{e007}"])?;
    browser.wait_for("document.querySelector('.detail')")?;
    browser.wait_for("document.querySelector('form.restore:not([hidden])')")?;
    browser.press(&["e"])?;
    browser.wait_for("document.querySelector('.tab-effects')")?;
    browser.press(&["d"])?;
    browser.wait_for("document.querySelector('.tab-diff')")?;
    browser.wait_for("document.querySelector('form.restore:not([hidden])')")?;
    browser.press(&["R"])?;
    browser.wait_for("document.querySelector('#confirm[open]')")?;
    browser.wait_for("document.activeElement.textContent === 'Keep everything as it is'")?;
    browser.press(&["\u{e007}"])?;
    browser.wait_for("!document.querySelector('#confirm[open]')")?;
    browser.press(&["?"])?;
    browser.wait_for("document.querySelector('#keys[open]')")?;
    browser.press(&["\u{e00c}"])?;
    browser.wait_for("!document.querySelector('#keys[open]')")?;
    browser.press(&["/"])?;
    browser.wait_for("document.activeElement.matches('[data-key=\"/\"]')")
}

fn see_a_new_turn(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let served = context.served;
    browser.press(&["j"])?;
    browser.wait_for("document.activeElement.matches('a.row')")?;
    browser.run(
        "document.querySelector('.entries').dataset.seen = 'yes';
         window.focused = document.activeElement",
    )?;
    let taken = takeback(served.base(), &story::shop(served.base()))
        .args(["checkpoint", "--reason", "from the terminal"])
        .stdout(Stdio::null())
        .status();
    expect(taken.is_ok_and(|status| status.success()), "no checkpoint was taken")?;
    browser
        .wait_for("document.querySelector('.entries').textContent.includes('from the terminal')")?;
    browser.wait_for("document.querySelector('.entries').dataset.seen === 'yes'")?;
    browser.wait_for("document.activeElement === window.focused")
}

fn lose_the_connection(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let (origin, proxy) = (context.served.origin(), context.proxy);
    browser.open(&context.served.link.replace(origin, &proxy.origin()))?;
    browser.wait_for("document.querySelector('a.row')")?;
    proxy.set_cut(true);
    browser.wait_for("document.querySelector('#offline')")?;
    proxy.set_cut(false);
    browser.wait_for("!document.querySelector('#offline')")
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
