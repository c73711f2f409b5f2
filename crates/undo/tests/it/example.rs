//! The example of an agent that is built on this crate.

use std::io::Write;
use std::process::Command;

#[test]
fn the_example_takes_back_a_turn_and_tells_its_model() {
    // Cargo builds the examples together with the tests, in a directory beside that of the tests.
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/agent_loop");
    if !program.exists() {
        // `cargo xtask test` collects the lines that begin with `skipped: `.
        let _ = writeln!(std::io::stderr(), "skipped: the example agent_loop is not built");
        return;
    }
    let output = Command::new(program).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("2 messages were taken back"), "{shown}");
}
