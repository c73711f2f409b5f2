//! Predicts the output of programs, for substitutions and pipes.

use super::arguments::{last_name, split_operands};
use super::state::bound_values;
use super::value::Value;
use super::{Finder, Stream};

/// Programs that print their input, or part of it.
const FILTERS: &[&str] = &[
    "column", "egrep", "fgrep", "grep", "head", "pv", "rg", "shuf", "sort", "sponge", "tac",
    "tail", "tee", "uniq",
];

/// Programs that print an edited form of their input.
const EDITORS: &[&str] = &[
    "awk", "cut", "gawk", "jq", "mawk", "nl", "paste", "perl", "python", "python3", "rev", "ruby",
    "sed", "tr",
];

impl Finder<'_> {
    /// Predicts the output of a program.
    pub(super) fn find_output(
        &mut self,
        base: &str,
        args: &[Vec<Value>],
        input: &Stream,
    ) -> Stream {
        if !self.wants_output {
            return Stream::unknown();
        }
        let all = || args.iter().flatten().cloned().collect::<Vec<Value>>();
        let operands = || split_operands(args, "").operands.concat();
        Stream::of(match base {
            "echo" => return print_words(&split_operands(args, "").operands),
            "printf" => return print_formatted(args),
            "pwd" => self.directory_values(),
            "mktemp" => vec![Value::Fresh],
            "cat" if operands().is_empty() => return input.clone(),
            "cat" => return self.read_files(&operands()),
            "basename" => find_base_names(&operands()),
            "dirname" => all().iter().map(find_directory).collect(),
            "realpath" | "readlink" => {
                let is_whole = base == "realpath" || args.iter().flatten().any(Value::is_option);
                self.resolve_links(&operands(), is_whole)
            }
            "seq" => print_sequence(&all()),
            "ls" => self.list_names(&operands()),
            "git" => self.find_git_output(args),
            "grep" | "egrep" | "fgrep" | "rg" | "ag" if self.lists_files(args) => {
                search_roots(&split_operands(args, "e f A B C m g t").operands)
            }
            "fd" | "fdfind" => search_roots(&split_operands(args, "e t d E").operands),
            "grep" | "head" | "tail" | "sort" | "rg" | "egrep" | "fgrep" | "tac"
                if args.iter().flatten().filter(|value| !value.is_option()).count()
                    > filter_operands(base) =>
            {
                let files = operands();
                let skipped = filter_operands(base).min(files.len());
                return self.read_files(&files[skipped..]);
            }
            // With these arguments, `tr` only joins or splits lines.
            "tr" if args.iter().flatten().all(is_line_end) => return input.clone(),
            _ if FILTERS.contains(&base) => return input.clone(),
            _ if EDITORS.contains(&base) => find_edited(&input.values),
            _ => return Stream::unknown(),
        })
    }

    /// Returns the lines of files.
    pub(super) fn read_files(&mut self, files: &[Value]) -> Stream {
        let mut stream = Stream::default();
        for file in files {
            let Value::Text(file) = file else { return Stream::unknown() };
            let Some(paths) = self.absolute_paths(file) else { return Stream::unknown() };
            for path in paths {
                let path = self.file_system.resolve(&path);
                // The script may have changed the file.
                let is_changed = path.ancestors().any(|path| self.known_paths.contains(path));
                let text = match is_changed {
                    true => None,
                    false => self.file_system.read_text(&path),
                };
                let Some(text) = text.filter(|text| self.spend(text.len())) else {
                    return Stream::unknown();
                };
                if text.lines().count() > 1000 {
                    return Stream::unknown();
                }
                stream.append(Stream::of_text(text));
            }
        }
        stream
    }

    /// Predicts the output of `ls`: the names in directories, and other operands unchanged.
    fn list_names(&mut self, operands: &[Value]) -> Vec<Value> {
        let here = [Value::Text(".".to_owned())];
        let operands = if operands.is_empty() { &here } else { operands };
        let mut names = Vec::new();
        for operand in operands {
            let Value::Text(text) = operand else {
                names.push(operand.clone());
                continue;
            };
            for path in self.absolute_paths(text).unwrap_or_default() {
                if !self.file_system.is_directory(&path) {
                    names.push(operand.clone());
                    // `ls` prints nothing for a file that does not exist.
                    if !self.file_system.exists(&path) {
                        names.push(Value::Text(String::new()));
                    }
                    continue;
                }
                let Some(listing) = self.file_system.list(&path) else {
                    return vec![Value::unknown()];
                };
                let listed = listing.iter().map(|entry| match entry.name.to_str() {
                    Some(name) => Value::Text(name.to_owned()),
                    None => Value::unknown(),
                });
                names.extend(listed);
                // `ls -d directory` prints the directory.
                if text != "." {
                    names.push(operand.clone());
                }
            }
        }
        if self.state.directories.is_none() {
            names.push(Value::unknown());
        }
        bound_values(names)
    }

    /// Resolves links among the operands. If `is_whole` is true, returns the operands with all
    /// links resolved. Otherwise, returns the targets of the links, as written.
    fn resolve_links(&mut self, operands: &[Value], is_whole: bool) -> Vec<Value> {
        let mut resolved = Vec::new();
        for operand in operands {
            let paths = operand.text().and_then(|text| self.absolute_paths(text));
            let Some(paths) = paths else { return vec![Value::unknown()] };
            for path in paths {
                let path = match is_whole {
                    true => Some(
                        self.file_system.follow(&path).unwrap_or(self.file_system.resolve(&path)),
                    ),
                    false => self.file_system.read_link(&path),
                };
                let text = path.and_then(|path| path.to_str().map(str::to_owned));
                resolved.extend(text.map(Value::Text));
            }
        }
        bound_values(resolved)
    }

    fn find_git_output(&mut self, args: &[Vec<Value>]) -> Vec<Value> {
        let split = split_operands(args, "C c");
        let verb = split.operands.first().and_then(|group| group.first()).and_then(Value::text);
        let roots = |finder: &mut Self| match finder.find_repositories() {
            Some(roots) => roots
                .iter()
                .map(|root| {
                    root.to_str().map_or_else(Value::unknown, |root| Value::Text(root.to_owned()))
                })
                .collect(),
            None => vec![Value::unknown()],
        };
        match verb {
            _ if split.has(&["-C"]) => vec![Value::unknown()],
            Some("rev-parse") if split.has(&["--show-toplevel"]) => roots(self),
            Some("ls-files") => vec![Value::Below(".".to_owned())],
            // These commands print paths relative to the root of the repository.
            Some("diff" | "status" | "ls-tree" | "show" | "log" | "grep") => {
                let to_below = |value: Value| match value {
                    Value::Text(root) => Value::Below(root),
                    other => other,
                };
                roots(self).into_iter().map(to_below).collect()
            }
            _ => vec![Value::unknown()],
        }
    }

    /// Returns true if a search prints the names of files.
    fn lists_files(&self, args: &[Vec<Value>]) -> bool {
        let split = split_operands(args, "e f A B C m g t");
        split.has(&["-l", "-L", "--files-with-matches", "--files-without-match", "--files"])
    }
}

/// Returns true for an argument of `tr` that does not affect the characters in names.
fn is_line_end(argument: &Value) -> bool {
    matches!(argument.text(), Some("\\n" | "\\0" | "\\r" | " " | "\n" | "-d" | "-s"))
}

/// Returns how many of a filter's operands are not files.
fn filter_operands(base: &str) -> usize {
    usize::from(matches!(base, "grep" | "egrep" | "fgrep" | "rg"))
}

/// Returns the roots of a search: the operands after the pattern, or the current directory.
fn search_roots(operands: &[Vec<Value>]) -> Vec<Value> {
    let mut roots: Vec<Value> = operands
        .iter()
        .skip(1)
        .flatten()
        .map(|value| match value {
            Value::Text(root) => Value::Below(root.clone()),
            other => other.clone(),
        })
        .collect();
    if roots.is_empty() {
        roots.push(Value::Below(".".to_owned()));
    }
    roots
}

/// Predicts the output of `echo`: the words, and the lines that they may form.
fn print_words(groups: &[Vec<Value>]) -> Stream {
    let mut values: Vec<Value> = groups.concat();
    if values.iter().any(|value| value.start().contains('\\')) {
        values.push(Value::unknown());
    }
    let texts: Option<Vec<&str>> = values.iter().map(Value::text).collect();
    let line = texts.filter(|texts| texts.len() < 100).map(|texts| texts.join(" "));
    let is_one = groups.iter().all(|group| group.len() == 1);
    let Some(line) = line else { return Stream::of(values) };
    if is_one {
        let mut stream = Stream::of_text(line);
        stream.values.extend(values);
        return stream;
    }
    // Each argument may expand to one of its values, or to all of them.
    let mut lines = vec![String::new()];
    for group in groups {
        if lines.len() * group.len() > 64 {
            break;
        }
        let join = |line: &String, word: &Value| match line.as_str() {
            "" => word.start().to_owned(),
            line => format!("{line} {}", word.start()),
        };
        lines = lines.iter().flat_map(|line| group.iter().map(|word| join(line, word))).collect();
    }
    lines.push(line);
    values.extend(lines.into_iter().map(Value::Text));
    Stream::of(values)
}

fn print_formatted(args: &[Vec<Value>]) -> Stream {
    let is_end =
        args.first().is_some_and(|group| matches!(&group[..], [Value::Text(text)] if text == "--"));
    let args = &args[usize::from(is_end)..];
    let Some((format, rest)) = args.split_first() else { return Stream::default() };
    let [Value::Text(format)] = format.as_slice() else { return Stream::unknown() };
    let plain = format.replace("\\n", "\n").replace("\\0", "\0").replace("\\t", "\t");
    let bare = plain.replace("%s", "").replace("%q", "");
    if bare.contains(['%', '\\']) {
        return Stream::unknown();
    }
    if !plain.contains('%') {
        return Stream::of_text(plain);
    }
    if bare.trim_matches(['\n', '\0', ' ']).is_empty() {
        return Stream::of(rest.iter().flatten().cloned().collect());
    }
    if let Some(text) = fill_format(&plain, rest) {
        return Stream::of_text(text);
    }
    if bare.trim_end().contains(char::is_whitespace) {
        return Stream::unknown();
    }
    let start = plain.split('%').next().unwrap_or_default();
    Stream::of(vec![Value::Prefix(start.to_owned())])
}

/// Replaces each `%s` in a format with an argument. Returns `None` if the result is not known. As
/// in the shell, the format is used again if there are more arguments.
fn fill_format(format: &str, args: &[Vec<Value>]) -> Option<String> {
    let known = |group: &Vec<Value>| match group.as_slice() {
        [Value::Text(text)] => Some(text.clone()),
        _ => None,
    };
    let args: Vec<String> = args.iter().map(known).collect::<Option<_>>()?;
    if format.contains("%q") || args.len() > 100 {
        return None;
    }
    let mut args = args.iter();
    let mut text = String::new();
    loop {
        let mut pieces = format.split("%s");
        text.push_str(pieces.next()?);
        for piece in pieces {
            text.push_str(args.next().map_or("", String::as_str));
            text.push_str(piece);
        }
        if args.len() == 0 {
            return Some(text);
        }
    }
}

fn find_base_names(operands: &[Value]) -> Vec<Value> {
    let (paths, suffix) = match operands {
        [path, Value::Text(suffix)] => (std::slice::from_ref(path), suffix.as_str()),
        paths => (paths, ""),
    };
    let mut names = Vec::new();
    for path in paths {
        match path {
            Value::Text(path) => {
                let name = last_name(path);
                names.extend(name.strip_suffix(suffix).map(|name| Value::Text(name.to_owned())));
                names.push(Value::Text(name.to_owned()));
            }
            Value::Fresh => names.push(Value::Fresh),
            _ => names.push(Value::unknown()),
        }
    }
    bound_values(names)
}

fn find_directory(value: &Value) -> Value {
    match value {
        Value::Text(path) => {
            let path = path.trim_end_matches('/');
            Value::Text(match path.rsplit_once('/') {
                Some(("", _)) => "/".to_owned(),
                Some((directory, _)) => directory.to_owned(),
                None => ".".to_owned(),
            })
        }
        Value::Fresh => Value::Fresh,
        Value::Below(path) if !path.trim_end_matches('/').is_empty() => Value::Below(path.clone()),
        _ => Value::unknown(),
    }
}

fn print_sequence(args: &[Value]) -> Vec<Value> {
    let numbers: Option<Vec<i64>> =
        args.iter().map(|value| value.text().and_then(|text| text.parse().ok())).collect();
    let (from, to) = match numbers.as_deref() {
        Some([to]) => (1, *to),
        Some([from, to] | [from, _, to]) => (*from, *to),
        _ => return vec![Value::unknown()],
    };
    let (from, to) = (from.min(to), from.max(to));
    match from.abs_diff(to) {
        0..1000 => (from..=to).map(|number| Value::Text(number.to_string())).collect(),
        _ => vec![Value::unknown()],
    }
}

/// Predicts the edited lines: most likely, they are paths in the same directories.
fn find_edited(values: &[Value]) -> Vec<Value> {
    let to_below = |value: &Value| match value {
        Value::Text(_) => match find_directory(value) {
            Value::Text(directory) => Value::Below(directory),
            other => other,
        },
        other => other.clone(),
    };
    bound_values(values.iter().map(to_below).collect())
}
