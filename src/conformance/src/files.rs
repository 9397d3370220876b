//! Files of vectors: JSON lines, gzipped or not.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Files of vectors under a path.
///
/// # Errors
/// If a folder cannot be read.
pub fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
        return Ok(());
    }
    let name = path.to_string_lossy();
    if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
        files.push(path.to_owned());
    }
    Ok(())
}

/// The text of a file.
///
/// # Errors
/// If it cannot be read or unpacked.
pub fn read(path: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(path)?;
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
    } else {
        (&bytes[..]).read_to_string(&mut text)?;
    }
    Ok(text)
}
