//! Renders docs/fields.md: every field of every kind with its type, its default and its effect, from the schemas alone.

use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::definitions;
use headroom_api::common::{DURATION_PATTERN, QUANTITY_PATTERN};

/// One field, as a row of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDoc {
    /// Path of the field, such as `spec.scaleUp.backoff.initial`; `[]` stands for each item of a list.
    pub path: String,
    /// Type of the value, such as `duration` or `integer, 0 to 100`.
    pub type_: String,
    /// `required`, or the default as the description states it; empty in status.
    pub default: String,
    /// Effect: the description without the default.
    pub effect: String,
}

/// The whole of docs/fields.md, the same bytes each time.
pub fn render() -> String {
    let mut text = String::from(
        "<!-- Generated from src/api by `make crds`. Do not edit. -->\n# Fields\n\n\
         Every field of the custom resources: its type, its default and its effect. An omitted field has its default; the \
         object itself is never changed. Durations are one to three numbers with `h`, `m` or `s`, such as `90s` or `1h30m`; \
         quantities are those of Kubernetes, in quotes where YAML would read a number. Both are kept as written.\n",
    );
    for definition in definitions() {
        let names = &definition.spec.names;
        let short = names.short_names.as_deref().unwrap_or_default().join("`, `");
        let _ = write!(
            text,
            "\n## {} (`{}.{}`, short `{short}`)\n",
            names.kind, names.plural, definition.spec.group
        );
        for part in ["spec", "status"] {
            let found = fields(&definition, part);
            if found.is_empty() {
                continue;
            }
            let defaults = part == "spec";
            let heading =
                if defaults { "| Field | Type | Default | Effect |" } else { "| Field | Type | Meaning |" };
            let rule = if defaults { "| --- | --- | --- | --- |" } else { "| --- | --- | --- |" };
            let _ = write!(text, "\n### {} {part}\n\n{heading}\n{rule}\n", names.kind);
            for field in found {
                let FieldDoc { path, type_, default, effect } = field;
                let cells = if defaults { vec![type_, default, effect] } else { vec![type_, effect] };
                let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
                let _ = writeln!(text, "| `{path}` | {} |", cells.join(" | "));
            }
        }
    }
    text
}

/// Every field below `spec` or `status` of a definition, parents before children, otherwise by name.
pub fn fields(definition: &CustomResourceDefinition, part: &str) -> Vec<FieldDoc> {
    let schema = definition.spec.versions.iter().find_map(|version| {
        version.schema.as_ref()?.open_api_v3_schema.as_ref()?.properties.as_ref()?.get(part)
    });
    let mut found = Vec::new();
    if let Some(schema) = schema {
        add_properties(schema, part, &mut found);
    }
    found
}

fn add_properties(schema: &JSONSchemaProps, path: &str, found: &mut Vec<FieldDoc>) {
    for (name, property) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        let required = schema.required.iter().flatten().any(|required| required == name);
        found.push(field_doc(property, &path, required));
        add_properties(property, &path, found);
        if let Some(JSONSchemaPropsOrArray::Schema(item)) = &property.items {
            add_properties(item, &format!("{path}[]"), found);
        }
    }
}

fn field_doc(schema: &JSONSchemaProps, path: &str, required: bool) -> FieldDoc {
    let text =
        schema.description.clone().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, default, after) = match text.split_once("Default: ") {
        Some((before, rest)) => {
            let (default, after) = rest.split_once(". ").unwrap_or((rest.trim_end_matches('.'), ""));
            (before.to_owned(), default.to_owned(), after.to_owned())
        }
        None => (text.replace(" Required.", "").replace(" Required;", ""), String::new(), String::new()),
    };
    let default = if required { "required".to_owned() } else { default };
    let effect = format!("{} {after}", before.trim()).trim().to_owned();
    FieldDoc { path: path.to_owned(), type_: type_text(schema), default, effect }
}

fn type_text(schema: &JSONSchemaProps) -> String {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "count or percentage".to_owned();
    }
    if let Some(values) = &schema.enum_ {
        let words: Vec<String> = values.iter().filter_map(|v| Some(format!("`{}`", v.0.as_str()?))).collect();
        return words.join(" | ");
    }
    match schema.pattern.as_deref() {
        Some(DURATION_PATTERN) => return "duration".to_owned(),
        Some(QUANTITY_PATTERN) => return "quantity".to_owned(),
        _ => {}
    }
    match (schema.type_.as_deref().unwrap_or_default(), &schema.items, &schema.additional_properties) {
        ("array", Some(JSONSchemaPropsOrArray::Schema(item)), _) => {
            let most = schema.max_items.map(|most| format!(", at most {most}")).unwrap_or_default();
            format!("list of {}{most}", type_text(item))
        }
        ("object", _, Some(JSONSchemaPropsOrBool::Schema(value))) => format!("map to {}", type_text(value)),
        ("integer", ..) => match (schema.minimum, schema.maximum) {
            (Some(min), Some(max)) => format!("integer, {min} to {max}"),
            (Some(min), None) => format!("integer, at least {min}"),
            (None, _) => "integer".to_owned(),
        },
        ("string", ..) if schema.format.as_deref() == Some("date-time") => "time".to_owned(),
        (other, ..) => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn committed_page_is_that_of_the_types() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join("docs/fields.md");
        let fresh = render();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &fresh).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == fresh, "{} is stale: run `make crds` and commit the result", path.display());
    }

    #[test]
    fn every_field_is_described() {
        for definition in definitions() {
            for field in ["spec", "status"].iter().flat_map(|part| fields(&definition, part)) {
                assert!(!field.effect.is_empty(), "{} {}", definition.spec.names.kind, field.path);
            }
        }
    }

    #[test]
    fn every_field_of_spec_states_its_default_or_is_required() {
        for definition in definitions() {
            for field in fields(&definition, "spec") {
                assert!(!field.default.is_empty(), "{} {}", definition.spec.names.kind, field.path);
            }
        }
    }

    #[test]
    fn a_default_is_taken_out_of_the_description() {
        let fields = fields(&definitions()[0], "spec");
        let field = |path: &str| fields.iter().find(|field| field.path == path).unwrap().clone();
        let initial = field("spec.scaleUp.backoff.initial");
        assert_eq!((initial.type_.as_str(), initial.default.as_str()), ("duration", "`5m`"));
        assert_eq!(
            initial.effect,
            "Backoff after the first failure; each further one doubles it. More than 0, at most `max`."
        );
        assert_eq!(field("spec.maxNodes").default, "required");
        assert_eq!(field("spec.scaleDown.budgets[].maxNodes").type_, "count or percentage");
        assert_eq!(field("spec.mode").type_, "`Apply` | `Preview` | `Suspend`");
    }
}
