//! `cargo xtask test-api`: schemathesis sends requests of every kind that the OpenAPI document
//! allows, and some that it does not. No answer may be an internal error, or differ from the
//! document.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::served::{Served, takeback};
use super::story::Length;
use super::{build_program, story};
use crate::Failure;
use crate::results::Tally;
use crate::run::{is_success, run_step, target_directory};

/// The version of schemathesis.
const VERSION: &str = "4.32.5";

/// The properties that every answer must have.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_schema_conformance,response_headers_conformance";

/// Tests the API. `options` may contain `--examples N`.
pub(crate) fn test_api(options: &[&str]) -> Result<(), Failure> {
    let examples = match options {
        [] => "30",
        ["--examples", number] => number,
        _ => return Err("usage: cargo xtask test-api [--examples N]".into()),
    };
    build_program()?;
    let Some(program) = fetch_schemathesis()? else {
        println!("skipped: no Python, or the package index cannot be reached");
        return Ok(());
    };
    let base = target_directory().join("api-test");
    let _ = fs::remove_dir_all(&base);
    story::play_story(&base, Length::Whole)?;
    let served = Served::start(&base)?;
    run_step(prepare_run(&program, &served)?.args(["--max-examples", examples]))
}

/// Sends a few requests of each kind, as part of `cargo xtask test`.
pub(super) fn test_usual_requests(served: &Served, tally: &mut Tally) -> Result<(), Failure> {
    let Ok(Some(program)) = fetch_schemathesis() else {
        tally.add_skipped("the HTTP API", "schemathesis cannot be installed");
        return Ok(());
    };
    let mut command = prepare_run(&program, served)?;
    let tested = run_step(command.args(["--max-examples", "2", "--phases", "fuzzing"]));
    match &tested {
        Ok(()) => tally.add_passed(),
        Err(_) => tally.add_failed(),
    }
    tested
}

/// Prepares a run of schemathesis against a server.
fn prepare_run(program: &Path, served: &Served) -> Result<Command, Failure> {
    let base = served.base();
    write_config(base, served)?;
    let mut command = Command::new(program);
    command.current_dir(base).arg("run").arg(format!("{}/api/v1/openapi.json", served.origin()));
    // Event streams never end, so they are left out.
    for path in ["/api/v1/events", "/api/v1/chats/{session}/events"] {
        command.args(["--exclude-path", path]);
    }
    command.args(["--checks", CHECKS, "--seed", "1", "--no-color", "--request-timeout", "60"]);
    Ok(command)
}

/// Writes the ids of an existing workspace and checkpoint into the configuration of schemathesis.
/// Without them, the server would refuse all requests because the workspace is unknown.
fn write_config(base: &Path, served: &Served) -> Result<(), Failure> {
    let list = takeback(base, &story::shop(base)).args(["list", "--json"]).output();
    let list = list.map_err(|error| error.to_string())?;
    let list: Value = serde_json::from_slice(&list.stdout).map_err(|error| error.to_string())?;
    let checkpoint = list["checkpoints"][0]["id"].as_str().ok_or("the story has no checkpoint")?;
    let store = takeback_tree::Store::open(base.join(".takeback/checkpoints/store"));
    let store = store.map_err(|error| error.to_string())?;
    let shop = story::shop(base).canonicalize().map_err(|error| error.to_string())?;
    let workspace = store.workspace_id(&shop);
    let token = served.link.split("token=").nth(1).unwrap_or_default();
    let text = format!(
        "headers = {{ Authorization = \"Bearer {token}\" }}\n\n[parameters]\n\
         workspace = \"{workspace}\"\n\"path.id\" = \"{checkpoint}\"\n\
         checkpoint = \"{checkpoint}\"\nsession = \"claude:c2\"\n"
    );
    let path = base.join("schemathesis.toml");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Installs schemathesis into an environment of its own. Returns `None` if that is impossible.
pub(super) fn fetch_schemathesis() -> Result<Option<PathBuf>, Failure> {
    let environment = target_directory().join("tools").join(format!("schemathesis-{VERSION}"));
    let program = environment.join("bin/schemathesis");
    if program.exists() {
        return Ok(Some(program));
    }
    if !is_success(Command::new("python3").arg("--version")) {
        return Ok(None);
    }
    run_step(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--retries", "1", &format!("schemathesis=={VERSION}")]);
    match run_step(&mut pip) {
        Ok(()) => Ok(Some(program)),
        Err(failure) => {
            println!("{failure}");
            let _ = fs::remove_dir_all(&environment);
            Ok(None)
        }
    }
}
