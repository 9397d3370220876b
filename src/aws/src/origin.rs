//! Template that an instance was launched from, compared with its group's present one. Facts that AWS does not report
//! are not guessed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::group::{Group, Launches, TemplateRef};

/// Launch configuration or template that an instance was launched from, as its group lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A launch configuration, by name.
    Configuration(Arc<str>),
    /// A version of a launch template; the version is a number.
    Template(TemplateRef),
}

/// Ids of the instances that were launched from something else than the group launches from now. `version` is the number
/// that the version of the group's launch template stands for; `None` while it has not been read.
///
/// A group whose types have launch templates of their own does not report which one made an instance.
#[must_use]
pub fn outdated(group: &Group, version: Option<&str>) -> BTreeSet<Arc<str>> {
    let machines = group.instances.iter();
    let others = machines.filter(|machine| {
        machine.origin.as_ref().is_some_and(|origin| is_other(origin, &group.launches, version))
    });
    others.map(|machine| machine.id.clone()).collect()
}

fn is_other(origin: &Origin, launches: &Launches, version: Option<&str>) -> bool {
    match (origin, launches) {
        (_, Launches::Unknown) => false,
        (Origin::Configuration(name), Launches::Configuration(present)) => name != present,
        (Origin::Configuration(_), Launches::Template(_))
        | (Origin::Template(_), Launches::Configuration(_)) => true,
        (Origin::Template(made_by), Launches::Template(present)) => {
            is_other_version(made_by, present, version)
        }
        (origin, Launches::Mixed(mixed)) => match origin {
            _ if mixed.types.iter().any(|(_, own)| own.is_some()) => false,
            Origin::Configuration(_) => true,
            Origin::Template(made_by) => is_other_version(made_by, &mixed.template, version),
        },
    }
}

fn is_other_version(made_by: &TemplateRef, present: &TemplateRef, version: Option<&str>) -> bool {
    let differ = |one: &Option<Arc<str>>, other: &Option<Arc<str>>| {
        one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one != other)
    };
    let is_number = |version: &str| version.bytes().all(|byte| byte.is_ascii_digit());
    let another_template = differ(&made_by.id, &present.id) || differ(&made_by.name, &present.name);
    let another_version =
        version.is_some_and(|version| is_number(&made_by.version) && *made_by.version != *version);
    another_template || another_version
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{Machine, Mixed};

    fn template(id: &str, version: &str) -> TemplateRef {
        TemplateRef { id: Some(id.into()), name: None, version: version.into() }
    }

    /// True if an instance of this origin is outdated in a group that launches this, version 7 of its template.
    fn is_outdated(origin: Option<Origin>, launches: Launches) -> bool {
        let machine = Machine { id: "i-1".into(), origin, ..Machine::default() };
        let group = Group { instances: vec![machine], launches, ..Group::default() };
        !outdated(&group, Some("7")).is_empty()
    }

    #[test]
    fn another_version_or_template_or_kind_of_source_is_outdated() {
        let latest = || Launches::Template(template("lt-1", "$Latest"));
        let of = |id, version| Some(Origin::Template(template(id, version)));
        assert!(!is_outdated(of("lt-1", "7"), latest()));
        assert!(is_outdated(of("lt-1", "6"), latest()));
        assert!(is_outdated(of("lt-2", "7"), latest()));
        let configuration = || Some(Origin::Configuration("c-1".into()));
        assert!(is_outdated(configuration(), latest()));
        assert!(!is_outdated(configuration(), Launches::Configuration("c-1".into())));
        assert!(is_outdated(configuration(), Launches::Configuration("c-2".into())));
    }

    #[test]
    fn what_is_not_known_is_not_outdated() {
        let of = |version| Some(Origin::Template(template("lt-1", version)));
        assert!(!is_outdated(None, Launches::Template(template("lt-1", "7"))));
        assert!(!is_outdated(of("6"), Launches::Unknown));
        let own = Mixed {
            template: template("lt-1", "7"),
            types: vec![("m5.large".into(), Some(template("lt-2", "1")))],
            ..Mixed::default()
        };
        assert!(!is_outdated(of("6"), Launches::Mixed(own.clone())));
        assert!(is_outdated(of("6"), Launches::Mixed(Mixed { types: Vec::new(), ..own })));
        let machine = Machine { id: "i-1".into(), origin: of("6"), ..Machine::default() };
        let launches = Launches::Template(template("lt-1", "$Latest"));
        let unread = Group { instances: vec![machine], launches, ..Group::default() };
        assert!(outdated(&unread, None).is_empty(), "what $Latest stands for has not been read");
    }
}
