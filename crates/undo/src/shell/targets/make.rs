//! `make`: the recipes of the targets that it builds.

use std::collections::{HashMap, HashSet};

use super::Finder;
use super::arguments::split_operands;
use super::nested::FileVersions;
use super::value::Value;

/// The names of the file that `make` reads, in order of preference.
const FILE_NAMES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// The maximum number of targets whose recipes are visited for one command.
const MAX_TARGETS: usize = 64;

/// The maximum number of nested variables.
const MAX_NESTED: usize = 8;

/// The maximum number of variables that are expanded for one command.
const MAX_EXPANSIONS: usize = 5_000;

/// The maximum length of a recipe line whose variables are expanded, in bytes.
const MAX_LINE: usize = 16 * 1024;

/// A makefile, as far as it is understood.
#[derive(Default)]
struct Makefile {
    variables: HashMap<String, String>,
    rules: Vec<Rule>,
}

#[derive(Default)]
struct Rule {
    targets: Vec<String>,
    prerequisites: Vec<String>,
    recipe: Vec<String>,
}

impl Finder<'_> {
    /// Visits the recipes of the targets that `make` builds. Lines that cannot be understood are
    /// left out. If the text of a makefile is unknown, for example because the script changes the
    /// makefile, the files that `make clean` deletes are also unknown.
    pub(super) fn visit_make(&mut self, base: &str, args: &[Vec<Value>], text: &str, cleans: bool) {
        if !matches!(base, "make" | "gmake") {
            return;
        }
        let split = split_operands(args, "C I W f l o directory file include-dir makefile");
        let words = || split.operands.iter().flatten().filter_map(Value::text);
        let assigned: Vec<(&str, &str)> = words().filter_map(|word| word.split_once('=')).collect();
        let targets: Vec<&str> = words().filter(|word| !word.contains('=')).collect();
        let files = split.option(&["-f", "--file", "--makefile"]);
        let before = self.state.clone();
        let mut is_known = true;
        for directory in before.directories.clone().unwrap_or_default() {
            self.state.directories = Some(vec![directory.clone()]);
            let makefiles = self.read_makefiles(files.as_deref());
            is_known &= makefiles.is_known && !(files.is_some() && makefiles.texts.is_empty());
            for text in makefiles.texts {
                if !self.spend(text.len()) {
                    return;
                }
                let mut makefile = Makefile::parse(&text);
                let to_owned =
                    |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
                makefile.variables.extend(assigned.iter().map(to_owned));
                for line in makefile.list_recipe_lines(&targets) {
                    self.state.directories = Some(vec![directory.clone()]);
                    self.visit_inner_script(&line, &[]);
                }
            }
        }
        self.state = before;
        if cleans && !is_known {
            self.note_unknown(text);
        }
    }

    /// Reads the makefile that the command names or, if it names none, the one that `make` finds.
    /// Returns every text that the makefile may have when `make` runs.
    fn read_makefiles(&mut self, files: Option<&[Value]>) -> FileVersions {
        let mut makefiles = match files {
            Some(files) => self.read_versions(files),
            None => {
                let name = |name: &&str| Value::Text((*name).to_owned());
                let mut found = FILE_NAMES.iter().map(|file| self.read_versions(&[name(file)]));
                let is_there = |found: &FileVersions| !found.texts.is_empty() || !found.is_known;
                found.find(is_there).unwrap_or_default()
            }
        };
        let included: Vec<Value> = makefiles
            .texts
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(|line| line.trim_start_matches(['-', 's']).strip_prefix("include "))
            .flat_map(str::split_whitespace)
            .map(|file| Value::Text(file.to_owned()))
            .collect();
        let included = self.read_versions(&included);
        makefiles.is_known &= included.is_known;
        // The text of an included makefile becomes part of each version.
        for text in &mut makefiles.texts {
            included.texts.iter().for_each(|more| {
                text.push('\n');
                text.push_str(more);
            });
        }
        makefiles
    }
}

impl Makefile {
    fn parse(text: &str) -> Makefile {
        let mut makefile = Makefile::default();
        makefile.variables.insert("MAKE".to_owned(), "make".to_owned());
        makefile.variables.insert("RM".to_owned(), "rm -f".to_owned());
        let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
        for line in text.lines() {
            if let Some(line) = line.strip_prefix('\t') {
                makefile
                    .rules
                    .last_mut()
                    .into_iter()
                    .for_each(|rule| rule.recipe.push(line.into()));
                continue;
            }
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some((name, value)) = parse_assignment(line) {
                makefile.variables.insert(name.to_owned(), value.to_owned());
            } else if let Some((targets, rest)) = line.split_once(':') {
                let (prerequisites, recipe) = match rest.split_once(';') {
                    Some((prerequisites, recipe)) => (prerequisites, Some(recipe.to_owned())),
                    None => (rest, None),
                };
                let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
                makefile.rules.push(Rule {
                    targets: words(targets),
                    prerequisites: words(prerequisites.trim_start_matches(':')),
                    recipe: recipe.into_iter().collect(),
                });
            }
        }
        makefile
    }

    /// Lists the lines that run for these targets and for their prerequisites. If no targets are
    /// given, `make` builds the first target of the makefile.
    fn list_recipe_lines(&self, targets: &[&str]) -> Vec<String> {
        let is_usual = |target: &&String| !target.starts_with('.');
        let first = self.rules.iter().flat_map(|rule| &rule.targets).find(is_usual);
        let mut open: Vec<&str> = match targets {
            [] => first.map(String::as_str).into_iter().collect(),
            targets => targets.to_vec(),
        };
        let mut expansions = 0;
        let mut lines = Vec::new();
        let mut seen = HashSet::new();
        while let Some(target) = open.pop() {
            if seen.len() >= MAX_TARGETS || !seen.insert(target) {
                continue;
            }
            let is_meant = |rule: &&Rule| rule.targets.iter().any(|known| known == target);
            for rule in self.rules.iter().filter(is_meant) {
                open.extend(rule.prerequisites.iter().map(String::as_str));
                let expanded = rule.recipe.iter().filter_map(|line| {
                    let line = line.trim_start().trim_start_matches(['@', '-', '+']);
                    self.expand(line, target, 0, &mut expansions)
                });
                lines.extend(expanded);
            }
        }
        lines
    }

    /// Expands the variables in a line. Returns `None` if one of them is unknown, or if a limit is
    /// reached. `count` is the number of expansions so far.
    fn expand(&self, line: &str, target: &str, level: usize, count: &mut usize) -> Option<String> {
        if level > MAX_NESTED || *count > MAX_EXPANSIONS {
            return None;
        }
        *count += 1;
        let mut expanded = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('$') {
            expanded.push_str(before);
            let close = match after.chars().next()? {
                '(' => ')',
                '{' => '}',
                sign @ ('$' | '@') => {
                    expanded.push_str(if sign == '$' { "$" } else { target });
                    rest = &after[1..];
                    continue;
                }
                _ => return None,
            };
            let (name, after) = after[1..].split_once(close)?;
            let value = self.variables.get(name)?;
            expanded.push_str(&self.expand(value, target, level + 1, count)?);
            if expanded.len() > MAX_LINE {
                return None;
            }
            rest = after;
        }
        expanded.push_str(rest);
        Some(expanded)
    }
}

/// Parses `name = value`, with any of make's operators.
fn parse_assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end_matches([':', '?', '+', '!']).trim();
    let name = name.strip_prefix("export ").unwrap_or(name).trim();
    let is_name = !name.is_empty() && !name.contains([' ', '\t', ':', '$', '"', '\'']);
    is_name.then_some((name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipes_of_targets_and_prerequisites_are_listed() {
        let makefile = Makefile::parse(
            "OUT := out\nexport DIR = $(OUT)/x\n.PHONY: all clean\nall: one\n\tbuild $(OUT)\n\
             one:\n\t@rm -f $@ \\\n\t  two\nclean: tidy ; -rm -rf ${DIR} $$HOME\n\
             tidy:: # tidy up\n\trm $(OBJECTS)\n\t$(RM) b\nloop: loop\n\tx $(L)\nL = $(L)\n",
        );
        assert_eq!(makefile.list_recipe_lines(&[]), ["build out", "rm -f one  \t  two"]);
        assert_eq!(makefile.list_recipe_lines(&["clean"]), ["rm -rf out/x $HOME", "rm -f b"]);
        assert!(makefile.list_recipe_lines(&["loop", "none"]).is_empty());
    }

    #[test]
    fn variables_that_need_too_many_expansions_count_as_unknown() {
        let multiply = |name: &str, inner: &str| format!("{name} = {}\n", inner.repeat(1000));
        let makefile = multiply("A", "$(B)") + &multiply("B", "$(C)") + &multiply("C", "$(D)");
        let makefile = Makefile::parse(&(makefile + "D =\nall:\n\trm $(A)\n"));
        assert!(makefile.list_recipe_lines(&[]).is_empty());
    }
}
