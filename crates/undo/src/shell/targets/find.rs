//! `find`: the files it finds, deletes, or passes to other commands.

use std::path::PathBuf;

use super::glob::Pattern;
use super::state::MAX_VALUES;
use super::value::Value;
use super::{Change, Finder, Stream};

/// Tests and actions that take one value.
#[rustfmt::skip]
const VALUED: &[&str] = &[
    "-amin", "-anewer", "-atime", "-cmin", "-cnewer", "-context", "-ctime", "-D", "-fls", "-fprint",
    "-fprint0", "-fstype", "-gid", "-group", "-ilname", "-iname", "-inum", "-ipath", "-iregex",
    "-iwholename", "-links", "-lname", "-maxdepth", "-mindepth", "-mmin", "-mtime", "-name",
    "-newer", "-path", "-perm", "-printf", "-regex", "-regextype", "-samefile", "-size", "-type",
    "-uid", "-used", "-user", "-wholename", "-xtype",
];

/// The parsed arguments of `find` or `fd`.
#[derive(Default)]
pub(super) struct Search {
    pub(super) roots: Vec<Value>,
    pub(super) names: Vec<String>,
    paths: Vec<String>,
    max_depth: Option<usize>,
    /// True if the matches also depend on something other than the patterns for names and paths.
    pub(super) is_complex: bool,
    deletes: bool,
    commands: Vec<FoundCommand>,
    pub(super) follows_links: bool,
    /// True if `find` prints something other than the paths.
    prints_others: bool,
    /// The files that `find` writes.
    outputs: Vec<Vec<Value>>,
}

/// A command that `find` runs.
struct FoundCommand {
    words: Vec<Vec<Value>>,
    /// True if the command runs in the directory of each file.
    is_inside: bool,
}

impl Finder<'_> {
    pub(super) fn visit_find(&mut self, args: &[Vec<Value>], text: &str) -> Stream {
        let search = read_search(args);
        for file in &search.outputs {
            self.add_values(file, Change::Overwrites, text);
        }
        if !search.deletes && search.commands.is_empty() && !self.wants_output {
            return Stream::unknown();
        }
        let found = self.find_matches(&search);
        if search.deletes {
            self.add_values(&found, Change::Removes, text);
        }
        let mut output = Stream::default();
        for FoundCommand { words, is_inside } in &search.commands {
            let command: Vec<Vec<Value>> =
                words.iter().map(|group| self.replace_mark(group, "{}", &found)).collect();
            let visit = |finder: &mut Self| finder.visit_call(&command, text, &Stream::unknown());
            let printed = self.go_deeper(2, visit).unwrap_or_else(Stream::unknown);
            output.values.extend(printed.values);
            let is_fixed = |group: &Vec<Value>| {
                !group.iter().any(|word| word.is_option() || word.start().contains("{}"))
            };
            if *is_inside && words.iter().skip(1).any(is_fixed) {
                // These words may name files in the directory of any match, so the current
                // directory counts as unknown.
                let directories = self.state.directories.take();
                self.go_deeper(2, |finder| finder.visit_call(&command, text, &Stream::unknown()));
                self.state.directories = directories;
            }
        }
        match search.prints_others {
            true => Stream::unknown(),
            false => {
                output.values.extend(found);
                output
            }
        }
    }

    /// Returns the paths that match, or the searched directories if the matches are unknown.
    pub(super) fn find_matches(&mut self, search: &Search) -> Vec<Value> {
        let names: Vec<Pattern> = search.names.iter().map(|name| Pattern::new(name)).collect();
        let paths: Vec<Pattern> = search.paths.iter().map(|path| Pattern::new(path)).collect();
        let is_narrow = !search.is_complex
            && !search.follows_links
            && (names.iter().any(|name| !name.matches_all()) || !paths.is_empty());
        let mut found = Vec::new();
        for root in &search.roots {
            match root {
                Value::Text(text) if is_narrow => {
                    match self.search_root(text, search.max_depth, &names, &paths) {
                        Some(matches) => found.extend(matches),
                        None => found.push(Value::Below(text.clone())),
                    }
                }
                Value::Text(text) => found.push(Value::Below(text.clone())),
                other => found.push(other.clone()),
            }
            if search.follows_links {
                self.add_links_below(root, &mut found);
            }
        }
        found
    }

    /// Adds the links below a root, because `find` also searches their targets.
    fn add_links_below(&mut self, root: &Value, found: &mut Vec<Value>) {
        let Value::Text(root) = root else { return };
        for directory in self.absolute_paths(root).unwrap_or_default() {
            match self.file_system.find_links(&directory) {
                Some(links) => {
                    let links = links.iter().map(|link| directory.join(link));
                    let to_below = |link: PathBuf| Some(Value::Below(link.to_str()?.to_owned()));
                    found.extend(links.map(|link| to_below(link).unwrap_or_else(Value::unknown)));
                }
                None => found.push(Value::unknown()),
            }
        }
    }

    fn search_root(
        &mut self,
        root: &str,
        max_depth: Option<usize>,
        names: &[Pattern],
        paths: &[Pattern],
    ) -> Option<Vec<Value>> {
        let is_match = |name: &str, path: &str| {
            let path = format!("{}/{path}", root.trim_end_matches('/')).to_lowercase();
            let name = name.to_lowercase();
            names.iter().all(|pattern| pattern.matches(&name))
                && paths.iter().all(|pattern| pattern.matches(&path))
        };
        let mut found = Vec::new();
        for directory in self.absolute_paths(root)? {
            let directory = self.file_system.resolve(&directory);
            let own = root.trim_end_matches('/').rsplit('/').next().unwrap_or(root);
            if is_match(own, "") {
                return None;
            }
            let depth = max_depth.unwrap_or(usize::MAX);
            for path in self.file_system.search(&directory, depth, MAX_VALUES, &is_match)? {
                let path = path.to_str()?;
                found.push(Value::Text(format!("{}/{path}", root.trim_end_matches('/'))));
            }
        }
        Some(found)
    }
}

fn read_search(args: &[Vec<Value>]) -> Search {
    let mut search = Search::default();
    // If one value of an argument is an option, the values are treated as separate words.
    let is_several = |group: &Vec<Value>| group.len() > 1 && group.iter().any(Value::is_option);
    search.is_complex = args.iter().any(is_several);
    let args: Vec<Vec<Value>> = args
        .iter()
        .flat_map(|group| match is_several(group) {
            true => group.iter().map(|value| vec![value.clone()]).collect(),
            false => vec![group.clone()],
        })
        .collect();
    let mut at = 0;
    let is_expression =
        |value: &Value| value.is_option() || matches!(value.text(), Some("(" | ")" | "!" | ","));
    while let Some(group) = args.get(at) {
        let first = group.first().and_then(Value::text).unwrap_or_default();
        if matches!(first, "-H" | "-L" | "-P") || first.starts_with("-O") {
            search.follows_links |= first == "-L";
            at += 1;
        } else if group.iter().any(is_expression) {
            break;
        } else {
            // If an argument expands to no word, there may be no root left. `find` then starts in
            // the current directory.
            let root = |value: &Value| match value.text() {
                Some("") => Value::Text(".".to_owned()),
                _ => value.clone(),
            };
            search.roots.extend(group.iter().map(root));
            at += 1;
        }
    }
    if search.roots.is_empty() {
        search.roots.push(Value::Text(".".to_owned()));
    }
    while let Some(group) = args.get(at) {
        let test = group.first().and_then(Value::text).unwrap_or_default();
        at += 1;
        match test {
            "-delete" => search.deletes = true,
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let is_end = |group: &Vec<Value>| {
                    matches!(group.first().and_then(Value::text), Some(";" | "+"))
                };
                let length = args[at..].iter().position(is_end).unwrap_or(args.len() - at);
                let words = args[at..at + length].to_vec();
                search.commands.push(FoundCommand { words, is_inside: test.ends_with("dir") });
                at += length + 1;
            }
            "-o" | "-or" | "!" | "-not" | "," | "-prune" | "-regex" | "-iregex" => {
                search.is_complex = true;
                at += usize::from(test.ends_with("regex"));
            }
            "-follow" => search.follows_links = true,
            "-files0-from" => search.roots.push(Value::unknown()),
            "-fprintf" => {
                search.outputs.extend(args.get(at).cloned());
                at += 2;
            }
            _ if VALUED.contains(&test) || test.starts_with("-newer") => {
                search.read_value(test, args.get(at));
                at += 1;
            }
            _ => {}
        }
    }
    search
}

impl Search {
    fn read_value(&mut self, test: &str, group: Option<&Vec<Value>>) {
        let text = match group.map(Vec::as_slice) {
            Some([Value::Text(text)]) => Some(text.as_str()),
            _ => None,
        };
        match (test, text) {
            ("-name" | "-iname", Some(pattern)) => self.names.push(pattern.to_lowercase()),
            ("-path" | "-wholename" | "-ipath" | "-iwholename", Some(pattern)) => {
                self.paths.push(pattern.to_lowercase());
            }
            ("-maxdepth", Some(depth)) => self.max_depth = depth.parse().ok(),
            ("-printf", _) => self.prints_others = true,
            ("-fprint" | "-fprint0" | "-fls", _) => self.outputs.extend(group.cloned()),
            ("-name" | "-iname" | "-path" | "-wholename" | "-ipath" | "-iwholename", None) => {}
            _ => {}
        }
    }
}
