//! Source of a command's case: a snapshot file, or the cluster; and the form of its output.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use headroom_core::printable;
use serde::Serialize;

use crate::{gather, terminal};
use headroom_explain::Case;
use headroom_observe::host::files::Bounded;

/// Largest snapshot that is read, unpacked: one of 450,000 pods takes less.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// Source of a case.
#[derive(Args, Clone, Debug, Default)]
pub struct Source {
    /// Read this snapshot instead of a cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["context", "operator"])]
    pub snapshot: Option<PathBuf>,

    /// Cluster to read.
    #[command(flatten)]
    pub live: Live,
}

/// Cluster that is read.
#[derive(Args, Clone, Debug, Default)]
pub struct Live {
    /// Context of the kubeconfig; the current one if not given
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Ask the operator here for what only it knows (kubectl port-forward -n headroom-system deploy/headroom 8082)
    #[arg(long, value_name = "URL")]
    pub operator: Option<String>,
}

/// Form of a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// `-o`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Output {
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Text, value_name = "FORM")]
    pub output: Form,
}

impl Source {
    /// The case.
    ///
    /// # Errors
    /// If the file, or the cluster, cannot be read; with advice.
    pub async fn case(&self, output: Output) -> anyhow::Result<Case> {
        match &self.snapshot {
            Some(file) => output.read(file),
            None => output.shown(gather::case(&self.live).await?),
        }
    }

    /// The namespace of a command that names none: the kubeconfig's, or `default` on a snapshot.
    pub async fn namespace(&self, given: Option<&str>) -> anyhow::Result<String> {
        match (given, &self.snapshot) {
            (Some(namespace), _) => Ok(namespace.to_owned()),
            (None, Some(_)) => Ok("default".to_owned()),
            (None, None) => Ok(gather::config(self.live.context.as_deref()).await?.default_namespace),
        }
    }
}

/// Reads a snapshot; a name that ends in `.gz` is packed.
///
/// # Errors
/// If the file cannot be read, is larger than [`FILE_BYTES_MAX`] once unpacked, or is not a snapshot.
pub fn read(file: &Path) -> anyhow::Result<Case> {
    read_as(Form::Json, file)
}

fn read_as(form: Form, file: &Path) -> anyhow::Result<Case> {
    read_bounded(form, file, FILE_BYTES_MAX).map_err(|error| {
        // Errors of parsers quote the file.
        let words = format!("{:#}", anyhow::Error::from(error));
        let cut =
            ["EOF while parsing", "unexpected end of file", "corrupt", "deflate stream", "invalid gzip"];
        let fix = match cut.iter().any(|word| words.contains(word)) {
            true => "; it is cut off or damaged: copy it again, or take a new snapshot",
            false => "",
        };
        anyhow::anyhow!("failed to read {}: {}{fix}", file.display(), printable::line(&words))
    })
}

fn read_bounded(form: Form, file: &Path, bytes_max: u64) -> Result<Case, headroom_explain::Error> {
    // A pipe can be read once only.
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        let mut bytes = Vec::new();
        Bounded::new(fs::File::open(file)?, bytes_max).read_to_end(&mut bytes)?;
        return taken_in(form, &|| Ok(Box::new(Bounded::new(unpacked(file, bytes.as_slice()), bytes_max))));
    }
    taken_in(form, &|| Ok(Box::new(Bounded::new(unpacked(file, fs::File::open(file)?), bytes_max))))
}

/// The case of a file as a form shows it: see [`Output::shown`].
fn taken_in<'r>(
    form: Form,
    open: &dyn Fn() -> std::io::Result<Box<dyn Read + 'r>>,
) -> Result<Case, headroom_explain::Error> {
    match form {
        Form::Text => Case::read_printable(open),
        Form::Json | Form::Yaml => Case::read(open),
    }
}

/// The content of a file as it is, or unpacked.
fn unpacked<'a>(file: &Path, content: impl Read + 'a) -> Box<dyn Read + 'a> {
    if packed(file) { Box::new(MultiGzDecoder::new(content)) } else { Box::new(content) }
}

/// Writes a snapshot; `.gz` at the end of the name packs it, `-` is standard output.
///
/// # Errors
/// If the file cannot be written.
pub fn write(file: &Path, case: &Case) -> anyhow::Result<u64> {
    let text = case.render()?;
    if file == Path::new("-") {
        terminal::print(&printable::json_text(&text))?;
        return Ok(u64::try_from(text.len()).unwrap_or(u64::MAX));
    }
    let bytes = if packed(file) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes())?;
        encoder.finish()?
    } else {
        text.into_bytes()
    };
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    fs::write(file, bytes).with_context(|| format!("failed to write {}", file.display()))?;
    Ok(length)
}

fn packed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}

impl Output {
    /// Reads a snapshot as this form shows it.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read(self, file: &Path) -> anyhow::Result<Case> {
        read_as(self.output, file)
    }

    /// The case as this form shows it: in text for people, nothing from outside breaks a line or moves the cursor. JSON and
    /// YAML have escapes of their own for that.
    ///
    /// # Errors
    /// If the case cannot be written and read again, which every case can.
    pub fn shown(self, case: Case) -> anyhow::Result<Case> {
        match self.output {
            Form::Text => case.printable().context("failed to escape control characters"),
            Form::Json | Form::Yaml => Ok(case),
        }
    }

    /// Prints `value`, or `text` of it for people.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn print<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        let mut printed = self.written(value, text)?;
        if !printed.ends_with('\n') {
            printed.push('\n');
        }
        match self.output {
            Form::Text => terminal::print_coloured(&coloured(&printed)),
            Form::Json | Form::Yaml => terminal::print(&printed),
        }
        .context("failed to print")
    }

    /// `value` as it is printed, or `text` of it for people: no control character but line breaks is in it.
    fn written<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<String> {
        Ok(match self.output {
            Form::Text => terminal::plain(&text()),
            Form::Json => printable::json_text(&serde_json::to_string_pretty(value)?).into_owned(),
            Form::Yaml => yaml(value)?,
        })
    }
}

/// `value` as YAML. Marks of writing direction are plain text for YAML: a document that has some is printed as JSON, where
/// they are escapes, and which is YAML too.
///
/// # Errors
/// If the value has no form in YAML.
pub fn yaml<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let yaml = serde_saphyr::to_string(value).context("failed to write YAML")?;
    if yaml.chars().all(|character| character == '\n' || !printable::is_hidden(character)) {
        return Ok(yaml);
    }
    Ok(printable::json_text(&serde_json::to_string_pretty(value)?).into_owned())
}

/// Titles in bold, on a terminal whose owner has not asked for none.
fn coloured(text: &str) -> String {
    let wanted =
        terminal::is_read_by_a_person() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    if !wanted {
        return text.to_owned();
    }
    let title = |line: &str| {
        line.starts_with(|c: char| c.is_ascii_uppercase()) && !line.contains(|c: char| c.is_ascii_lowercase())
    };
    let lines = text.lines().enumerate().map(|(at, line)| match at == 0 || title(line) {
        true => format!("\u{1b}[1m{line}\u{1b}[0m"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests;
