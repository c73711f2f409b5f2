//! Recognizes, by program and verb, the effects that no rollback reverses.

mod cloud;
mod database;
mod network;
mod publish;
mod repository;

use super::EffectKind;
use super::syntax::Arg;

/// Finds the effect of a command on things other than files.
pub(super) fn find_effect(base: &str, args: &[Arg]) -> Option<EffectKind> {
    let command = Invocation::new(base, args);
    // With one of these options, a program only prints some text, whatever its other arguments are.
    if command.words.iter().any(|word| matches!(*word, "--help" | "--version"))
        && !command.words.contains(&"--")
    {
        return None;
    }
    repository::find_effect(&command)
        .or_else(|| publish::is_publishing(&command).then_some(EffectKind::Publish))
        .or_else(|| network::is_sending(&command).then_some(EffectKind::Network))
        .or_else(|| cloud::is_changing(&command).then_some(EffectKind::Cloud))
        .or_else(|| database::is_changing(&command).then_some(EffectKind::Database))
}

/// A program and its words. A word that is unknown until the command runs is an empty string.
struct Invocation<'a> {
    base: &'a str,
    words: Vec<&'a str>,
    /// The words that are not options.
    operands: Vec<&'a str>,
}

impl<'a> Invocation<'a> {
    fn new(base: &'a str, args: &'a [Arg]) -> Invocation<'a> {
        let words: Vec<&str> = args.iter().map(|arg| arg.known().unwrap_or_default()).collect();
        let operands = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
        Invocation { base, words, operands }
    }

    /// Returns true if the operands start with this verb, which may be several words.
    fn has_verb(&self, verb: &str) -> bool {
        let mut operands = self.operands.iter();
        verb.split(' ').all(|word| operands.next() == Some(&word))
    }

    fn has_any_verb(&self, verbs: &[&str]) -> bool {
        verbs.iter().any(|verb| self.has_verb(verb))
    }

    /// Drops the options before the verb. The options in `valued` take a value.
    fn skip_options(&self, valued: &[&str]) -> Invocation<'a> {
        let mut at = 0;
        while let Some(word) = self.words.get(at)
            && word.starts_with('-')
        {
            at += if valued.contains(word) { 2 } else { 1 };
        }
        let words = self.words.get(at..).unwrap_or_default().to_vec();
        let operands = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
        Invocation { base: self.base, words, operands }
    }

    /// Collects the values of an option: `-x value`, `-xvalue`, `--long value`, `--long=value`.
    fn option_values(&self, names: &[&str]) -> Vec<&'a str> {
        let mut values = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            for name in names {
                let Some(rest) = word.strip_prefix(name) else { continue };
                let is_long = name.starts_with("--");
                match rest.strip_prefix('=') {
                    None if rest.is_empty() => {
                        values.push(self.words.get(at + 1).copied().unwrap_or_default());
                    }
                    Some(value) if is_long => values.push(value),
                    _ if !is_long => values.push(rest),
                    _ => {}
                }
            }
        }
        values
    }
}
