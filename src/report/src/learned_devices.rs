//! Devices learned from nodes, between memory and status: groups with equal devices share a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::LearnedDevicesStatus;
use headroom_core::history::{DEVICES_BYTES_MAX, LearnedDevices};

use super::parse::{self, Notes};

/// The rows of status, in the order of their first groups.
pub(crate) fn rows(learned: &BTreeMap<Arc<str>, Arc<LearnedDevices>>) -> Vec<LearnedDevicesStatus> {
    let mut rows: Vec<(&LearnedDevices, Vec<String>)> = Vec::new();
    for (group, devices) in learned {
        match rows.iter_mut().find(|(known, _)| *known == &**devices) {
            Some((_, groups)) => groups.push(group.to_string()),
            None => rows.push((&**devices, vec![group.to_string()])),
        }
    }
    rows.into_iter()
        .map(|(devices, groups)| LearnedDevicesStatus { groups, devices: devices.to_json() })
        .collect()
}

/// The devices of each group; the first row that names a group counts.
pub(crate) fn parse(
    stored: &[LearnedDevicesStatus],
    notes: &mut Notes,
) -> BTreeMap<Arc<str>, Arc<LearnedDevices>> {
    let mut learned = BTreeMap::new();
    for (groups, devices) in parse::rows("learnedDevices", stored, notes, row) {
        for group in groups {
            learned.entry(Arc::from(group)).or_insert_with(|| devices.clone());
        }
    }
    learned
}

fn row(row: &LearnedDevicesStatus) -> Result<(Vec<String>, Arc<LearnedDevices>), String> {
    let LearnedDevicesStatus { groups, devices } = row;
    if DEVICES_BYTES_MAX < devices.len() {
        return Err(format!("devices of {} bytes, more than {DEVICES_BYTES_MAX}", devices.len()));
    }
    let devices: LearnedDevices =
        serde_json::from_str(devices).map_err(|error| format!("devices cannot be read: {error}"))?;
    Ok((groups.clone(), Arc::new(devices.checked()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ONE: &str = r#"{"models":[{"unknown":["uuid"]}],"slices":[{"driver":"d","pool":"(coming)","devices":[["gpu-0",0,[0]]]}]}"#;

    /// The groups that are read of these rows, and the notes.
    fn read(rows: &[(&str, &str)]) -> (Vec<String>, Notes) {
        let row = |(group, devices): &(&str, &str)| json!({"groups": [group], "devices": devices});
        let stored = json!({"learnedDevices": rows.iter().map(row).collect::<Vec<_>>()});
        let (status, mut notes) = super::super::status_of(&stored);
        let (memory, more) = super::super::parse(&status);
        notes.extend(more);
        (memory.learned_devices.keys().map(ToString::to_string).collect(), notes)
    }

    #[test]
    fn a_row_that_cannot_be_read_is_left_out_with_a_note_and_costs_no_other() {
        assert_eq!(read(&[("a", ONE)]), (vec!["a".to_owned()], Notes::new()));
        let long = format!("{ONE}{}", " ".repeat(DEVICES_BYTES_MAX));
        let many = format!(
            r#"{{"models":[{{}}],"slices":[{{"driver":"d","pool":"p","devices":[{}]}}]}}"#,
            vec![r#"["",0]"#; 1025].join(",")
        );
        let cases: [(&str, &str); 9] = [
            ("", "devices cannot be read: EOF"),
            ("[", "devices cannot be read"),
            (r#"{"models":[],"slices":[],"more":1}"#, "unknown field `more`"),
            (&ONE.replace(r#""gpu-0",0"#, r#""gpu-0",7"#), "lacks a model or a number"),
            (&ONE.replace("[0]", "[]"), "lacks a model or a number"),
            (&ONE.replace("[0]", "[0,4294967295]"), "lacks a model or a number"),
            (&ONE.replace("[0]", "[-1]"), "devices cannot be read"),
            (&many, "more than 1024 devices"),
            (&long, "more than 16384"),
        ];
        for (devices, why) in cases {
            let (groups, notes) = read(&[("a", devices), ("b", ONE)]);
            assert_eq!(groups, ["b"], "{devices}");
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(
                notes[0].starts_with("status.learnedDevices[0]: ") && notes[0].contains(why),
                "{notes:?}"
            );
        }
        let deep = format!(r#"{{"models":[{{"capacity":{}"#, r#"{"a":"#.repeat(1_000));
        assert_eq!(read(&[("a", &deep)]).1.len(), 1);
    }

    #[test]
    fn of_two_rows_for_one_group_the_first_counts() {
        let other = ONE.replace("gpu-0", "gpu-1");
        let row =
            |devices: &str| LearnedDevicesStatus { groups: vec!["a".to_owned()], devices: devices.into() };
        let learned = parse(&[row(ONE), row(&other)], &mut Notes::new());
        assert_eq!(&*learned["a"].slices()[0].spec.devices[0].name, "gpu-0");
    }
}
