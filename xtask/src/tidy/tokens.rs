//! Words, paths and the trees of `use`.

/// A word, `::`, or any other single character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// A path like `a::b::c`; one for each leaf of a `use` tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodePath<'a> {
    pub(crate) segments: Vec<&'a str>,
    /// The name after `as`, if there is one.
    pub(crate) alias: Option<&'a str>,
    pub(crate) line: usize,
    /// The number of `mod x {` around the path.
    pub(crate) nested: usize,
    pub(crate) stands: Stands,
}

/// Where a path is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    /// In a `use` for this module alone.
    Import,
    /// In a `pub use`.
    Export,
    /// In other code.
    Code,
}

pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(c) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = match word {
                0 if rest.starts_with("::") => 2,
                0 => c.len_utf8(),
                word => word,
            };
            tokens.push(Token { text: &rest[..length], line: number + 1 });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// Every path of at least two segments.
pub(crate) fn paths<'a>(tokens: &[Token<'a>]) -> Vec<CodePath<'a>> {
    let mut walk = Walk {
        tokens,
        at: 0,
        found: Vec::new(),
        depth: 0,
        modules: Vec::new(),
        stands: Stands::Code,
    };
    while walk.at < tokens.len() {
        walk.step();
    }
    walk.found
}

struct Walk<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
    found: Vec<CodePath<'a>>,
    /// The number of open braces, and the depths at which modules began.
    depth: usize,
    modules: Vec<usize>,
    stands: Stands,
}

impl<'a> Walk<'_, 'a> {
    fn text(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn step(&mut self) {
        match self.text(0) {
            "mod" if self.text(2) == "{" => self.modules.push(self.depth),
            "use" => self.stands = self.import(),
            ";" => self.stands = Stands::Code,
            "{" => self.depth += 1,
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                self.modules.pop_if(|began| *began == self.depth);
            }
            _ if self.tokens[self.at].is_word() && self.text(1) == "::" => return self.tree(&[]),
            _ => {}
        }
        self.at += 1;
    }

    /// Returns whether the `use` here has a `pub` or a `pub(…)` before it.
    fn import(&self) -> Stands {
        match self.at.checked_sub(1).map(|before| self.tokens[before].text) {
            Some("pub" | ")") => Stands::Export,
            _ => Stands::Import,
        }
    }

    /// Reads the tree that begins here, and moves past it.
    fn tree(&mut self, prefix: &[&'a str]) {
        let (mut segments, line) = (prefix.to_vec(), self.tokens[self.at].line);
        loop {
            segments.push(self.text(0));
            self.at += 1;
            if self.text(0) != "::" {
                break;
            }
            self.at += 1;
            if self.text(0) == "{" {
                return self.branches(&segments);
            }
            if !self.tokens.get(self.at).is_some_and(|token| token.is_word() || token.text == "*") {
                break;
            }
        }
        let alias = (self.text(0) == "as").then(|| self.text(1));
        let (nested, stands) = (self.modules.len(), self.stands);
        self.found.push(CodePath { segments, alias, line, nested, stands });
    }

    fn branches(&mut self, prefix: &[&'a str]) {
        self.at += 1;
        while !matches!(self.text(0), "}" | "") {
            if self.tokens[self.at].is_word() || self.text(0) == "*" {
                self.tree(prefix);
                if self.text(0) == "as" {
                    self.at += 2;
                }
            } else {
                self.at += 1;
            }
        }
        self.at += 1;
    }
}
