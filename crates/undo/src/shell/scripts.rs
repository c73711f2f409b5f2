//! Programs whose arguments are a language of their own: sed, awk, find, tar, curl.

use super::options::{Rule, only};
use super::syntax::Arg;

/// Whether sed only prints: every command of its script is one that does no more.
pub(super) fn sed_reads(args: &[Arg]) -> bool {
    let mut scripts: Vec<&str> = Vec::new();
    let mut first_operand: Option<&Arg> = None;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if arg.is_operand() {
            first_operand = first_operand.or(Some(arg));
            continue;
        }
        let Some(text) = arg.known() else { return false };
        if let Some(script) = text.strip_prefix("--expression=") {
            scripts.push(script);
        } else if text.starts_with("--") {
            #[rustfmt::skip]
            const LONG: &[&str] =
                &["--quiet", "--silent", "--regexp-extended", "--null-data", "--posix", "--separate"];
            if !LONG.contains(&text) {
                return false;
            }
        } else {
            let letters = &text[1..];
            let flags = letters.trim_start_matches(['n', 'E', 'r', 's', 'u', 'z']);
            match flags.strip_prefix('e') {
                None if flags.is_empty() => {}
                None => return false,
                Some("") => {
                    let Some(script) = args.get(at).and_then(Arg::known) else { return false };
                    scripts.push(script);
                    at += 1;
                }
                Some(script) => scripts.push(script),
            }
        }
    }
    if scripts.is_empty() {
        let Some(script) = first_operand.and_then(Arg::known) else { return false };
        scripts.push(script);
    }
    scripts.iter().all(|script| SedScript { rest: script }.only_prints())
}

struct SedScript<'s> {
    rest: &'s str,
}

impl SedScript<'_> {
    fn only_prints(mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
            if self.rest.is_empty() {
                return true;
            }
            if !self.address() || !self.command() {
                return false;
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn address(&mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| {
                c.is_ascii_digit() || matches!(c, ' ' | '$' | ',' | '!' | '~' | '+')
            });
            let delimiter = match self.rest.as_bytes() {
                [b'/', ..] => '/',
                [b'\\', c, ..] if c.is_ascii_punctuation() && *c != b'\\' => {
                    self.rest = &self.rest[1..];
                    char::from(*c)
                }
                _ => return true,
            };
            self.rest = &self.rest[1..];
            if !self.part(delimiter) {
                return false;
            }
            self.rest = self.rest.trim_start_matches(['I', 'M']);
        }
    }

    fn command(&mut self) -> bool {
        match self.next() {
            Some('p' | 'P' | 'd' | 'D' | 'n' | 'N' | '=' | 'l' | 'h' | 'H' | 'g' | 'G' | 'x') => {
                self.ends()
            }
            Some('q' | 'Q') => {
                self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                self.ends()
            }
            Some('{' | '}') => true,
            Some('b' | 't' | 'T' | ':') => {
                let label = self.rest.trim_start_matches(' ');
                self.rest = label.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
                self.ends()
            }
            Some('y') => self.two_parts() && self.ends(),
            Some('s') => {
                if !self.two_parts() {
                    return false;
                }
                // Not `w`, which writes, nor `e`, which runs.
                self.rest = self.rest.trim_start_matches(|c: char| {
                    matches!(c, 'g' | 'p' | 'i' | 'I') || c.is_ascii_digit()
                });
                self.ends()
            }
            _ => false,
        }
    }

    fn two_parts(&mut self) -> bool {
        match self.next() {
            Some(delimiter) if delimiter.is_ascii_punctuation() && delimiter != '\\' => {
                self.part(delimiter) && self.part(delimiter)
            }
            _ => false,
        }
    }

    /// Goes past the delimiter. Whether one within brackets counts depends on the sed, so brackets
    /// must be closed before it.
    fn part(&mut self, delimiter: char) -> bool {
        let mut brackets = false;
        loop {
            match self.next() {
                None | Some('\n') => return false,
                Some('\\') => {
                    if self.next().is_none() {
                        return false;
                    }
                }
                Some(c) if c == delimiter => return !brackets,
                Some('[') => brackets = true,
                Some(']') => brackets = false,
                Some(_) => {}
            }
        }
    }

    fn ends(&mut self) -> bool {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        self.rest.is_empty() || self.rest.starts_with([';', '\n', '}'])
    }
}

/// Whether an awk program neither writes nor runs anything. What stands in strings counts too.
pub(super) fn awk_reads(args: &[Arg]) -> bool {
    let Some(at) = only("F:v:", "").before_operand(args) else { return false };
    let Some(program) = args.get(at).and_then(Arg::known) else { return false };
    let plain = program.replace("||", " ").replace(">=", " ");
    !plain.contains(['>', '|', '@'])
        && !plain.contains("system")
        && !plain.contains("getline")
        // What comes after the program are files, but some awks go on looking for options.
        && args[at + 1..].iter().all(Arg::is_operand)
}

/// Whether find only prints. Commands that it runs are looked at elsewhere.
pub(super) fn find_reads(args: &[Arg]) -> bool {
    #[rustfmt::skip]
    const TESTS: &[&str] = &[
        "-a", "-and", "-amin", "-anewer", "-atime", "-cmin", "-cnewer", "-ctime", "-daystart",
        "-depth", "-empty", "-executable", "-false", "-follow", "-fstype", "-gid", "-group",
        "-H", "-iname", "-inum", "-ipath", "-iregex", "-iwholename", "-L", "-links", "-lname",
        "-ls", "-maxdepth", "-mindepth", "-mmin", "-mount", "-mtime", "-name", "-newer", "-nogroup",
        "-not", "-nouser", "-o", "-or", "-P", "-path", "-perm", "-print", "-print0", "-printf",
        "-prune", "-quit", "-readable", "-regex", "-regextype", "-samefile", "-size", "-true",
        "-type", "-uid", "-used", "-user", "-wholename", "-writable", "-xdev", "-xtype",
    ];
    args.iter().all(|arg| match arg.known() {
        Some(text) if text.starts_with('-') && text.len() > 1 => {
            TESTS.contains(&text)
                || text[1..].starts_with(|c: char| c.is_ascii_digit())
                || (text.len() == 8 && text.starts_with("-newer"))
        }
        _ => arg.is_operand(),
    })
}

/// Whether tar only lists.
pub(super) fn tar_lists(args: &[Arg]) -> bool {
    let Some((Arg::Known(first), rest)) = args.split_first() else { return false };
    let listing = |text: &str| {
        let letters = text.strip_prefix('-').unwrap_or(text);
        letters.contains('t') && letters.bytes().all(|byte| b"tvzjJfaZ".contains(&byte))
    };
    let long = first == "--list";
    let options = only("vzjJaf:C:", "list verbose file= gzip bzip2 xz zstd directory= wildcards");
    // An archive with a colon in its name is on another machine.
    let remote = |arg: &Arg| arg.known().is_none_or(|text| text.contains(':'));
    (long || listing(first)) && Rule::Only(options).allows(rest) && !args.iter().any(remote)
}

/// Whether curl only gets something and prints it.
pub(super) fn curl_reads(args: &[Arg]) -> bool {
    let options = only(
        "sSfLkviIgGN46#aA:e:H:m:u:b:x:w:X:o:r:0",
        "silent show-error fail fail-with-body location insecure verbose include head globoff get \
         compressed user-agent= referer= header= max-time= connect-timeout= user= cookie= proxy= \
         write-out= request= output= range= retry= retry-delay= http1.1 http2 url= \
         no-progress-meter progress-bar max-redirs= resolve= cacert= oauth2-bearer= ipv4 ipv6 \
         no-buffer tlsv1.2 url-query=",
    );
    if !Rule::Only(options).allows(args) {
        return false;
    }
    let mut values = args.iter().map(|arg| arg.known().unwrap_or_default());
    values.all(curl_word_is_harmless) && curl_values_are_harmless(args)
}

/// No `%output{file}`, and no address that does more than the web does.
fn curl_word_is_harmless(text: &str) -> bool {
    let web = |scheme: &str| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let odd_scheme = scheme.is_some_and(|scheme| {
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !web(scheme)
    });
    !text.contains("%output") && !text.starts_with('@') && !odd_scheme
}

/// `-X GET`, `-o /dev/null`: the values of options that would otherwise send or write.
fn curl_values_are_harmless(args: &[Arg]) -> bool {
    let reads = |method: Option<&str>| matches!(method, Some("GET" | "HEAD" | "OPTIONS"));
    let nowhere = |file: Option<&str>| matches!(file, Some("/dev/null" | "-"));
    let formats = |format: Option<&str>| format.is_some_and(|format| !format.starts_with('@'));
    for (at, arg) in args.iter().enumerate() {
        let Some(text) = arg.known() else { continue };
        let next = args.get(at + 1).and_then(Arg::known);
        let fine = match text.split_once('=') {
            Some(("--request", method)) => reads(Some(method)),
            Some(("--output", file)) => nowhere(Some(file)),
            Some(("--write-out", format)) => formats(Some(format)),
            _ if text == "--write-out" => formats(next),
            _ if text == "--request" => reads(next),
            _ if text == "--output" => nowhere(next),
            _ if text.starts_with('-') && !text.starts_with("--") => {
                let value = |letter: char| {
                    let (_, value) = text.split_once(letter)?;
                    Some(if value.is_empty() { next } else { Some(value) })
                };
                // Letters of another option's value are taken for options: too strict, but safe.
                value('X').is_none_or(reads)
                    && value('o').is_none_or(nowhere)
                    && value('w').is_none_or(formats)
            }
            _ => true,
        };
        if !fine {
            return false;
        }
    }
    true
}
