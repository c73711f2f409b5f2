//! The files that a diff changes: `git apply x.patch`, `patch -p1 < x.patch`.

use std::path::PathBuf;

use super::arguments::{split_operands, split_operands_until};
use super::value::Value;
use super::{Change, Finder, Stream};

impl Finder<'_> {
    /// Adds the existing files that a diff changes, as far as the text of the diff is known. The
    /// program is also recorded as sweeping a directory, but a sweep alone does not show that these
    /// files are replaced.
    pub(super) fn visit_diff(
        &mut self,
        base: &str,
        args: &[Vec<Value>],
        text: &str,
        input: &Stream,
    ) {
        let (directories, rest, default) = match base {
            "patch" => (Vec::new(), args, None),
            "git" => {
                let (split, at) =
                    split_operands_until(args, "C c git-dir work-tree namespace config-env");
                let Some((verb, rest)) = args[at..].split_first() else { return };
                if !matches!(verb.first().and_then(Value::text), Some("apply" | "am")) {
                    return;
                }
                let directories = split.options_named(&["-C", "--work-tree"]);
                (directories.into_iter().flatten().cloned().collect(), rest, Some(1))
            }
            _ => return,
        };
        let split = split_operands(rest, "p d i o F B D r C strip directory input output");
        let strip = split.option(&["-p", "--strip"]);
        let strip = strip.and_then(|values| values.first()?.text()?.parse::<usize>().ok());
        let strip = strip.or(default);
        let skipped = usize::from(base == "patch");
        let inputs = split.options_named(&["-i", "--input"]);
        let files: Vec<Value> =
            split.operands.iter().skip(skipped).chain(inputs).flatten().cloned().collect();
        let mut roots = self.state.directories.clone().unwrap_or_default();
        roots.extend(self.find_directories(&directories).unwrap_or_default());
        if base == "git" {
            roots.extend(self.find_repositories().unwrap_or_default());
        }
        for inner in split.options_named(&["-d", "--directory"]) {
            roots.extend(self.find_directories(inner).unwrap_or_default());
        }
        for diff in self.find_diffs(&files, input) {
            for name in list_changed(&diff) {
                self.add_changed(name, strip, &roots, text);
            }
        }
    }

    /// Returns the texts of the diffs in these files, or in the input if there are no files.
    fn find_diffs(&mut self, files: &[Value], input: &Stream) -> Vec<String> {
        let mut diffs = Vec::new();
        for path in
            files.iter().filter_map(|file| self.resolve_value(file)).flatten().collect::<Vec<_>>()
        {
            match self.find_written(&path) {
                Some((written, _)) => diffs.extend(written),
                None => diffs.extend(self.file_system.read_text(&path)),
            }
        }
        diffs.extend(input.text.clone());
        diffs.retain(|diff| self.spend(diff.len()));
        diffs
    }

    /// Adds a file that a diff names, after removing the first `strip` directories from its path.
    fn add_changed(&mut self, name: &str, strip: Option<usize>, roots: &[PathBuf], text: &str) {
        // Without `-p`, `patch` looks for the file under several names.
        let counts = strip.map_or(0..=2, |strip| strip..=strip);
        for count in counts {
            let Some(name) = name.splitn(count + 1, '/').nth(count) else { continue };
            for root in roots {
                let path = root.join(name);
                if self.file_system.exists(&path) && !self.file_system.is_directory(&path) {
                    let path = Value::Text(path.to_string_lossy().into_owned());
                    self.add_value(&path, Change::Overwrites, text);
                }
            }
        }
    }
}

/// Lists the names of the files that a diff changes.
fn list_changed(diff: &str) -> impl Iterator<Item = &str> {
    diff.lines().filter_map(|line| {
        let name = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ "))?;
        let name = name.split('\t').next().unwrap_or(name).trim_end();
        (name != "/dev/null").then_some(name)
    })
}
