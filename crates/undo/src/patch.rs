//! Patches in the format of the tool `apply_patch`. A patch names the files that it changes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

/// The line with which a patch begins.
const BEGIN: &str = "*** Begin Patch";

/// The prefixes of the lines that name a file.
const FILE_MARKS: [&str; 4] =
    ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// Keys in a tool's input that may hold a patch.
const PATCH_KEYS: [&str; 5] = ["command", "input", "patch", "patchText", "patch_text"];

/// Returns true if a text contains a patch, perhaps with other text around it.
pub fn contains_patch(text: &str) -> bool {
    text.contains(BEGIN)
}

/// Returns true for the name of the program that applies patches.
pub(crate) fn is_patch_program(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("apply_patch" | "applypatch"))
}

/// Returns true if a command is a patch instead of a script: `*** Begin Patch…`, or a list with the
/// name of the program and the patch.
pub(crate) fn is_plain_patch(command: &Value) -> bool {
    match command {
        Value::String(text) => text.trim_start().starts_with(BEGIN),
        Value::Array(words) => match words.as_slice() {
            [Value::String(program), Value::String(patch)] => {
                is_patch_program(program) && contains_patch(patch)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Finds the text that contains a patch in a tool's input: the whole input, one of its fields, or a
/// word in a list of words.
pub fn find_patch(input: &Value) -> Option<&str> {
    let fields = PATCH_KEYS.iter().filter_map(|key| input.get(key));
    let values = std::iter::once(input).chain(fields).flat_map(|value| match value {
        Value::Array(words) => words.as_slice(),
        value => std::slice::from_ref(value),
    });
    values.filter_map(Value::as_str).find(|text| contains_patch(text))
}

/// Lists the files that a patch names, without duplicates.
///
/// ```
/// use std::path::PathBuf;
///
/// use takeback_undo::patch::list_patched_files;
///
/// let patch = "*** Begin Patch\n*** Update File: cart.rs\n@@\n-old\n+new\n*** End Patch";
/// assert_eq!(list_patched_files(patch), [PathBuf::from("cart.rs")]);
/// ```
pub fn list_patched_files(patch: &str) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let named = patch.lines().filter_map(|line| {
        let line = line.trim();
        let path = FILE_MARKS.iter().find_map(|mark| line.strip_prefix(mark))?.trim();
        (!path.is_empty() && seen.insert(path)).then(|| PathBuf::from(path))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_lists_each_file_once() {
        let patch = "*** Begin Patch\n*** Update File: a b.rs\n*** Move to: c.rs\n@@\n-x\n+*** Add File: no\n\
                     *** Add File: /d/e\n+y\n*** Delete File: f \r\n*** Delete File: f\n*** End Patch\n";
        assert_eq!(list_patched_files(patch), ["a b.rs", "c.rs", "/d/e", "f"].map(PathBuf::from));
    }

    #[test]
    fn a_patch_is_found_wherever_agents_put_it() {
        let patch = "*** Begin Patch\n*** End Patch";
        for input in [
            json!(patch),
            json!(["apply_patch", patch]),
            json!({ "input": patch }),
            json!({ "patchText": patch }),
            json!({ "command": ["apply_patch", patch] }),
        ] {
            assert_eq!(find_patch(&input), Some(patch), "{input}");
        }
        assert_eq!(find_patch(&json!({ "content": patch, "command": 7 })), None);
    }

    #[test]
    fn a_script_that_contains_a_patch_is_not_a_plain_patch() {
        assert!(is_plain_patch(&json!("\n*** Begin Patch\n")));
        assert!(is_plain_patch(&json!(["/bin/apply_patch", "*** Begin Patch"])));
        assert!(!is_plain_patch(&json!("apply_patch <<EOF\n*** Begin Patch")));
        assert!(!is_plain_patch(&json!(["bash", "-lc", "*** Begin Patch"])));
        assert!(!is_plain_patch(&json!(["apply_patch", "--help"])));
    }
}
