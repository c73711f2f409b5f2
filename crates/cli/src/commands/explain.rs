//! `takeback explain`: says how takeback classifies a shell command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use takeback_undo::shell::{self, ScriptAnalysis, ScriptContext};

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Explain whether takeback expects a shell command to change files
///
/// Also lists the effects that no rollback reverses, and the files that the command may change or
/// delete. Nothing is run: takeback itself expands patterns, variables and loops.
#[derive(Args)]
#[command(after_help = "\
Examples:
  takeback explain 'git status'
  takeback explain 'sed -i s/a/b/ *.py && psql -c \"drop table x\"'")]
pub(crate) struct Arguments {
    /// The command, as one argument
    #[arg(value_name = "COMMAND")]
    command: String,
}

/// Analyzes a shell command as if it ran in the context's directory.
pub(crate) fn analyse_command(command: &str, context: &Context) -> Result<ScriptAnalysis, Failure> {
    let opened = context.opened()?;
    let directory = std::fs::canonicalize(&context.directory).unwrap_or(context.directory.clone());
    let workspace = opened.find_root(&directory).unwrap_or(directory.clone());
    let home = context.user_home();
    let surroundings = ScriptContext { directory: &directory, workspace: &workspace, home };
    Ok(shell::analyze_script(command, &surroundings))
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let analysis = analyse_command(&arguments.command, context)?;
    if context.globals.json {
        output::print_json(&analysis);
        return Ok(ExitCode::SUCCESS);
    }
    let verdict = if analysis.mutates { "Changes files" } else { "Only reads" };
    println!("{verdict}: {}.", output::disarm(&analysis.because));
    let effects = analysis
        .effects
        .iter()
        .map(|effect| format!("{}: {}", effect.kind.as_str(), output::disarm(&effect.command)));
    output::print_section("Effects that no rollback reverses", effects, context);
    let history = analysis.history.iter().map(|own| output::disarm(&own.command));
    output::print_section("Deletes takeback's own history", history, context);
    print_targets(&analysis, context);
    Ok(ExitCode::SUCCESS)
}

/// Prints the files that the command may change or delete.
fn print_targets(analysis: &ScriptAnalysis, context: &Context) {
    let tilde = |path: &PathBuf| output::tilde(path, context);
    let inside = analysis.paths.iter().filter(|path| !analysis.outside.contains(path));
    output::print_section("In the workspace", inside.map(tilde), context);
    output::print_section("Outside the workspace", analysis.outside.iter().map(tilde), context);
    output::print_section(
        "Directories whose untracked files it deletes",
        analysis.sweeps.iter().map(tilde),
        context,
    );
    let unknown = analysis.unknown.iter().map(|command| output::disarm(command));
    output::print_section("Commands whose changes are unknown until they run", unknown, context);
}
