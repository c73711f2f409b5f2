//! The arguments of programs: options, their values, and operands.

use super::value::Value;
use crate::shell::syntax::Arg;

/// The arguments of a program, split into operands and options.
pub(super) struct SplitArguments {
    pub(super) operands: Vec<Vec<Value>>,
    /// The options, each with its value. Bundled letters are split.
    options: Vec<(String, Option<Vec<Value>>)>,
}

impl SplitArguments {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// Returns the number of times that these options are given.
    pub(super) fn count(&self, names: &[&str]) -> usize {
        self.options.iter().filter(|(name, _)| names.contains(&name.as_str())).count()
    }

    /// Returns the value of the first of these options that has a value.
    pub(super) fn option(&self, names: &[&str]) -> Option<Vec<Value>> {
        self.options_named(names).first().map(|values| (*values).clone())
    }

    /// Returns the value of an option. If the value may be several words, also adds these words to
    /// the operands.
    fn take_words(&mut self, group: Option<&Vec<Value>>) -> Option<Vec<Value>> {
        self.operands.extend(group.filter(|group| group.len() > 1).cloned());
        group.cloned()
    }

    pub(super) fn options_named(&self, names: &[&str]) -> Vec<&Vec<Value>> {
        let named = self.options.iter().filter(|(name, _)| names.contains(&name.as_str()));
        named.filter_map(|(_, value)| value.as_ref()).collect()
    }
}

/// Splits arguments into options and operands. `valued` lists the letters and long names of the
/// options that take a value, separated by spaces.
pub(super) fn split_operands(args: &[Vec<Value>], valued: &str) -> SplitArguments {
    split(args, valued, false).0
}

/// Splits the arguments before the first operand. Also returns the position of that operand.
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
                // Names that a pattern matches are operands, even if some look like options.
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
                    split.take_words(args.get(at - 1))
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
                split.take_words(args.get(at - 1))
            } else {
                let start = &text[..text.len() - attached.len()];
                Some(group.iter().filter_map(|value| value.strip_start(start)).collect())
            };
            split.options.push((name, value));
            break;
        }
    }
    // The last option may lack its value.
    (split, at.min(args.len()))
}

/// Converts arguments to the form that the rules for read-only programs expect.
pub(super) fn to_args(args: &[Vec<Value>]) -> Vec<Arg> {
    let to_arg = |group: &Vec<Value>| match group.as_slice() {
        [Value::Text(text)] => Arg::Known(text.clone()),
        [_] if !group[0].start().is_empty() && !group[0].is_option() => Arg::Operand,
        _ => Arg::Unknown,
    };
    args.iter().map(to_arg).collect()
}

/// Returns the last name in a path.
pub(super) fn last_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}
