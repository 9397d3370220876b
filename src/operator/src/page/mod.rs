//! THE PAGE: charts, decisions with their reasons and tables, for a simulation as one file and for a live cluster. It knows
//! the shape of what is shown and the page itself; it does no I/O.

mod digest;
mod lives;
mod model;

use serde::Serialize;

pub use lives::{NodeLives, NodeNow};
pub use model::{
    Considered, Decision, Document, DocumentKind, Event, Live, NodeLife, Pool, Run, SCHEMA, Sample, Summary,
    Table, Waits,
};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const BODY: &str = include_str!("page.html");

/// The document as one HTML file that needs no network.
///
/// Nothing in the document can become markup or script: it stands in the page as JSON in which `<`, `>` and `&` are
/// escaped, the script puts it into text nodes alone, and the page's policy lets no other script run.
///
/// # Errors
/// If the document cannot be written as JSON: a number in it is not finite.
pub fn html(document: &Document) -> Result<String, serde_json::Error> {
    Ok(page(&embedded(document)?, "", "'none'"))
}

/// The page of a live cluster, which asks for its document at `data` again and again.
#[must_use]
pub fn live_html(data: &str) -> String {
    page("null", data, "'self'")
}

/// The policy of the page, for the header of a server; `connect` is where the script may ask.
#[must_use]
pub fn policy(connect: &str) -> String {
    let (script, style) = (digest::source(SCRIPT), digest::source(STYLE));
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src {connect}; img-src data:; base-uri 'none'; \
         form-action 'none'"
    )
}

/// Returns the Content-Security-Policy of the page of a live cluster.
#[must_use]
pub fn live_policy() -> String {
    // Only a server can set this; a file is framed by nobody.
    format!("{}; frame-ancestors 'none'", policy("'self'"))
}

fn page(data: &str, source: &str, connect: &str) -> String {
    BODY.replace("{{policy}}", &policy(connect))
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT)
        .replace("{{source}}", source)
        // Last, so that nothing in the data is taken for a placeholder.
        .replace("{{data}}", data)
}

/// JSON that can stand inside a script element.
fn embedded(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    Ok(json
        .replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(title: &str) -> Document {
        Document {
            schema: SCHEMA,
            kind: DocumentKind::Simulation,
            version: "0",
            title: title.to_owned(),
            description: String::new(),
            start_at: 0,
            length_seconds: 60,
            runs: vec![Run::default()],
            live: None,
        }
    }

    #[test]
    fn words_of_the_document_can_not_leave_their_place() {
        let hostile = "</script><script>alert(1)</script><!-- {{script}} & \u{2028}";
        let page = html(&document(hostile)).unwrap();
        assert!(!page.contains("alert(1)</script>") && !page.contains("<!-- {{script}}"), "{page}");
        let start = page.find("type=\"application/json\">").unwrap() + "type=\"application/json\">".len();
        let end = start + page[start..].find("</script>").unwrap();
        let read: serde_json::Value = serde_json::from_str(&page[start..end]).unwrap();
        assert_eq!(read["title"], hostile);
    }

    #[test]
    fn the_page_names_no_other_host_and_writes_no_markup_from_data() {
        let page = html(&document("a")).unwrap();
        for word in
            ["https://", "src=", "@import", "innerHTML", "insertAdjacentHTML", "document.write", "eval("]
        {
            assert!(!page.contains(word), "{word}");
        }
        // The one address is the name of SVG, which is never fetched.
        assert_eq!(page.matches("http://").count(), page.matches("http://www.w3.org/2000/svg").count());
    }
}
