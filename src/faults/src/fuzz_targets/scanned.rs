//! A second, simpler reading of confined queries, which shares nothing with that of `metrics/promql`: it blanks what
//! Prometheus takes for texts, knows no grammar, and looks whether anything could read series without the matcher.

/// Words that are no selectors where neither a brace nor a bracket follows: a selector always has its braces after it.
const KEYWORDS: &[&str] = &[
    "and",
    "or",
    "unless",
    "atan2",
    "bool",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "offset",
    "inf",
    "nan",
];
/// Words after which labels stand in brackets.
const LABELS_FOLLOW: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];

/// True if every selector of `query` begins with `matcher`.
///
/// # Errors
/// Message about the part that could read other series.
pub(super) fn is_confined(query: &str, matcher: &str) -> Result<(), String> {
    let blanked = without_texts(query)?;
    let mut rest = blanked.as_str();
    let run = |text: &str, more: &str| {
        text.find(|c: char| !c.is_ascii_alphanumeric() && !more.contains(c)).unwrap_or(text.len())
    };
    while let Some(first) = rest.chars().next() {
        match first {
            '{' => {
                let end = rest.find('}').ok_or("a brace without its end")?;
                let at = blanked.len() - rest.len() + 1;
                if !query[at..].starts_with(matcher) {
                    return Err(format!("a selector without the matcher: {}", &rest[..=end]));
                }
                rest = &rest[end + 1..];
            }
            '0'..='9' | '.' => rest = &rest[run(rest, "_.").max(1)..],
            'a'..='z' | 'A'..='Z' | '_' => {
                let (word, after) = rest.split_at(run(rest, "_:"));
                rest = after_word(word, after)?;
            }
            // The step of a subquery may follow a colon; a metric may begin with one.
            ':' if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "_:".contains(c)) => {
                return Err(format!("a metric of its own: {rest}"));
            }
            _ => rest = &rest[1..],
        }
    }
    Ok(())
}

/// Returns the rest of the query after a word, its labels skipped.
fn after_word<'q>(word: &str, rest: &'q str) -> Result<&'q str, String> {
    let follows = rest.trim_start();
    let keyword = word.to_ascii_lowercase();
    if follows.starts_with('{') {
        return Ok(rest);
    }
    if follows.starts_with('(') {
        let labels = LABELS_FOLLOW.contains(&keyword.as_str());
        let end = follows.find(')').ok_or("a bracket without its end")?;
        return Ok(if labels { &follows[end + 1..] } else { rest });
    }
    // An aggregation may have its labels before its bracket.
    let next =
        follows.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default().to_ascii_lowercase();
    if KEYWORDS.contains(&keyword.as_str()) || matches!(next.as_str(), "by" | "without") {
        return Ok(rest);
    }
    Err(format!("a selector without braces: {word}"))
}

/// The query with every text blanked, byte by byte: as Prometheus' lexer ends texts, and with no place for comments or blanks
/// of other kinds.
fn without_texts(query: &str) -> Result<String, String> {
    let mut blanked = String::new();
    let mut open: Option<char> = None;
    let mut escaped = false;
    for c in query.chars() {
        match open {
            Some(quote) => {
                let ends = c == quote && !escaped;
                escaped = c == '\\' && quote != '`' && !escaped;
                if c == '\n' && quote != '`' {
                    return Err("a text over two lines".to_owned());
                }
                open = if ends { None } else { open };
                blanked.extend(std::iter::repeat_n(' ', c.len_utf8()));
            }
            None if matches!(c, '"' | '\'' | '`') => {
                open = Some(c);
                blanked.push(' ');
            }
            None if c == ' ' || c.is_ascii_graphic() && c != '#' => blanked.push(c),
            None => return Err(format!("{c:?} outside of texts")),
        }
    }
    match open {
        Some(quote) => Err(format!("{quote} is not closed")),
        None => Ok(blanked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_confined_is_found_without_the_parser() {
        let check =
            |query: &str| is_confined(&query.replace("NS", "namespace=\"shop\""), "namespace=\"shop\"");
        for query in [
            "up{NS}",
            "sum by (pod, on) (rate(a{NS,b=\"}\"}[5m:1m])) / on () group_left b{NS} offset -5m @ 0x1F",
            "SUM(a{NS}) BY (x) > bool NaN",
            "{NS,\"a b\"} or vector(0)",
            "sum without (x) (a{NS})",
        ] {
            assert_eq!(check(query), Ok(()), "{query}");
        }
        for query in [
            "up",
            "up{}",
            "up{a=\"b\",NS}",
            "vector(0) # \r + sum(b{NS})",
            "a{NS} + b",
            "a{NS} or :b",
            "a{NS}\r",
            "a{NS,b=\"}\"} + {c=\"NS\"}",
            "on + a{NS} + secret",
            "a{NS,b='\"'} + c{d='\"'}",
            "a{NS}\u{2028}",
        ] {
            assert!(check(query).is_err(), "{query}");
        }
    }
}
