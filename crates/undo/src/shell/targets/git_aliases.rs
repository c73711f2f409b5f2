//! Git aliases: `git nuke` can be `git clean -fdx`, or a shell script.

use std::path::PathBuf;

use super::Finder;
use super::value::Value;

/// The user's configuration files.
const USER_FILES: [&str; 2] = ["~/.config/git/config", "~/.gitconfig"];

impl Finder<'_> {
    /// Finds the command that an alias stands for. `options` are the values of `-c`.
    pub(super) fn find_git_alias<'v>(
        &mut self,
        name: &str,
        options: impl Iterator<Item = &'v str>,
    ) -> Option<String> {
        if OWN_COMMANDS.contains(&name) {
            return None;
        }
        let parse = |option: &str| {
            let (key, value) = option.split_once('=')?;
            let alias = strip_prefix_ignoring_case(key, "alias.")?;
            alias.eq_ignore_ascii_case(name).then(|| value.to_owned())
        };
        let given = options.filter_map(parse).last();
        let is_it = |alias: &&(String, String)| alias.0.eq_ignore_ascii_case(name);
        let defined = || self.git_aliases.iter().rev().find(is_it).map(|(_, text)| text.clone());
        given.or_else(defined).or_else(|| {
            let files = self.list_git_configurations();
            files.iter().find_map(|file| find_alias(&self.file_system.read_text(file)?, name))
        })
    }

    /// Records the aliases that `git config` with these operands defines.
    pub(super) fn define_git_aliases(&mut self, operands: &[Vec<Value>]) {
        for pair in operands.windows(2) {
            let [key, value] =
                [&pair[0], &pair[1]].map(|group| group.first().and_then(Value::text));
            let name = key.and_then(|key| strip_prefix_ignoring_case(key, "alias."));
            if let (Some(name), Some(value)) = (name, value) {
                self.git_aliases.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// Lists the configuration files that may define aliases. Earlier files in the list take
    /// precedence.
    fn list_git_configurations(&mut self) -> Vec<PathBuf> {
        let roots = self.find_repositories().unwrap_or_default();
        let mut files: Vec<PathBuf> = roots.iter().map(|root| root.join(".git/config")).collect();
        for file in USER_FILES.iter().rev() {
            let file = self.expand_home(Value::Text((*file).to_owned()));
            files.extend(self.resolve_value(&file).unwrap_or_default());
        }
        files
    }

    /// Visits the command that an alias stands for.
    pub(super) fn visit_git_alias(&mut self, alias: &str, args: &[Vec<Value>]) {
        let before = self.state.directories.clone();
        let script = match alias.strip_prefix('!') {
            Some(script) => {
                // git runs a script in the root of the work tree.
                self.state.directories = self.find_repositories();
                script.to_owned()
            }
            None => format!("git {alias}"),
        };
        self.is_bounded = false;
        let arguments = if args.is_empty() { "" } else { " \"$@\"" };
        self.visit_inner_script(&format!("{script}{arguments}"), args);
        self.state.directories = before;
    }
}

/// Git's own commands that can change something. An alias cannot replace them.
#[rustfmt::skip]
const OWN_COMMANDS: &[&str] = &[
    "add", "am", "apply", "archive", "bisect", "branch", "bundle", "checkout", "cherry-pick",
    "clean", "clone", "commit", "config", "diff", "fetch", "format-patch", "gc", "init", "log",
    "merge", "mv", "notes", "pull", "push", "read-tree", "rebase", "remote", "reset", "restore",
    "revert", "rm", "show", "sparse-checkout", "stash", "status", "submodule", "switch", "tag",
    "update-index", "update-ref", "worktree",
];

fn strip_prefix_ignoring_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Finds an alias in the text of a configuration file. The last definition counts.
fn find_alias(text: &str, name: &str) -> Option<String> {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut is_alias = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default();
            is_alias = section.trim().eq_ignore_ascii_case("alias");
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_alias) else { continue };
        if key.trim().eq_ignore_ascii_case(name) {
            found = Some(unquote(value.trim()));
        }
    }
    found
}

/// Removes the quotes and the comment of a value.
fn unquote(value: &str) -> String {
    let mut plain = String::new();
    let mut is_quoted = false;
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => plain.push(match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(escaped) => escaped,
                None => break,
            }),
            character => plain.push(character),
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_found_in_a_configuration() {
        let text = "[core]\n\tnuke = no\n[Alias]\n  nuke = clean -fdx ; all\n\
                    \tScript = \"!rm -rf \\\"a b\\\"; true\"\n\
                    long = clean \\\n  -fdx\n[alias \"sub\"]\nother = x\n";
        let find = |name: &str| find_alias(text, name);
        assert_eq!(find("nuke").as_deref(), Some("clean -fdx"));
        assert_eq!(find("script").as_deref(), Some("!rm -rf \"a b\"; true"));
        assert_eq!(find("long").as_deref(), Some("clean    -fdx"));
        assert_eq!(find("other"), None);
    }
}
