//! The quotas of EC2 that launches count toward, and the message when one is used up. Pure.

/// The quota that an instance of this type counts toward, spot apart from on demand.
///
/// Source: the quotas that the documentation of EC2 lists: one for standard types (A, C, D, H, I, M, R, T, Z), one each
/// for the others.
#[must_use]
pub(crate) fn quota_family(instance_type: &str, spot: bool) -> String {
    let letters: String = instance_type.chars().take_while(char::is_ascii_lowercase).collect();
    let family = match letters.as_str() {
        // Families that only look like standard ones.
        "dl" | "hpc" | "inf" | "trn" | "mac" | "vt" => letters.as_str(),
        _ => match letters.chars().next() {
            Some('a' | 'c' | 'd' | 'h' | 'i' | 'm' | 'r' | 't' | 'z') => "standard",
            Some('f') => "f",
            Some('g') => "g-and-vt",
            Some('p') => "p",
            Some('x') => "x",
            Some('u') => "high-memory",
            Some(_) => letters.as_str(),
            None => "unknown",
        },
    };
    let family = if family == "vt" { "g-and-vt" } else { family };
    format!("{family}/{}", if spot { "spot" } else { "on-demand" })
}

/// Families and markets with their quota: its name in the console of Service Quotas, and its code.
///
/// Source: the quotas that the documentation of EC2 lists. For markets that are not here the name is enough.
const QUOTAS: &[(&str, &str, &str)] = &[
    ("standard/on-demand", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "L-1216C47A"),
    ("standard/spot", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "L-34B43A08"),
    ("g-and-vt/on-demand", "Running On-Demand G and VT instances", "L-DB2E81BA"),
    ("g-and-vt/spot", "All G and VT Spot Instance Requests", "L-3819A6DF"),
    ("p/on-demand", "Running On-Demand P instances", "L-417A185B"),
    ("f/on-demand", "Running On-Demand F instances", "L-74FC7D96"),
    ("f/spot", "All F Spot Instance Requests", "L-88CF9481"),
    ("x/on-demand", "Running On-Demand X instances", "L-7295265B"),
    ("x/spot", "All X Spot Instance Requests", "L-E3A00192"),
    ("inf/on-demand", "Running On-Demand Inf instances", "L-1945791B"),
    ("inf/spot", "All Inf Spot Instance Requests", "L-B5D1601B"),
];

/// The message about a used-up quota: its name, and what to do. `family` is the result of [`quota_family`] for the
/// machines, `None` where they are of several types; `message` is AWS's own.
#[must_use]
pub(crate) fn advice(family: Option<&str>, message: &str) -> String {
    let others = [
        ("MaxFleetCountExceeded", "of fleets in this region"),
        ("VolumeLimitExceeded", "of storage on EBS volumes in this region"),
    ];
    let other = others.iter().find(|(code, _)| message.contains(code));
    let quota = match (other, family) {
        (Some((_, what)), _) => format!("the quota {what}"),
        (None, Some(family)) => match QUOTAS.iter().find(|(key, ..)| *key == family) {
            Some((_, name, code)) => format!("the quota {name:?} ({code})"),
            None => format!("the vCPU quota of the account for {}", family.replace('/', ", ")),
        },
        (None, None) => "the vCPU quota of the account for one of its types of machine".to_owned(),
    };
    format!("{quota} is used up: ask for more at Service Quotas of AWS, or end what you can spare; {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_shared_by_families_and_markets() {
        assert_eq!(quota_family("m6i.large", false), quota_family("c7g.xlarge", false));
        assert_ne!(quota_family("m6i.large", false), quota_family("m6i.large", true));
        assert_eq!(quota_family("g5.xlarge", false), "g-and-vt/on-demand");
        assert_eq!(quota_family("inf2.xlarge", true), "inf/spot");
        assert_eq!(quota_family("u-6tb1.metal", false), "high-memory/on-demand");
    }

    #[test]
    fn used_up_quota_is_named_as_the_console_names_it() {
        let words = "VcpuLimitExceeded - You have requested more vCPU capacity than your current vCPU limit of 8 allows";
        let text = advice(Some(&quota_family("m5.large", false)), words);
        assert!(text.contains("Running On-Demand Standard") && text.contains("L-1216C47A"), "{text}");
        assert!(text.contains("ask for more") && text.contains("limit of 8"), "{text}");
        let text = advice(
            Some(&quota_family("p5.48xlarge", true)),
            "MaxSpotInstanceCountExceeded - Max spot instance count",
        );
        assert!(text.contains("for p, spot"), "{text}");
        let text = advice(Some("standard/on-demand"), "VolumeLimitExceeded - no");
        assert!(text.contains("EBS volumes") && !text.contains("L-1216C47A"), "{text}");
        assert!(advice(None, "VcpuLimitExceeded").contains("one of its types"));
    }
}
