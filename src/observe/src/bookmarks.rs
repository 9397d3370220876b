//! Reads the bookmarks in the body of a watch, which kube's watcher keeps to itself. It changes no byte.

use kube::core::WatchEvent;
use serde::de::IgnoredAny;

/// Bytes that every bookmark line contains, and few other lines.
const TAG: &[u8] = b"\"BOOKMARK\"";
/// Longest line that is looked at, in bytes. A bookmark has a version, a kind, and little else.
const LENGTH_MAX: usize = 4096;

/// A reader of one body: one event a line, in frames that end anywhere.
#[derive(Debug, Default)]
pub(super) struct Bookmarks {
    /// True if the last frame ended within a line.
    in_line: bool,
}

impl Bookmarks {
    /// The version of the last bookmark that lies in `frame` as a whole line. One that is cut by the end of a frame is
    /// passed over: its version is known when the next watch asks from there.
    pub(super) fn read(&mut self, frame: &[u8]) -> Option<String> {
        let mut found = None;
        for line in frame.split_inclusive(|byte| *byte == b'\n') {
            let whole = !self.in_line && line.ends_with(b"\n");
            self.in_line = !line.ends_with(b"\n");
            if whole && line.len() <= LENGTH_MAX && line.windows(TAG.len()).any(|part| part == TAG) {
                found = version(line).or(found);
            }
        }
        found
    }
}

fn version(line: &[u8]) -> Option<String> {
    match serde_json::from_slice(line).ok()? {
        WatchEvent::<IgnoredAny>::Bookmark(bookmark) => Some(bookmark.metadata.resource_version),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}}"#;

    fn bookmark(version: &str) -> String {
        let object =
            format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}}}}"#);
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n")
    }

    fn read(frames: &[&str]) -> Vec<Option<String>> {
        let mut bookmarks = Bookmarks::default();
        frames.iter().map(|frame| bookmarks.read(frame.as_bytes())).collect()
    }

    #[test]
    fn the_last_bookmark_of_a_frame_is_read_among_other_events() {
        let frame = format!("{POD}\n{}{POD}\n{}{POD}", bookmark("12"), bookmark("13"));
        assert_eq!(read(&[&frame, "\n", &bookmark("14")]), [Some("13".into()), None, Some("14".into())]);
    }

    #[test]
    fn a_bookmark_that_a_frame_cuts_is_passed_over_and_so_is_an_object_of_that_name() {
        let (cut, within) = (bookmark("12"), bookmark("13"));
        let (head, tail) = cut.split_at(30);
        let named = POD.replace("Pod", "BOOKMARK") + "\n";
        let frames = [head, tail, "{\"type\":\"ADDED\",\"object\":", &within, &named];
        assert_eq!(read(&frames), [None, None, None, None, None]);
    }
}
