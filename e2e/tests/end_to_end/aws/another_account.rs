//! A pool with a role has its groups in the role's account: it grows and shrinks there, and the operator's own identity does no more
//! than to assume the role. A role that cannot be assumed is named.

use anyhow::{Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::fixtures::{Pool, deployment};
use e2e::wait;
use serde_json::json;

use super::{MINUTE, PODS_A_NODE, settles};

const ROLE: &str = "arn:aws:iam::222222222222:role/nodes";

/// A pool of a group in the other account.
async fn pool_there(bed: &Bed) -> Result<Pool> {
    let key = bed.aws.assume(ROLE).await?;
    bed.aws.group("theirs").made_with(&key).create().await?;
    let pool = aws_pool("general", &["theirs"]).quick_scale_down("2s");
    Ok(pool.set("/spec/provider/aws/assumeRole", json!({"arn": ROLE, "externalId": "a-cluster"})))
}

#[test]
fn pool_of_another_account_grows_and_shrinks_by_its_role() {
    aws_test(async |bed| {
        bed.cluster.apply(pool_there(bed).await?).await?;
        bed.cluster.apply(deployment("web").replicas(2 * PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, 2 * PODS_A_NODE, &[("theirs", 2)]).await?;
        bed.cluster.scale_deployment("web", 0).await?;
        settles(bed, 0, &[("theirs", 0)]).await?;
        let own = bed.aws.log().await?;
        let others: Vec<_> = own.iter().filter(|call| call.call != "sts:AssumeRole").collect();
        ensure!(others.is_empty(), "the operator's own identity called {others:?}");
        ensure!(
            own.iter().all(|call| call.params.get("ExternalId").is_some_and(|id| id == "a-cluster")),
            "{own:?}"
        );
        // Credentials of an hour: once for the official client and once for the small one.
        ensure!(own.len() <= 2, "the role was assumed {} times", own.len());
        Ok(())
    });
}

#[test]
fn role_that_cannot_be_assumed_is_named_with_the_words_of_aws() {
    aws_test(async |bed| {
        let pool = pool_there(bed).await?;
        let denied = "User: operator is not authorized to perform: sts:AssumeRole";
        let fault = json!({"service": "sts", "action": "AssumeRole", "count": -1, "code": "AccessDenied",
            "message": denied, "status": 403});
        bed.aws.faults(json!([fault])).await?;
        bed.cluster.apply(pool).await?;
        bed.cluster.apply(deployment("web").replicas(1)).await?;
        let _operator = bed.operator().start()?;
        wait::until("the pool names the role and AWS's words", MINUTE, async || {
            let conditions = bed.cluster.pool_status("general").await?["conditions"].to_string();
            ensure!(conditions.contains(ROLE) && conditions.contains(denied), "conditions are {conditions}");
            Ok(())
        })
        .await?;
        bed.aws.faults(json!([])).await?;
        settles(bed, 1, &[("theirs", 1)]).await
    });
}
