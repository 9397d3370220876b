//! PromQL confined to one namespace: every selector of a query gets the namespace's label, or the query is refused.
//!
//! Read by a parser of our own that knows structure and no precedence. What it does not know is refused, comments and
//! control characters too. Only its own tokens are sent, with spaces between them and the matchers put in, so no server
//! can read something that was not read here.

mod lexer;
mod reach;

use headroom_core::time::Seconds;
use lexer::{Token, TokenKind, rendered, tokens};
use reach::Reach;

/// Longest query that is read, in bytes.
const QUERY_MAX_BYTES: usize = 4096;
/// Deepest nesting of brackets and signs that is read.
const DEPTH_MAX: usize = 64;

/// Functions whose only series are those of their arguments. `info` is not among them: it reads series of all
/// namespaces that no selector names.
const FUNCTIONS: &str = " abs absent absent_over_time acos acosh asin asinh atan atanh avg_over_time ceil changes clamp \
    clamp_max clamp_min cos cosh count_over_time day_of_month day_of_week day_of_year days_in_month deg delta deriv \
    double_exponential_smoothing exp first_over_time floor histogram_avg histogram_count histogram_fraction \
    histogram_quantile histogram_stddev histogram_stdvar histogram_sum holt_winters hour idelta increase irate label_join \
    label_replace last_over_time ln log10 log2 mad_over_time max_over_time min_over_time minute month pi predict_linear \
    present_over_time quantile_over_time rad rate resets round scalar sgn sin sinh sort sort_by_label \
    sort_by_label_desc sort_desc sqrt stddev_over_time stdvar_over_time sum_over_time tan tanh time timestamp \
    ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time vector year ";
const AGGREGATIONS: &str = " sum avg count min max group stddev stdvar topk bottomk count_values quantile limitk \
    limit_ratio ";
/// Functions by which a query itself defines a value for no sample.
const ANSWERS_ABSENCE: &str = " absent absent_over_time vector ";

/// A query that can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// The query, every selector of which demands the namespace.
    pub query: String,
    /// A query for the time of the youngest sample that the query can see, as Unix seconds, of the selector that is
    /// worst off: an instant query itself only returns when it was evaluated. `None` if there is nothing to ask: the query
    /// has no selector, or each one looks at a time of its own by `offset` or `@`.
    pub freshness: Option<String>,
    /// True if the query itself defines a value for no sample: it uses `absent`, `absent_over_time` or `vector`.
    pub answers_absence: bool,
}

/// Reason why a query cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It is longer than we read.
    #[error("the query has {0} bytes: at most {QUERY_MAX_BYTES} are read")]
    TooLong(usize),
    /// It is nested deeper than we read.
    #[error("the query is nested deeper than {DEPTH_MAX} brackets: make it simpler")]
    TooDeep,
    /// It has a character that servers may read in another way than we do.
    #[error("the query has {name} at character {at}: {fix}")]
    Character {
        /// Position of the character, from 1.
        at: usize,
        /// The character's name and code.
        name: String,
        /// Advice to the user.
        fix: &'static str,
    },
    /// Its ranges are too long.
    #[error(
        "the query looks back {wanted} by its ranges: at most {most} are allowed, nested ranges added up"
    )]
    LooksBack {
        /// By all nested ranges.
        wanted: Seconds,
        /// The limit.
        most: Seconds,
    },
    /// A subquery has too many steps.
    #[error(
        "a subquery of the query has more than {most} steps, nested subqueries multiplied: write a longer step or a \
         shorter range, as in [1d:5m]"
    )]
    TooManySteps {
        /// The limit.
        most: i64,
    },
    /// It is no PromQL that we know.
    #[error("the query cannot be read at character {at}: {wanted} is expected, not {found}")]
    Syntax {
        /// Position of the character, from 1.
        at: usize,
        /// Expected token.
        wanted: &'static str,
        /// Actual token.
        found: String,
    },
    /// A part of it reads series that no label can confine.
    #[error("the query cannot be confined to namespace {namespace}: {part}")]
    Unconfinable {
        /// The namespace.
        namespace: String,
        /// The part, and what to write instead.
        part: String,
    },
}

/// `query` with `label="namespace"` demanded by every selector. A selector that demands another namespace is left so:
/// both demands together match nothing.
///
/// # Errors
/// If it is no PromQL of Prometheus 3 as we know it, if label or namespace are none, or if it calls a function that may
/// read series without a selector: `info`, or one that we do not know.
pub fn confine(query: &str, label: &str, namespace: &str) -> Result<Confined, QueryError> {
    if QUERY_MAX_BYTES < query.len() {
        return Err(QueryError::TooLong(query.len()));
    }
    let unconfinable = |part: String| QueryError::Unconfinable { namespace: namespace.to_owned(), part };
    let plain = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    if !plain(label, "_") || !plain(namespace, "-.") {
        return Err(unconfinable(format!("{label}={namespace:?} is no matcher")));
    }
    let tokens = tokens(query)?;
    let mut parser =
        Parser { query, tokens, next: 0, depth: 0, selectors: Vec::new(), answers_absence: false };
    parser.expression().map_err(|stop| match stop {
        Stop::Error(error) => error,
        Stop::Function(name) => unconfinable(format!(
            "{name}() may read series of other namespaces: use selectors, and functions that only read their arguments"
        )),
    })?;
    let end = parser.peek();
    if end.kind != TokenKind::End {
        return Err(syntax(query, &end, "an operator or the end"));
    }
    Ok(parser.confined(&format!("{label}=\"{namespace}\"")))
}

enum Stop {
    Error(QueryError),
    Function(String),
}

impl From<QueryError> for Stop {
    fn from(error: QueryError) -> Self {
        Self::Error(error)
    }
}

/// Position of a selector in the query, by the places of its tokens.
#[derive(Clone, Copy)]
struct Selector {
    start: usize,
    /// After its name, or after its opening brace.
    insert_at: usize,
    braces: bool,
    /// After its last token.
    end: usize,
    /// True if it looks at a time of its own.
    moved: bool,
}

struct Parser<'q> {
    query: &'q str,
    /// All of the query; the last is its end.
    tokens: Vec<Token<'q>>,
    /// The place of the next token.
    next: usize,
    depth: usize,
    selectors: Vec<Selector>,
    answers_absence: bool,
}

impl<'q> Parser<'q> {
    /// Operands between operators, in the order of the text.
    fn expression(&mut self) -> Result<Reach, Stop> {
        self.depth += 1;
        if DEPTH_MAX < self.depth {
            return Err(QueryError::TooDeep.into());
        }
        let mut reach = Reach::INSTANT;
        loop {
            while self.take("+") || self.take("-") {}
            let first = self.selectors.len();
            let operand = self.operand()?;
            reach = reach.or(self.modifiers(first, operand)?);
            if !self.operator()? {
                break;
            }
        }
        self.depth -= 1;
        Ok(reach)
    }

    fn operand(&mut self) -> Result<Reach, Stop> {
        let start = self.next;
        let token = self.token();
        match token.kind {
            TokenKind::Number | TokenKind::Text => Ok(Reach::INSTANT),
            TokenKind::Symbol if token.text == "(" => {
                let reach = self.expression()?;
                self.want(")")?;
                Ok(reach)
            }
            TokenKind::Symbol if token.text == "{" => {
                self.matchers()?;
                self.selector(start, start + 1, true);
                Ok(Reach::INSTANT)
            }
            TokenKind::Name => self.named(&token),
            _ => Err(syntax(self.query, &token, "a metric, a function, a number or a bracket").into()),
        }
    }

    /// Parses an expression that begins with a name: a number in words, an aggregation, a function or a metric.
    fn named(&mut self, name: &Token<'_>) -> Result<Reach, Stop> {
        if matches!(name.text.to_ascii_lowercase().as_str(), "inf" | "nan") {
            return Ok(Reach::INSTANT);
        }
        let start = self.next - 1;
        let next = self.peek();
        if listed(AGGREGATIONS, &name.text.to_ascii_lowercase())
            && (next.text == "(" || next.is_word(&["by", "without"]))
        {
            self.grouping()?;
            self.want("(")?;
            let reach = self.arguments()?;
            self.grouping()?;
            return Ok(reach);
        }
        if next.text == "(" {
            if !listed(FUNCTIONS, name.text) {
                return Err(Stop::Function(name.text.to_owned()));
            }
            self.answers_absence |= listed(ANSWERS_ABSENCE, name.text);
            self.want("(")?;
            return self.arguments();
        }
        if next.text == "{" && next.kind == TokenKind::Symbol {
            self.token();
            self.matchers()?;
            self.selector(start, start + 2, true);
        } else {
            self.selector(start, start + 1, false);
        }
        Ok(Reach::INSTANT)
    }

    /// Expressions between commas, after the opening bracket and with the closing one.
    fn arguments(&mut self) -> Result<Reach, Stop> {
        let mut reach = Reach::INSTANT;
        if self.take(")") {
            return Ok(reach);
        }
        loop {
            reach = reach.or(self.expression()?);
            if !self.take(",") {
                self.want(")")?;
                return Ok(reach);
            }
        }
    }

    /// `by (…)` or `without (…)`, if there is one.
    fn grouping(&mut self) -> Result<(), Stop> {
        if self.take_word(&["by", "without"]) { self.labels() } else { Ok(()) }
    }

    fn labels(&mut self) -> Result<(), Stop> {
        self.want("(")?;
        loop {
            if self.take(")") {
                return Ok(());
            }
            let label = self.token();
            if !matches!(label.kind, TokenKind::Name | TokenKind::Text) {
                return Err(syntax(self.query, &label, "a label").into());
            }
            if !self.take(",") {
                return self.want(")");
            }
        }
    }

    /// Matchers after the opening brace and with the closing one.
    fn matchers(&mut self) -> Result<(), Stop> {
        loop {
            if self.take("}") {
                return Ok(());
            }
            let label = self.token();
            if !matches!(label.kind, TokenKind::Name | TokenKind::Text) {
                return Err(syntax(self.query, &label, "a label").into());
            }
            let operator = self.peek();
            if matches!(operator.text, "=" | "!=" | "=~" | "!~") && operator.kind == TokenKind::Symbol {
                self.token();
                let value = self.token();
                if value.kind != TokenKind::Text {
                    return Err(syntax(self.query, &value, "a text in quotes").into());
                }
            } else if label.kind != TokenKind::Text {
                // A text alone is the name of a metric.
                return Err(syntax(self.query, &operator, "=, !=, =~ or !~").into());
            }
            if !self.take(",") {
                return self.want("}");
            }
        }
    }

    /// Ranges, offsets and times after an operand; `first` is its first selector, `reach` what it reads.
    fn modifiers(&mut self, first: usize, mut reach: Reach) -> Result<Reach, Stop> {
        loop {
            if self.take("[") {
                reach = self.range(reach)?;
                self.want("]")?;
            } else if self.take_word(&["offset"]) {
                self.number()?;
                self.selectors[first..].iter_mut().for_each(|selector| selector.moved = true);
            } else if self.take("@") {
                if self.take_word(&["start", "end"]) {
                    self.want("(")?;
                    self.want(")")?;
                } else {
                    self.number()?;
                }
                self.selectors[first..].iter_mut().for_each(|selector| selector.moved = true);
            } else {
                return Ok(reach);
            }
        }
    }

    /// A range or a subquery after its opening bracket.
    fn range(&mut self, reach: Reach) -> Result<Reach, Stop> {
        let range = self.length()?;
        if !self.take(":") {
            return Ok(reach.over(range)?);
        }
        let step = if self.peek().text == "]" { None } else { Some(self.length()?) };
        Ok(reach.stepped(range, step)?)
    }

    /// A length of time in seconds.
    fn length(&mut self) -> Result<f64, Stop> {
        let token = self.token();
        let length = (token.kind == TokenKind::Number).then(|| reach::seconds(token.text)).flatten();
        length.ok_or_else(|| syntax(self.query, &token, "a time such as 5m").into())
    }

    /// A number or a length of time, with a sign or without.
    fn number(&mut self) -> Result<(), Stop> {
        let _signed = self.take("-") || self.take("+");
        let number = self.token();
        if number.kind == TokenKind::Number {
            return Ok(());
        }
        Err(syntax(self.query, &number, "a number or a time such as 5m").into())
    }

    /// An operator with its matching, if there is one.
    fn operator(&mut self) -> Result<bool, Stop> {
        let token = self.peek();
        let symbol = token.kind == TokenKind::Symbol
            && matches!(
                token.text,
                "+" | "-" | "*" | "/" | "%" | "^" | "==" | "!=" | ">" | "<" | ">=" | "<="
            );
        if !symbol && !token.is_word(&["and", "or", "unless", "atan2"]) {
            return Ok(false);
        }
        self.token();
        self.take_word(&["bool"]);
        if self.take_word(&["on", "ignoring"]) {
            self.labels()?;
            if self.take_word(&["group_left", "group_right"]) && self.peek().text == "(" {
                self.labels()?;
            }
        }
        Ok(true)
    }

    fn selector(&mut self, start: usize, insert_at: usize, braces: bool) {
        let end = if braces { self.next } else { insert_at };
        self.selectors.push(Selector { start, insert_at, braces, end, moved: false });
    }

    fn peek(&self) -> Token<'q> {
        // The end is never taken, so there is always one more.
        self.tokens[self.next]
    }

    /// Takes the next token; the end stays.
    fn token(&mut self) -> Token<'q> {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.next += 1;
        }
        token
    }

    fn take(&mut self, symbol: &str) -> bool {
        let token = self.peek();
        let found = token.kind == TokenKind::Symbol && token.text == symbol;
        if found {
            self.next += 1;
        }
        found
    }

    /// Keywords are read in any case.
    fn take_word(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_word(words);
        if found {
            self.next += 1;
        }
        found
    }

    fn want(&mut self, symbol: &'static str) -> Result<(), Stop> {
        if self.take(symbol) {
            return Ok(());
        }
        let found = self.token();
        Err(syntax(self.query, &found, symbol).into())
    }

    fn confined(mut self, matcher: &str) -> Confined {
        self.selectors.sort_by_key(|selector| selector.start);
        let mut query = String::new();
        let mut written = 0;
        let mut present: Vec<String> = Vec::new();
        for selector in &self.selectors {
            let put_in = if selector.braces { format!("{matcher},") } else { format!("{{{matcher}}}") };
            query.push_str(&self.between(written, selector.insert_at));
            query.push_str(&put_in);
            written = selector.insert_at;
            let before = rendered(&self.tokens[selector.start..selector.insert_at]);
            let text = format!("{before}{put_in}{}", self.between(selector.insert_at, selector.end));
            if !selector.moved && !present.contains(&text) {
                present.push(text);
            }
        }
        query.push_str(&self.between(written, self.tokens.len()));
        Confined { query, freshness: freshness(&present), answers_absence: self.answers_absence }
    }

    /// The tokens from one place to another, with the blank before the first.
    fn between(&self, start: usize, end: usize) -> String {
        let blank = 0 < start
            && start < end
            && self.tokens[start - 1].end() < self.tokens[start].start
            && self.tokens[start].kind != TokenKind::End;
        format!("{}{}", if blank { " " } else { "" }, rendered(&self.tokens[start..end]))
    }
}

fn freshness(selectors: &[String]) -> Option<String> {
    let newest = |(index, selector): (usize, &String)| {
        // Without a label that distinguishes them, `or` would drop all but the first.
        format!("label_replace(max(timestamp({selector})), \"selector\", \"{index}\", \"\", \"\")")
    };
    let each: Vec<String> = selectors.iter().enumerate().map(newest).collect();
    (!each.is_empty()).then(|| format!("min({})", each.join(" or ")))
}

fn listed(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}

fn syntax(query: &str, token: &Token<'_>, wanted: &'static str) -> QueryError {
    let at = query[..token.start].chars().count() + 1;
    let found = if token.kind == TokenKind::End { "the end".to_owned() } else { format!("{:?}", token.text) };
    QueryError::Syntax { at, wanted, found }
}

#[cfg(test)]
mod tests;
