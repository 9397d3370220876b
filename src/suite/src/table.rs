//! The table of all providers in the documentation. Each provider's test checks its own column, and writes it anew with `UPDATE=1`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::{Outcome, Row};

/// Providers in the order of the columns, as `spec.provider.type` has them.
pub const PROVIDERS: [&str; 4] = ["KWOK", "AWS", "ClusterApi", "ExternalGrpc"];

/// The page with the table.
#[must_use]
pub fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/development/provider-suite.md")
}

/// Checks that a provider passes, and that its column of the page is true.
///
/// # Errors
/// The rules that are broken, with what was seen; otherwise the difference from the page.
pub fn check(provider: &str, rows: &[Row]) -> Result<(), String> {
    let broken: Vec<String> = rows.iter().filter_map(failure).collect();
    if !broken.is_empty() {
        return Err(format!("{provider} breaks rules of providers:\n  {}", broken.join("\n  ")));
    }
    let (path, cells) = (page(), cells(rows));
    let text = fs::read_to_string(&path).map_err(|error| format!("failed to read {path:?}: {error}"))?;
    let fresh = with_column(&text, provider, &cells)?;
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, fresh).map_err(|error| format!("failed to write {path:?}: {error}"))?;
    } else if fresh != text {
        return Err(format!("the column {provider} of {path:?} is out of date: run with UPDATE=1"));
    }
    Ok(())
}

fn failure(row: &Row) -> Option<String> {
    match &row.outcome {
        Outcome::Fail(words) => Some(format!("{}: {words}", row.rule)),
        Outcome::Pass | Outcome::NotApplicable(_) => None,
    }
}

fn cells(rows: &[Row]) -> BTreeMap<&str, &str> {
    rows.iter().map(|row| (row.rule, row.outcome.cell())).collect()
}

/// The page with the column of one provider replaced, and with exactly the rules that there are.
fn with_column(text: &str, provider: &str, column: &BTreeMap<&str, &str>) -> Result<String, String> {
    let at = PROVIDERS.iter().position(|one| *one == provider);
    let at = at.ok_or_else(|| format!("{provider} is not among the columns {PROVIDERS:?}"))?;
    let is_row = |line: &&str| line.starts_with('|');
    let old: BTreeMap<String, Vec<String>> = text.lines().filter(is_row).map(row_of).collect();
    let mut table = vec![format!("| Rule | {} |", PROVIDERS.join(" | ")), format!("|{}", " --- |".repeat(5))];
    for rule in super::checks::rules() {
        let mut cells = old.get(rule).cloned().unwrap_or_default();
        cells.resize(PROVIDERS.len(), String::new());
        cells[at] = column.get(rule).copied().unwrap_or_default().to_owned();
        table.push(format!("| {rule} | {} |", cells.join(" | ")));
    }
    let before: Vec<&str> = text.lines().take_while(|line| !line.starts_with('|')).collect();
    let after: Vec<&str> = text.lines().skip(before.len()).skip_while(|line| line.starts_with('|')).collect();
    let lines = before.into_iter().chain(table.iter().map(String::as_str)).chain(after);
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

fn row_of(line: &str) -> (String, Vec<String>) {
    let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
    (cells.next().unwrap_or_default(), cells.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_replaced_and_the_others_stay() {
        let rule = super::super::checks::rules()[0];
        let text =
            format!("Before.\n\n| Rule |\n| --- |\n| {rule} | a | b | c | d |\n| gone | a |\n\nAfter.\n");
        let fresh = with_column(&text, "AWS", &BTreeMap::from([(rule, "pass")])).expect("a column");
        assert!(fresh.contains(&format!("| {rule} | a | pass | c | d |\n")), "{fresh}");
        assert!(
            fresh.starts_with("Before.\n\n| Rule | KWOK |") && fresh.ends_with("|\n\nAfter.\n"),
            "{fresh}"
        );
        assert!(!fresh.contains("gone"));
        assert!(with_column(&text, "Azure", &BTreeMap::new()).is_err());
    }
}
