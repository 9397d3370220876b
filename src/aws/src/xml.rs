//! EC2's answers as a tree: names without their prefixes, attributes dropped. It knows no schema.

use xmlparser::{ElementEnd, Token, Tokenizer};

/// Deepest nesting that is read; EC2's answers stay far under it.
const DEPTH_MAX: usize = 64;

/// One element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Its text, trimmed; empty if it holds elements only.
    pub value: String,
    /// Its elements, in order.
    pub elements: Vec<Element>,
}

impl Element {
    /// The first child of this name.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.elements.iter().find(|child| child.name == name)
    }

    /// All children of this name, in order.
    pub fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> + 'a {
        self.elements.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child of this name, if it has one.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.value.as_str()).filter(|text| !text.is_empty())
    }

    /// The first element of this name, itself or under it, in document order.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Element> {
        if self.name == name { Some(self) } else { self.elements.iter().find_map(|child| child.find(name)) }
    }
}

/// The root element of a document.
///
/// # Errors
/// In words, when the text is no XML, is cut off, or nests too deep.
pub fn parse(text: &str) -> Result<Element, String> {
    let mut open: Vec<Element> = Vec::new();
    for token in Tokenizer::from(text) {
        match token.map_err(|error| format!("the answer is no XML: {error}"))? {
            Token::ElementStart { local, .. } => {
                if open.len() == DEPTH_MAX {
                    return Err("the answer nests too deep".to_owned());
                }
                open.push(Element { name: local.as_str().to_owned(), ..Element::default() });
            }
            Token::ElementEnd { end: ElementEnd::Close(..) | ElementEnd::Empty, .. } => {
                let Some(mut closed) = open.pop() else { return Err("the answer is no XML".to_owned()) };
                closed.value = closed.value.trim().to_owned();
                match open.last_mut() {
                    Some(parent) => parent.elements.push(closed),
                    None => return Ok(closed),
                }
            }
            Token::Text { text } => {
                if let Some(current) = open.last_mut() {
                    current.value.push_str(&unescaped(text.as_str()));
                }
            }
            Token::Cdata { text, .. } => {
                if let Some(current) = open.last_mut() {
                    current.value.push_str(text.as_str());
                }
            }
            _ => {}
        }
    }
    Err("the answer is cut off".to_owned())
}

/// A text with its entities replaced; one that is not known stays as it is.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let entity = after.split_once(';').and_then(|(name, tail)| Some((character(name)?, tail)));
        match entity {
            Some((character, tail)) => {
                plain.push(character);
                rest = tail;
            }
            None => {
                plain.push('&');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whatever_its_namespaces_and_entities() {
        let text = "<?xml version=\"1.0\"?><a:R xmlns:a=\"x\"><set><item><n>1 &lt; 2 &#38; 3</n></item><item/></set></a:R>";
        let root = parse(text).expect("XML");
        let set = root.child("set").expect("a set");
        assert_eq!((root.name.as_str(), set.children("item").count()), ("R", 2));
        assert_eq!(set.child("item").and_then(|item| item.text("n")), Some("1 < 2 & 3"));
    }

    #[test]
    fn an_answer_that_is_cut_off_is_no_answer() {
        for text in ["", "<a>", "<a><b></b>", "html it is not"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
