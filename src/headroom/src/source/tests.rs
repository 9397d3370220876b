//! Files that are refused, and text that reaches a terminal.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use headroom_core::labels::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{explain, snapshot};
use headroom_explain::{compare, journal, overview, top};
use headroom_simulator::render::{Renderer, Style};
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::Scenario;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("examples/what-if/cluster.json.gz")
}

fn example_text() -> String {
    let mut text = String::new();
    unpacked(&example(), fs::File::open(example()).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Returns the error for these bytes, read as a snapshot of this name.
fn refused(name: &str, bytes: &[u8], bytes_max: u64) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("headroom-source-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    fs::write(&file, bytes).unwrap();
    let read = if bytes_max == FILE_BYTES_MAX {
        read(&file).map_err(|error| format!("{error:#}"))
    } else {
        read_bounded(Form::Json, &file, bytes_max)
            .map_err(|error| format!("{:#}", anyhow::Error::from(error)))
    };
    fs::remove_dir_all(&folder).unwrap();
    read.expect_err("it is refused")
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_snapshot_that_unpacks_to_more_than_the_limit_is_refused() {
    let bomb = gz(&vec![b' '; 8 << 20]);
    assert!(bomb.len() < 100_000);
    let said = refused("bomb.json.gz", &bomb, 1 << 20);
    assert!(said.contains("larger than 1 MiB"), "{said}");
    let said = refused("large.json", &vec![b' '; 2 << 20], 1 << 20);
    assert!(said.contains("larger than 1 MiB"), "{said}");
}

#[test]
fn snapshots_that_are_cut_off_or_damaged_are_refused_by_name() {
    let whole = fs::read(example()).unwrap();
    for kept in [0, 5, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        let said = refused("cut.json.gz", &whole[..kept], FILE_BYTES_MAX);
        assert!(said.contains("cut.json.gz") && said.contains("cut off or damaged"), "{kept}: {said}");
    }
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x55;
    assert!(refused("flipped.json.gz", &flipped, FILE_BYTES_MAX).contains("flipped.json.gz"));
    let text = example_text();
    let said = refused("cut.json", &text.as_bytes()[..text.len() / 2], FILE_BYTES_MAX);
    assert!(said.contains("cut off or damaged"), "{said}");
    let twice = [whole.as_slice(), whole.as_slice()].concat();
    assert!(refused("twice.json.gz", &twice, FILE_BYTES_MAX).contains("trailing characters"));
}

#[test]
fn keys_that_are_there_twice_are_refused_by_name() {
    let text = example_text().replacen(r#""namespaces":{"#, r#""namespaces":{"default":{},"#, 1);
    let said = refused("twice.json", text.as_bytes(), FILE_BYTES_MAX);
    assert!(said.contains("twice.json") && said.contains(r#"the key "default" is there twice"#), "{said}");
}

#[test]
fn snapshots_are_read_packed_and_not() {
    let case = read(&example()).unwrap();
    assert_eq!(case, Case::parse(&example_text()).unwrap());
    assert_eq!(case.clone().printable().unwrap(), case);
}

/// The name of the file that the child of the test below reads.
#[cfg(target_os = "linux")]
const BOMB: &str = "HEADROOM_TEST_BOMB";
/// Lists of the world whose entries may be without fields, and take most memory for it.
#[cfg(target_os = "linux")]
const CHEAP_LISTS: [&str; 5] = ["classes", "claims", "volumes", "storageClasses", "storageCapacities"];

/// A snapshot a little below the limit of memory, nearly all of it objects without fields, with a name to be cleaned.
#[cfg(target_os = "linux")]
fn bomb() -> Vec<u8> {
    const OBJECTS: usize = 499_000;
    let mut value: Value = serde_json::from_str(&example_text()).unwrap();
    for list in CHEAP_LISTS {
        value["input"]["world"].as_object_mut().unwrap().remove(list);
    }
    for list in ["pods", "nodes", "controllers", "daemonSets"] {
        value["input"]["world"][list] = json!([]);
    }
    value["evidence"]["events"][0]["note"] = json!("a\u{1b}[2J");
    let mut text = value.to_string();
    let at = text.find(r#""world":{"#).unwrap() + r#""world":{"#.len();
    let list = |name: &str| format!(r#""{name}":[{}{{}}],"#, "{},".repeat(OBJECTS - 1));
    text.insert_str(at, &CHEAP_LISTS.map(list).concat());
    gz(text.as_bytes())
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "the child of the test below"]
#[allow(clippy::print_stdout, reason = "the parent reads it")]
fn bomb_is_read() {
    let Some(file) = std::env::var_os(BOMB) else { return };
    let case = Output { output: Form::Text }.read(Path::new(&file)).unwrap();
    assert!(case.evidence.events.iter().any(|event| &*event.note == "a\\u{1b}[2J"), "it was cleaned");
    assert_eq!(case.input.world.classes.len(), 499_000);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("{peak}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_snapshot_just_within_the_limits_takes_less_than_a_gibibyte() {
    let packed = bomb();
    assert!(packed.len() < 100_000, "{} bytes", packed.len());
    let file = std::env::temp_dir().join(format!("headroom-bomb-{}.json.gz", std::process::id()));
    fs::write(&file, packed).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "source::tests::bomb_is_read", "--ignored", "--nocapture"])
        .env(BOMB, &file)
        .output();
    fs::remove_file(&file).unwrap();
    let printed = String::from_utf8(child.unwrap().stdout).unwrap();
    let peak = printed.lines().find_map(|line| line.split("VmHWM:").nth(1)).expect(&printed);
    let kibibytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kibibytes < 1 << 20, "{} MiB", kibibytes >> 10);
}

#[test]
fn a_snapshot_is_cleaned_while_it_is_read_as_a_case_is_cleaned() {
    let mut value: Value = serde_json::from_str(&example_text()).unwrap();
    poisoned(&mut value, "\u{1b}[2J\u{202e}\n");
    let text = value.to_string();
    let read = Case::read_printable(&|| Ok(Box::new(text.as_bytes()))).unwrap();
    assert!(!hidden_in(&read.render().unwrap()));
    assert_eq!(read, Case::parse(&text).unwrap().printable().unwrap());
}

fn hidden_in(text: &str) -> bool {
    text.chars().any(|one| one != '\n' && printable::is_hidden(one))
}

#[test]
fn json_and_yaml_escape_what_a_terminal_would_act_on() {
    let value = json!({"note": "a\u{1b}[2J\n\u{9b}2J\u{7f}\u{202e}b\u{2028}"});
    for output in [Form::Json, Form::Yaml] {
        let written = Output { output }.written(&value, String::new).unwrap();
        assert!(!hidden_in(&written), "{written:?}");
        let read: Value = serde_saphyr::from_str(&written).unwrap();
        assert_eq!(read, value, "{written}");
    }
}

/// Text that ends in a forged line, with characters that a terminal acts on.
fn poison() -> impl Strategy<Value = String> {
    let nasty = prop::sample::select(vec![
        "\n",
        "\r",
        "\t",
        "\u{8}",
        "\u{0}",
        "\u{7f}",
        "\u{85}",
        "\u{9b}2J",
        "\u{1b}[2J",
        "\u{1b}]0;t\u{7}",
        "\u{202e}",
        "\u{2066}",
        "\u{61c}",
        "\u{200f}",
        "\u{2028}",
        " ",
        "é",
        "x",
    ]);
    prop::collection::vec(nasty, 0..8).prop_map(|parts| format!("{}\nFORGED\r\u{85}FORGED", parts.concat()))
}

/// Adds the poison to sentences, labels, and some names.
fn poisoned(value: &mut Value, poison: &str) {
    const SENTENCES: [&str; 3] = ["note", "reporter", "message"];
    let named = |text: &str| text == "general" || text.starts_with("api-7465c9cf5");
    match value {
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                if let ("labels", Some(labels)) = (name.as_str(), value.as_object_mut()) {
                    labels.insert("app".to_owned(), format!("web{poison}").into());
                }
                match &mut value {
                    Value::String(text) if SENTENCES.contains(&name.as_str()) && !text.is_empty() => {
                        text.push_str(poison)
                    }
                    other => poisoned(other, poison),
                }
                fields.insert(if named(&name) { format!("{name}{poison}") } else { name }, value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| poisoned(item, poison)),
        Value::String(text) if named(text) => text.push_str(poison),
        _ => {}
    }
}

/// All texts that commands print of a case.
fn texts(case: &Case) -> Vec<String> {
    let opened = case.open().unwrap();
    let mut texts = vec![
        overview::overview(&opened).text(),
        journal::text(&journal::history(&opened), opened.now()),
        top::text(&top::rows(&opened)),
        compare::compare(&opened).text(),
        snapshot::text(case, &opened),
    ];
    let pods = case.input.world.pods.iter().take(9).map(|pod| (explain::Subject::Pod, pod.key.clone()));
    let nodes =
        case.input.world.nodes.iter().map(|node| (explain::Subject::Node, ObjectKey::new("", &*node.name)));
    let pools =
        case.evidence.pools.keys().map(|name| (explain::Subject::Nodepool, ObjectKey::new("", &**name)));
    let workloads = case.evidence.workloads.iter().map(|one| (explain::Subject::Deployment, one.key.clone()));
    let hpas = case.evidence.hpas.iter().map(|one| (explain::Subject::Hpa, one.key.clone()));
    for (subject, key) in pods.chain(nodes).chain(pools).chain(workloads).chain(hpas) {
        texts.extend(explain::explanation_of(&opened, subject, &key).map(|explanation| explanation.text()));
    }
    texts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_text_about_a_cluster_moves_the_cursor_or_begins_a_line(poison in poison()) {
        let mut value: Value = serde_json::from_str(&example_text()).unwrap();
        poisoned(&mut value, &poison);
        let case = Case::parse(&value.to_string()).unwrap();
        prop_assert!(case.evidence.events.iter().any(|event| event.note.contains(&poison)));
        let shown = Output { output: Form::Text }.shown(case).unwrap();
        let texts = texts(&shown);
        prop_assert!(texts.iter().any(|text| text.contains("FORGED")), "nothing of it is shown");
        prop_assert!(texts.len() > 12);
        for text in texts {
            prop_assert!(!hidden_in(&text), "{text:?}");
            let forged = text.lines().any(|line| line.trim_start().starts_with("FORGED"));
            prop_assert!(!forged, "{text}");
        }
    }

    #[test]
    fn no_line_of_a_simulation_moves_the_cursor_or_begins_a_line(poison in poison()) {
        let folder = std::env::temp_dir().join(format!("headroom-rendered-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let pool = "apiVersion: headroom.dev/v1alpha1\nkind: NodePool\nmetadata: {name: p}\nspec: {maxNodes: 3, minNodes: 1, \
                    provider: {type: KWOK, kwok: {zones: [a]}}, template: {capacity: {cpu: '4', memory: 8Gi, pods: '110'}}}\n";
        fs::write(folder.join("pool.yaml"), pool).unwrap();
        let scenario = json!({"description": poison, "duration": "5m", "events": [{"at": "1m", "message": poison}]});
        // YAML takes most of these characters as escapes only.
        let escaped = |one: char| match headroom_core::printable::is_hidden(one) {
            true => format!("\\u{:04x}", u32::from(one)),
            false => one.to_string(),
        };
        let scenario: String = scenario.to_string().chars().map(escaped).collect();
        fs::write(folder.join("scenario.yaml"), scenario).unwrap();
        let scenario = Scenario::load(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let every = jiff::SignedDuration::from_mins(1);
        let mut renderer = Renderer::new(&scenario, Style { colours: true, every });
        let mut lines = vec![renderer.head(&scenario)];
        run(&scenario, &Options::of(&scenario), &mut |scene| lines.extend(renderer.saw(scene))).unwrap();
        lines.extend(renderer.flush());
        prop_assert!(lines.iter().skip(1).any(|line| line.contains("FORGED")), "{lines:?}");
        for line in lines {
            let plain = ["[0m", "[31m", "[32m", "[33m", "[35m", "[36m"]
                .iter()
                .fold(line.clone(), |line, colour| line.replace(&format!("\u{1b}{colour}"), ""));
            prop_assert!(!hidden_in(&plain), "{line:?}");
            prop_assert_eq!(terminal::coloured(&line), line.clone());
        }
    }
}
