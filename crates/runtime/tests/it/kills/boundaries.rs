//! Kills at each point of the journal, before and after every append.

use std::os::unix::process::ExitStatusExt;

use takeback_script::Server;

use super::child::start_child;
use super::outcome::read_outcome;
use super::stories::find_story;

/// Runs the story once for every `step`-th point of the journal, kills the process at that point,
/// and lets another process finish. Compares the outcome with that of a run without kills. Returns
/// the number of kills.
fn kill_everywhere(name: &str, step: usize) -> usize {
    let story = find_story(name);
    let server = Server::start(story.script).unwrap();
    let run = |scratch: &_, kill_at| start_child(story, scratch, &server, kill_at).wait().unwrap();
    let undisturbed = story.prepare();
    assert!(run(&undisturbed, None).success());
    let expected = read_outcome(&undisturbed);
    for nth in (0..).step_by(step) {
        let scratch = story.prepare();
        let status = run(&scratch, Some(nth));
        if status.success() {
            return nth as usize / step;
        }
        assert_eq!(status.signal(), Some(9), "at point {nth}");
        assert!(run(&scratch, None).success(), "after point {nth}");
        assert_eq!(read_outcome(&scratch), expected, "killed at point {nth}");
    }
    unreachable!()
}

#[test]
fn the_turn_of_a_killed_process_continues_at_the_exact_step() {
    let kills = kill_everywhere("editor", 1);
    assert!(kills > 20, "{kills}");
}

#[test]
fn killed_subagents_continue_where_they_stopped() {
    let kills = kill_everywhere("subagents", 2);
    assert!(kills > 8, "{kills}");
}

#[test]
fn a_killed_compression_continues_in_one_child_session() {
    let kills = kill_everywhere("compression", 2);
    assert!(kills > 8, "{kills}");
}

#[test]
fn a_goal_has_only_one_last_turn_even_if_that_turn_is_killed() {
    let kills = kill_everywhere("budget", 1);
    assert!(kills > 10, "{kills}");
}

#[test]
fn a_command_is_never_run_twice_after_a_kill() {
    let story = find_story("command");
    let server = Server::start(story.script).unwrap();
    for nth in 0.. {
        let scratch = story.prepare();
        let run = |kill_at| start_child(story, &scratch, &server, kill_at).wait().unwrap();
        if run(Some(nth)).success() {
            assert!(nth > 6, "{nth}");
            return;
        }
        assert!(run(None).success(), "after point {nth}");
        assert_eq!(scratch.read("log.txt"), "line\n", "killed at point {nth}");
    }
}
