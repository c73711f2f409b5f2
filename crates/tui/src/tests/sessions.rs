//! The sessions of all agents: the list, the search, reading.

use serde_json::json;
use takeback_ledger::{Event, MessageRecord};

use super::player::Player;
use crate::content::ToolLine;
use crate::input::Key;
use crate::model::Model;

/// Adds an answer with a tool call to a session, as an agent's log would.
fn add_answer(player: &Player, session: &str) {
    let call = json!([{ "id": "c1", "function": { "name": "Edit", "arguments":
        json!({ "file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2" }).to_string() } }]);
    let answer = MessageRecord {
        role: "assistant".into(),
        content: Some(json!("The **discount** is in the cart.")),
        tool_calls: Some(call),
        ..MessageRecord::default()
    };
    let event = Event::Messages { session: session.into(), messages: vec![answer] };
    let now = player.host.opened.now();
    let mut ledger = player.host.opened.ledger_or_new().unwrap();
    ledger.record(&[event], std::time::Duration::from_secs(5), now).unwrap();
}

#[test]
fn everything_that_was_said_can_be_searched_and_read() {
    let mut player = Player::with_story(100, 20);
    player.press("schangelog");
    player.expect_part("Search everything ever said: changelog▌");
    player.expect_part("user: write the changelog");
    player.press("\n");
    player.expect_part("user  12:01  #1");
    player.press("\n");
    assert!(player.model.reader.as_ref().unwrap().is_pane_focused);
    player.press("\u{1b}\u{1b}\u{1b}");
    assert!(player.model.reader.is_none());
    player.expect_part("Today");
}

#[test]
fn a_search_without_results_suggests_what_to_try() {
    let mut player = Player::with_story(100, 20);
    player.press("szzz");
    player.expect_part("No message contains “zzz”.");
    player.press("\u{8}\u{8}\u{8}");
    player.expect_part("2 sessions");
}

#[test]
fn tool_calls_are_folded_and_edits_are_diffs() {
    let mut player = Player::with_story(120, 24);
    add_answer(&player, "claude:a1");
    player.press("j3");
    player.expect_part("The **discount** is in the cart.");
    player.expect_part("▸ Edit  a.py");
    player.expect_no("x = 2");
    player.press(">>o");
    player.expect_part("▾ Edit  a.py");
    player.expect_part("− x = 1");
    player.expect_part("+ x = 2");
    let blocks = &player.model.pane.conversation.ready().unwrap()[1].blocks;
    assert!(format!("{blocks:?}").contains(&format!("{:?}", ToolLine::Added("x = 2".into()))));
}

#[test]
fn the_filter_also_finds_what_the_agent_said() {
    let mut player = Player::with_story(100, 20);
    add_answer(&player, "claude:a1");
    player.press("/in the cart");
    player.expect_part("add a discount");
    player.expect_no("write the changelog");
}

#[test]
fn the_sessions_have_a_screen_of_their_own() {
    let mut player = Player::with_story(100, 20);
    let size = player.model.size;
    let model = Model::new("~/shop".into(), jiff::tz::TimeZone::UTC, player.model.now, size);
    player.model = model.with_sessions();
    player.press_key(Key::End);
    player.expect_part("2 sessions");
    player.expect_part("codex  write the changelog");
    player.press("j");
    player.expect_part("add a discount");
    player.press("y");
    player.expect_part("Copied: mine --resume");
    player.press("\u{1b}");
    assert_eq!(player.done.last().map(String::as_str), Some("Quit"));
}
