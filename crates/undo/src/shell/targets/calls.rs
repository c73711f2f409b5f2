//! What programs do to their operands.

use super::value::Value;
use super::{Change, Finder, Stream};
use crate::shell::read_only::builtins;
use crate::shell::read_only::programs::{base_name, why_may_change};
use crate::shell::syntax::Arg;

/// Programs that delete their operands.
const REMOVING: &[&str] = &["rm", "rmdir", "shred", "srm", "trash", "trash-put", "unlink", "wipe"];

/// Programs that change all their operands, each with its options that take a value.
#[rustfmt::skip]
const CHANGING: &[(&str, &str, Change)] = &[
    ("chattr", "v p", Change::Touches),
    ("chgrp", "reference", Change::Touches),
    ("chmod", "reference", Change::Touches),
    ("chown", "reference from", Change::Touches),
    ("dos2unix", "", Change::Overwrites),
    ("mkdir", "m mode", Change::Touches),
    ("mkfifo", "m mode", Change::Touches),
    ("setfacl", "m x M X modify remove", Change::Touches),
    ("sponge", "", Change::Overwrites),
    ("tee", "", Change::Overwrites),
    ("touch", "d t r date reference", Change::Touches),
    ("truncate", "s r size reference", Change::Overwrites),
    ("unix2dos", "", Change::Overwrites),
];

/// Programs that replace a file by a compressed one, or the other way round.
#[rustfmt::skip]
const COMPRESSING: &[(&str, &str)] = &[
    ("brotli", ".br"), ("bunzip2", ".bz2"), ("bzip2", ".bz2"), ("gunzip", ".gz"), ("gzip", ".gz"),
    ("lz4", ".lz4"), ("unxz", ".xz"), ("unzstd", ".zst"), ("xz", ".xz"), ("zstd", ".zst"),
];

/// Programs whose last operand is overwritten.
const COPYING: &[&str] = &["cp", "ditto", "install", "ln", "mv", "rsync", "scp"];

/// Words of targets and scripts that delete files.
#[rustfmt::skip]
const CLEANING: &[&str] = &[
    "clean", "cleanall", "cleanup", "clobber", "delete", "destroy", "distclean", "mrproper",
    "nuke", "prune", "purge", "realclean", "reset", "wipe",
];

/// Options whose value is text, not a path.
const TEXT_OPTIONS: &[&str] =
    &["-m", "--message", "-c", "-e", "--expression", "-H", "-d", "--data"];

/// Options that make a program work in another directory.
const DIRECTORY_OPTIONS: &[&str] =
    &["-C", "--build", "--chdir", "--cwd", "--dir", "--directory", "--prefix"];

/// The arguments of a program, sorted.
pub(super) struct SplitArguments {
    pub(super) operands: Vec<Vec<Value>>,
    /// The options, each with its value. Bundled letters are separate.
    options: Vec<(String, Option<Vec<Value>>)>,
}

impl SplitArguments {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// Returns the value of an option.
    pub(super) fn option(&self, names: &[&str]) -> Option<Vec<Value>> {
        self.options_named(names).first().map(|values| (*values).clone())
    }

    pub(super) fn options_named(&self, names: &[&str]) -> Vec<&Vec<Value>> {
        let named = self.options.iter().filter(|(name, _)| names.contains(&name.as_str()));
        named.filter_map(|(_, value)| value.as_ref()).collect()
    }
}

/// Sorts arguments into options and operands. `valued` has the options that take a value: letters
/// and long names.
pub(super) fn split_operands(args: &[Vec<Value>], valued: &str) -> SplitArguments {
    split(args, valued, false).0
}

/// Sorts the arguments before the first operand, and returns the position of that.
pub(super) fn split_operands_until(args: &[Vec<Value>], valued: &str) -> (SplitArguments, usize) {
    split(args, valued, true)
}

fn split(args: &[Vec<Value>], valued: &str, stops: bool) -> (SplitArguments, usize) {
    let takes_value = |name: &str| valued.split(' ').any(|valued| valued == name);
    let mut split = SplitArguments { operands: Vec::new(), options: Vec::new() };
    let mut at = 0;
    while let Some(group) = args.get(at) {
        let text = match group.first() {
            Some(value) if group.iter().all(Value::is_option) => value.start(),
            _ => {
                if stops {
                    break;
                }
                // A pattern may match names that look like options, but they are operands then.
                split.operands.push(group.clone());
                at += 1;
                continue;
            }
        };
        at += 1;
        if text == "--" {
            if !stops {
                split.operands.extend(args[at..].iter().cloned());
                at = args.len();
            }
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            let value = match long.split_once('=') {
                Some((name, _)) => {
                    let start = format!("--{name}=");
                    Some(group.iter().filter_map(|value| value.strip_start(&start)).collect())
                }
                None if takes_value(long) => {
                    at += 1;
                    args.get(at - 1).cloned()
                }
                None => None,
            };
            let name = long.split('=').next().unwrap_or(long);
            split.options.push((format!("--{name}"), value));
            continue;
        }
        for (index, letter) in text.char_indices().skip(1) {
            let name = format!("-{letter}");
            if !takes_value(&name[1..]) {
                split.options.push((name, None));
                continue;
            }
            let attached = &text[index + letter.len_utf8()..];
            let value = if attached.is_empty() {
                at += 1;
                args.get(at - 1).cloned()
            } else {
                let start = &text[..text.len() - attached.len()];
                Some(group.iter().filter_map(|value| value.strip_start(start)).collect())
            };
            split.options.push((name, value));
            break;
        }
    }
    (split, at)
}

/// Returns the arguments as the rules for reading programs take them.
pub(super) fn to_args(args: &[Vec<Value>]) -> Vec<Arg> {
    let to_arg = |group: &Vec<Value>| match group.as_slice() {
        [Value::Text(text)] => Arg::Known(text.clone()),
        [_] if !group[0].start().is_empty() && !group[0].is_option() => Arg::Operand,
        _ => Arg::Unknown,
    };
    args.iter().map(to_arg).collect()
}

impl Finder<'_> {
    /// Visits a program with its arguments, each of which may have several values, and returns what
    /// it prints.
    pub(super) fn visit_call(
        &mut self,
        groups: &[Vec<Value>],
        text: &str,
        input: &Stream,
    ) -> Stream {
        let Some((first, args)) = groups.split_first() else { return Stream::default() };
        self.commands += 1;
        if self.is_exhausted() {
            return Stream::unknown();
        }
        let Some(Value::Text(name)) = first.first() else {
            self.name_operands("", args, text);
            return Stream::unknown();
        };
        if first.len() == 1 {
            return self.visit_named(name, args, text, input);
        }
        // The other values are further arguments, or other programs.
        let further: Vec<Vec<Value>> = first[1..]
            .iter()
            .map(|value| vec![value.clone()])
            .chain(args.iter().cloned())
            .collect();
        let output = self.visit_named(name, &further, text, input);
        for other in first[1..].iter().take(8).filter(|value| !value.is_option()) {
            if let Value::Text(name) = other {
                self.visit_named(name, args, text, input);
            }
        }
        output
    }

    fn visit_named(
        &mut self,
        name: &str,
        args: &[Vec<Value>],
        text: &str,
        input: &Stream,
    ) -> Stream {
        if let Some(body) = self.state.functions.get(name).cloned() {
            return self.call_function(&body, args, input);
        }
        if let Some(output) = self.visit_builtin(name, args, input) {
            return output;
        }
        let base = base_name(name);
        if let Some(output) = self.visit_nested(name, base, args, text, input) {
            return output;
        }
        let output = self.find_output(base, args, input);
        let plain = to_args(args);
        let is_read_only = match builtins::is_harmless(name, &plain) {
            Some(_) => true,
            None => why_may_change(name, &plain).is_none(),
        };
        if !is_read_only {
            self.visit_program(name, base, args, text);
        }
        output
    }

    /// Visits a program that may change files.
    fn visit_program(&mut self, name: &str, base: &str, args: &[Vec<Value>], text: &str) {
        if REMOVING.contains(&base) {
            for group in split_operands(args, "n s").operands {
                self.add_values(&group, Change::Removes, text);
            }
        } else if let Some((_, valued, change)) = CHANGING.iter().find(|(name, ..)| *name == base) {
            let operands = split_operands(args, valued).operands;
            // The first operand of these is a mode or an owner.
            let skipped = usize::from(matches!(base, "chgrp" | "chmod" | "chown"));
            for group in operands.iter().skip(skipped) {
                self.add_values(group, *change, text);
            }
        } else if let Some((_, suffix)) = COMPRESSING.iter().find(|(name, _)| *name == base) {
            self.visit_compression(args, suffix, text);
        } else if COPYING.contains(&base) {
            self.visit_copy(base, args, text);
        } else {
            let count = self.paths.len() + self.sweeps.len();
            self.visit_other(name, base, args, text);
            // A program that names no path most likely changes the directory it runs in.
            if self.paths.len() + self.sweeps.len() == count {
                self.add_outside_directory();
            }
        }
    }

    fn visit_other(&mut self, name: &str, base: &str, args: &[Vec<Value>], text: &str) {
        match base {
            "git" => self.visit_git(args, text),
            "dd" => {
                for value in args.iter().flatten() {
                    if let Some(file) = value.strip_start("of=") {
                        self.add_value(&file, Change::Overwrites, text);
                    }
                }
            }
            "sed" => self.visit_sed(args, text),
            "awk" | "gawk" | "mawk" => {
                for program in args.iter().flatten().filter_map(Value::text) {
                    super::literals::visit_code(self, program, text);
                }
            }
            "tar" | "bsdtar" => self.visit_tar(args, text),
            "unzip" | "7z" | "7za" | "unrar" | "cpio" => self.visit_unpack(args, text),
            "patch" => self.visit_patch(args, text),
            "curl" | "wget" => self.visit_download(base, args, text),
            "zip" => {
                let split = split_operands(args, "x i b");
                let count = if split.has(&["-m"]) { usize::MAX } else { 1 };
                for group in split.operands.iter().take(count) {
                    self.add_values(group, Change::Overwrites, text);
                }
            }
            _ => {
                self.visit_script_program(name, args);
                self.visit_runner(base, name, args, text);
            }
        }
    }

    /// Visits a program of which only its arguments are known: a build tool, a script.
    fn visit_runner(&mut self, base: &str, name: &str, args: &[Vec<Value>], text: &str) {
        let split = split_operands(args, "C build chdir cwd dir directory prefix");
        let is_cleaning = |text: &str| {
            let is_word = !text.contains(char::is_whitespace) && text.len() < 80;
            is_word
                && text
                    .split(|c: char| !c.is_ascii_alphabetic())
                    .any(|part| CLEANING.contains(&part.to_ascii_lowercase().as_str()))
        };
        let words = args.iter().flatten().filter_map(Value::text);
        let cleans = words.chain([name]).any(is_cleaning);
        let before = self.state.directories.clone();
        if let Some(directory) = split.option(DIRECTORY_OPTIONS) {
            self.state.directories = self.find_directories(&directory);
        }
        if cleans {
            self.sweep_directories(text);
        }
        self.visit_package_script(base, args);
        self.state.directories = before;
        self.name_operands(base, args, text);
    }

    /// Adds the operands of an unknown program that are paths.
    pub(super) fn name_operands(&mut self, base: &str, args: &[Vec<Value>], text: &str) {
        // The first operand of these is a script, which may look like a path.
        let mut skips_operand = matches!(base, "perl");
        let mut skips_value = false;
        for group in args {
            if std::mem::take(&mut skips_value) {
                continue;
            }
            let first = group.first().map(Value::start).unwrap_or_default();
            if group.first().is_some_and(Value::is_option) {
                skips_value = TEXT_OPTIONS.contains(&first);
                skips_operand &= !(skips_value && first == "-e");
                if let Some((option, _)) = first.split_once('=') {
                    let start = format!("{option}=");
                    let values: Vec<Value> =
                        group.iter().filter_map(|value| value.strip_start(&start)).collect();
                    values.iter().for_each(|value| self.name_operand(value, text));
                }
                continue;
            }
            if std::mem::take(&mut skips_operand) {
                continue;
            }
            group.iter().for_each(|value| self.name_operand(value, text));
        }
    }

    /// Adds an operand that exists, or that looks like a path outside of the workspace.
    fn name_operand(&mut self, value: &Value, text: &str) {
        let start = value.start();
        if start.is_empty() || start.contains('\n') {
            return;
        }
        if let Value::Prefix(prefix) = value
            && prefix.ends_with('/')
        {
            // It is not certain that the directory changes, and it may be large.
            return;
        }
        let Some(paths) = self.resolve_value(value) else { return };
        for path in paths {
            let exists = self.files.exists(&path);
            let looks_like_path = start.contains('/') && !start.contains(':');
            let is_outside = !path.starts_with(&self.workspace);
            let contains_workspace = self.workspace.starts_with(&path);
            if !contains_workspace && (exists || (looks_like_path && is_outside)) {
                self.add_resolved(&path, Change::Overwrites, true);
            }
        }
        let _ = text;
    }

    /// Adds the directories of the shell that are outside of the workspace.
    fn add_outside_directory(&mut self) {
        for directory in self.state.directories.clone().unwrap_or_default() {
            let directory = self.files.resolve(&directory);
            if !directory.starts_with(&self.workspace) && !self.workspace.starts_with(&directory) {
                self.add_path(directory);
            }
        }
    }

    fn visit_compression(&mut self, args: &[Vec<Value>], suffix: &str, text: &str) {
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

    /// Visits a program that copies or moves operands to the last one.
    fn visit_copy(&mut self, base: &str, args: &[Vec<Value>], text: &str) {
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
        let target = match split.option(&["-t", "--target-directory"]) {
            Some(target) => target,
            None => match sources.split_last() {
                Some((only, [])) if base == "ln" => {
                    let names = only.iter().map(|value| match value {
                        Value::Text(path) => Value::Text(last_name(path).to_owned()),
                        other => other.clone(),
                    });
                    names.collect()
                }
                Some((last, before)) => {
                    sources = before;
                    last.clone()
                }
                None => return,
            },
        };
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
        for value in &target {
            self.add_copy_target(value, sources, is_whole, text);
        }
    }

    /// Adds the paths to which sources are copied: the target, or their names within it if it is a
    /// directory.
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
        let host = directory.split('/').next().unwrap_or_default();
        if host.contains(':') && !self.is_existing(std::slice::from_ref(target)) {
            return;
        }
        let paths = self.absolute_paths(directory).unwrap_or_default();
        let is_directory = paths.iter().any(|path| self.files.is_directory(path));
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

    fn visit_sed(&mut self, args: &[Vec<Value>], text: &str) {
        let split = split_operands(args, "e f l expression file line-length");
        let has_script = split.has(&["-e", "-f", "--expression", "--file"]);
        let is_in_place = split.has(&["-i", "--in-place", "-I"]);
        let change = if is_in_place { Change::Overwrites } else { Change::Touches };
        let mut operands = split.operands.as_slice();
        // BSD's sed takes the suffix of the copy as a separate argument.
        if operands.first().is_some_and(|group| group.as_slice() == [Value::Text(String::new())]) {
            operands = &operands[1..];
        }
        if !has_script && let [script, rest @ ..] = operands {
            for script in script.iter().filter_map(Value::text) {
                super::literals::visit_code(self, script, text);
            }
            operands = rest;
        }
        for group in operands {
            self.add_values(group, change, text);
        }
    }

    fn visit_tar(&mut self, args: &[Vec<Value>], text: &str) {
        let mut args = args.to_vec();
        // The first argument may be a bundle without a dash.
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
        match directories.is_empty() {
            true => self.sweep_directories(text),
            false => {
                directories
                    .iter()
                    .for_each(|group| self.add_values(group, Change::Overwrites, text));
            }
        }
    }

    fn visit_unpack(&mut self, args: &[Vec<Value>], text: &str) {
        let split = split_operands(args, "d D o x directory");
        match split.option(&["-d", "-D", "-o", "--directory"]) {
            Some(directory) if !directory.is_empty() => {
                self.add_values(&directory, Change::Overwrites, text);
            }
            _ => self.sweep_directories(text),
        }
    }

    fn visit_patch(&mut self, args: &[Vec<Value>], text: &str) {
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

    fn visit_download(&mut self, base: &str, args: &[Vec<Value>], text: &str) {
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

/// Returns the last name in a path.
pub(super) fn last_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}
