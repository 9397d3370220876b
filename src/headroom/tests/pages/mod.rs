//! Reads and rewrites what programs have printed into pages of Markdown: marked sections and console blocks; it runs nothing.

/// A line of a page that starts a command in a console block.
const PROMPT: &str = "$ ";

/// The text between `<!-- name:start -->` and `<!-- name:end -->`, with the line breaks at both ends left out.
pub(crate) fn section<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&start(name))?;
    let (inside, _) = rest.split_once(&end(name))?;
    Some(inside.trim_matches('\n'))
}

/// The page with another text between the marks; `None` when it has none of this name.
pub(crate) fn with_section(page: &str, name: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(&start(name))?;
    let (_, after) = rest.split_once(&end(name))?;
    Some(format!("{before}{}\n{}\n{}{after}", start(name), text.trim_matches('\n'), end(name)))
}

fn start(name: &str) -> String {
    format!("<!-- {name}:start -->")
}

fn end(name: &str) -> String {
    format!("<!-- {name}:end -->")
}

/// One command of a ```` ```console ```` block with its output on the page, or a block of another language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// `line` is the index of the line with the prompt; the output takes the `n_output` lines after it.
    Command { line: usize, command: String, output: String, n_output: usize },
    /// A ```` ```sh ```` block: what the reader does in a terminal of their own.
    Terminal { text: String },
}

/// The commands and terminals of a page in the order of reading.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut language: Option<&str> = None;
    for (ix, line) in page.lines().enumerate() {
        if let Some(after) = line.strip_prefix("```") {
            language = if language.is_some() { None } else { Some(after) };
            if language == Some("sh") {
                steps.push(Step::Terminal { text: String::new() });
            }
            continue;
        }
        match (language, steps.last_mut()) {
            (Some("console"), _) if line.starts_with(PROMPT) => {
                let command = line.trim_start_matches(PROMPT).to_owned();
                steps.push(Step::Command { line: ix, command, output: String::new(), n_output: 0 });
            }
            (Some("console"), Some(Step::Command { output, n_output, .. })) => {
                output.push_str(line);
                output.push('\n');
                *n_output += 1;
            }
            (Some("sh"), Some(Step::Terminal { text })) => {
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    steps
}

/// The page with each command's output replaced by the one given for it, in order.
pub(crate) fn with_outputs(page: &str, outputs: &[String]) -> String {
    let commands = steps(page).into_iter().filter_map(|step| match step {
        Step::Command { line, n_output, .. } => Some((line, n_output)),
        Step::Terminal { .. } => None,
    });
    let lines: Vec<&str> = page.lines().collect();
    let mut fresh = String::new();
    let mut next = 0;
    for ((line, n_output), output) in commands.zip(outputs) {
        for kept in &lines[next..=line] {
            fresh.push_str(kept);
            fresh.push('\n');
        }
        for printed in output.lines() {
            // What tables pad the last column with is invisible, and editors take it away.
            fresh.push_str(printed.trim_end());
            fresh.push('\n');
        }
        next = line + 1 + n_output;
    }
    for kept in &lines[next..] {
        fresh.push_str(kept);
        fresh.push('\n');
    }
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "a\n<!-- x:start -->\n```console\n$ one\n1\n$ two\n```\n<!-- x:end -->\n```sh\n# terminal 1\n```\n```yaml\n$ no\n```\n";

    #[test]
    fn a_section_is_what_stands_between_its_marks() {
        assert_eq!(section(PAGE, "x"), Some("```console\n$ one\n1\n$ two\n```"));
        assert_eq!(section(PAGE, "y"), None);
        let other = with_section(PAGE, "x", "new\n").unwrap();
        assert_eq!(section(&other, "x"), Some("new"));
        assert!(other.starts_with("a\n<!--") && other.contains("# terminal 1"));
    }

    #[test]
    fn outputs_are_replaced_and_everything_else_is_kept() {
        assert_eq!(with_outputs(PAGE, &["1\n".to_owned(), String::new()]), PAGE);
        let fresh = with_outputs(PAGE, &["11 \n12\n".to_owned(), "2\n".to_owned()]);
        assert_eq!(fresh, PAGE.replace("$ one\n1\n$ two\n", "$ one\n11\n12\n$ two\n2\n"));
    }

    #[test]
    fn only_console_and_sh_blocks_are_steps() {
        let found = steps(PAGE);
        assert_eq!(found.len(), 3);
        assert_eq!(found[2], Step::Terminal { text: "# terminal 1\n".to_owned() });
    }
}
