//! Lists, pipelines and commands.

use std::rc::Rc;

use crate::shell::syntax::{
    Assignment, Command, Compound, Kind, List, Operator, Part, Redirect, Simple, Step, Word,
};

use super::words::is_name;
use super::{Parsed, Parser};

/// What separates words without quotes.
const META: &[char] = &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'];

/// Words that do not stand where a program could, unless the script is wrong.
const RESERVED: &[&str] = &[
    "!", "{", "}", "[[", "]]", "if", "then", "elif", "else", "fi", "for", "while", "until",
    "select", "do", "done", "case", "esac", "function", "coproc", "time",
];

impl<'t> Parser<'t> {
    /// Commands up to a closing parenthesis, the end of a `case` branch, or one of the keywords.
    pub(super) fn list(&mut self, ends: &[&str]) -> Parsed<List> {
        let mut list = List::new();
        self.lines()?;
        while !self.is_list_end(ends) {
            let start = list.len();
            self.and_or(&mut list)?;
            self.blanks();
            match self.peek() {
                Some(b';') if matches!(self.peek_at(1), Some(b';' | b'&')) => break,
                Some(b';') => self.at += 1,
                Some(b'&') => {
                    self.at += 1;
                    list[start..].iter_mut().for_each(|step| step.apart = true);
                }
                Some(b'\n') => {}
                _ => break,
            }
            self.operator_ends()?;
            self.lines()?;
        }
        Ok(list)
    }

    fn is_list_end(&self, ends: &[&str]) -> bool {
        matches!(self.peek(), None | Some(b')'))
            || self.rest().starts_with(";;")
            || self.rest().starts_with(";&")
            || ends.contains(&self.keyword())
    }

    /// The word that comes next, if it could be a keyword.
    fn keyword(&self) -> &'t str {
        let rest = self.rest();
        &rest[..rest.find(META).unwrap_or(rest.len())]
    }

    /// Skips the keyword.
    fn expect_keyword(&mut self, keyword: &'static str) -> Parsed<()> {
        if self.keyword() != keyword {
            return Err("a keyword is missing");
        }
        self.at += keyword.len();
        Ok(())
    }

    fn and_or(&mut self, list: &mut List) -> Parsed<()> {
        self.pipeline(list, false)?;
        loop {
            self.blanks();
            if !self.eat("&&") && !self.eat("||") {
                return Ok(());
            }
            self.operator_ends()?;
            self.lines()?;
            self.pipeline(list, true)?;
        }
    }

    fn pipeline(&mut self, list: &mut List, conditional: bool) -> Parsed<()> {
        while let keyword @ ("!" | "time") = self.keyword() {
            self.at += keyword.len();
            self.blanks();
            if keyword == "time" && self.keyword() == "-p" {
                self.at += 2;
                self.blanks();
            }
        }
        let start = list.len();
        loop {
            let command = self.command()?;
            list.push(Step { command, conditional, apart: false });
            self.blanks();
            if self.peek() != Some(b'|') || self.peek_at(1) == Some(b'|') {
                break;
            }
            self.at += 1;
            if self.eat("&") {
                self.extension()?;
            }
            self.operator_ends()?;
            self.lines()?;
        }
        if list.len() > start + 1 {
            list[start..].iter_mut().for_each(|step| step.apart = true);
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        if let Some(compound) = self.compound()? {
            return Ok(Command::Compound(compound));
        }
        match self.keyword() {
            "function" => {
                self.extension()?;
                self.expect_keyword("function")?;
                self.blanks();
                let name = self.word()?.ok_or("a function has no name")?;
                if self.eat("(") {
                    self.blanks();
                    self.expect(")", "a function has no body")?;
                }
                self.function(&name)
            }
            "coproc" => Err("a coprocess"),
            _ => self.simple(),
        }
    }

    fn function(&mut self, name: &Word) -> Parsed<Command> {
        let name = name.bare().ok_or("a function has an odd name")?.to_owned();
        self.lines()?;
        let body = self.deeper(Self::compound)?.ok_or("a function has no body")?;
        Ok(Command::Function { name, body })
    }

    /// A compound command with its redirections, if one comes next.
    fn compound(&mut self) -> Parsed<Option<Compound>> {
        let mut compound = match self.keyword() {
            "" if self.rest().starts_with("((") => {
                self.extension()?;
                self.at += 2;
                let mut word = Word::default();
                self.deeper(|parser| parser.arithmetic(&mut word))?;
                word.parts.push(Part::Hidden("arithmetic"));
                Compound { words: vec![word], ..Compound::default() }
            }
            "" if self.rest().starts_with('(') => self.deeper(Self::subshell)?,
            "{" => self.deeper(Self::group)?,
            "if" => self.deeper(Self::conditional)?,
            "while" | "until" => self.deeper(Self::repetition)?,
            "for" | "select" => self.deeper(Self::each)?,
            "case" => self.deeper(Self::cases)?,
            "[[" => self.deeper(Self::test)?,
            _ => return Ok(None),
        };
        self.blanks();
        while let Some(redirect) = self.redirect()? {
            compound.redirects.push(redirect);
            self.blanks();
        }
        Ok(Some(compound))
    }

    fn subshell(&mut self) -> Parsed<Compound> {
        self.at += 1;
        let list = self.list(&[])?;
        self.expect(")", "a parenthesis is not closed")?;
        Ok(Compound { kind: Kind::Subshell, lists: vec![list], ..Compound::default() })
    }

    fn group(&mut self) -> Parsed<Compound> {
        self.expect_keyword("{")?;
        let list = self.list(&["}"])?;
        self.expect_keyword("}")?;
        Ok(Compound { lists: vec![list], ..Compound::default() })
    }

    fn conditional(&mut self) -> Parsed<Compound> {
        let mut lists = Vec::new();
        self.expect_keyword("if")?;
        loop {
            lists.push(self.list(&["then"])?);
            self.expect_keyword("then")?;
            lists.push(self.list(&["elif", "else", "fi"])?);
            if self.keyword() != "elif" {
                break;
            }
            self.expect_keyword("elif")?;
        }
        if self.keyword() == "else" {
            self.expect_keyword("else")?;
            lists.push(self.list(&["fi"])?);
        }
        self.expect_keyword("fi")?;
        Ok(Compound { kind: Kind::Branches, lists, ..Compound::default() })
    }

    fn repetition(&mut self) -> Parsed<Compound> {
        self.at += self.keyword().len();
        let condition = self.list(&["do"])?;
        let body = self.body()?;
        Ok(Compound { kind: Kind::Branches, lists: vec![condition, body], ..Compound::default() })
    }

    /// `do … done`
    fn body(&mut self) -> Parsed<List> {
        self.expect_keyword("do")?;
        let body = self.list(&["done"])?;
        self.expect_keyword("done")?;
        Ok(body)
    }

    fn each(&mut self) -> Parsed<Compound> {
        let mut compound = Compound { kind: Kind::Branches, ..Compound::default() };
        self.at += self.keyword().len();
        self.blanks();
        if self.eat("((") {
            self.extension()?;
            let mut word = Word::default();
            self.arithmetic(&mut word)?;
            word.parts.push(Part::Hidden("arithmetic"));
            compound.words.push(word);
        } else {
            let name = self.keyword();
            if !is_name(name) {
                return Err("a loop has an odd variable");
            }
            compound.variable = Some(name.to_owned());
            self.at += name.len();
            self.lines()?;
            if self.keyword() == "in" {
                self.expect_keyword("in")?;
                self.blanks();
                while let Some(word) = self.word()? {
                    compound.words.push(word);
                    self.blanks();
                }
            }
        }
        self.blanks();
        if !self.rest().starts_with(";;") {
            self.eat(";");
        }
        self.lines()?;
        compound.lists.push(self.body()?);
        Ok(compound)
    }

    fn cases(&mut self) -> Parsed<Compound> {
        let mut compound = Compound { kind: Kind::Branches, ..Compound::default() };
        self.expect_keyword("case")?;
        self.blanks();
        compound.words.push(self.word()?.ok_or("a case has no subject")?);
        self.lines()?;
        self.expect_keyword("in")?;
        self.lines()?;
        while self.keyword() != "esac" {
            self.eat("(");
            loop {
                self.blanks();
                compound.words.push(self.word()?.ok_or("a case has no pattern")?);
                self.blanks();
                if !self.eat("|") {
                    break;
                }
            }
            self.expect(")", "a case has an odd pattern")?;
            compound.lists.push(self.list(&["esac"])?);
            if !self.eat(";;&") && !self.eat(";;") && !self.eat(";&") && self.keyword() != "esac" {
                return Err("a case is not closed");
            }
            self.lines()?;
        }
        self.expect_keyword("esac")?;
        Ok(compound)
    }

    /// `[[ … ]]`
    fn test(&mut self) -> Parsed<Compound> {
        self.extension()?;
        self.expect_keyword("[[")?;
        let mut words: Vec<Word> = Vec::new();
        loop {
            self.lines()?;
            if self.keyword() == "]]" {
                break;
            }
            let matching = words.last().and_then(Word::bare) == Some("=~");
            let word = if matching { self.expression()? } else { self.word()? };
            match word {
                Some(word) => words.push(word),
                None if ["&&", "||", "(", ")", "<", ">"].iter().any(|sign| self.eat(sign)) => {}
                None => return Err("a test is not closed"),
            }
        }
        self.expect_keyword("]]")?;
        Ok(Compound { kind: Kind::Test, words, ..Compound::default() })
    }

    fn simple(&mut self) -> Parsed<Command> {
        let mut simple = Simple::default();
        let start = self.at;
        let mut end = start;
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
            } else if let Some(word) = self.word()? {
                if self.peek() == Some(b'(') {
                    return self.function_by_name(&simple, &word);
                }
                let odd = word.bare().is_some_and(|text| text.starts_with('{'));
                if odd && matches!(self.peek(), Some(b'<' | b'>')) {
                    return Err("a redirection to a variable");
                }
                if !simple.words.is_empty() {
                    simple.words.push(word);
                } else {
                    match assignment(word) {
                        Ok(assignment) => simple.assignments.push(assignment),
                        Err(word) => simple.words.push(word),
                    }
                }
            } else {
                break;
            }
            end = self.at;
        }
        if end == start {
            return Err("a command is missing");
        }
        let first = simple.words.first().and_then(Word::bare);
        if first.is_some_and(|first| RESERVED.contains(&first)) {
            return Err("a keyword stands where a command should be");
        }
        simple.text = self.text[start..end].to_owned();
        Ok(Command::Simple(simple))
    }

    /// `name()`, whose opening parenthesis comes next.
    fn function_by_name(&mut self, before: &Simple, name: &Word) -> Parsed<Command> {
        let alone = before.words.is_empty()
            && before.assignments.is_empty()
            && before.redirects.is_empty();
        self.at += 1;
        self.blanks();
        if !alone || !self.eat(")") {
            return Err("a parenthesis where none can be");
        }
        self.function(name)
    }

    /// The next redirection, if one comes next.
    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        const OPERATORS: &[(&str, Operator)] = &[
            ("<<<", Operator::HereString),
            ("<<", Operator::HereDocument),
            ("<>", Operator::Write),
            ("<&", Operator::DuplicateInput),
            ("<", Operator::Read),
            (">>", Operator::Write),
            (">|", Operator::Write),
            (">&", Operator::Duplicate),
            (">", Operator::Write),
            ("&>>", Operator::Write),
            ("&>", Operator::Write),
        ];
        let start = self.at;
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let rest = &self.rest()[digits..];
        let found = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let Some(&(sign, operator)) = found else { return Ok(None) };
        if sign.starts_with('&') || sign == "<<<" {
            if digits > 0 {
                // The digits are a word of their own.
                return Ok(None);
            }
            self.extension()?;
        }
        if rest[1..].starts_with('(') {
            return if digits > 0 { Err("an odd redirection") } else { Ok(None) };
        }
        self.at += digits + sign.len();
        if operator == Operator::HereDocument {
            return self.here_document_start(start).map(Some);
        }
        self.operator_ends()?;
        self.blanks();
        let target = self.word()?.ok_or("a redirection leads nowhere")?;
        let text = self.text[start..self.at].to_owned();
        Ok(Some(Redirect { operator, target, body: Rc::default(), text }))
    }
}

/// The word as an assignment, or the word itself.
fn assignment(mut word: Word) -> Result<Assignment, Word> {
    let Some(Part::Text { text, quoted: false }) = word.parts.first() else { return Err(word) };
    let Some((name, value)) = text.split_once('=') else { return Err(word) };
    let name = name.strip_suffix('+').unwrap_or(name);
    if !is_name(name) {
        return Err(word);
    }
    let (name, value) = (name.to_owned(), value.to_owned());
    word.parts[0] = Part::Text { text: value, quoted: false };
    Ok(Assignment { name, value: word })
}
