//! Rules for the arguments that keep a program read-only. Only options that a rule names are
//! allowed. A long option must not be abbreviated, and a bundle of short options must not contain
//! letters that the rule does not name.

use crate::shell::syntax::Arg;

/// The arguments that keep a program read-only.
#[derive(Clone, Copy)]
pub(super) enum ArgumentRule {
    /// Any arguments: the program cannot write or run anything.
    Any,
    /// These options, and no others.
    Only(AllowedOptions),
    /// Some options, then a verb, then the arguments that the rule for this verb allows.
    Verbs(AllowedOptions, &'static [(&'static str, ArgumentRule)]),
    /// All arguments for which the function returns true.
    Check(fn(&[Arg]) -> bool),
}

/// Options in the style of getopt, and a maximum number of operands.
#[derive(Clone, Copy)]
pub(in crate::shell) struct AllowedOptions {
    /// The letters of short options. A letter that takes a value is followed by `:`, or by `?` if
    /// the value is optional and attached. `#` allows numbers such as `-12`.
    short: &'static str,
    /// The names of long options. A name that takes a value is followed by `=`, by `?` if the value
    /// is optional and attached, or by `*` if it is optional and may be a separate word.
    long: &'static str,
    /// The maximum number of operands.
    max_operands: usize,
    /// The names, without dashes, of a group of options. At least one of them must be given, unless
    /// the list is empty.
    required: &'static str,
}

/// Allows only these options, and any operands.
pub(in crate::shell) const fn only(short: &'static str, long: &'static str) -> AllowedOptions {
    AllowedOptions { short, long, max_operands: usize::MAX, required: "" }
}

/// Allows no arguments at all.
pub(super) const NOTHING: ArgumentRule = ArgumentRule::Only(only("", "").max_operands(0));

/// Allows operands, but no options.
pub(super) const OPERANDS: ArgumentRule = ArgumentRule::Only(only("", ""));

impl AllowedOptions {
    pub(super) const fn max_operands(self, max_operands: usize) -> AllowedOptions {
        AllowedOptions { max_operands, ..self }
    }

    pub(super) const fn requires(self, required: &'static str) -> AllowedOptions {
        AllowedOptions { required, ..self }
    }

    /// Returns true if all the arguments are allowed.
    fn allows(&self, args: &[Arg]) -> bool {
        let mut reader =
            OptionReader { options: self, args, at: 0, has_required: self.required.is_empty() };
        let mut operands = 0usize;
        while let Some(arg) = args.get(reader.at) {
            if arg.known() == Some("--") {
                let rest = &args[reader.at + 1..];
                let many = self.max_operands < usize::MAX && rest.contains(&Arg::Unknown);
                operands += rest.len() + usize::from(many) * self.max_operands;
                break;
            }
            if arg.is_operand() {
                operands += 1;
                reader.at += 1;
            } else if !reader.skip_option() {
                return false;
            }
        }
        reader.has_required && operands <= self.max_operands
    }

    /// Counts the arguments before the first operand. Returns `None` if one of them is not allowed.
    pub(in crate::shell) fn count_before_operand(&self, args: &[Arg]) -> Option<usize> {
        let mut reader = OptionReader { options: self, args, at: 0, has_required: true };
        while let Some(arg) = args.get(reader.at) {
            if arg.known() == Some("--") {
                return Some(reader.at + 1);
            }
            if arg.is_operand() {
                return Some(reader.at);
            }
            if !reader.skip_option() {
                return None;
            }
        }
        Some(args.len())
    }
}

/// A reader that goes through the options one by one, as a program would.
struct OptionReader<'a> {
    options: &'a AllowedOptions,
    args: &'a [Arg],
    at: usize,
    has_required: bool,
}

impl OptionReader<'_> {
    /// Skips the next option and its value. Returns false if the option is not allowed.
    fn skip_option(&mut self) -> bool {
        let Some(text) = self.args[self.at].known() else { return false };
        self.at += 1;
        match text.strip_prefix("--") {
            Some(long) => self.skip_long(long),
            None => self.skip_bundle(&text[1..]),
        }
    }

    fn skip_long(&mut self, text: &str) -> bool {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        for allowed in self.options.long.split_ascii_whitespace() {
            let bare = allowed.trim_end_matches(['=', '?', '*']);
            if bare != name {
                continue;
            }
            self.has_required |=
                self.options.required.split_ascii_whitespace().any(|required| required == name);
            return match (allowed.as_bytes().last(), value) {
                (Some(b'='), None) => self.skip_value(),
                (Some(b'*'), None) if self.args.get(self.at).is_some_and(Arg::is_operand) => {
                    self.skip_value()
                }
                (Some(b'=' | b'?' | b'*'), _) => true,
                (_, value) => value.is_none(),
            };
        }
        false
    }

    fn skip_bundle(&mut self, letters: &str) -> bool {
        let short = self.options.short;
        if short.contains('#') && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return true;
        }
        for (at, letter) in letters.char_indices() {
            if matches!(letter, ':' | '?' | '#') {
                return false;
            }
            let Some(found) = short.find(letter) else { return false };
            self.has_required |= self
                .options
                .required
                .split_ascii_whitespace()
                .any(|required| required.chars().eq([letter]));
            let rest = &letters[at + letter.len_utf8()..];
            match short.as_bytes().get(found + letter.len_utf8()) {
                Some(b':') if rest.is_empty() => return self.skip_value(),
                Some(b':' | b'?') => return true,
                _ => {}
            }
        }
        true
    }

    /// Skips the next argument as the value of an option. Rejects a value that looks like an
    /// option: if the table were wrong and the option took no value, the next option would go
    /// unchecked.
    fn skip_value(&mut self) -> bool {
        let Some(arg) = self.args.get(self.at) else { return false };
        self.at += 1;
        let is_number = |text: &str| {
            text.strip_prefix('-').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        };
        arg.is_operand() || arg.known().is_some_and(is_number)
    }
}

impl ArgumentRule {
    /// Returns true if a program with this rule only reads when run with these arguments.
    pub(super) fn allows(&self, args: &[Arg]) -> bool {
        match self {
            ArgumentRule::Any => true,
            ArgumentRule::Only(options) => options.allows(args),
            ArgumentRule::Check(check) => check(args),
            ArgumentRule::Verbs(options, verbs) => {
                let Some(at) = options.count_before_operand(args) else { return false };
                let Some(verb) = args.get(at) else { return false };
                let found = verbs.iter().find(|(name, _)| verb.known() == Some(name));
                found.is_some_and(|(_, rule)| rule.allows(&args[at + 1..]))
            }
        }
    }
}
