//! Recognizes commands that publish something: a push, a release, a comment, an upload.

use super::Invocation;

/// Programs, and the verbs with which they publish something.
#[rustfmt::skip]
const PUBLISH: &[(&str, &[&str])] = &[
    ("bun", &["publish"]),
    ("cargo", &["publish", "yank", "owner"]),
    ("docker", &["push", "image push", "compose push", "manifest push"]),
    ("gem", &["push", "yank"]),
    ("helm", &["push"]),
    ("hg", &["push"]),
    ("jj", &["git push"]),
    ("lerna", &["publish"]),
    ("mvn", &["deploy"]),
    ("npm", &["publish", "unpublish", "deprecate", "dist-tag add", "dist-tag rm", "access"]),
    ("pnpm", &["publish"]),
    ("podman", &["push"]),
    ("poetry", &["publish"]),
    ("svn", &["commit", "ci"]),
    ("twine", &["upload"]),
    ("uv", &["publish"]),
    ("yarn", &["publish", "npm publish"]),
];

/// Verbs with which `gh` and `glab` change something that other people see.
#[rustfmt::skip]
const FORGE_VERBS: &[&str] = &[
    "add", "approve", "archive", "cancel", "clone-and-push", "close", "comment", "create", "delete",
    "disable", "edit", "enable", "fork", "lock", "merge", "note", "pin", "ready", "rename",
        "reopen",
    "rerun", "review", "revoke", "run", "set", "sync", "transfer", "unarchive", "unlock", "unpin",
    "update", "update-branch", "upload",
];

/// Returns true if a command publishes something.
pub(super) fn is_publishing(command: &Invocation<'_>) -> bool {
    match command.base {
        "gh" | "glab" => is_forge_change(command),
        "scp" | "rsync" => command.operands.last().is_some_and(|last| is_remote(last)),
        "sftp" => !command.operands.is_empty(),
        "semantic-release" => !command.words.contains(&"--dry-run"),
        _ => {
            PUBLISH.iter().any(|(base, verbs)| *base == command.base && command.has_any_verb(verbs))
        }
    }
}

fn is_forge_change(command: &Invocation<'_>) -> bool {
    let command = command.skip_options(&["-R", "--repo"]);
    match command.operands.as_slice() {
        ["api", ..] => {
            let methods = command.option_values(&["-X", "--method"]);
            let fields = &["-f", "-F", "--field", "--raw-field", "--input"];
            let is_sending = !command.option_values(fields).is_empty();
            match methods.last() {
                Some(method) => !method.eq_ignore_ascii_case("get"),
                None => is_sending,
            }
        }
        ["auth" | "config" | "alias" | "extension" | "completion" | "search", ..] => false,
        [_, verb, ..] => FORGE_VERBS.contains(verb),
        _ => false,
    }
}

/// Returns true for `host:path` and for a URL, but not for a path with a colon in a later part.
fn is_remote(word: &str) -> bool {
    let host = word.split_once(':').map(|(host, _)| host);
    word.starts_with("rsync://") || host.is_some_and(|host| !host.is_empty() && !host.contains('/'))
}
