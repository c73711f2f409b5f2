//! Lists, pipelines and commands.

use crate::shell::syntax::{Command, Compound, Kind, List, Part, Step, Word};

use super::words::is_name;
use super::{COMMANDS, Parsed, Parser};

/// What separates words without quotes.
const META: &[char] = &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'];

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
        self.commands += 1;
        if self.commands > COMMANDS {
            return Err("it has too many commands");
        }
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

    pub(super) fn function(&mut self, name: &Word) -> Parsed<Command> {
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
}
