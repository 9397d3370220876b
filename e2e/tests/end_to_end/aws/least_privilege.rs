//! A user who may do what the documentation lists and nothing else: the operator works, and names what is missing.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::binaries::repository;
use e2e::fixtures::deployment;
use e2e::operator::Operator;
use e2e::wait;
use serde_json::{Value, json};

use super::{MINUTE, PODS_A_NODE, groups_that_are_made, rows};

/// The policy that the documentation hands out, and what groups take besides that the operator makes.
const POLICY: &str = "config/aws/iam-policy.json";
const MANAGED: &str = "config/aws/iam-policy-managed.json";
/// Actions that may be left out.
const OPTIONAL: [&str; 3] = ["autoscaling:LaunchInstances", "ec2:CreateFleet", "eks:DescribeNodegroup"];

/// The actions of a policy. Its conditions can not be tested here: the simulator ignores them.
fn documented(policy: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(repository().join(policy)).context("failed to read the policy")?;
    let policy: Value = serde_json::from_str(&text)?;
    let statements = policy["Statement"].as_array().context("no statements")?;
    let actions = statements.iter().flat_map(|statement| match &statement["Action"] {
        Value::Array(actions) => actions.clone(),
        one => vec![one.clone()],
    });
    actions.map(|action| Ok(action.as_str().context("an action is no text")?.to_owned())).collect()
}

/// An operator with exactly these permissions.
async fn operator_with(bed: &Bed, actions: &[String]) -> Result<Operator> {
    let user = [("UserName", "headroom")];
    bed.aws.call("iam", "CreateUser", &user).await?;
    let statement = json!({"Effect": "Allow", "Action": actions, "Resource": "*"});
    let policy = json!({"Version": "2012-10-17", "Statement": [statement]}).to_string();
    let put = [("UserName", "headroom"), ("PolicyName", "headroom"), ("PolicyDocument", policy.as_str())];
    bed.aws.call("iam", "PutUserPolicy", &put).await?;
    let made = bed.aws.call("iam", "CreateAccessKey", &user).await?;
    let field = |name: &str| {
        let open = made.split_once(&format!("<{name}>"))?.1;
        open.split_once("</").map(|(value, _)| value.to_owned())
    };
    let key = field("AccessKeyId").context("no key")?;
    let secret = field("SecretAccessKey").context("no secret")?;
    bed.aws.enforce_permissions(true).await?;
    bed.cluster.operator().flag("--lease-seconds=2").aws_with_key(&bed.aws, &key, &secret).start()
}

#[test]
fn documented_permissions_are_enough() {
    aws_test(async |bed| {
        grows_and_shrinks(bed, &documented(POLICY)?).await?;
        let conditions = bed.cluster.pool_status("general").await?["conditions"].to_string();
        ensure!(!conditions.contains("PermissionMissing"), "conditions are {conditions}");
        bed.aws.enforce_permissions(false).await
    });
}

#[test]
fn documented_permissions_are_enough_to_make_and_delete_groups() {
    aws_test(async |bed| {
        groups_that_are_made::account(bed).await?;
        bed.cluster.apply(groups_that_are_made::managed_pool().quick_scale_down("2s")).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let actions = [documented(POLICY)?, documented(MANAGED)?].concat();
        let _operator = operator_with(bed, &actions).await?;
        wait::until("pods run on a group that was made", MINUTE, async || {
            bed.cluster.running_pods_are("default", "app=web", usize::try_from(PODS_A_NODE)?).await
        })
        .await?;
        bed.cluster.scale_deployment("web", 0).await?;
        wait::until("the group is deleted", groups_that_are_made::EMPTY_GROUPS_GO, async || {
            let left = bed.aws.groups().await?;
            ensure!(left.is_empty(), "groups are {left:?}");
            Ok(())
        })
        .await?;
        let conditions = bed.cluster.pool_status("general").await?["conditions"].to_string();
        ensure!(!conditions.contains("PermissionMissing"), "conditions are {conditions}");
        bed.aws.enforce_permissions(false).await
    });
}

#[test]
fn without_the_optional_ones_it_works_and_names_them() {
    aws_test(async |bed| {
        let mut actions = documented(POLICY)?;
        actions.retain(|action| !OPTIONAL.contains(&action.as_str()));
        grows_and_shrinks(bed, &actions).await?;
        let conditions = bed.cluster.pool_status("general").await?["conditions"].to_string();
        ensure!(conditions.contains("autoscaling:LaunchInstances"), "conditions are {conditions}");
        bed.aws.enforce_permissions(false).await
    });
}

/// With these permissions a node is bought and returned, and nothing backs off.
async fn grows_and_shrinks(bed: &Bed, actions: &[String]) -> Result<()> {
    bed.aws.group("web").create().await?;
    bed.cluster.apply(aws_pool("general", &["web"]).quick_scale_down("2s")).await?;
    bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
    let _operator = operator_with(bed, actions).await?;
    wait::until("it grows", MINUTE, async || {
        bed.runs_on("web", usize::try_from(PODS_A_NODE)?, &[("web", 1)]).await
    })
    .await?;
    let backoffs = rows(bed, "general", "backoffs").await?;
    ensure!(backoffs.is_empty(), "backoffs are {backoffs:?}");
    bed.cluster.scale_deployment("web", 0).await?;
    wait::until("the node is returned", MINUTE, async || bed.in_service("web", 0).await).await?;
    Ok(())
}

#[test]
fn missing_read_is_named_and_nothing_is_done() {
    aws_test(async |bed| {
        bed.aws.group("web").create().await?;
        bed.cluster.apply(aws_pool("general", &["web"])).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let operator = operator_with(bed, &["autoscaling:SetDesiredCapacity".to_owned()]).await?;
        wait::until("the missing permission is reported", MINUTE, async || {
            let conditions = bed.cluster.pool_status("general").await?["conditions"].to_string();
            ensure!(
                conditions.contains("autoscaling:DescribeAutoScalingGroups"),
                "conditions are {conditions}"
            );
            Ok(())
        })
        .await?;
        operator.process().check_running()?;
        let group = bed.aws.group_now("web").await?;
        ensure!(group.desired == 0, "{group:?}");
        bed.aws.enforce_permissions(false).await
    });
}
