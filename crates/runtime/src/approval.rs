//! Decides whether a tool call may run, needs the user's approval, or is refused.
//!
//! By default, a call runs without a question if a checkpoint covers everything that it changes,
//! because its changes can be taken back. The user is asked about all other calls: those that leave
//! the workspace, and those with effects that no rollback reverses.
//!
//! An answer can be remembered for the rest of the task. Only the beginning of a call is
//! remembered: a program and its verb (`git push`), a host (`fetch_url docs.rs`), a directory
//! (`read /usr/include`) or a tool.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use takeback_base::text::disarm;
use takeback_undo::ToolWork;
use takeback_undo::shell::{PlainCommand, ScriptAnalysis, ScriptContext, list_plain_commands};

use crate::tools::find_host;

const OUTSIDE: &str = "outside the workspace";

/// The maximum length of a command in a question, in characters.
const MAX_COMMAND: usize = 100;

/// Programs that run other programs with elevated privileges.
const PRIVILEGED: [&str; 5] = ["doas", "pkexec", "run0", "su", "sudo"];

/// The calls that need the user's approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// Calls that a rollback cannot take back.
    #[default]
    Effects,
    /// Calls that may change something, and calls that leave the workspace.
    Ask,
    /// No calls. Everything runs.
    Auto,
    /// No calls. Calls that would need approval in the mode `Effects` are refused.
    Never,
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The call runs.
    Run,
    /// The user is asked.
    Ask {
        /// The reason, worded so that it can follow the words "this call": "changes /etc/hosts".
        because: String,
        /// The prefix of the call, which can be remembered so that the user is not asked again.
        remember: Option<String>,
    },
    /// The call does not run. The model reads the reason.
    Refuse {
        /// The reason, worded so that it can follow the words "this call".
        because: String,
    },
}

/// A tool call that needs a decision.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct ApprovalRequest<'a> {
    pub mode: ApprovalMode,
    pub tool: &'a str,
    pub input: &'a Value,
    /// The effect of the call, from [`Tool::work`](crate::tools::Tool::work).
    pub work: &'a ToolWork,
    /// The paths that the call names, from [`Tool::paths`](crate::tools::Tool::paths).
    pub paths: &'a [PathBuf],
    /// The analysis of the script, if the call runs one.
    pub analysis: Option<&'a ScriptAnalysis>,
    /// The directory that the agent works in.
    pub directory: &'a Path,
    /// The canonical path of the root of the workspace, or of the agent's directory if that
    /// directory cannot be a workspace.
    pub workspace: &'a Path,
    /// True if a checkpoint of the workspace is taken before the call.
    pub is_covered: bool,
    /// Prefixes of calls that the user allowed for the rest of the task.
    pub remembered: &'a BTreeSet<String>,
}

/// A reason to ask the user.
struct Reason {
    because: String,
    remember: Option<String>,
}

impl Reason {
    /// Creates a reason for a question whose answer cannot be remembered.
    fn once(because: String) -> Reason {
        Reason { because, remember: None }
    }
}

/// The reason why a call that needs approval is refused in [`ApprovalMode::Never`].
pub(crate) const NO_USER: &str = "no user can approve the call in this session";

/// Decides whether a call runs, needs the user's approval, or is refused.
///
/// ```
/// use std::path::Path;
///
/// use serde_json::json;
/// use takeback_runtime::approval::{ApprovalMode, ApprovalRequest, Decision, decide};
/// use takeback_undo::ToolWork;
/// use takeback_undo::shell::{ScriptContext, analyze_script};
///
/// let shop = Path::new("/srv/shop");
/// let decision = |script: &str| {
///     let context = ScriptContext { directory: shop, workspace: shop, home: None };
///     decide(&ApprovalRequest {
///         mode: ApprovalMode::Effects,
///         tool: "terminal",
///         input: &json!({ "command": script }),
///         work: &ToolWork::run_script(script),
///         paths: &[],
///         analysis: Some(&analyze_script(script, &context)),
///         directory: shop,
///         workspace: shop,
///         is_covered: true,
///         remembered: &Default::default(),
///     })
/// };
/// // A checkpoint can take this back.
/// assert_eq!(decision("rm cart.rs"), Decision::Run);
/// assert!(matches!(decision("git push"), Decision::Ask { .. }));
/// ```
pub fn decide(request: &ApprovalRequest<'_>) -> Decision {
    if let Some(own) = request.analysis.and_then(|analysis| analysis.history.first()) {
        let because =
            format!("runs {}, which deletes takeback's history", quote_command(&own.command));
        return Decision::Refuse { because };
    }
    if request.mode == ApprovalMode::Auto {
        return Decision::Run;
    }
    match request.find_reason() {
        None => Decision::Run,
        Some(Reason { because, .. }) if request.mode == ApprovalMode::Never => {
            let because = format!("{because}; {NO_USER}");
            Decision::Refuse { because }
        }
        Some(Reason { because, remember }) => Decision::Ask { because, remember },
    }
}

impl ApprovalRequest<'_> {
    /// Finds the most important reason to ask the user. Paths outside the workspace come first,
    /// then changes that no checkpoint covers, then effects.
    fn find_reason(&self) -> Option<Reason> {
        let reason = self.find_outside_path().or_else(|| self.find_uncovered());
        let reason = reason.or_else(|| self.find_effect()).or_else(|| self.find_fetch());
        match self.mode {
            ApprovalMode::Ask => reason.or_else(|| self.find_change()),
            ApprovalMode::Effects | ApprovalMode::Never | ApprovalMode::Auto => reason,
        }
    }

    /// Finds a path outside the workspace.
    fn find_outside_path(&self) -> Option<Reason> {
        let is_reading = *self.work == ToolWork::Reads;
        for path in self.paths.iter().filter(|path| self.is_outside(path)) {
            let name = disarm(&path.to_string_lossy());
            if !is_reading {
                return Some(Reason::once(format!("changes {name}, which is {OUTSIDE}")));
            }
            if !path.ancestors().map(read_key).any(|key| self.remembered.contains(&key)) {
                let directory =
                    if self.tool == "read_file" { path.parent() } else { Some(&**path) };
                // Remembering the root of the file system would allow everything.
                let directory = directory.filter(|directory| directory.parent().is_some());
                let remember = directory.map(read_key);
                return Some(Reason {
                    because: format!("reads {name}, which is {OUTSIDE}"),
                    remember,
                });
            }
        }
        let analysis = self.analysis?;
        let swept = analysis.sweeps.iter().filter(|path| self.is_outside(path));
        let path = analysis.outside.iter().chain(swept).next()?;
        let name = disarm(&path.to_string_lossy());
        Some(Reason::once(format!("changes {name}, which is {OUTSIDE}")))
    }

    fn is_outside(&self, path: &Path) -> bool {
        !path.starts_with(self.workspace)
    }

    /// Finds changes that no checkpoint covers.
    fn find_uncovered(&self) -> Option<Reason> {
        if let Some(unknown) = self.analysis.and_then(|analysis| analysis.unknown.first()) {
            let because =
                format!("runs {}, whose files are not known in advance", quote_command(unknown));
            return Some(Reason::once(because));
        }
        if let Some(program) = self.script().and_then(find_privileged) {
            return Some(Reason::once(format!("runs `{program}`, which can change the system")));
        }
        let because = "may change files, and no checkpoint covers them";
        (!self.is_covered && self.may_change()).then(|| Reason::once(because.to_owned()))
    }

    /// Finds an effect that no rollback reverses and that the user has not already allowed.
    fn find_effect(&self) -> Option<Reason> {
        let effects = &self.analysis?.effects;
        let commands = self.list_commands();
        let find_prefix = |text: &str| {
            let command = commands.iter().flatten().find(|command| command.text == text)?;
            command.prefix.as_deref()
        };
        let open: Vec<_> = effects
            .iter()
            .map(|effect| (effect, find_prefix(&effect.command)))
            .filter(|(_, prefix)| prefix.is_none_or(|prefix| !self.remembered.contains(prefix)))
            .collect();
        let (effect, _) = open.first()?;
        let (command, kind) = (quote_command(&effect.command), effect.kind.as_str());
        let because = format!("runs {command}, which no rollback can take back ({kind})");
        Some(Reason { because, remember: find_only(open.iter().map(|(_, prefix)| *prefix)) })
    }

    /// Finds a request to another machine.
    fn find_fetch(&self) -> Option<Reason> {
        if self.tool != "fetch_url" {
            return None;
        }
        // A call without a valid address fails, and sends nothing.
        let host = find_host(self.input.get("url")?.as_str()?)?;
        let key = format!("fetch_url {host}");
        (!self.remembered.contains(&key)).then(|| Reason {
            because: format!("sends a request to {}", disarm(&host)),
            remember: Some(key),
        })
    }

    /// Finds a change that the user has not already allowed.
    fn find_change(&self) -> Option<Reason> {
        if !self.may_change() {
            return None;
        }
        if self.script().is_none() {
            let is_remembered = self.remembered.contains(self.tool);
            let remember = Some(self.tool.to_owned());
            let because = "may change files".to_owned();
            return (!is_remembered).then_some(Reason { because, remember });
        }
        let because = match self.analysis {
            Some(analysis) => format!("may change files: {}", disarm(&analysis.because)),
            None => "may change files".to_owned(),
        };
        let Some(commands) = self.list_commands() else { return Some(Reason::once(because)) };
        let changing = commands.iter().filter(|command| command.mutates);
        let open = changing.map(|command| command.prefix.as_deref());
        let open: Vec<_> =
            open.filter(|prefix| prefix.is_none_or(|p| !self.remembered.contains(p))).collect();
        (!open.is_empty()).then(|| Reason { because, remember: find_only(open.into_iter()) })
    }

    fn may_change(&self) -> bool {
        match self.work {
            ToolWork::Reads => false,
            ToolWork::Shell { .. } => self.analysis.is_none_or(|analysis| analysis.mutates),
            ToolWork::Changes { .. } | ToolWork::Writes { .. } => true,
        }
    }

    fn script(&self) -> Option<&str> {
        match self.work {
            ToolWork::Shell { script, .. } => Some(script),
            ToolWork::Changes { script, .. } => script.as_deref(),
            ToolWork::Reads | ToolWork::Writes { .. } => None,
        }
    }

    /// Lists the commands of the script. Returns `None` if there is no script, or if it is more
    /// than a plain list of commands.
    fn list_commands(&self) -> Option<Vec<PlainCommand>> {
        let (directory, workspace) = (self.directory, self.workspace);
        list_plain_commands(self.script()?, &ScriptContext { directory, workspace, home: None })
    }
}

/// Returns the prefix that all commands share, which can be remembered. Returns `None` if their
/// prefixes differ, or if one of the commands has no prefix.
fn find_only<'p>(prefixes: impl Iterator<Item = Option<&'p str>>) -> Option<String> {
    let prefixes: BTreeSet<&str> = prefixes.collect::<Option<_>>()?;
    match prefixes.into_iter().collect::<Vec<_>>()[..] {
        [only] => Some(only.to_owned()),
        _ => None,
    }
}

fn read_key(directory: &Path) -> String {
    format!("read {}", directory.to_string_lossy())
}

/// Finds the name of a program that runs other programs with elevated privileges, anywhere in a
/// script. If the name is in fact an argument, the only consequence is an unnecessary question.
fn find_privileged(script: &str) -> Option<&'static str> {
    let words = script.split(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c));
    words.into_iter().find_map(|word| PRIVILEGED.into_iter().find(|program| *program == word))
}

/// Quotes a command, shortened and on one line.
fn quote_command(command: &str) -> String {
    let command = disarm(command);
    match command.char_indices().nth(MAX_COMMAND) {
        Some((at, _)) => format!("`{}…`", &command[..at]),
        None => format!("`{command}`"),
    }
}

#[cfg(test)]
mod tests;
