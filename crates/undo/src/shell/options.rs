//! Which arguments of a program are harmless. What is not named here is not allowed: neither an
//! abbreviation of a long option, nor a letter in a bundle of short ones.

use super::syntax::Arg;

/// What a program may be given so that it only reads.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Anything: it cannot write or run anything.
    Any,
    /// Only these options.
    Only(Options),
    /// Some options, a verb, and what that verb allows.
    Verbs(Options, &'static [(&'static str, Rule)]),
    /// Whatever the function says.
    Check(fn(&[Arg]) -> bool),
}

/// Options as for getopt, and how many operands.
#[derive(Clone, Copy)]
pub(super) struct Options {
    /// Letters; `:` after one that takes a value, `?` if only when it is attached, `#` for `-12`.
    short: &'static str,
    /// Names; `=` after one that takes a value, `?` if only when it is attached, `*` if it may.
    long: &'static str,
    /// How many operands there may be.
    most: usize,
    /// One of these must be there; options without their dashes, or nothing.
    needs: &'static str,
}

/// Only these options, and any operands.
pub(super) const fn only(short: &'static str, long: &'static str) -> Options {
    Options { short, long, most: usize::MAX, needs: "" }
}

/// No arguments at all.
pub(super) const NOTHING: Rule = Rule::Only(only("", "").most(0));

/// Operands, but no options.
pub(super) const OPERANDS: Rule = Rule::Only(only("", ""));

impl Options {
    pub(super) const fn most(self, most: usize) -> Options {
        Options { most, ..self }
    }

    pub(super) const fn needs(self, needs: &'static str) -> Options {
        Options { needs, ..self }
    }

    /// Whether all the arguments are fine.
    fn allow(&self, args: &[Arg]) -> bool {
        let mut reading = Reading { options: self, args, at: 0, needed: self.needs.is_empty() };
        let mut operands = 0usize;
        while let Some(arg) = args.get(reading.at) {
            if arg.known() == Some("--") {
                let rest = &args[reading.at + 1..];
                let many = self.most < usize::MAX && rest.contains(&Arg::Unknown);
                operands += rest.len() + usize::from(many) * self.most;
                break;
            }
            if arg.is_operand() {
                operands += 1;
                reading.at += 1;
            } else if !reading.option() {
                return false;
            }
        }
        reading.needed && operands <= self.most
    }

    /// How many arguments come before the first operand; `None` if one of them is not allowed.
    pub(super) fn before_operand(&self, args: &[Arg]) -> Option<usize> {
        let mut reading = Reading { options: self, args, at: 0, needed: true };
        while let Some(arg) = args.get(reading.at) {
            if arg.known() == Some("--") {
                return Some(reading.at + 1);
            }
            if arg.is_operand() {
                return Some(reading.at);
            }
            if !reading.option() {
                return None;
            }
        }
        Some(args.len())
    }
}

struct Reading<'a> {
    options: &'a Options,
    args: &'a [Arg],
    at: usize,
    needed: bool,
}

impl Reading<'_> {
    /// Whether the option here is allowed; goes past it and its value.
    fn option(&mut self) -> bool {
        let Some(text) = self.args[self.at].known() else { return false };
        self.at += 1;
        match text.strip_prefix("--") {
            Some(long) => self.long(long),
            None => self.bundle(&text[1..]),
        }
    }

    fn long(&mut self, text: &str) -> bool {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        for allowed in self.options.long.split_ascii_whitespace() {
            let bare = allowed.trim_end_matches(['=', '?', '*']);
            if bare != name {
                continue;
            }
            self.needed |= self.options.needs.split_ascii_whitespace().any(|need| need == name);
            return match (allowed.as_bytes().last(), value) {
                (Some(b'='), None) => self.value(),
                (Some(b'*'), None) if self.args.get(self.at).is_some_and(Arg::is_operand) => {
                    self.value()
                }
                (Some(b'=' | b'?' | b'*'), _) => true,
                (_, value) => value.is_none(),
            };
        }
        false
    }

    fn bundle(&mut self, letters: &str) -> bool {
        let short = self.options.short;
        if short.contains('#') && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return true;
        }
        for (at, letter) in letters.char_indices() {
            if matches!(letter, ':' | '?' | '#') {
                return false;
            }
            let Some(found) = short.find(letter) else { return false };
            self.needed |=
                self.options.needs.split_ascii_whitespace().any(|need| need.chars().eq([letter]));
            let rest = &letters[at + letter.len_utf8()..];
            match short.as_bytes().get(found + letter.len_utf8()) {
                Some(b':') if rest.is_empty() => return self.value(),
                Some(b':' | b'?') => return true,
                _ => {}
            }
        }
        true
    }

    /// The next argument as a value. One that looks like an option is refused: should the table be
    /// wrong about the value, the option would slip through.
    fn value(&mut self) -> bool {
        let Some(arg) = self.args.get(self.at) else { return false };
        self.at += 1;
        let number = |text: &str| {
            text.strip_prefix('-').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        };
        arg.is_operand() || arg.known().is_some_and(number)
    }
}

impl Rule {
    /// Whether a program with this rule only reads when it is given these arguments.
    pub(super) fn allows(&self, args: &[Arg]) -> bool {
        match self {
            Rule::Any => true,
            Rule::Only(options) => options.allow(args),
            Rule::Check(check) => check(args),
            Rule::Verbs(options, verbs) => {
                let Some(at) = options.before_operand(args) else { return false };
                let Some(verb) = args.get(at) else { return false };
                let found = verbs.iter().find(|(name, _)| verb.known() == Some(name));
                found.is_some_and(|(_, rule)| rule.allows(&args[at + 1..]))
            }
        }
    }
}
