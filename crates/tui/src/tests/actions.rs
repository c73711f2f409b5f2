//! Taking changes back: plans, questions, results.

use std::sync::Arc;

use takeback_undo::ReportedEvent;

use super::player::Player;
use crate::input::{Input, Key};
use crate::message::{Command, Message};
use crate::model::Past;
use crate::update::update;

#[test]
fn enter_asks_first_and_the_safe_answer_is_chosen() {
    let mut player = Player::with_story(100, 24);
    player.press("\n");
    player.expect_part("Roll back to before this turn: “write the changelog”?");
    player.expect_part("− CHANGES.md");
    player.press("\n");
    assert!(player.path("CHANGES.md").exists());
    player.expect_part("Nothing was changed.");
}

#[test]
fn a_rollback_says_what_it_did_and_can_be_taken_back() {
    let mut player = Player::with_story(140, 24);
    player.press("\n>\n");
    assert!(!player.path("CHANGES.md").exists());
    player.expect_part("Rolled back: deleted 1 file, took back 1 message. U takes that back.");
    player.expect_part("◇  now  Rolled back to before “write the changelog”");
    player.press("U>\n");
    assert_eq!(player.read("CHANGES.md"), "- one\n- two\n");
    player.expect_part("Took that back: restored 1 file, restored 1 message. R repeats it.");
    player.press("R>\n");
    assert!(!player.path("CHANGES.md").exists());
    player.expect_part("Repeated the rollback");
    assert!(player.model.last_words[0].starts_with("Repeated the rollback"));
}

#[test]
fn a_plan_counts_files_and_not_their_directories() {
    let mut player = Player::with_story(100, 30);
    std::fs::remove_dir_all(player.path("src")).unwrap();
    player.open();
    player.expect_part("Roll back to before this turn: restores 1 file, deletes 1");
    player.press("\n");
    player.expect_part("• src/cart.py");
    player.expect_no("• src ");
}

#[test]
fn taking_back_a_rollback_is_offered_only_if_there_is_one() {
    let mut player = Player::with_story(140, 24);
    player.expect_no("U take back");
    player.press("\n>\n");
    player.expect_part("U take back");
}

#[test]
fn only_chosen_files_are_restored() {
    let mut player = Player::with_story(100, 24);
    player.press("j ");
    assert!(player.model.is_pane_focused);
    player.press(" ");
    player.expect_part("[x] • cart.py");
    player.expect_part("Restore the selected file: restores 1 file");
    player.press("\n>\n");
    assert_eq!(player.read("src/cart.py"), "class Cart:\n    items = []\n");
    assert!(player.path("tests/test_cart.py").exists() && player.path("CHANGES.md").exists());
    player.expect_no("[x]");
}

#[test]
fn files_that_the_user_has_edited_since_the_turn_are_marked_and_undo_is_offered() {
    let mut player = Player::with_story(140, 24);
    player.write("CHANGES.md", "- one\n- two\n- mine\n");
    player.open();
    player.expect_part("you, since");
    player.expect_part("⚠ 1 file edited since, by you or another agent");
    player.press("\n");
    player.expect_part("[ Undo this turn, keep my edits ]");
}

#[test]
fn files_that_another_agent_has_changed_since_the_turn_are_marked_with_its_name() {
    let mut player = Player::with_story(140, 24);
    player.play_turn("codex:b2", "more", &[("src/cart.py", "nothing\n")]);
    player.open();
    player.press("jj");
    player.expect_part("codex, since");
}

#[test]
fn an_undo_keeps_the_users_edits() {
    let mut player = Player::with_story(100, 24);
    player.write("src/cart.py", "# mine\nclass Cart:\n    items = []\n    discount = 10\n");
    player.open();
    player.press("ju>\n");
    assert_eq!(player.read("src/cart.py"), "# mine\nclass Cart:\n    items = []\n");
    assert!(!player.path("tests/test_cart.py").exists());
    player.expect_part("Undid the turn: restored 1 file, deleted 1");
}

#[test]
fn conflicts_are_decided_per_file_with_three_versions() {
    let mut player = Player::with_story(120, 30);
    player.write("src/cart.py", "class Cart:\n    items = []\n    discount = 25\n");
    player.open();
    player.press("ju");
    player.expect_part("[leave the file as it is]");
    let screen = player.screen();
    let versions = screen.lines().find(|line| line.contains("discount = 10")).unwrap();
    assert!(versions.contains("discount = 25"), "{screen}");
    player.expect_part("before the turn");
    player.press(" ");
    player.expect_part("[take the lines before the turn]");
    player.press(">\n");
    assert_eq!(player.read("src/cart.py"), "class Cart:\n    items = []\n");
}

#[test]
fn an_outdated_plan_is_not_applied() {
    let mut player = Player::with_story(100, 24);
    player.press("\n");
    player.play_turn("claude:a1", "meanwhile", &[("new", "1")]);
    player.press(">\n");
    player.expect_part("the workspace has changed in the meantime; nothing was restored");
    assert!(player.path("CHANGES.md").exists() && player.path("new").exists());
}

#[test]
fn the_question_shows_edits_made_after_the_foot_was_drawn() {
    let mut player = Player::with_story(100, 24);
    player.write("src/cart.py", "mine\n");
    player.press("\n");
    player.expect_part("• src/cart.py");
}

#[test]
fn the_safe_answer_is_chosen_again_if_the_plan_changes() {
    let mut player = Player::with_story(100, 24);
    player.held = Some(Vec::new());
    player.press("\n>");
    player.expect_no("Files have changed");
    player.write("src/cart.py", "mine\n");
    let held = player.held.take().unwrap();
    player.run(held);
    player.expect_part("Files have changed since this was first shown");
    player.press("\n");
    player.expect_part("Nothing was changed.");
    assert!(player.path("CHANGES.md").exists());
}

#[test]
fn an_answer_stays_chosen_if_the_new_plan_is_the_same() {
    let mut player = Player::with_story(100, 24);
    player.held = Some(Vec::new());
    player.press("\n>");
    let held = player.held.take().unwrap();
    player.run(held);
    player.press("\n");
    assert!(!player.path("CHANGES.md").exists());
}

#[test]
fn every_answer_is_visible_on_a_narrow_screen() {
    let mut player = Player::with_story(44, 16);
    player.write("CHANGES.md", "mine\n");
    player.press("\n");
    player.expect_part("[ Change nothing ]");
    player.expect_part("[ Roll back to before this turn ]");
    player.expect_part("[ Undo this turn, keep my edits ]");
}

#[test]
fn pasted_text_answers_no_question() {
    let mut player = Player::with_story(100, 24);
    let paste = |text: &str| Message::Input(Input::Paste(text.to_owned()));
    player.send(paste("\nlib\nl\n"));
    player.expect_part("Pasted text was ignored");
    player.press("\n");
    player.send(paste("l\n"));
    assert!(player.path("CHANGES.md").exists());
    player.press("\u{1b}/");
    player.send(paste("dis\ncount"));
    assert_eq!(player.model.list.filter, "dis count");
}

#[test]
fn after_ctrl_c_a_restore_is_finished_and_its_result_is_printed() {
    let mut player = Player::with_story(100, 24);
    player.press("\n>");
    let commands = update(&mut player.model, Message::Input(Input::Key(Key::Enter)));
    assert!(matches!(commands.as_slice(), [Command::Apply(_)]), "{commands:?}");
    player.press_key(Key::Ctrl('c'));
    assert!(player.done.is_empty(), "{:?}", player.done);
    player.run(commands);
    assert_eq!(player.done, ["Quit"]);
    assert!(player.model.last_words[0].starts_with("Rolled back"), "{:?}", player.model.last_words);
}

#[test]
fn choosing_a_file_whose_name_looks_like_a_pattern_restores_no_other_file() {
    let mut player = Player::new(100, 24);
    player.write("f1", "1\n");
    player.play_turn("claude:a1", "write both", &[("f[1]", "2\n"), ("f1", "2\n")]);
    // The user has removed the file again, so a rollback would change nothing at its path.
    std::fs::remove_file(player.path("f[1]")).unwrap();
    player.open();
    player.press(" <");
    player.press_key(Key::Home);
    let chosen = player.model.pane.files().iter().find(|it| it.path.to_string() == "f[1]");
    let path = chosen.unwrap().path.clone();
    player.model.pane.chosen = [path].into();
    player.press("\n");
    player.expect_no("[ Restore");
    assert_eq!(player.read("f1"), "2\n");
}

#[test]
fn a_question_can_be_answered_only_once_the_plan_is_ready() {
    let mut player = Player::with_story(100, 24);
    player.held = Some(Vec::new());
    player.press("j\n");
    player.expect_part("Comparing with the workspace");
    player.expect_no("[ Roll back");
    let held = player.held.take().unwrap();
    player.run(held);
    player.expect_part("[ Roll back to before this turn ]");
    player.press("\u{1b}");
    player.expect_part("Nothing was changed.");
    assert!(player.model.dialog.is_none());
}

#[test]
fn the_screen_says_when_there_is_nothing_to_take_back() {
    let mut player = Player::with_story(100, 24);
    player.press("U");
    player.expect_part("no rollback to undo in this workspace");
    player.press("\n");
    assert!(player.model.dialog.is_none());
    player.press("t");
    player.expect_part("Roll back to before this turn: deletes 1 file");
}

#[test]
fn names_and_pins_and_new_checkpoints_are_stored() {
    let mut player = Player::with_story(140, 24);
    player.press("ngood\n");
    player.expect_part("Named the checkpoint good.");
    player.expect_part("[good]");
    player.press("p");
    player.expect_part("pinned");
    player.press("p");
    player.expect_part("The checkpoint is no longer pinned.");
    player.press("n\u{8}\u{8}\u{8}\u{8}\n");
    player.expect_part("Removed the name of the checkpoint.");
    player.press("nbad name!\n");
    assert!(player.model.dialog.is_none());
    player.press("cbefore lunch\n");
    player.expect_part("Took a checkpoint.");
    player.expect_part("before lunch");
    player.press("gu");
    player.expect_part("Only a turn can be undone");
}

#[test]
fn the_command_that_continues_a_conversation_is_copied_and_shown() {
    let mut player = Player::with_story(100, 24);
    player.press("y");
    player.expect_part("Copied: mine --resume codex:b2");
    assert_eq!(player.done, ["Copy(\"mine --resume codex:b2\")"]);
    player.press("d");
    assert!(player.done[1].starts_with("PageDiff("), "{:?}", player.done);
}

#[test]
fn a_working_agent_is_shown_and_named_in_the_plan() {
    let mut player = Player::with_story(100, 24);
    player.report("claude:a1", ReportedEvent::TurnStart { prompt: Some("more".into()) });
    player.begin_call("claude:a1", "c9", &["x"]);
    player.open();
    player.expect_part("● claude is working now");
    player.press("j\n");
    player.expect_part("⚠ claude is working in this workspace right now");
}

#[test]
fn messages_that_would_be_printed_appear_in_the_foot() {
    let mut player = Player::with_story(100, 24);
    player.send(Message::Notes(vec!["a restore was interrupted and has been finished".into()]));
    player.expect_part("⚠ a restore was interrupted and has been finished");
    player.press("j");
    player.expect_no("interrupted");
}

#[test]
fn missed_checkpoints_are_reported_at_the_top() {
    let mut player = Player::with_story(100, 24);
    let failures = vec!["3 checkpoints failed: the disk is full".into()];
    let past = Past { failures, timeline: Default::default(), working: Vec::new(), others: 0 };
    player.send(Message::Past(Ok(Arc::new(past))));
    player.expect_part("⚠ 3 checkpoints failed: the disk is full");
}
