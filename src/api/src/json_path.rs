//! Places of numbers in a JSON document: those JSONPath queries (RFC 9535) whose work is bounded by the document. It reads no document
//! from anywhere.

use jsonpath_rust::parser::model::{
    Comparable, Filter, FilterAtom, JpQuery, Segment, Selector, SingularQuery,
};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

/// Longest query, in characters.
pub const JSON_PATH_MAX: usize = 512;

/// A query of names, indices, `[*]`, and filters that compare members of an element with a constant, such as
/// `$.queues[?@.name=='orders'].messages`; several names may stand at the end, such as `['ready','unacked']`.
///
/// What looks at the document more than once (`..`, `$` within a filter, several names on the way) or calls a function is refused:
/// whoever writes a policy shares the operator with others.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(JpQuery);

impl JsonPath {
    /// Reads a query.
    ///
    /// # Errors
    /// In words, if it cannot be read, is too long, or is of a form that is refused.
    ///
    /// ```
    /// use headroom_api::json_path::JsonPath;
    ///
    /// let path = JsonPath::parse("$.queues[?@.name=='orders'].messages").unwrap();
    /// let document = serde_json::json!({"queues": [{"name": "mail", "messages": 1}, {"name": "orders", "messages": 30}]});
    /// assert_eq!(path.find(&document), [&serde_json::json!(30)]);
    /// assert!(JsonPath::parse("$..messages").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        if JSON_PATH_MAX < text.chars().count() {
            return Err(format!("it has more than {JSON_PATH_MAX} characters"));
        }
        let query = parse_json_path(text).map_err(|_| "it is no JSONPath of RFC 9535".to_owned())?;
        let Some((last, way)) = query.segments.split_last() else {
            return Err("it names no member: `$` alone is the whole answer".to_owned());
        };
        way.iter().try_for_each(check_segment)?;
        match last {
            Segment::Selectors(several) => several.iter().try_for_each(check_selector)?,
            one => check_segment(one)?,
        }
        Ok(Self(query))
    }

    /// The values at this place, in the order of the document.
    #[must_use]
    pub fn find<'d>(&self, document: &'d Value) -> Vec<&'d Value> {
        // The forms that are allowed have no values of their own, which is what an error would be about.
        js_path_process(&self.0, document)
            .map_or_else(|_| Vec::new(), |found| found.into_iter().map(|one| one.val).collect())
    }
}

fn check_segment(segment: &Segment) -> Result<(), String> {
    match segment {
        Segment::Selector(selector) => check_selector(selector),
        Segment::Selectors(_) => Err("several names stand at the end only".to_owned()),
        Segment::Descendant(_) => Err("`..` looks everywhere: name each member on the way".to_owned()),
    }
}

fn check_selector(selector: &Selector) -> Result<(), String> {
    match selector {
        Selector::Name(_) | Selector::Index(_) | Selector::Wildcard => Ok(()),
        Selector::Filter(filter) => check_filter(filter),
        Selector::Slice(..) => Err("a range of indices is not known here: use `[*]` or a filter".to_owned()),
    }
}

fn check_filter(filter: &Filter) -> Result<(), String> {
    match filter {
        Filter::Or(parts) | Filter::And(parts) => parts.iter().try_for_each(check_filter),
        Filter::Atom(FilterAtom::Filter { expr, not: _ }) => check_filter(expr),
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            let (left, right) = comparison.vals();
            [left, right].into_iter().try_for_each(check_compared)
        }
        Filter::Atom(FilterAtom::Test { .. }) => {
            Err("a filter compares a member of `@` with a constant, as in [?@.name=='orders']".to_owned())
        }
    }
}

fn check_compared(compared: &Comparable) -> Result<(), String> {
    match compared {
        Comparable::Literal(_) | Comparable::SingularQuery(SingularQuery::Current(_)) => Ok(()),
        Comparable::SingularQuery(SingularQuery::Root(_)) => {
            Err("a filter begins at `@`, the element that is looked at, and not at `$`".to_owned())
        }
        Comparable::Function(_) => {
            Err("a filter compares members and constants, and calls no function".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_indices_and_filters_find_a_number() {
        let document = json!({
            "messages": 7, "odd name": {"a.b": 8}, "list": [1, 2, 3],
            "streams": [
                {"name": "other", "consumers": [{"name": "pull", "num_pending": 1}]},
                {"name": "orders", "consumers": [{"name": "push", "num_pending": 2}, {"name": "pull", "num_pending": 30}]},
            ],
        });
        for (text, value) in [
            ("$.messages", 7),
            ("$['odd name']['a.b']", 8),
            ("$.list[-1]", 3),
            ("$.streams[?@.name=='orders'].consumers[?@.name=='pull'].num_pending", 30),
            ("$.streams[?(@.name==\"orders\" && @.name!='other')].consumers[0].num_pending", 2),
            ("$.streams[?@.consumers[1].num_pending > 10].consumers[?!(@.name=='push')].num_pending", 30),
        ] {
            assert_eq!(JsonPath::parse(text).unwrap().find(&document), [&json!(value)], "{text}");
        }
        let both = "$.streams[?@.name=='orders'].consumers[*]['num_pending','num_ack']";
        assert_eq!(JsonPath::parse(both).unwrap().find(&document), [&json!(2), &json!(30)]);
        assert!(JsonPath::parse("$.nothing.there").unwrap().find(&document).is_empty());
        assert_eq!(JsonPath::parse("$.streams[?@.name!=''].name").unwrap().find(&document).len(), 2);
    }

    #[test]
    fn what_multiplies_the_work_or_is_no_query_is_refused() {
        for text in [
            "",
            "$",
            "messages",
            ".messages",
            "$.a..b",
            "$..*",
            "$['a','a'].b",
            "$[0,0][0]",
            "$[1:2]",
            "$[?@.a[?$.b==1]]",
            "$[?@.a==$.b]",
            "$['a',?$..b]",
            "$[?$..a]",
            "$[?length(@.a)>1]",
            "$[?match(@.a, 'x*')]",
            "$[?@.a]",
            "$[?@..a==1]",
            "$[?@.*==1]",
            "$.a\u{0}",
        ] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
        assert!(JsonPath::parse(&format!("$.{}", "a".repeat(JSON_PATH_MAX))).is_err());
    }
}
