//! Parts that are equal in two runs of one command: names, times, ages and results that depend on who was faster are
//! left out.

/// Fields of a description whose values vary.
const VARYING_FIELDS: [&str; 5] =
    ["Creation Timestamp:", "Last Transition Time:", "Resource Version:", "UID:", "Last Scale Up:"];

/// The lines with all that varies replaced, blanks made one. Equal results are the same output to a reader.
pub(crate) fn likeness(printed: &str) -> Vec<String> {
    let mut alike = Vec::new();
    let mut in_pods = false;
    for line in printed.lines() {
        let trimmed = line.trim();
        // Whether pods or the decision to have them came first decides how many are counted and named.
        in_pods = trimmed == "Pods:" || in_pods && !ends_pods(trimmed);
        if in_pods || trimmed.is_empty() {
            continue;
        }
        if let Some(field) = VARYING_FIELDS.iter().find(|field| trimmed.starts_with(*field)) {
            alike.push((*field).to_owned());
            continue;
        }
        alike.push(trimmed.split_whitespace().map(word).collect::<Vec<_>>().join(" "));
    }
    alike.iter().map(|line| sentence(line)).collect()
}

/// The fields that follow the pods of a decision.
fn ends_pods(trimmed: &str) -> bool {
    trimmed.starts_with("Reason:") || trimmed.starts_with("Cpu:")
}

fn word(word: &str) -> String {
    let bare = word.trim_matches(['[', ']', '"', ',', ';', '(', ')']);
    let core = bare.rsplit('/').next().unwrap_or(bare);
    let same = match core {
        "ReplicasAnticipated" => "PodsUnschedulable",
        _ if is_age(core) => "AGE",
        _ if is_time(core) => "TIME",
        _ if is_node(core) => "NODE",
        _ => return word.to_owned(),
    };
    word.replace(core, same)
}

/// `9s`, `3m12s`, `2d`. Settings such as `10s` in a spec fall under it too; the spec is in the file applied.
fn is_age(word: &str) -> bool {
    let unit = |letter| matches!(letter, 's' | 'm' | 'h' | 'd');
    word.ends_with(unit)
        && word.starts_with(|letter: char| letter.is_ascii_digit())
        && word.chars().all(|letter| letter.is_ascii_digit() || unit(letter))
}

/// `2026-03-02T07:00:00Z`.
fn is_time(word: &str) -> bool {
    word.len() == 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T'
}

/// `general-1-2-0`: pool, epoch, number of the intent, number in it.
fn is_node(word: &str) -> bool {
    let numbers = word.strip_prefix("general-").map(|rest| rest.split('-'));
    numbers.is_some_and(|mut parts| {
        parts.clone().count() == 3
            && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Sentences about a purchase contain how many pods there were and how many did not exist yet.
fn sentence(line: &str) -> String {
    match line.split_once(" for ") {
        Some((before, _)) if before.contains("node") && before.contains('+') => format!("{before} for PODS"),
        _ => line.to_owned(),
    }
}

#[test]
fn two_runs_differ_in_names_and_times_only() {
    let one = "NAME   AGE\ngeneral-1-2-0   Ready   9s\n  Message:  +1 node for 3 pods that fit no node\n  Time: 2026-03-02T07:00:00Z\n";
    let other = "NAME  AGE\ngeneral-1-12-3  Ready  1m3s\n  Message:  +1 node for 4 replicas\n  Time: 2027-03-02T07:00:00Z";
    assert_eq!(likeness(one), likeness(other));
    assert_ne!(likeness(one), likeness(&other.replace("Ready", "NotReady")));
    assert_ne!(likeness(one), likeness(&other.replace("+1", "+2")));
}
