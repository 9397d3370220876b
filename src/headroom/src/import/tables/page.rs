//! The tables as a page of Markdown: docs/migration-fields.md.

use std::fmt::Write as _;

use super::marks::{self, Mark};
use super::{Becomes, Table, hpa, karpenter, keda};
use crate::import::cluster_autoscaler::flags::{FLAGS, Use};

const HEAD: &str = "\
# Fields and flags that the imports know

What becomes of each field of Karpenter 1.15, KEDA 2.21 and `autoscaling/v2`, and of each flag of Cluster Autoscaler 1.37, when
[`headroom import`](migration.md) reads it. What has no counterpart is named in a comment with its value and with what is printed
here. A field or flag that stands in no table is named as `UNKNOWN`, and the object that has such a field is printed with
`mode: Preview`. `make pages` writes this page from the tables that the program uses; tests compare them with the lists of names
in [src/headroom/src/import](../src/headroom/src/import).

";

/// The whole page.
#[must_use]
pub fn fields_page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Karpenter\n\n");
    for table in
        [karpenter::NODE_POOL, karpenter::EC2_NODE_CLASS, karpenter::NODE_OVERLAY, karpenter::KWOK_NODE_CLASS]
    {
        fields(&mut page, &format!("### {} of Karpenter", table.kind), &table);
    }
    page.push_str(
        "Status, and labels and annotations of these objects themselves, hold no settings. Fields that are left out have Karpenter's \
         defaults: `expireAfter: 720h`, `consolidateAfter: 0s`, a budget of `10%`.\n\n",
    );
    marked(&mut page, "### Annotations, labels and taints of Karpenter", marks::KARPENTER);
    page.push_str("## Cluster Autoscaler\n\n### Flags\n\n| Flag | Here |\n| --- | --- |\n");
    for flag in FLAGS {
        line(&mut page, &format!("`--{}`", flag.name), &used(flag.becomes));
    }
    page.push('\n');
    let title = "### Annotations, labels, taints, tags and ConfigMaps of Cluster Autoscaler";
    marked(&mut page, title, marks::CLUSTER_AUTOSCALER);
    page.push_str("## KEDA\n\n");
    fields(&mut page, "### ScaledObject", &keda::SCALED_OBJECT);
    page.push_str("### Types of triggers\n\n| Type | Here |\n| --- | --- |\n");
    for (kind, words) in keda::CONVERTED {
        line(&mut page, &format!("`{kind}`"), words);
    }
    for (kinds, words) in keda::TRIGGERS {
        let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
        line(&mut page, &kinds.join(", "), &format!("no counterpart: {words}"));
    }
    page.push('\n');
    for table in [
        keda::RESOURCE,
        keda::CRON,
        keda::PROMETHEUS,
        keda::EXTERNAL,
        keda::RABBITMQ,
        keda::NATS_JETSTREAM,
        keda::METRICS_API,
        keda::REDIS,
        keda::REDIS_STREAMS,
    ] {
        fields(&mut page, &format!("### Parameters of trigger {}", table.kind), &table);
    }
    page.push_str("### Annotations of a ScaledObject\n\n| Annotation | Here |\n| --- | --- |\n");
    for (name, becomes) in keda::ANNOTATIONS {
        line(&mut page, &format!("`{name}`"), &became(*becomes));
    }
    page.push('\n');
    fields(&mut page, "## HorizontalPodAutoscaler", &hpa::HPA);
    format!("{}\n", page.trim_end())
}

fn line(page: &mut String, name: &str, words: &str) {
    // A bar would end the cell.
    let _ = writeln!(page, "| {name} | {} |", words.replace('|', "\\|"));
}

fn fields(page: &mut String, title: &str, table: &Table) {
    let _ = writeln!(page, "{title}\n\n| Field | Here |\n| --- | --- |");
    for row in table.rows {
        let parts = match row.parts {
            "" => String::new(),
            parts => {
                let parts: Vec<String> =
                    parts.split(' ').map(|part| format!("`{}`", part.trim_start_matches("[]."))).collect();
                format!(": {}", parts.join(", "))
            }
        };
        line(page, &format!("`{}`{parts}", row.path), &became(row.becomes));
    }
    page.push('\n');
}

fn marked(page: &mut String, title: &str, marks: &[Mark]) {
    let _ = writeln!(page, "{title}\n\n| Name | On | Here |\n| --- | --- | --- |");
    for (name, on, means) in marks {
        line(page, &format!("`{name}` | {on}"), &marks::words(*means));
    }
    page.push('\n');
}

fn became(becomes: Becomes) -> String {
    match becomes {
        Becomes::Field(fields) => {
            let fields: Vec<String> = fields.split(", ").map(|field| format!("`{field}`")).collect();
            fields.join(", ")
        }
        Becomes::Shapes(words) => words.to_owned(),
        Becomes::Instead(words) => format!("no counterpart: {words}"),
    }
}

fn used(becomes: Use) -> String {
    match becomes {
        Use::Pool(field) | Use::Policy(field) => format!("`{field}`"),
        Use::Shapes(words) => words.to_owned(),
        Use::Elsewhere(words) => format!("has another place: {words}"),
        Use::NoEffect(words) => format!("no effect here: {words}"),
    }
}
