//! The checks of conversations with takeback's own agent.

use super::checks::{CheckContext, expect, open_shop, shop_id};
use super::driver::Browser;
use super::model::SLOW;
use super::story;
use crate::Failure;

/// WebDriver's codes for keys without a character.
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const TAB: &str = "\u{e004}";

/// A JavaScript expression that is true when the next prompt can be sent.
const IDLE: &str = "!document.querySelector('.composer').hasAttribute('data-busy')";

/// Types a text into the field that has the focus, and presses Enter.
fn type_line(browser: &Browser, text: &str) -> Result<(), Failure> {
    browser.wait_for("document.activeElement.matches('.composer textarea')")?;
    let keys: Vec<String> = text.chars().map(String::from).collect();
    let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    keys.push(ENTER);
    browser.press(&keys)
}

/// Begins a conversation with a prompt, in the workspace `shop`.
fn begin(browser: &Browser, context: &CheckContext<'_>, prompt: &str) -> Result<(), Failure> {
    begin_at(browser, context.served.origin(), prompt)
}

/// Begins a conversation in the workspace `shop`, on the page at this origin.
fn begin_at(browser: &Browser, origin: &str, prompt: &str) -> Result<(), Failure> {
    browser.open(&format!("{origin}/chat?workspace={}", shop_id(browser)?))?;
    type_line(browser, prompt)?;
    browser.wait_for("location.pathname.startsWith('/chat/')")?;
    browser.wait_for("document.readyState === 'complete' && document.querySelector('#history')")
}

/// Waits until the conversation on the page contains the given text.
fn wait_for_text(browser: &Browser, text: &str) -> Result<(), Failure> {
    browser.wait_for(&format!(
        "document.querySelector('.chat-main').textContent.includes({})",
        serde_json::Value::from(text)
    ))
}

pub(super) fn talk(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    begin(browser, context, "round all prices to two digits")?;
    wait_for_text(browser, "no cent is lost")?;
    browser.wait_for(IDLE)?;
    browser.wait_for("document.querySelector('#history .prose strong')?.textContent === 'only'")?;
    browser.wait_for("document.querySelector('#live').children.length === 0")?;
    browser.wait_for("document.querySelector('.turn-mark a[href*=\"/c/\"]')")?;
    expect(context.served.read("code/shop/src/prices.py")?.contains("round"), "no file was written")
}

/// Cuts the stream in the middle of an answer, and checks that the rest appears afterwards, exactly
/// once.
pub(super) fn reconnect(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    context.model.set_open(false);
    let (origin, proxy) = (context.served.origin(), context.proxy);
    browser.open(&context.served.link.replace(origin, &proxy.origin()))?;
    begin_at(browser, &proxy.origin(), "count slowly")?;
    wait_for_text(browser, "One, two,")?;
    expect_count(browser, "One, two", 1)?;
    proxy.set_cut(true);
    context.model.set_open(true);
    browser.wait_for("!document.querySelector('#connection').hidden")?;
    proxy.set_cut(false);
    wait_for_text(browser, SLOW)?;
    browser.wait_for("document.querySelector('#connection').hidden")?;
    browser.wait_for(IDLE)?;
    browser.wait_for("document.querySelector('#live').children.length === 0")?;
    expect_count(browser, "One, two", 1)
}

fn expect_count(browser: &Browser, text: &str, count: usize) -> Result<(), Failure> {
    let script = format!(
        "return document.querySelector('.chat-main').textContent.split('{text}').length - 1"
    );
    let found = browser.run(&script)?;
    expect(found == count, &format!("{text} is shown {found} times"))
}

/// Answers a question with the keyboard alone: Escape moves the focus from the field to the safe
/// choice.
pub(super) fn approve(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    begin(browser, context, "publish the release")?;
    browser.wait_for(
        "document.querySelector('.question pre')?.textContent.includes('git push origin main')",
    )?;
    browser.wait_for("document.activeElement.matches('.composer textarea')")?;
    browser.press(&[ESCAPE])?;
    browser.wait_for("document.activeElement.textContent === 'Do not run it'")?;
    browser.press(&[TAB])?;
    browser.wait_for("document.activeElement.textContent === 'Allow once'")?;
    browser.run("document.querySelector('.question button').focus()")?;
    browser.press(&[ENTER])?;
    browser.wait_for("!document.querySelector('.question')")?;
    wait_for_text(browser, "not published")?;
    browser.wait_for(IDLE)
}

/// Takes a turn back with one of the buttons that `/rollback` lists.
pub(super) fn roll_back(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    let note = story::shop(context.served.base()).join("note.txt");
    begin(browser, context, "write a note")?;
    wait_for_text(browser, "Wrote the note")?;
    browser.wait_for(IDLE)?;
    expect(note.exists(), "no note was written")?;
    // The model's answer is shown as text, even if it contains markup.
    let hit = browser
        .run("return document.querySelectorAll('main img, main a[href^=javascript]').length")?;
    expect(hit == 0, "the answer became markup")?;
    browser.press(&["/", "r", "o", "l"])?;
    browser.wait_for(
        "document.querySelector('#commands li:not([hidden]) code')?.textContent === '/rollback'",
    )?;
    browser.press(&[TAB])?;
    browser.wait_for("document.querySelector('.composer textarea').value === '/rollback '")?;
    browser.press(&[ENTER])?;
    browser.wait_for(
        "document.querySelector('.checkpoints li')?.textContent.includes('write a note')",
    )?;
    browser.click(".checkpoints li button")?;
    browser
        .wait_for("document.querySelector('#confirm[open]')?.textContent.includes('note.txt')")?;
    browser.wait_for("document.activeElement.textContent === 'Keep everything as it is'")?;
    browser.press(&[TAB, ENTER])?;
    browser.wait_for(
        "document.querySelector('.toast')?.textContent.includes('took back 4 messages')",
    )?;
    // The page learns about the change through the ledger.
    browser.wait_for("document.querySelector('#history .taken-back')")?;
    expect(!note.exists(), "the note was not taken back")?;
    browser.click(".toast button")?;
    browser.wait_for("!document.querySelector('#history .taken-back')")?;
    expect(note.exists(), "the rollback was not taken back")
}

/// Begins two conversations: one whose turn has ended, and one that is waiting for an answer.
/// Returns the name and the session of each.
pub(super) fn begin_for_examination(
    browser: &Browser,
    context: &CheckContext<'_>,
) -> Result<[(&'static str, String); 2], Failure> {
    let session = || -> Result<String, Failure> {
        let path = browser.run("return location.pathname")?;
        let session = path.as_str().and_then(|path| path.strip_prefix("/chat/"));
        session.map(str::to_owned).ok_or_else(|| "the page is not a conversation".into())
    };
    begin(browser, context, "round all prices to two digits")?;
    wait_for_text(browser, "no cent is lost")?;
    browser.wait_for(IDLE)?;
    let ended = session()?;
    begin(browser, context, "publish the release")?;
    browser.wait_for("document.querySelector('.question pre')")?;
    Ok([("chat", ended), ("chat with a question", session()?)])
}

/// Checks that a restore is refused while a turn is running, and offered when the turn ends.
pub(super) fn wait_for_turn(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    context.model.set_open(false);
    begin(browser, context, "count slowly again")?;
    wait_for_text(browser, "One, two,")?;
    open_shop(browser, context.served)?;
    super::checks::open_incident(browser)?;
    browser.click("form.restore button")?;
    browser.wait_for("document.querySelector('#confirm[open] h2')?.textContent === 'takeback is working here now'")?;
    browser.wait_for("document.activeElement.textContent === 'Keep everything as it is'")?;
    browser.run("[...document.querySelectorAll('#confirm button')].find((button) => button.textContent.startsWith('Ask me')).click()")?;
    browser.wait_for("document.querySelector('.toast')?.textContent.startsWith('Waiting')")?;
    context.model.set_open(true);
    // An earlier check may have rolled back the turn, which changes the heading, so the heading is
    // not checked.
    browser.wait_for("document.querySelector('#confirm[open] button.danger')")?;
    browser.click("#confirm button.safe")
}

/// Stops a turn with the button that replaces Send while the turn is running.
pub(super) fn stop(browser: &Browser, context: &CheckContext<'_>) -> Result<(), Failure> {
    context.model.set_open(false);
    begin(browser, context, "count slowly once more")?;
    wait_for_text(browser, "One, two,")?;
    browser.press(&[TAB])?;
    browser.wait_for("document.activeElement.matches('[data-stop]')")?;
    browser.press(&[ENTER])?;
    wait_for_text(browser, "Stopped.")?;
    context.model.set_open(true);
    browser.wait_for(IDLE)
}
