//! `fd`, which passes the files that it finds to a command.

use super::arguments::{SplitArguments, split_operands};
use super::find::Search;
use super::value::Value;
use super::{Finder, Stream};

/// The options that take a value.
const VALUED: &str = "C E S c d e j o t and base-directory batch-size change-newer-than \
                      change-older-than changed-before changed-within color exact-depth exclude \
                      extension format ignore-file max-depth max-results min-depth owner \
                      search-path size threads type";

/// The letters of options that take no value. They may come before the `x` of `-x` in the same
/// argument.
const FLAGS: &str = "0FHILaghilpsuv1";

/// The placeholders for parts of the path that was found.
const PARTS: [&str; 4] = ["{/}", "{//}", "{.}", "{/.}"];

impl Finder<'_> {
    /// Visits the command that `fd` runs. Returns `None` if it only prints.
    pub(super) fn visit_fd(&mut self, args: &[Vec<Value>], text: &str) -> Option<Stream> {
        let at = args.iter().position(|group| group.iter().any(runs_command))?;
        self.is_bounded = false;
        let is_end = |group: &Vec<Value>| group.iter().any(|value| value.text() == Some(";"));
        let length = args[at + 1..].iter().position(is_end);
        let end = length.map_or(args.len(), |length| at + 1 + length);
        let others = [&args[..at], args.get(end + 1..).unwrap_or_default()].concat();
        let split = split_operands(&others, VALUED);
        let command = &args[at + 1..end];
        match split.option(&["-C", "--base-directory"]) {
            Some(directory) => {
                self.in_directory(&directory, |finder| finder.run_on_found(&split, command, text));
            }
            None => self.run_on_found(&split, command, text),
        }
        Some(Stream::unknown())
    }

    fn run_on_found(&mut self, split: &SplitArguments, command: &[Vec<Value>], text: &str) {
        let search = read_fd_search(split);
        let found = self.find_matches(&search);
        let below: Vec<Value> = search.roots.iter().map(to_below).collect();
        let mut is_marked = false;
        let mut words: Vec<Vec<Value>> = Vec::new();
        for group in command {
            let has = |mark: &str| group.iter().any(|value| value.start().contains(mark));
            let part = PARTS.iter().find(|part| has(part));
            is_marked |= has("{}") || part.is_some();
            let group = self.replace_mark(group, "{}", &found);
            words.push(match part {
                Some(part) => self.replace_mark(&group, part, &below),
                None => group,
            });
        }
        if !is_marked {
            words.push(found);
        }
        self.go_deeper(2, |finder| finder.visit_call(&words, text, &Stream::unknown()));
    }
}

/// Returns true for the option before the command: `-x`, `-X`, perhaps after other letters.
fn runs_command(value: &Value) -> bool {
    let start = value.start();
    match start.strip_prefix("--") {
        Some(long) => matches!(long, "exec" | "exec-batch"),
        None => start
            .strip_prefix('-')
            .and_then(|letters| letters.strip_suffix(['x', 'X']))
            .is_some_and(|flags| flags.chars().all(|flag| FLAGS.contains(flag))),
    }
}

fn to_below(root: &Value) -> Value {
    match root {
        Value::Text(root) => Value::Below(root.clone()),
        other => other.clone(),
    }
}

/// Reads the arguments of `fd`. Hidden and ignored files are treated as found, even though `fd`
/// finds them only with certain options.
fn read_fd_search(split: &SplitArguments) -> Search {
    let mut search = Search::default();
    search.follows_links = split.has(&["-L", "--follow"]);
    search.is_complex = split.has(&["-p", "--full-path"]);
    let mut operands = split.operands.iter();
    if let Some(pattern) = operands.next() {
        let pattern = match pattern.as_slice() {
            [Value::Text(pattern)] => to_glob(pattern, split),
            _ => None,
        };
        search.is_complex |= pattern.is_none();
        search.names.extend(pattern);
    }
    search.roots = operands.flatten().cloned().collect();
    search.roots.extend(split.options_named(&["--search-path"]).into_iter().flatten().cloned());
    if search.roots.is_empty() {
        search.roots.push(Value::Text(".".to_owned()));
    }
    match split.options_named(&["-e", "--extension"]).as_slice() {
        [] => {}
        [extension] => match extension.as_slice() {
            [Value::Text(extension)] => {
                let extension = extension.trim_start_matches('.').to_lowercase();
                search.names.push(format!("*.{extension}"));
            }
            _ => search.is_complex = true,
        },
        // If several extensions are given, a file needs only one of them. Patterns in `names`
        // cannot express this, because a file must match all of them.
        _ => search.is_complex = true,
    }
    search
}

/// Converts a pattern of `fd` into a shell pattern that matches at least the same names. Returns
/// `None` for a regular expression that has no simple equivalent.
fn to_glob(pattern: &str, split: &SplitArguments) -> Option<String> {
    let pattern = pattern.to_lowercase();
    if split.has(&["-g", "--glob"]) {
        return (!pattern.contains(['{', '/'])).then_some(pattern);
    }
    let (start, rest) = match pattern.strip_prefix('^') {
        Some(rest) => ("", rest),
        None => ("*", pattern.as_str()),
    };
    let (rest, end) = match rest.strip_suffix('$') {
        Some(rest) => (rest, ""),
        None => (rest, "*"),
    };
    let literal = rest.replace(r"\.", "\0");
    let is_plain = |c: char| c.is_alphanumeric() || "_-\0".contains(c);
    literal.chars().all(is_plain).then(|| format!("{start}{}{end}", literal.replace('\0', ".")))
}
