//! Auto Scaling groups as a person makes them: a launch template and a group of the same name; nothing is made unasked.

use anyhow::Result;

use super::{Aws, TEST_KEY};

/// An image that the simulator knows.
const IMAGE: &str = "ami-03cf127a";

/// A group about to be made: of m5.xlarge (4 CPU, 16 GiB), on demand, in zone `us-east-1a`, 0 to 10 instances, none
/// at first. Tags: the node-template tags and the cluster's are the test's business.
#[derive(Debug, Clone)]
pub struct GroupBuilder<'a> {
    aws: &'a Aws,
    name: String,
    zones: Vec<String>,
    min: u32,
    max: u32,
    desired: u32,
    instance_type: String,
    overrides: Vec<String>,
    spot: bool,
    described: bool,
    tags: Vec<(String, String)>,
    more: Vec<(String, String)>,
    key: String,
}

impl Aws {
    /// See [`GroupBuilder`].
    pub fn group(&self, name: &str) -> GroupBuilder<'_> {
        GroupBuilder {
            aws: self,
            name: name.to_owned(),
            zones: vec!["us-east-1a".to_owned()],
            min: 0,
            max: 10,
            desired: 0,
            instance_type: "m5.xlarge".to_owned(),
            overrides: Vec::new(),
            spot: false,
            described: false,
            tags: Vec::new(),
            more: Vec::new(),
            key: TEST_KEY.to_owned(),
        }
    }

    /// The groups of the walk-through in docs/aws.md: one in each of two zones, none of them with an instance.
    pub async fn walk_through_groups(&self) -> Result<()> {
        for (name, zone) in [("web-a", "us-east-1a"), ("web-b", "us-east-1b")] {
            self.group(name).zones(&[zone]).create().await?;
        }
        Ok(())
    }

    /// Changes the size of a group as a person does who does not know of the operator.
    pub async fn edit_group(&self, name: &str, params: &[(&str, &str)]) -> Result<()> {
        let mut all = vec![("AutoScalingGroupName", name)];
        all.extend(params);
        self.call("autoscaling", "UpdateAutoScalingGroup", &all).await?;
        Ok(())
    }

    /// Deletes a group with all its instances.
    pub async fn delete_group(&self, name: &str) -> Result<()> {
        let params = [("AutoScalingGroupName", name), ("ForceDelete", "true")];
        self.call("autoscaling", "DeleteAutoScalingGroup", &params).await?;
        Ok(())
    }

    /// Ends an instance behind its group's back, as a spot interruption does.
    pub async fn interrupt(&self, id: &str) -> Result<()> {
        self.call("ec2", "TerminateInstances", &[("InstanceId.1", id)]).await?;
        Ok(())
    }
}

impl GroupBuilder<'_> {
    pub fn zones(mut self, zones: &[&str]) -> Self {
        self.zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        self
    }

    /// MinSize and MaxSize.
    pub fn sizes(mut self, min: u32, max: u32) -> Self {
        (self.min, self.max) = (min, max);
        self.desired = self.desired.max(min);
        self
    }

    pub fn desired(mut self, desired: u32) -> Self {
        self.desired = desired;
        self
    }

    pub fn instance_type(mut self, instance_type: &str) -> Self {
        instance_type.clone_into(&mut self.instance_type);
        self
    }

    /// A mixed instances policy over these types, the first one preferred.
    pub fn types(mut self, types: &[&str]) -> Self {
        self.overrides = types.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// A mixed instances policy that launches spot instances only.
    pub fn spot(mut self) -> Self {
        self.spot = true;
        self
    }

    /// A mixed instances policy whose override describes its types: the requirements are given by [`Self::param`].
    pub fn described(mut self) -> Self {
        self.described = true;
        self
    }

    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.tags.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Made with this access key, in its account.
    pub fn made_with(mut self, key: &str) -> Self {
        key.clone_into(&mut self.key);
        self
    }

    /// Any other parameter of CreateAutoScalingGroup, or another value of one that is set anyway.
    pub fn param(mut self, key: &str, value: &str) -> Self {
        self.more.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Makes the launch template and the group. Errors when either exists.
    pub async fn create(self) -> Result<()> {
        let template = [
            ("LaunchTemplateName", self.name.as_str()),
            ("LaunchTemplateData.ImageId", IMAGE),
            ("LaunchTemplateData.InstanceType", &self.instance_type),
        ];
        self.aws.call_with(&self.key, "ec2", "CreateLaunchTemplate", &template).await?;
        let mut params = vec![
            ("AutoScalingGroupName".to_owned(), self.name.clone()),
            ("MinSize".to_owned(), self.min.to_string()),
            ("MaxSize".to_owned(), self.max.to_string()),
            ("DesiredCapacity".to_owned(), self.desired.to_string()),
        ];
        for (number, zone) in (1..).zip(&self.zones) {
            params.push((format!("AvailabilityZones.member.{number}"), zone.clone()));
        }
        let mixed = "MixedInstancesPolicy.LaunchTemplate";
        if self.spot || self.described || !self.overrides.is_empty() {
            let distribution = "MixedInstancesPolicy.InstancesDistribution";
            let above = if self.spot { "0" } else { "100" };
            params
                .push((format!("{mixed}.LaunchTemplateSpecification.LaunchTemplateName"), self.name.clone()));
            params.push((format!("{mixed}.LaunchTemplateSpecification.Version"), "$Default".to_owned()));
            params.push((format!("{distribution}.OnDemandBaseCapacity"), "0".to_owned()));
            params.push((format!("{distribution}.OnDemandPercentageAboveBaseCapacity"), above.to_owned()));
        } else {
            params.push(("LaunchTemplate.LaunchTemplateName".to_owned(), self.name.clone()));
            params.push(("LaunchTemplate.Version".to_owned(), "$Default".to_owned()));
        }
        for (number, name) in (1..).zip(&self.overrides) {
            params.push((format!("{mixed}.Overrides.member.{number}.InstanceType"), name.clone()));
        }
        for (number, (key, value)) in (1..).zip(&self.tags) {
            let tag = format!("Tags.member.{number}");
            params.push((format!("{tag}.Key"), key.clone()));
            params.push((format!("{tag}.Value"), value.clone()));
            params.push((format!("{tag}.ResourceId"), self.name.clone()));
            params.push((format!("{tag}.ResourceType"), "auto-scaling-group".to_owned()));
            params.push((format!("{tag}.PropagateAtLaunch"), "true".to_owned()));
        }
        // Of two values of one parameter AWS would take the first.
        params.retain(|(key, _)| self.more.iter().all(|(other, _)| other != key));
        params.extend(self.more);
        let params: Vec<(&str, &str)> = params.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        self.aws.call_with(&self.key, "autoscaling", "CreateAutoScalingGroup", &params).await?;
        Ok(())
    }
}
