//! The screens as text, at several widths.

use ratatui::style::{Color, Modifier};

use super::player::{PLAIN, Player, text_of};
use crate::host::Problem;
use crate::message::Message;
use crate::theme::{Colors, Theme};

#[test]
fn the_history_fits_into_80_columns() {
    let player = Player::with_story(80, 14);
    player.expect(
        "
 ~/shop                                                           2 checkpoints
 Today
 codex  b2
 ●   1m  codex     write the changelog                    1 file     +2
 claude  a1
 ○   2m  claude    add a discount ▸                      2 files     +3




────────────────────────────────────────────────────────────────────────────────
 Enter: deletes 1 file, takes back 1 message

 Enter roll back  u undo, keep mine  → open  Space files  ? help  q quit
",
    );
}

#[test]
fn the_history_fits_into_100_columns() {
    let player = Player::with_story(100, 14);
    player.expect(
        "
 ~/shop                                                                               2 checkpoints
 Today                                            │ Files 1  Diff  Conversation  Effects  Coverage
 codex  b2                                        │
 ●   1m  write the changelog           +2         │ ./
 claude  a1                                       │ [ ] + CHANGES.md                 +2        codex
 ○   2m  add a discount ▸              +3         │
                                                  │
                                                  │
                                                  │
                                                  │
──────────────────────────────────────────────────┴─────────────────────────────────────────────────
 Roll back to before this turn: deletes 1 file, takes back 1 message

 Enter roll back  u undo, keep mine  → open  Space files  / filter  d diff  ? help  q quit
",
    );
}

#[test]
fn the_history_fits_into_140_columns() {
    let mut player = Player::with_story(140, 14);
    player.press("j2");
    player.expect(
        "
 ~/shop                                                                                                                       2 checkpoints
 Today                                                                │ Files 2  Diff  Conversation  Effects  Coverage
 codex  b2                                                            │
 ●   1m  write the changelog                               +2         │ This turn · Since then, until now   v changes this
 claude  a1                                                           │
 ○   2m  add a discount ▸                                  +3         │ • src/cart.py  +1 −0
                                                                      │     1   class Cart:
                                                                      │     2       items = []
                                                                      │     3 +     discount = 10
                                                                      │
──────────────────────────────────────────────────────────────────────┴─────────────────────────────────────────────────────────────────────
 Roll back to before this turn: restores 1 file, deletes 2, takes back 2 messages
 ⚠ 1 file edited since, by you or another agent
 Enter roll back  u undo, keep mine  → open  Space files  / filter  d diff  s search  ? help  q quit
",
    );
}

#[test]
fn without_unicode_the_screen_is_pure_ascii() {
    let mut player = Player::with_story(100, 24);
    player.press("\n");
    let text = text_of(&player.draw(Theme { is_unicode: false, ..PLAIN }));
    assert!(text.is_ascii(), "{text}");
    assert!(text.contains("* "), "{text}");
}

#[test]
fn without_colors_the_text_and_the_highlighting_remain() {
    let player = Player::with_story(140, 24);
    let plain = player.draw(PLAIN);
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(plain.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
    let basic = player.draw(Theme { colors: Colors::Basic, is_unicode: true });
    assert_eq!(text_of(&plain), text_of(&basic));
    let indexed =
        |cell: &ratatui::buffer::Cell| matches!(cell.fg, Color::Indexed(_) | Color::Rgb(..));
    assert!(basic.content.iter().any(|cell| cell.fg != Color::Reset));
    assert!(!basic.content.iter().any(indexed));
    let many = player.draw(Theme { colors: Colors::Many, is_unicode: true });
    assert!(many.content.iter().any(indexed));
}

#[test]
fn a_turn_that_was_taken_back_is_struck_through() {
    let mut player = Player::with_story(100, 24);
    player.press("\n>\n");
    let buffer = player.draw(PLAIN);
    let struck: String = buffer
        .content
        .iter()
        .filter(|cell| cell.modifier.contains(Modifier::CROSSED_OUT))
        .map(ratatui::buffer::Cell::symbol)
        .collect();
    assert_eq!(struck, "write the changelog");
}

#[test]
fn an_empty_history_says_how_to_begin() {
    let mut player = Player::new(80, 14);
    player.open();
    player.expect_part("No checkpoints yet.");
    player.expect_part("takeback install claude");
    player.press("c\n");
    player.expect_part("Took a checkpoint.");
}

#[test]
fn a_history_that_cannot_be_read_says_what_is_safe_and_what_to_do() {
    let mut player = Player::new(80, 14);
    let problem = Problem::new("the store is damaged").hint("run `takeback checkpoints repair`");
    player.send(Message::Past(Err(problem)));
    player.expect_part("the store is damaged");
    player.expect_part("Nothing was changed.");
    player.expect_part("takeback checkpoints repair");
    // If the history cannot be read again, the old content stays on the screen.
    let mut player = Player::with_story(80, 14);
    player.send(Message::Past(Err(Problem::new("the disk is gone"))));
    player.expect_part("the disk is gone");
    player.expect_part("add a discount");
}

#[test]
fn hostile_text_cannot_control_the_terminal() {
    let mut player = Player::new(100, 14);
    player.play_turn("claude:a1", "evil \u{1b}[2J\u{202e} prompt", &[("a\u{1b}[31m", "\u{1b}[2J")]);
    player.open();
    for tab in ["1", "2", "3", "4", "5", "\n"] {
        player.press(tab);
        assert!(!player.screen().contains(['\u{1b}', '\u{202e}']), "{}", player.screen());
    }
}

#[test]
fn wide_characters_keep_the_columns_aligned() {
    let mut player = Player::new(100, 14);
    player.play_turn(
        "claude:a1",
        "カートのテストを書いて、それから設定の名前を変えてください",
        &[("a", "1\n")],
    );
    player.play_turn("claude:a1", "short", &[("b", "1\n")]);
    player.open();
    let screen = player.screen();
    let lines: Vec<&str> = screen.lines().filter(|line| line.contains("+1")).take(2).collect();
    let column = |line: &str| takeback_base::columns::width_of(&line[..line.find("+1").unwrap()]);
    assert_eq!(column(lines[0]), column(lines[1]), "{screen}");
}

#[test]
fn times_are_relative_or_absolute() {
    let mut player = Player::with_story(100, 14);
    player.expect_part(" 1m ");
    player.press("t");
    player.expect_part("12:00");
}
