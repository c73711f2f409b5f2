//! Determines which operands a program changes.

use super::arguments::{split_operands, to_args};
use super::containers::CONTAINER_PROGRAMS;
use super::state::bound_values;
use super::value::Value;
use super::{Change, Finder, Stream};
use crate::shell::read_only::builtins;
use crate::shell::read_only::programs::{base_name, is_in_usual_place, why_may_change};

/// Programs that delete their operands.
const REMOVING: &[&str] = &["rm", "rmdir", "shred", "srm", "trash", "trash-put", "unlink", "wipe"];

/// Programs that change all their operands, each with the options that take a value.
#[rustfmt::skip]
const CHANGING: &[(&str, &str, Change)] = &[
    ("chattr", "v p", Change::Touches),
    ("chgrp", "reference", Change::Touches),
    ("chmod", "reference", Change::Touches),
    ("chown", "reference from", Change::Touches),
    ("dos2unix", "", Change::Overwrites),
    ("mkdir", "m mode", Change::Creates),
    ("mkfifo", "m mode", Change::Creates),
    ("setfacl", "m x M X modify remove", Change::Touches),
    ("sponge", "", Change::Overwrites),
    ("tee", "", Change::Overwrites),
    ("touch", "d t r date reference", Change::Creates),
    ("truncate", "s r size reference", Change::Overwrites),
    ("unix2dos", "", Change::Overwrites),
];

/// Programs that replace a file with its compressed form, or a compressed file with its content.
#[rustfmt::skip]
const COMPRESSING: &[(&str, &str)] = &[
    ("brotli", ".br"), ("bunzip2", ".bz2"), ("bzip2", ".bz2"), ("gunzip", ".gz"), ("gzip", ".gz"),
    ("lz4", ".lz4"), ("unxz", ".xz"), ("unzstd", ".zst"), ("xz", ".xz"), ("zstd", ".zst"),
];

/// Programs that overwrite their last operand.
const COPYING: &[&str] = &["cp", "ditto", "install", "ln", "mv", "rsync", "scp"];

/// Words in the names of build targets and scripts that delete files.
#[rustfmt::skip]
const CLEANING: &[&str] = &[
    "clean", "cleanall", "cleanup", "clobber", "delete", "destroy", "distclean", "mrproper",
    "nuke", "prune", "purge", "realclean", "reset", "wipe",
];

/// Programs that delete things other than local files: in a cluster, on a server, in a system
/// cache.
#[rustfmt::skip]
const REMOTE: &[&str] = &[
    "apt", "apt-get", "aws", "az", "brew", "conda", "curl", "dnf", "docker", "doctl", "firebase",
    "flyctl", "gcloud", "gh", "glab", "helm", "heroku", "kubectl", "mysql", "netlify", "pacman",
    "pip", "pip3", "podman", "psql", "redis-cli", "ssh", "systemctl", "tput", "vercel", "yum",
];

/// Options whose value is text, not a path.
const TEXT_OPTIONS: &[&str] =
    &["-m", "--message", "-c", "-e", "--expression", "-H", "-d", "--data"];

/// Options that make a program work in another directory.
const DIRECTORY_OPTIONS: &[&str] =
    &["-C", "--build", "--chdir", "--cwd", "--dir", "--directory", "--prefix"];

impl Finder<'_> {
    /// Visits a program with its arguments, and returns its output. Each argument may have several
    /// values.
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
        if let [Value::Text(name)] = first.as_slice() {
            return self.visit_named(name, args, text, input);
        }
        self.is_bounded = false;
        if first.iter().any(|value| value.text().is_none()) {
            self.name_operands("", args);
        }
        // If the first word has several values, they are either a program with its arguments, or
        // alternative programs.
        let further: Vec<Vec<Value>> = first
            .iter()
            .skip(1)
            .map(|value| vec![value.clone()])
            .chain(args.iter().cloned())
            .collect();
        let mut output = Stream::unknown();
        for (at, value) in first.iter().take(8).enumerate().filter(|(_, value)| !value.is_option())
        {
            if let Value::Text(name) = value {
                let args = if at == 0 { further.as_slice() } else { args };
                output.values.extend(self.visit_named(name, args, text, input).values);
                if at == 0 && first.len() > 1 {
                    self.visit_named(name, &groups[1..], text, input);
                }
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
        if let Some(function) = self.state.functions.get(name).cloned() {
            let before = (!function.is_certain).then(|| self.state.clone());
            let output = self.call_function(&function, args, input);
            let Some(before) = before else { return output };
            let after = std::mem::replace(&mut self.state, before);
            let mut other = self.visit_command_name(name, args, text, input);
            self.state.join(&after);
            other.values.extend(output.values);
            return Stream::of(other.values);
        }
        self.visit_command_name(name, args, text, input)
    }

    /// Visits a command that is not a function of the script.
    fn visit_command_name(
        &mut self,
        name: &str,
        args: &[Vec<Value>],
        text: &str,
        input: &Stream,
    ) -> Stream {
        if let Some(output) = self.visit_builtin(name, args, input) {
            return output;
        }
        if self.visit_apply_patch(name, args, text, input) {
            return Stream::default();
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
            self.visit_diff(base, args, text, input);
            self.visit_program(name, base, args, text);
        }
        output
    }

    /// Visits a program that may change files.
    fn visit_program(&mut self, name: &str, base: &str, args: &[Vec<Value>], text: &str) {
        self.is_bounded &= is_in_usual_place(name) && changes_only_operands(base, args);
        if REMOVING.contains(&base) {
            for group in split_operands(args, "n s").operands {
                self.add_values(&group, Change::Removes, text);
            }
        } else if let Some((_, valued, change)) = CHANGING.iter().find(|(name, ..)| *name == base) {
            let operands = split_operands(args, valued).operands;
            let skipped = usize::from(begins_with_mode(base, args, &operands));
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
            // If the command names no path, the program most likely changes the directory it runs
            // in.
            if self.paths.len() + self.sweeps.len() == count {
                self.add_outside_directory();
            }
        }
    }

    fn visit_other(&mut self, name: &str, base: &str, args: &[Vec<Value>], text: &str) {
        match base {
            "git" => self.visit_git(args, text),
            "takeback" => self.visit_own_command(args, text),
            "dd" => {
                for value in args.iter().flatten() {
                    if let Some(file) = value.strip_start("of=") {
                        let expanded = self.expand_home(file.clone());
                        self.add_values(
                            &bound_values(vec![file, expanded]),
                            Change::Overwrites,
                            text,
                        );
                    }
                }
            }
            "sed" => self.visit_sed(args, text),
            "awk" | "gawk" | "mawk" | "nawk" => self.visit_awk(args, text),
            "tar" | "bsdtar" => self.visit_tar(args, text),
            "unzip" | "7z" | "7za" | "unrar" => self.visit_unpack(base, args, text),
            "cpio" => self.visit_cpio(args, text),
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
                if CONTAINER_PROGRAMS.contains(&base) {
                    self.name_bind_mounts(args);
                }
                self.visit_script_program(name, args, text);
                self.visit_runner(base, name, args, text);
            }
        }
    }

    /// Visits a program that is judged only by its name and arguments: a build tool, a script.
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
        let cleans = !REMOTE.contains(&base) && words.chain([name]).any(is_cleaning);
        let before = self.state.directories.clone();
        if let Some(directory) = split.option(DIRECTORY_OPTIONS) {
            self.state.directories = self.find_directories(&directory);
        }
        if cleans {
            self.sweep_directories(text);
        }
        self.visit_package_script(base, args);
        self.visit_make(base, args, text, cleans);
        self.state.directories = before;
        self.name_operands(base, args);
    }

    /// Adds the operands of an unknown program that are paths.
    pub(super) fn name_operands(&mut self, base: &str, args: &[Vec<Value>]) {
        // The first operand of perl is a script, which may look like a path.
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
                    values.iter().for_each(|value| self.name_operand(value));
                }
                continue;
            }
            if std::mem::take(&mut skips_operand) {
                continue;
            }
            group.iter().for_each(|value| self.name_operand(value));
        }
    }

    /// Adds an operand that exists, or that looks like a path outside the workspace.
    pub(super) fn name_operand(&mut self, value: &Value) {
        let start = value.start();
        if start.is_empty() || start.contains('\n') {
            return;
        }
        if let Value::Prefix(prefix) = value
            && prefix.ends_with('/')
        {
            // Only a directory is known. It is left out, because it may be large and it is
            // uncertain whether the program changes it.
            return;
        }
        let Some(paths) = self.resolve_value(value) else { return };
        for path in paths {
            let exists = self.file_system.exists(&path);
            let looks_like_path = start.contains('/') && !start.contains(':');
            let is_outside = !path.starts_with(&self.workspace);
            let contains_workspace = self.workspace.starts_with(&path);
            if !contains_workspace && (exists || (looks_like_path && is_outside)) {
                self.add_resolved(&path, Change::Overwrites, true);
            }
        }
    }

    /// Adds the directories outside the workspace that the shell may be in.
    fn add_outside_directory(&mut self) {
        for directory in self.state.directories.clone().unwrap_or_default() {
            let directory = self.file_system.resolve(&directory);
            if !directory.starts_with(&self.workspace) && !self.workspace.starts_with(&directory) {
                self.add_path(directory);
            }
        }
    }
}

/// Returns true if the first operand is a mode or an owner.
fn begins_with_mode(base: &str, args: &[Vec<Value>], operands: &[Vec<Value>]) -> bool {
    let has_reference = args.iter().flatten().any(|value| value.start().starts_with("--reference"));
    let is_mode = |text: &str| {
        text.chars().all(|c| c.is_ascii_digit() || "ugoarwxXst+-=,".contains(c)) && !text.is_empty()
    };
    match (base, operands.first().map(Vec::as_slice)) {
        (_, _) if has_reference => false,
        ("chmod", Some([Value::Text(mode)])) => is_mode(mode),
        ("chgrp" | "chown", Some([_])) => true,
        _ => false,
    }
}

/// Returns true if a program with these arguments changes nothing but its operands and the files
/// that it copies them to.
fn changes_only_operands(base: &str, args: &[Vec<Value>]) -> bool {
    // An argument that expands to several words, or to none, would change the meaning of the other
    // arguments.
    let words: Option<Vec<&str>> = args
        .iter()
        .map(|group| match group.as_slice() {
            [Value::Text(word)] => Some(word.as_str()),
            _ => None,
        })
        .collect();
    match (base, words) {
        ("chmod" | "mkdir" | "rm" | "tee" | "touch" | "truncate" | "unlink", _) => true,
        // `-p` also removes directories above the operands.
        ("rmdir", Some(words)) => !words.iter().any(|word| word.starts_with('-')),
        ("cp" | "ln" | "mv", Some(words)) => {
            words.iter().filter(|word| word.len() > 1).all(|word| is_plain_copy_option(word))
        }
        // A sed script may write other files.
        ("sed", Some(words)) => {
            let in_place = |word: &&str| matches!(*word, "-i" | "--in-place");
            let rest: Vec<_> = args
                .iter()
                .zip(words)
                .filter(|(_, word)| !in_place(word))
                .map(|(group, _)| group.clone())
                .collect();
            why_may_change("sed", &to_args(&rest)).is_none()
        }
        _ => false,
    }
}

/// Returns true for an operand of `cp`, `ln` or `mv`, and for an option that does not make these
/// programs write additional files. Other options make them write backups, for example.
fn is_plain_copy_option(word: &str) -> bool {
    const LONG: &[&str] = &[
        "archive",
        "force",
        "interactive",
        "link",
        "no-clobber",
        "no-dereference",
        "no-target-directory",
        "preserve",
        "recursive",
        "symbolic",
        "symbolic-link",
        "target-directory",
        "update",
        "verbose",
    ];
    match word.strip_prefix("--") {
        Some("") => true,
        Some(long) => LONG.contains(&long.split('=').next().unwrap_or(long)),
        None => match word.strip_prefix('-') {
            Some(letters) => letters.chars().all(|c| "aAdfHiLlnPpRrsTtuvx".contains(c)),
            None => true,
        },
    }
}
