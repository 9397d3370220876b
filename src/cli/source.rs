//! Where a command reads its case from: a snapshot file, or the cluster; and in what form it answers.

use std::fs;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::cli::gather;
use crate::explain::Case;

/// Largest file that is read, unpacked: a snapshot of 450,000 pods takes a tenth of it.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Where a case comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct Source {
    /// Read this snapshot instead of a cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["context", "operator"])]
    pub snapshot: Option<PathBuf>,

    #[command(flatten)]
    pub live: Live,
}

/// Which cluster is read.
#[derive(Args, Clone, Debug, Default)]
pub struct Live {
    /// Context of the kubeconfig; the current one if not given
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Ask the operator here for what only it knows (kubectl port-forward -n headroom-system deploy/headroom 8082)
    #[arg(long, value_name = "URL")]
    pub operator: Option<String>,
}

/// In what form a command answers.
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
    /// How the answer is written
    #[arg(short, long, value_enum, default_value_t = Form::Text, value_name = "FORM")]
    pub output: Form,
}

impl Source {
    /// The case.
    ///
    /// # Errors
    /// When the file, or the cluster, cannot be read; with what to do about it.
    pub async fn case(&self) -> anyhow::Result<Case> {
        match &self.snapshot {
            Some(file) => read(file),
            None => gather::case(&self.live).await,
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

/// Reads a snapshot; `.gz` at the end of the name says that it is packed.
///
/// # Errors
/// When the file cannot be read, or is no snapshot.
pub fn read(file: &Path) -> anyhow::Result<Case> {
    let name = file.display();
    let opened = fs::File::open(file).with_context(|| format!("failed to open {name}"))?;
    let mut text = String::new();
    let read = if packed(file) {
        GzDecoder::new(opened).take(FILE_BYTES_MAX).read_to_string(&mut text)
    } else {
        opened.take(FILE_BYTES_MAX).read_to_string(&mut text)
    };
    read.with_context(|| format!("failed to read {name}"))?;
    Case::parse(&text).with_context(|| format!("failed to read {name}"))
}

/// Writes a snapshot; `.gz` at the end of the name packs it, `-` is standard output.
///
/// # Errors
/// When the file cannot be written.
pub fn write(file: &Path, case: &Case) -> anyhow::Result<u64> {
    let text = case.render()?;
    if file == Path::new("-") {
        std::io::stdout().write_all(text.as_bytes())?;
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
    /// Prints `value`, or `text` of it for people.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn print<T: Serialize>(self, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        let mut printed = match self.output {
            Form::Text => coloured(&text()),
            Form::Json => serde_json::to_string_pretty(value)?,
            Form::Yaml => serde_saphyr::to_string(value).context("failed to write YAML")?,
        };
        if !printed.ends_with('\n') {
            printed.push('\n');
        }
        match std::io::stdout().write_all(printed.as_bytes()) {
            // `… | head` has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => bail!("failed to print: {error}"),
            Ok(()) => Ok(()),
        }
    }
}

/// Titles in bold, on a terminal whose owner has not asked for none.
fn coloured(text: &str) -> String {
    let wanted =
        std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
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
