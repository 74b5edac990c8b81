//! Long functions and files. They are reported, not refused: a long list of cases may be the
//! clearest form.

use super::Finding;
use super::source::Source;
use super::tokens::{Token, tokens};

const FILE_LINES: usize = 400;
const FN_LINES: usize = 70;

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut notes = Vec::new();
    for source in sources {
        if source.shipped_lines > FILE_LINES {
            let message = format!("{} lines without tests; {FILE_LINES} are enough", source.shipped_lines);
            notes.push(Finding::new(&source.path, 1, message));
        }
        let tokens = tokens(&source.code);
        for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.text == "fn") {
            if let Some((name, lines)) = function(&tokens[at..]).filter(|(_, lines)| *lines > FN_LINES) {
                let message = format!("fn {name} has {lines} lines; {FN_LINES} are enough");
                notes.push(Finding::new(&source.path, tokens[at].line, message));
            }
        }
    }
    notes
}

/// Name and length of the function that begins here; `None` for a type (`fn(u8)`) and a declaration without a body.
fn function<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, usize)> {
    let name = tokens.get(1).filter(|token| token.is_word())?;
    let (mut braces, mut others) = (0_usize, 0_usize);
    for token in tokens {
        match token.text {
            "(" | "[" => others += 1,
            ")" | "]" => others = others.saturating_sub(1),
            "{" => braces += 1,
            "}" if braces <= 1 => return Some((name.text, token.line - tokens[0].line + 1)),
            "}" => braces -= 1,
            ";" if braces == 0 && others == 0 => return None,
            _ => {}
        }
    }
    None
}
