//! Text: its length, and that of errors with their causes.

use std::error::Error;

/// The first `length_max` characters of `text`; never half a character.
#[must_use]
pub fn cut(text: &str, length_max: usize) -> &str {
    text.char_indices().nth(length_max).map_or(text, |(end, _)| &text[..end])
}

/// An error and its causes in one line, from the outermost to the innermost: libraries hide "connection refused" two levels down.
/// A cause that says what stands there already is left out.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Layer {
        words: &'static str,
        #[source]
        cause: Option<Box<Self>>,
    }

    #[test]
    fn causes_follow_the_error_and_none_is_repeated() {
        let inner = Layer { words: "connection refused", cause: None };
        let middle = Layer { words: "request failed", cause: Some(Box::new(inner)) };
        let outer = Layer { words: "the request failed", cause: Some(Box::new(middle)) };
        assert_eq!(with_causes(&outer), "the request failed: connection refused");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("aö→b", 2), "aö");
        assert_eq!(cut("aö→b", 4), "aö→b");
        assert_eq!(cut("", 0), "");
    }
}
