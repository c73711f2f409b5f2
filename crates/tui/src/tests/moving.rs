//! Moving around: the list, the panes, the tabs, the filter, the mouse.

use super::player::Player;
use crate::input::{Input, Key};
use crate::message::{Command, Message};
use crate::model::SubjectKind;
use crate::model::list::ListLine;
use crate::model::pane::Tab;

fn kind(player: &Player) -> Option<SubjectKind> {
    player.model.subject().map(|subject| subject.kind)
}

#[test]
fn the_newest_turn_is_selected_first_and_headings_are_skipped() {
    let mut player = Player::with_story(100, 24);
    assert_eq!(player.model.subject_words(), "write the changelog");
    player.press("j");
    assert_eq!(player.model.subject_words(), "add a discount");
    player.press("jjj");
    assert_eq!(player.model.subject_words(), "add a discount");
    player.press("g");
    assert_eq!(player.model.subject_words(), "write the changelog");
    player.press("G");
    assert_eq!(player.model.subject_words(), "add a discount");
}

#[test]
fn the_right_arrow_opens_steps_and_then_goes_to_the_right_pane() {
    let mut player = Player::with_story(100, 24);
    player.press("j>");
    player.expect_part("2.1  Write src/cart.py");
    assert!(!player.model.is_pane_focused);
    player.press("jj");
    assert_eq!(kind(&player), Some(SubjectKind::Step));
    player.press(">");
    assert!(player.model.is_pane_focused);
    player.press("<<");
    assert_eq!((kind(&player), player.model.is_pane_focused), (Some(SubjectKind::Turn), false));
    player.expect_no("2.1");
}

#[test]
fn a_new_turn_does_not_move_the_selection() {
    let mut player = Player::with_story(100, 24);
    player.press("j");
    player.play_turn("claude:a1", "meanwhile", &[("new", "1")]);
    player.send(Message::Tick(player.model.now));
    player.expect_part("meanwhile");
    assert_eq!(player.model.subject_words(), "add a discount");
}

#[test]
fn a_new_turn_changes_neither_the_chosen_files_nor_the_place_in_the_pane() {
    let mut player = Player::with_story(100, 24);
    player.press("j j ");
    player.expect_part("[x] + test_cart.py");
    player.play_turn("claude:a1", "meanwhile", &[("new", "1")]);
    player.send(Message::Tick(player.model.now));
    player.expect_part("meanwhile");
    player.expect_part("[x] + test_cart.py");
    player.expect_part("Restore the selected file: deletes");
}

#[test]
fn a_narrow_screen_shows_one_pane_at_a_time() {
    let mut player = Player::with_story(80, 24);
    player.expect_no("Coverage");
    player.press("\t");
    player.expect_part("Coverage");
    player.expect_no("Today");
    player.press("\t");
    assert_eq!(player.model.pane.tab, Tab::Diff);
    player.press("\u{1b}");
    player.expect_part("Today");
    player.send(Message::Input(Input::Resize(100, 24)));
    player.expect_part("Today");
    player.expect_part("Coverage");
}

#[test]
fn the_filter_is_applied_after_every_key_and_finds_prompts_and_files_and_commands() {
    let mut player = Player::with_story(100, 24);
    let count = |player: &Player| {
        player.model.list.lines.iter().filter(|line| matches!(line, ListLine::Entry(_))).count()
    };
    for (words, rows) in [("disc", 1), ("changes.md", 1), ("test_cart", 1), ("a", 2), ("zzz", 0)] {
        player.press(&format!("/{words}"));
        assert_eq!(count(&player), rows, "{words}");
        player.press("\u{1b}");
        assert_eq!(count(&player), 2);
    }
    player.press("/zzz");
    player.expect_part("Nothing contains “zzz”.");
    player.press("\u{8}\u{8}\u{8}discount\n");
    assert!(!player.model.is_filtering);
    assert_eq!(player.model.subject_words(), "add a discount");
    // The filter stays until the user presses Escape.
    player.press("j");
    assert_eq!(count(&player), 1);
    player.press("\u{1b}");
    assert_eq!(count(&player), 2);
}

#[test]
fn escape_goes_back_and_finally_closes_the_screen() {
    let mut player = Player::with_story(100, 24);
    player.press("j>>");
    assert!(player.model.is_pane_focused);
    player.press("\u{1b}");
    assert!(!player.model.is_pane_focused && player.done.is_empty());
    player.press("\u{1b}");
    assert_eq!(player.done, ["Quit"]);
    let mut player = Player::with_story(100, 24);
    player.press("q");
    player.press_key(Key::Ctrl('c'));
    assert_eq!(player.done, ["Quit", "Quit"]);
}

#[test]
fn the_mouse_can_scroll_and_can_select_rows_and_tabs() {
    let mut player = Player::with_story(100, 24);
    let row = |player: &Player, words: &str| {
        player.screen().lines().position(|line| line.contains(words)).unwrap() as u16
    };
    let at = row(&player, "add a discount");
    player.send(Message::Input(Input::Click(12, at)));
    assert_eq!(player.model.subject_words(), "add a discount");
    let line = player.screen().lines().nth(1).unwrap().to_owned();
    let column = line.chars().position(|sign| sign == 'E').unwrap() as u16;
    player.send(Message::Input(Input::Click(column, 1)));
    assert_eq!(player.model.pane.tab, Tab::Effects);
    player.send(Message::Input(Input::Wheel(12, at, -3)));
    assert_eq!(player.model.subject_words(), "write the changelog");
    // A heading cannot be selected.
    player.send(Message::Input(Input::Click(2, 1)));
    assert_eq!(player.model.subject_words(), "write the changelog");
}

#[test]
fn selecting_a_file_scrolls_the_diff_to_it() {
    let mut player = Player::new(120, 14);
    let long = "a line\n".repeat(40);
    player.play_turn("claude:a1", "two files", &[("a.txt", &long), ("tests/test_cart.py", &long)]);
    player.open();
    player.press(">>j>");
    assert_eq!(player.model.pane.tab, Tab::Diff);
    let first = player.screen().lines().nth(3).unwrap().to_owned();
    assert!(first.contains("tests/test_cart.py"), "{first}");
}

#[test]
fn a_plan_for_an_earlier_selection_is_dropped() {
    let mut player = Player::with_story(100, 24);
    player.held = Some(Vec::new());
    player.press("jk");
    let held = player.held.take().unwrap();
    assert_eq!(held.len(), 2);
    let [older, newer] = held.try_into().unwrap();
    let number = |command: &Command| match command {
        Command::MakePlan(number, _) => *number,
        other => panic!("{other:?}"),
    };
    assert!(number(&older) < number(&newer));
    player.expect_part("comparing with the workspace");
    player.run(vec![older]);
    player.expect_part("comparing with the workspace");
    player.run(vec![newer]);
    player.expect_part("Roll back to before this turn: deletes 1 file");
}

#[test]
fn a_screen_of_any_size_can_be_drawn() {
    let mut player = Player::with_story(100, 24);
    for keys in ["", "1", "2", "3", "4", "5", "?", "\u{1b}", "\n", "\u{1b}", "/x", "\u{1b}", "u"] {
        player.press(keys);
        for (columns, rows) in [(1, 1), (2, 3), (10, 5), (24, 8), (99, 10), (300, 100)] {
            player.send(Message::Input(Input::Resize(columns, rows)));
            player.screen();
        }
    }
}

#[test]
fn the_newest_rows_come_first_and_the_rest_follows() {
    let mut player = Player::new(100, 24);
    for number in 0..70 {
        player.write("a", &number.to_string());
        player.run(vec![Command::TakeCheckpoint(format!("reason {number}"))]);
    }
    let opened = &player.host.opened;
    let read = |limit| takeback_undo::view::read_timeline_at(opened, &player.path(""), limit);
    let (newest, all) = (read(Some(60)).unwrap(), read(None).unwrap());
    assert!(newest.is_partial && !all.is_partial);
    assert_eq!((newest.entries.len(), all.entries.len()), (60, 70));
    let ids = |timeline: &takeback_undo::view::Timeline| {
        timeline.entries.iter().take(60).map(takeback_undo::view::Entry::id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&newest), ids(&all));
    player.open();
    player.press("G");
    assert_eq!(player.model.subject_words(), "reason 0");
}
