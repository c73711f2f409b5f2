//! Scripts that an agent is about to run.

#![no_main]

mod support;

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use takeback_undo::shell::{ScriptAnalysis, ScriptContext, analyze_script};

/// A workspace with a few files.
static WORKSPACE: LazyLock<&Path> = LazyLock::new(|| {
    for name in ["x", "a.txt", "d/e/f.log"] {
        let path = support::SCRATCH.join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("it is writable");
        std::fs::write(path, "rm x\n").expect("it is writable");
    }
    &support::SCRATCH
});

fuzz_target!(|bytes: &[u8]| {
    let script = String::from_utf8_lossy(bytes);
    check(&analyze(&script));
    // Bash runs the first line before it reads the second, so the second cannot hide the first.
    let found = analyze(&format!("rm x\n{script}"));
    check(&found);
    assert!(found.mutates);
    assert!(!found.bounded || found.paths.contains(&WORKSPACE.join("x")), "{found:?}");
});

fn analyze(script: &str) -> ScriptAnalysis {
    let directory = *WORKSPACE;
    let context = ScriptContext { directory, workspace: directory, home: Some(directory) };
    analyze_script(script, &context)
}

fn check(found: &ScriptAnalysis) {
    assert!(found.paths.iter().chain(&found.sweeps).all(|path| path.is_absolute()), "{found:?}");
    assert!(found.outside.iter().all(|path| found.paths.contains(path)), "{found:?}");
    assert!(!found.bounded || found.unknown.is_empty(), "{found:?}");
}
