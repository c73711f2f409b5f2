//! Programs that write to a path that their arguments name: copies, archives, downloads.

use std::path::PathBuf;

use super::arguments::{last_name, split_operands};
use super::state::bound_values;
use super::value::Value;
use super::{Change, Finder, literals};

impl Finder<'_> {
    pub(super) fn visit_compression(&mut self, args: &[Vec<Value>], suffix: &str, text: &str) {
        let split = split_operands(args, "o S T suffix threads");
        for group in split.operands.iter().chain(split.options_named(&["-o"])) {
            for value in group {
                self.add_value(value, Change::Removes, text);
                if let Value::Text(name) = value {
                    let other = match name.strip_suffix(suffix) {
                        Some(plain) => plain.to_owned(),
                        None => format!("{name}{suffix}"),
                    };
                    self.add_value(&Value::Text(other), Change::Overwrites, text);
                }
            }
        }
    }

    /// Visits a program that copies or moves files to its last operand.
    pub(super) fn visit_copy(&mut self, base: &str, args: &[Vec<Value>], text: &str) {
        let valued = match base {
            "install" => "t S m o g target-directory suffix mode owner group",
            "rsync" => {
                "e f T B exclude include filter rsh files-from exclude-from backup-dir suffix"
            }
            "scp" => "P i o F J c S l",
            _ => "t S target-directory suffix",
        };
        let split = split_operands(args, valued);
        let mut sources = split.operands.as_slice();
        let mut targets = match split.option(&["-t", "--target-directory"]) {
            Some(target) => target,
            None => match sources {
                [only] if base == "ln" => find_names(only),
                [] => return,
                [only] => only.clone(),
                several => {
                    // The last word is the target, but an argument may expand to several words, or
                    // to none.
                    let last = several.iter().rposition(|group| !may_vanish(group)).unwrap_or(0);
                    if let ([before @ .., _], true) = (several, last + 1 == several.len())
                        && several.last().is_some_and(|group| group.len() == 1)
                    {
                        sources = before;
                    }
                    let mut targets = several[last..].concat();
                    if base == "ln" && last == 0 {
                        targets.extend(find_names(&several[0]));
                    }
                    targets
                }
            },
        };
        if has_hidden_options(args) {
            sources = &split.operands;
            targets.extend(sources.iter().flatten().cloned());
        }
        if base == "mv" || split.has(&["--remove-source-files"]) {
            for group in sources {
                self.add_values(group, Change::Removes, text);
            }
        }
        if base == "install" && split.has(&["-d", "--directory"]) {
            return split
                .operands
                .iter()
                .for_each(|group| self.add_values(group, Change::Touches, text));
        }
        let is_whole = split.has(&["-T", "--no-target-directory"])
            || split.has(&["--delete", "--delete-after", "--delete-before", "--delete-excluded"]);
        let makes_links = base == "mv"
            || split.has(&["-s", "--symbolic"])
            || (base == "cp"
                && split.has(&["-r", "-R", "-a", "-d", "-P", "--recursive", "--archive"]));
        for value in &bound_values(targets) {
            self.add_copy_target(value, sources, is_whole, text);
            if makes_links {
                self.note_links(base, value, sources);
            }
            if base == "ln" && split.has(&["-n", "--no-dereference"]) {
                // `ln -n` replaces a link to a directory instead of following it.
                self.add_value(value, Change::Removes, text);
            }
        }
    }

    /// Adds the paths that sources are copied to: the target itself or, if the target is a
    /// directory, the paths in it that have the names of the sources.
    fn add_copy_target(
        &mut self,
        target: &Value,
        sources: &[Vec<Value>],
        is_whole: bool,
        text: &str,
    ) {
        let Value::Text(directory) = target else {
            return self.add_value(target, Change::Overwrites, text);
        };
        if directory.is_empty() {
            return;
        }
        let host = directory.split('/').next().unwrap_or_default();
        if host.contains(':') && !self.is_existing(std::slice::from_ref(target)) {
            return;
        }
        let paths = self.absolute_paths(directory).unwrap_or_default();
        let is_directory = paths.iter().any(|path| self.file_system.is_directory(path));
        let is_removed =
            paths.iter().any(|path| self.removed.contains(&self.file_system.resolve(path)));
        if is_removed {
            self.add_value(target, Change::Removes, text);
            for path in &paths {
                let path = self.file_system.resolve(path);
                self.file_system.note_written(&path);
            }
        }
        if !is_directory || is_whole {
            return self.add_value(target, Change::Overwrites, text);
        }
        for source in sources.iter().flatten() {
            let name = source.text().map(last_name).unwrap_or_default();
            let is_contents = source.start().ends_with('/') || matches!(name, "" | "." | "..");
            let inner = match is_contents {
                true => target.clone(),
                false => Value::Text(format!("{}/{name}", directory.trim_end_matches('/'))),
            };
            self.add_value(&inner, Change::Overwrites, text);
        }
    }

    /// Records the links that a copy creates. Later commands may reach other files through them.
    fn note_links(&mut self, base: &str, target: &Value, sources: &[Vec<Value>]) {
        let Value::Text(target) = target else { return };
        let targets = self.absolute_paths(target).unwrap_or_default();
        for source in sources.iter().flatten() {
            let name = source.text().map(last_name).unwrap_or_default();
            for target in &targets {
                for place in [target.clone(), target.join(name)] {
                    let place = self.file_system.resolve(&place);
                    self.note_link(base, source, place);
                }
            }
        }
    }

    fn note_link(&mut self, base: &str, source: &Value, place: PathBuf) {
        let parent = place.parent().unwrap_or(&place).to_owned();
        let Value::Text(text) = source else { return self.links.push((place, None)) };
        if base == "ln" {
            return self.links.push((place, Some(parent.join(text))));
        }
        for source in self.absolute_paths(text).unwrap_or_default() {
            if let Some(link) = self.file_system.read_link(&source) {
                self.links.push((place.clone(), Some(parent.join(link))));
            } else if self.file_system.is_directory(&source)
                && self.file_system.find_links(&source).is_none_or(|links| !links.is_empty())
            {
                self.links.push((place.clone(), None));
            }
        }
    }

    pub(super) fn visit_sed(&mut self, args: &[Vec<Value>], text: &str) {
        let split = split_operands(args, "e f l expression file line-length");
        let has_script = split.has(&["-e", "-f", "--expression", "--file"]);
        let is_in_place = split.has(&["-i", "--in-place", "-I"]);
        let change = if is_in_place { Change::Overwrites } else { Change::Touches };
        if !is_in_place && self.state.directories.is_none() {
            // The sed script may write files.
            self.note_unknown(text);
        }
        let mut operands = split.operands.as_slice();
        // BSD's sed takes the suffix of the backup as a separate argument.
        if operands.first().is_some_and(|group| group.as_slice() == [Value::Text(String::new())]) {
            operands = &operands[1..];
        }
        if !has_script && let [script, rest @ ..] = operands {
            for script in script.iter().filter_map(Value::text) {
                // The command `w` in a sed script writes files.
                literals::visit_words(self, script, false);
            }
            operands = rest;
        }
        for group in operands {
            self.add_values(group, change, text);
        }
    }

    pub(super) fn visit_tar(&mut self, args: &[Vec<Value>], text: &str) {
        let mut args = args.to_vec();
        // The first argument may be a bundle of options without a dash.
        if let Some(Value::Text(first)) = args.first_mut().and_then(|group| group.first_mut())
            && !first.starts_with('-')
        {
            first.insert(0, '-');
        }
        let split = split_operands(&args, "C f T X directory file files-from exclude exclude-from");
        if split.has(&["--remove-files"]) {
            split.operands.iter().for_each(|group| self.add_values(group, Change::Removes, text));
        }
        if !split.has(&["-x", "--extract", "--get"]) {
            for file in split.options_named(&["-f", "--file"]) {
                self.add_values(file, Change::Overwrites, text);
            }
            return;
        }
        let directories = split.options_named(&["-C", "--directory"]);
        self.add_unpacked(&directories.into_iter().cloned().collect::<Vec<_>>(), text);
    }

    /// Visits a program that unpacks an archive into the current directory, or into a directory
    /// that its arguments name.
    pub(super) fn visit_unpack(&mut self, base: &str, args: &[Vec<Value>], text: &str) {
        let directories: Vec<Vec<Value>> = match base {
            "unzip" => {
                let split = split_operands(args, "d P x");
                split.options_named(&["-d"]).into_iter().cloned().collect()
            }
            // An operand that ends in a slash is the directory.
            "unrar" => {
                let is_directory =
                    |group: &&Vec<Value>| group.iter().any(|value| value.start().ends_with('/'));
                split_operands(args, "").operands.iter().filter(is_directory).cloned().collect()
            }
            // 7z expects `-o` and the directory as one word.
            _ => args
                .iter()
                .map(|group| group.iter().filter_map(|value| value.strip_start("-o")).collect())
                .collect(),
        };
        self.add_unpacked(&directories, text);
    }

    /// Visits `cpio`, which unpacks an archive, copies files to a directory, or writes an archive.
    pub(super) fn visit_cpio(&mut self, args: &[Vec<Value>], text: &str) {
        let split = split_operands(
            args,
            "C D E F H I M O R block-size directory file format io-size message owner \
             pattern-file rsh-command",
        );
        if split.has(&["-o", "--create"]) {
            for archive in split.options_named(&["-F", "-O", "--file"]) {
                self.add_values(archive, Change::Overwrites, text);
            }
            return;
        }
        let directories: Vec<Vec<Value>> = match split.has(&["-p", "--pass-through"]) {
            true => split.operands.clone(),
            false => split.options_named(&["-D", "--directory"]).into_iter().cloned().collect(),
        };
        self.add_unpacked(&directories, text);
    }

    /// Adds the directories that an archive is unpacked into: by default, the current one.
    fn add_unpacked(&mut self, directories: &[Vec<Value>], text: &str) {
        match directories.iter().all(Vec::is_empty) {
            true => self.sweep_directories(text),
            false => directories
                .iter()
                .for_each(|group| self.add_values(group, Change::Overwrites, text)),
        }
    }

    pub(super) fn visit_patch(&mut self, args: &[Vec<Value>], text: &str) {
        let split = split_operands(args, "d i o p F B D r directory input output strip");
        for output in split.options_named(&["-o", "--output"]) {
            self.add_values(output, Change::Overwrites, text);
        }
        let directory = split.option(&["-d", "--directory"]);
        match (directory, split.operands.first()) {
            (Some(directory), _) => self.add_values(&directory, Change::Overwrites, text),
            (None, Some(file)) => self.add_values(file, Change::Overwrites, text),
            (None, None) => self.sweep_directories(text),
        }
    }

    pub(super) fn visit_download(&mut self, base: &str, args: &[Vec<Value>], text: &str) {
        let is_curl = base == "curl";
        let valued = if is_curl {
            "o X d H F T u A e b c D K m w output data header form user dump-header cookie-jar"
        } else {
            "O P o a i U output-document directory-prefix output-file append-output header"
        };
        let split = split_operands(args, valued);
        let (files, names): (&[&str], bool) = match is_curl {
            true => {
                let files = &["-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar"];
                (files, split.has(&["-O", "--remote-name"]))
            }
            false => {
                let files = &["-O", "--output-document", "-o", "-a", "-P", "--directory-prefix"];
                (files, !split.has(&["-O", "--output-document"]))
            }
        };
        for file in split.options_named(files) {
            self.add_values(file, Change::Overwrites, text);
        }
        for address in split.operands.iter().flatten().filter_map(Value::text).filter(|_| names) {
            let path = address.split(['?', '#']).next().unwrap_or_default();
            let name = last_name(path).to_owned();
            self.add_value(&Value::Text(name), Change::Overwrites, text);
        }
    }
}

/// Returns the names that `ln` gives to links by default.
fn find_names(sources: &[Value]) -> Vec<Value> {
    let find_name = |value: &Value| match value {
        Value::Text(path) => Value::Text(last_name(path).to_owned()),
        other => other.clone(),
    };
    sources.iter().map(find_name).collect()
}

/// Returns true if an argument with these values may expand to no word at all.
fn may_vanish(group: &[Value]) -> bool {
    group.iter().any(|value| match value {
        Value::Text(text) => text.is_empty() || text.contains(['*', '?', '[']),
        _ => false,
    })
}

/// Returns true if any argument with several possible values may be an option.
fn has_hidden_options(args: &[Vec<Value>]) -> bool {
    args.iter().any(|group| group.len() > 1 && group.iter().any(Value::is_option))
}
