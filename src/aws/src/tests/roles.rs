//! Pools whose calls are made by roles: of other accounts, and of one account.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_provider::{Asked, CloudProvider, PoolAtProvider, ProviderSettings};

use super::fake::{Bench, Fake, Open, group};
use crate::calls::Calls;
use crate::{Aws, Connect, RegionCalls, Role};

/// The account that each role shows; without a role, the operator's own.
struct Accounts(BTreeMap<Option<Role>, Fake>);

impl Connect for Accounts {
    fn connect<'a>(
        &'a self,
        _: Option<&'a str>,
        role: Option<&'a Role>,
    ) -> BoxFuture<'a, Result<RegionCalls, String>> {
        let calls: Arc<dyn Calls> = Arc::new(self.0[&role.cloned()].clone());
        Box::pin(async move { Ok(("eu-west-1".into(), calls)) })
    }
}

fn role(name: &str) -> Role {
    Role { arn: format!("arn:aws:iam::222222222222:role/{name}"), external_id: None }
}

/// An account with the group `web` of one machine.
fn account(number: &str) -> Bench {
    let bench = Bench::new(vec![group("web", 0, 1, 9)]);
    bench.fake.account().groups.values_mut().for_each(|group| group.account = number.into());
    bench
}

/// A pool that names the group `web`, created at second `at`.
fn pool(name: &str, at: i64, role: Option<Role>, like: &PoolAtProvider) -> PoolAtProvider {
    let ProviderSettings::Aws(settings) = &like.settings else { panic!("a pool of AWS") };
    let settings = crate::Settings { role, ..settings.clone() };
    let created_at = headroom_core::time::UnixTime(at);
    PoolAtProvider {
        name: name.into(),
        created_at,
        settings: ProviderSettings::Aws(settings),
        ..like.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn groups_of_one_name_in_two_accounts_are_two_groups() {
    let (ours, theirs) = (account("111111111111"), account("222222222222"));
    let fakes = BTreeMap::from([(None, ours.fake.clone()), (Some(role("nodes")), theirs.fake.clone())]);
    let aws = Aws::new(Box::new(Accounts(fakes)), ours.host.clone(), Arc::new(Open));
    let pools = [pool("a", 0, None, &ours.pool), pool("b", 1, Some(role("nodes")), &ours.pool)];
    let none = BTreeSet::new();
    let asked = pools.each_ref().map(|pool| Asked { pool, nodes: &[], registered: &none });
    for seen in aws.observe(&asked).await {
        let state = seen.expect("an answer").state;
        assert_eq!(state.conflict, None);
        assert_eq!(state.groups["web"].target, 1);
    }
    let mut request = ours.request("web", 1, 3, "1-1");
    request.pool = pools[1].clone();
    aws.increase(&request).await.expect("it grows");
    assert_eq!((ours.desired("web"), theirs.desired("web")), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_two_roles_show_belongs_to_the_older_pool() {
    let bench = account("222222222222");
    let fakes = ["one", "other"].map(|name| (Some(role(name)), bench.fake.clone()));
    let aws = Aws::new(Box::new(Accounts(fakes.into())), bench.host.clone(), Arc::new(Open));
    let pools = [
        pool("younger", 1, Some(role("one")), &bench.pool),
        pool("older", 0, Some(role("other")), &bench.pool),
    ];
    let none = BTreeSet::new();
    let asked = pools.each_ref().map(|pool| Asked { pool, nodes: &[], registered: &none });
    let seen = aws.observe(&asked).await;
    let conflicts: Vec<_> =
        seen.into_iter().map(|seen| seen.expect("an answer").state.conflict.is_some()).collect();
    assert_eq!(conflicts, [true, false]);
}
