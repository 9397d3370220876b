//! Lengths of text.

/// The first `length_max` characters of `text`; never half a character.
#[must_use]
pub fn cut(text: &str, length_max: usize) -> &str {
    text.char_indices().nth(length_max).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("aö→b", 2), "aö");
        assert_eq!(cut("aö→b", 4), "aö→b");
        assert_eq!(cut("", 0), "");
    }
}
