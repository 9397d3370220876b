//! Groups that the operator makes: parsed, every default filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Checker;
use super::pool::price_micros;
use crate::aws_managed::{
    AwsCapacityType, AwsManaged, AwsOperator, AwsPrice, AwsRequirement, AwsRequirementKey, AwsSubnets,
    MIN_SPOT_TYPES_MAX,
};

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
    /// Prices; the first that names a machine counts.
    pub prices: Vec<ValidatedPrice>,
    /// Highest price of a machine for an hour, in millionths; `None` for any.
    pub max_price_micros: Option<u64>,
    /// Fewest types over which spot machines are spread; at least 1.
    pub min_spot_types: u32,
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

/// Price of a type of machine, or of all types of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedPrice {
    /// A type, or a family with `.*`.
    pub instance_type: String,
    /// True for spot, false for on demand.
    pub spot: bool,
    /// Price of an hour, in millionths.
    pub micros: u64,
    /// True if `micros` is the price of each virtual CPU, false if it is that of the machine.
    pub per_cpu: bool,
}

pub(super) fn read(check: &mut Checker, written: &AwsManaged) -> ValidatedManaged {
    // Without `..`: a new field that nobody reads here must not compile.
    let AwsManaged {
        launch_template,
        subnets,
        requirements,
        prices,
        max_price,
        min_spot_types,
        delete_empty_after,
    } = written;
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
    let prices = prices.iter().enumerate().map(|(index, price)| read_price(check, price, index)).collect();
    let max_price_micros = max_price.as_ref().and_then(|price| {
        let micros = price_micros(&price.per_hour);
        let fix = "write a decimal number such as 0.5";
        check.require(micros.is_some(), &format!("{path}.maxPrice.perHour"), "is not a price", fix);
        micros
    });
    let types_path = format!("{path}.minSpotTypes");
    let min_spot_types = check.count(*min_spot_types, 1, (1, MIN_SPOT_TYPES_MAX), &types_path);
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
        prices,
        max_price_micros,
        min_spot_types,
        delete_empty_after,
    }
}

fn read_price(check: &mut Checker, written: &AwsPrice, index: usize) -> ValidatedPrice {
    let AwsPrice { instance_type, capacity_type, per_hour, per_cpu_hour } = written;
    let path = format!("spec.provider.aws.managed.prices[{index}]");
    check.require(
        per_hour.is_some() != per_cpu_hour.is_some(),
        &path,
        "must have exactly one of perHour and perCpuHour",
        "add one, or remove the other",
    );
    check.require(
        !instance_type.ends_with('*') || per_cpu_hour.is_some(),
        &path,
        "is of a whole family without perCpuHour",
        "write perCpuHour, since its types differ in size, or one type",
    );
    let named = instance_type.split_once('.').is_some_and(|(family, size)| {
        let word =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        word(family) && (word(size) || size == "*")
    });
    check.require(
        named,
        &path,
        "has an unknown form of instanceType",
        "write a type such as m7i.large, or m7i.*",
    );
    let micros = per_cpu_hour.as_ref().or(per_hour.as_ref()).map(|text| price_micros(text));
    check.require(micros != Some(None), &path, "is not a price", "write a decimal number such as 0.0504");
    ValidatedPrice {
        instance_type: instance_type.clone(),
        spot: capacity_type.unwrap_or_default() == AwsCapacityType::Spot,
        micros: micros.flatten().unwrap_or(0),
        per_cpu: per_cpu_hour.is_some(),
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
