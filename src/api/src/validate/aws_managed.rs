//! Groups that the operator makes: parsed, every default filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Checker;
use crate::aws_managed::{AwsManaged, AwsOperator, AwsRequirement, AwsRequirementKey, AwsSubnets};

/// Groups that the operator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedManaged {
    /// Id of the launch template; exactly one of id and name is there.
    pub template_id: Option<String>,
    /// Name of the launch template.
    pub template_name: Option<String>,
    /// Version of the launch template: a number, `$Default` or `$Latest`.
    pub template_version: String,
    /// Their subnets; at least one.
    pub subnets: Vec<ValidatedSubnets>,
    /// Conditions on machines.
    pub requirements: Vec<ValidatedRequirement>,
    /// Time after which a group without instances is deleted; at least a minute.
    pub delete_empty_after: Duration,
}

/// Subnets by id or by tags.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValidatedSubnets {
    /// One by its id.
    Id(String),
    /// All with these tags; an empty value matches any.
    Tags(BTreeMap<String, String>),
}

/// A condition that a machine must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedRequirement {
    /// The property.
    pub key: AwsRequirementKey,
    /// Relation to the values.
    pub operator: AwsOperator,
    /// At least one; one whole number where the operator compares.
    pub values: Vec<String>,
}

pub(super) fn read(check: &mut Checker, written: &AwsManaged) -> ValidatedManaged {
    // Without `..`: a new field that nobody reads here must not compile.
    let AwsManaged { launch_template, subnets, requirements, delete_empty_after } = written;
    let path = "spec.provider.aws.managed";
    check.require(
        launch_template.id.is_some() != launch_template.name.is_some(),
        &format!("{path}.launchTemplate"),
        "must have exactly one of id and name",
        "add one, or remove the other",
    );
    check.require(!subnets.is_empty(), &format!("{path}.subnets"), "is empty", "add a subnet");
    let subnet = |(index, subnets): (usize, &AwsSubnets)| {
        let named = subnets.id.is_some() == subnets.tags.is_empty();
        let fix = "add one, or remove the other";
        check.require(
            named,
            &format!("{path}.subnets[{index}]"),
            "must have exactly one of id and tags",
            fix,
        );
        subnets.id.clone().map_or_else(|| ValidatedSubnets::Tags(subnets.tags.clone()), ValidatedSubnets::Id)
    };
    let subnets = subnets.iter().enumerate().map(subnet).collect();
    for (index, requirement) in requirements.iter().enumerate() {
        check_requirement(check, requirement, &format!("{path}.requirements[{index}]"));
    }
    let empty_path = format!("{path}.deleteEmptyAfter");
    let delete_empty_after = check.duration(delete_empty_after.as_ref(), 600, &empty_path);
    let long = Duration::from_secs(60) <= delete_empty_after;
    check.require(long, &empty_path, "is less than 1m", "write a longer duration, such as 10m");
    let requirement = |one: &AwsRequirement| ValidatedRequirement {
        key: one.key,
        operator: one.operator,
        values: one.values.clone(),
    };
    ValidatedManaged {
        template_id: launch_template.id.clone(),
        template_name: launch_template.name.clone(),
        template_version: launch_template.version.clone().unwrap_or_else(|| "$Default".to_owned()),
        subnets,
        requirements: requirements.iter().map(requirement).collect(),
        delete_empty_after,
    }
}

fn check_requirement(check: &mut Checker, requirement: &AwsRequirement, path: &str) {
    let AwsRequirement { key, operator, values } = requirement;
    check.require(!values.is_empty(), path, "has no value", "add a value");
    let number =
        |text: &String| text.len() <= 9 && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let compares = matches!(operator, AwsOperator::Gt | AwsOperator::Lt);
    check.require(
        !compares || (key.is_number() && values.len() == 1 && values.iter().all(number)),
        path,
        "compares a property or value that is not a whole number",
        "use a key that is a number with one whole number, or operator In or NotIn",
    );
    let words: &[&str] = match key {
        AwsRequirementKey::Market => &["spot", "on-demand"],
        AwsRequirementKey::Architecture => &["amd64", "arm64"],
        _ => return,
    };
    let known = values.iter().all(|value| words.contains(&value.as_str()));
    check.require(known, path, "has an unknown value", &format!("use {}", words.join(" or ")));
    check.require(
        *key != AwsRequirementKey::Architecture || (*operator == AwsOperator::In && values.len() == 1),
        path,
        "must name one architecture: a launch template has one image",
        "use operator In with one value",
    );
}
