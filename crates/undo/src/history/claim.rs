//! The likelihood that a call changed a path, and the reasons for doubt.

use takeback_tree::{ObjectError, Oid, RelPath, Store};

use super::record::CallRef;

/// The likelihood that a call changed a path. The variants are in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// The call names the files it changes, and the path is not among them.
    None,
    /// The call's script is known to write only other files. Or the call names other files, but its
    /// tool may also change files that the call does not name.
    Unlikely,
    /// The call may change anything.
    Any,
    /// The call names the path, or its script is known to write it.
    Names,
}

/// The reason why it is uncertain whether a session made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    OtherSession,
    Late,
    UnknownEnd,
    NotNamed,
    Editor,
    EditorsOwnFile,
    Run,
    Rollback,
}

impl Doubt {
    /// Returns the reason for the doubt, as a clause to show to the user.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Doubt::OtherSession => "another session was working at the same time",
            Doubt::Late => "the checkpoint was late: the call may have begun before it",
            Doubt::UnknownEnd => "the end of the call is unknown",
            Doubt::NotNamed => "the call names other files",
            Doubt::Editor => "open in an editor at that time",
            Doubt::EditorsOwnFile => "editors create files with such names",
            Doubt::Run => "changed while `takeback run` ran, by the command or by you",
            Doubt::Rollback => "a rollback was made during the call",
        }
    }
}

/// Words in the names of editing tools. A call to such a tool changes only the files that it names.
const EDITING_WORDS: [&str; 10] =
    ["edit", "write", "patch", "replace", "create", "insert", "delete", "remove", "move", "rename"];

/// Judges how likely it is that a call changed a path.
pub(crate) fn find_claim(call: &CallRef, path: &RelPath, is_directory: bool) -> Claim {
    // Writing a file may create the directories above it.
    let is_about =
        |named: &RelPath| path.starts_with(named) || (is_directory && named.starts_with(path));
    if call.named.iter().chain(&call.writes).any(is_about) {
        Claim::Names
    } else if call.bounded {
        Claim::Unlikely
    } else if call.script || call.named.is_empty() {
        Claim::Any
    } else if is_editing_tool(&call.tool) {
        Claim::None
    } else {
        Claim::Unlikely
    }
}

/// Returns true if a call to a tool with this name changes only the files that the call names.
fn is_editing_tool(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    EDITING_WORDS.iter().any(|word| tool.contains(word))
}

/// Returns the reason to doubt that a script changed a path that it does not name: an editor may
/// have changed the path.
pub(crate) fn find_editor_doubt(
    store: &Store,
    trees: &[Oid],
    path: &RelPath,
) -> Result<Option<Doubt>, ObjectError> {
    if is_editors_own_file(path) {
        return Ok(Some(Doubt::EditorsOwnFile));
    }
    Ok(has_editor_file(store, trees, path)?.then_some(Doubt::Editor))
}

/// Returns true if a path has the name of a file that an editor creates for itself: a swap, lock or
/// backup file, or the file that vim creates to test whether it may write to a directory.
fn is_editors_own_file(path: &RelPath) -> bool {
    let Some(name) = path.as_path().file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let is_swap = name.starts_with('.')
        && [".swp", ".swo", ".swn", ".swx"].iter().any(|ending| name.ends_with(ending));
    let is_lock = name.starts_with(".#") || name.starts_with(".~lock.");
    let is_backup = name.ends_with('~') || (name.starts_with('#') && name.ends_with('#'));
    is_swap || is_lock || is_backup || name == "4913"
}

/// Returns true if one of these states shows that an editor had a file open. Editors keep a swap or
/// lock file next to an open file.
fn has_editor_file(store: &Store, trees: &[Oid], path: &RelPath) -> Result<bool, ObjectError> {
    let Some(name) = path.as_path().file_name().and_then(|name| name.to_str()) else {
        return Ok(false);
    };
    for beside in [format!(".{name}.swp"), format!(".#{name}"), format!("#{name}#")] {
        let beside = path.as_path().with_file_name(beside);
        let Ok(beside) = RelPath::from_path(&beside) else { continue };
        for tree in trees {
            if store.find_entry(tree, &beside)?.is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
