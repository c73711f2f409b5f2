//! Recognizes commands that push, or that change the references, HEAD or the stash of a repository.

use crate::shell::EffectKind;

use super::Invocation;

#[rustfmt::skip]
const GIT_VERBS: &[&str] = &[
    "am", "cherry-pick", "commit", "commit-tree", "fast-import", "filter-branch", "filter-repo",
    "gc", "merge", "mktag", "prune", "pull", "rebase", "replace", "reset", "revert",
    "switch", "update-ref", "reflog expire", "reflog delete", "worktree remove", "worktree prune",
    "worktree add", "submodule deinit", "submodule update", "notes add", "notes remove",
    "notes append", "notes prune", "bisect start", "bisect good", "bisect bad", "bisect reset",
    "remote remove", "remote rm", "remote prune", "stash push", "stash save", "stash drop",
    "stash clear", "stash pop", "stash branch", "stash store", "stash -u", "subtree add",
    "subtree merge", "subtree pull",
];

#[rustfmt::skip]
const JJ_VERBS: &[&str] = &[
    "abandon", "absorb", "bookmark create", "bookmark delete", "bookmark move", "bookmark set",
    "branch", "commit", "describe", "desc", "edit", "git fetch", "new", "op restore", "op undo",
    "undo", "rebase", "resolve", "restore", "revert", "split", "squash", "duplicate", "backout",
];

#[rustfmt::skip]
const HG_VERBS: &[&str] = &[
    "commit", "ci", "amend", "backout", "graft", "histedit", "import", "merge", "pull",
    "rebase", "rollback", "shelve", "strip", "tag", "unshelve", "update", "up", "branch",
    "bookmark", "uncommit",
];

/// Finds the effect of a git, jj or hg command. Removing `.git` does not count as an effect,
/// because the files in it are protected like all files that a command names.
pub(super) fn find_effect(command: &Invocation<'_>) -> Option<EffectKind> {
    match command.base {
        "git" => find_git_effect(&command.skip_options(&[
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--exec-path",
            "--config-env",
        ])),
        "jj" => command.has_any_verb(JJ_VERBS).then_some(EffectKind::Repository),
        "hg" => command.has_any_verb(HG_VERBS).then_some(EffectKind::Repository),
        _ => None,
    }
}

fn find_git_effect(command: &Invocation<'_>) -> Option<EffectKind> {
    let (verb, rest) = command.words.split_first()?;
    let has_flag = |flags: &[&str]| rest.iter().any(|word| flags.contains(word));
    let operands = &command.operands[1..];
    let changes = match *verb {
        "push" | "send-email" => return Some(EffectKind::Publish),
        "subtree" if operands.first() == Some(&"push") => return Some(EffectKind::Publish),
        "stash" => match rest.first() {
            Some(&"list" | &"show" | &"apply" | &"create") => false,
            Some(_) | None => true,
        },
        "branch" => is_branch_change(rest, operands),
        "tag" => is_tag_change(rest, operands),
        "checkout" => is_head_moving(rest),
        "symbolic-ref" => operands.len() > 1 || has_flag(&["-d", "--delete"]),
        "apply" | "restore" | "clean" | "fetch" => false,
        _ => command.has_any_verb(GIT_VERBS),
    };
    changes.then_some(EffectKind::Repository)
}

fn is_branch_change(rest: &[&str], operands: &[&str]) -> bool {
    let changing = |word: &&str| {
        let long = ["--delete", "--move", "--copy", "--force", "--edit-description"];
        let tracks = ["--set-upstream-to", "--unset-upstream", "--track"];
        let bundle = word.starts_with('-')
            && !word.starts_with("--")
            && word.contains(['d', 'D', 'm', 'M', 'f', 'c', 'C', 'u']);
        long.iter().chain(&tracks).any(|long| word.starts_with(long)) || bundle
    };
    let lists = |word: &&str| {
        let names = [
            "--list",
            "--contains",
            "--no-contains",
            "--merged",
            "--no-merged",
            "--points-at",
            "--sort",
            "--format",
        ];
        names.iter().any(|name| word.starts_with(name))
            || matches!(*word, "-a" | "-r" | "-v" | "-vv" | "-l" | "--all" | "--remotes")
    };
    rest.iter().any(changing) || (!operands.is_empty() && !rest.iter().any(lists))
}

fn is_tag_change(rest: &[&str], operands: &[&str]) -> bool {
    const CHANGING: &[&str] = &["-d", "--delete", "-f", "--force", "-a", "-s", "-m"];
    let lists = |word: &&str| {
        matches!(*word, "-l" | "--list" | "-v" | "--verify")
            || ["-n", "--contains", "--merged", "--points-at", "--sort", "--format"]
                .iter()
                .any(|name| word.starts_with(name))
    };
    rest.iter().any(|word| CHANGING.contains(word))
        || (!operands.is_empty() && !rest.iter().any(lists))
}

/// Returns true if a checkout moves HEAD instead of only writing files.
fn is_head_moving(rest: &[&str]) -> bool {
    let creates = |word: &&str| matches!(*word, "-b" | "-B" | "--orphan" | "--detach" | "-");
    if rest.iter().any(creates) {
        return true;
    }
    if rest.iter().any(|word| matches!(*word, "--" | "-p" | "--patch" | "--ours" | "--theirs")) {
        return false;
    }
    let operands: Vec<&&str> = rest.iter().filter(|word| !word.starts_with('-')).collect();
    match operands.as_slice() {
        [] => false,
        // A name that looks like a file name most likely is one: `git checkout .`, `… src/a.rs`.
        [one] => **one != "." && !one.starts_with("./") && !looks_like_file(one),
        // The operands are a tree and the files to take from it.
        _ => false,
    }
}

fn looks_like_file(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    name.ends_with('/')
        || last.rsplit_once('.').is_some_and(|(stem, extension)| {
            let letters = extension.bytes().all(|byte| byte.is_ascii_alphabetic());
            !stem.is_empty() && !extension.is_empty() && letters
        })
}
