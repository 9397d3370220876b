//! The calls to EC2 Auto Scaling, on the official SDK. It turns answers into our words and decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_autoscaling::Client;
use aws_sdk_autoscaling::config::Builder as ServiceConfig;
use aws_sdk_autoscaling::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_autoscaling::types::{self, Filter, RetryStrategy};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use futures::future::BoxFuture;
use headroom_core::text::with_causes;
use headroom_core::time::UnixTime;

use super::budget::Budget;
use super::calls::{
    CallError, Calls, InstanceType, Launch, LaunchError, Launched, Message, NewGroup, NodeGroup, Offer,
    SpotPrice, Subnet, TemplateData, outcome,
};
use super::ec2::Reader;
use super::group::{Activity, Group, Launches, Machine, Mixed, Requirements, TemplateRef};
use super::origin::Origin;
use super::role::AssumedRole;
use headroom_observe::host::Host;
use headroom_provider::aws::{Role, Subnets};
use headroom_provider::gate::Gate;

/// Longest one attempt of a call may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(4);
/// Longest a call may take with its retries: less than the guard waits for a step.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(9);
/// Pages of activities that are read; the newest come first.
const ACTIVITY_PAGES_MAX: usize = 5;
/// Pages of groups that are read for one selector: ten thousand groups.
const GROUP_PAGES_MAX: usize = 100;
/// Items a page.
const PAGE: i32 = 100;

/// The calls of one region through the SDK.
pub(crate) struct Sdk {
    client: Client,
    reader: Reader,
    budget: Budget,
    host: Arc<Host>,
    gate: Arc<dyn Gate>,
}

/// The configuration of the usual chain: environment, profile, web identity, container, instance metadata. With `role`, what the
/// chain finds assumes that role, anew before its credentials end.
///
/// # Errors
/// If no region is set anywhere.
pub(crate) async fn load(region: Option<&str>, role: Option<&Role>) -> Result<SdkConfig, String> {
    let http =
        aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    if let Some(region) = region {
        loader = loader.region(Region::new(region.to_owned()));
    }
    let config = loader.load().await;
    if config.region().is_none() {
        return Err("no region is set: set provider.aws.region, or AWS_REGION in the environment".to_owned());
    }
    let Some(role) = role else { return Ok(config) };
    let assumed = SharedCredentialsProvider::new(AssumedRole::new(role, &config).await);
    Ok(config.into_builder().credentials_provider(assumed).build())
}

/// The budget of calls to Auto Scaling in a region.
pub(crate) fn budget(host: &Arc<Host>) -> Budget {
    Budget::new(host.clone(), 20, 5.0)
}

impl Sdk {
    /// Calls by this configuration.
    #[must_use]
    pub(crate) fn new(config: &SdkConfig, reader: Reader, host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .operation_timeout(OPERATION_TIMEOUT)
            .build();
        let service = ServiceConfig::from(config).timeout_config(timeouts).build();
        let budget = budget(&host);
        Self { client: Client::from_conf(service), reader, budget, host, gate }
    }

    /// Waits for the budget, makes one read, and reports its outcome.
    async fn read<T, E>(
        &self,
        action: &'static str,
        call: impl Future<Output = Result<T, SdkError<E>>>,
    ) -> Result<T, CallError>
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        self.budget.take(action).await?;
        let started = self.host.monotonic();
        let result = call.await.map_err(|error| failure(action, &error));
        let word = result.as_ref().map_or_else(|error| error.code.as_str(), |_| "200");
        let took = self.host.monotonic() - started;
        self.gate.read(action, word);
        self.gate.ended(action, outcome(&result), took);
        result
    }

    async fn groups(
        &self,
        filters: Option<Vec<Filter>>,
        names: &[Arc<str>],
    ) -> Result<Vec<Group>, CallError> {
        let action = "autoscaling:DescribeAutoScalingGroups";
        let (mut groups, mut token) = (Vec::new(), None);
        for _ in 0..GROUP_PAGES_MAX {
            let mut call = self.client.describe_auto_scaling_groups().max_records(PAGE).set_next_token(token);
            call = call.set_filters(filters.clone());
            if !names.is_empty() {
                let names = names.iter().map(|name| name.to_string()).collect();
                call = call.set_auto_scaling_group_names(Some(names));
            }
            let page = self.read(action, call.send()).await?;
            groups.extend(page.auto_scaling_groups().iter().map(group));
            token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
            if token.is_none() {
                return Ok(groups);
            }
        }
        Err(CallError::silent(action, "the selector matches more groups than can be read"))
    }

    async fn activity_pages(&self, group: &str, since: UnixTime) -> Result<Vec<Activity>, CallError> {
        let (mut activities, mut token) = (Vec::new(), None);
        let bound = Filter::builder().name("StartTimeLowerBound").values(since.to_jiff().to_string()).build();
        for _ in 0..ACTIVITY_PAGES_MAX {
            let call = self
                .client
                .describe_scaling_activities()
                .auto_scaling_group_name(group)
                .filters(bound.clone())
                .max_records(PAGE)
                .set_next_token(token);
            let page = self.read("autoscaling:DescribeScalingActivities", call.send()).await?;
            activities.extend(page.activities().iter().map(activity));
            token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
            if token.is_none() {
                break;
            }
        }
        Ok(activities)
    }
}

/// A write whose end is unknown is not repeated: the group is read again instead.
fn no_retries() -> ServiceConfig {
    ServiceConfig::default().retry_config(RetryConfig::disabled())
}

impl Calls for Sdk {
    fn groups_named<'a>(&'a self, names: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<Group>, CallError>> {
        Box::pin(
            async move { if names.is_empty() { Ok(Vec::new()) } else { self.groups(None, names).await } },
        )
    }

    fn groups_tagged<'a>(
        &'a self,
        tags: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Vec<Group>, CallError>> {
        Box::pin(self.groups(Some(tags.iter().map(|(key, value)| filter(key, value)).collect()), &[]))
    }

    fn activities<'a>(
        &'a self,
        group: &'a str,
        since: UnixTime,
    ) -> BoxFuture<'a, Result<Vec<Activity>, CallError>> {
        Box::pin(self.activity_pages(group, since))
    }

    fn set_desired<'a>(&'a self, group: &'a str, desired: u32) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:SetDesiredCapacity";
        Box::pin(async move {
            self.budget.take(action).await?;
            let desired =
                i32::try_from(desired).map_err(|_| CallError::not_sent(action, "too large a size"))?;
            let call = self
                .client
                .set_desired_capacity()
                .auto_scaling_group_name(group)
                .desired_capacity(desired)
                .honor_cooldown(false)
                .customize()
                .config_override(no_retries());
            call.send().await.map(|_| ()).map_err(|error| failure(action, &error))
        })
    }

    fn launch<'a>(&'a self, request: &'a Launch) -> BoxFuture<'a, Result<Launched, CallError>> {
        let action = "autoscaling:LaunchInstances";
        Box::pin(async move {
            self.budget.take(action).await?;
            let count = i32::try_from(request.count).map_err(|_| CallError::not_sent(action, "too many"))?;
            // Retries are safe here: the token makes the second call the first one's echo.
            let call = self
                .client
                .launch_instances()
                .auto_scaling_group_name(&*request.group)
                .requested_capacity(count)
                .client_token(&request.token)
                .retry_strategy(RetryStrategy::None);
            let output = call.send().await.map_err(|error| failure(action, &error))?;
            let ids = output.instances().iter().flat_map(|some| some.instance_ids());
            Ok(Launched {
                instances: ids.map(|id| Arc::from(id.as_str())).collect(),
                errors: output.errors().iter().map(launch_error).collect(),
            })
        })
    }

    fn terminate<'a>(&'a self, instance: &'a str, decrement: bool) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:TerminateInstanceInAutoScalingGroup";
        Box::pin(async move {
            self.budget.take(action).await?;
            let call = self
                .client
                .terminate_instance_in_auto_scaling_group()
                .instance_id(instance)
                .should_decrement_desired_capacity(decrement)
                .customize()
                .config_override(no_retries());
            call.send().await.map(|_| ()).map_err(|error| failure(action, &error))
        })
    }

    fn create_group<'a>(&'a self, group: &'a NewGroup) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:CreateAutoScalingGroup";
        Box::pin(async move {
            self.budget.take(action).await?;
            let max =
                i32::try_from(group.max).map_err(|_| CallError::not_sent(action, "too large a size"))?;
            // Its name makes a repeated call harmless; the caller looks whose group it is.
            let call = self
                .client
                .create_auto_scaling_group()
                .auto_scaling_group_name(&*group.name)
                .min_size(0)
                .max_size(max)
                .desired_capacity(0)
                .vpc_zone_identifier(&*group.subnet)
                .mixed_instances_policy(policy(group))
                .set_tags(Some(group.tags.iter().map(|(key, value)| tag(&group.name, key, value)).collect()));
            let call = call.customize().config_override(no_retries());
            call.send().await.map(|_| ()).map_err(|error| failure(action, &error))
        })
    }

    fn raise_max<'a>(&'a self, group: &'a str, max: u32) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:UpdateAutoScalingGroup";
        Box::pin(async move {
            self.budget.take(action).await?;
            let max = i32::try_from(max).map_err(|_| CallError::not_sent(action, "too large a size"))?;
            let call = self.client.update_auto_scaling_group().auto_scaling_group_name(group).max_size(max);
            call.send().await.map(|_| ()).map_err(|error| failure(action, &error))
        })
    }

    fn delete_group<'a>(&'a self, group: &'a str) -> BoxFuture<'a, Result<(), CallError>> {
        let action = "autoscaling:DeleteAutoScalingGroup";
        Box::pin(async move {
            self.budget.take(action).await?;
            let call = self.client.delete_auto_scaling_group().auto_scaling_group_name(group);
            let call = call.force_delete(false).customize().config_override(no_retries());
            call.send().await.map(|_| ()).map_err(|error| failure(action, &error))
        })
    }

    fn matching_types<'a>(
        &'a self,
        patterns: &'a [Arc<str>],
    ) -> BoxFuture<'a, Result<Vec<InstanceType>, CallError>> {
        Box::pin(self.reader.matching_types(patterns))
    }

    fn offers<'a>(&'a self, types: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<Offer>, CallError>> {
        Box::pin(self.reader.offers(types))
    }

    fn spot_prices<'a>(&'a self, types: &'a [Arc<str>]) -> BoxFuture<'a, Result<Vec<SpotPrice>, CallError>> {
        Box::pin(self.reader.spot_prices(types))
    }

    fn subnets<'a>(&'a self, which: &'a Subnets) -> BoxFuture<'a, Result<Vec<Subnet>, CallError>> {
        Box::pin(self.reader.subnets(which))
    }

    fn launch_configuration<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<TemplateData>, CallError>> {
        Box::pin(async move {
            let call = self.client.describe_launch_configurations().launch_configuration_names(name);
            let page = self.read("autoscaling:DescribeLaunchConfigurations", call.send()).await?;
            Ok(page.launch_configurations().first().map(|found| TemplateData {
                instance_type: found.instance_type().map(Arc::from),
                spot: found.spot_price().is_some(),
                requirements: None,
                version: name.into(),
            }))
        })
    }

    fn launch_template<'a>(
        &'a self,
        template: &'a TemplateRef,
    ) -> BoxFuture<'a, Result<Option<TemplateData>, CallError>> {
        Box::pin(self.reader.launch_template(template))
    }

    fn queue_url<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<str>, CallError>> {
        Box::pin(self.reader.queue_url(name))
    }

    fn receive<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<Message>, CallError>> {
        Box::pin(self.reader.receive(url))
    }

    fn delete_message<'a>(&'a self, url: &'a str, receipt: &'a str) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(self.reader.delete_message(url, receipt))
    }

    fn instance_types<'a>(
        &'a self,
        names: &'a [Arc<str>],
    ) -> BoxFuture<'a, Result<Vec<InstanceType>, CallError>> {
        Box::pin(self.reader.instance_types(names))
    }

    fn node_group<'a>(
        &'a self,
        cluster: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<NodeGroup>, CallError>> {
        Box::pin(self.reader.node_group(cluster, name))
    }
}

/// One type in one market, by the launch template.
fn policy(group: &NewGroup) -> types::MixedInstancesPolicy {
    let TemplateRef { id, name, version } = &group.template;
    let template = types::LaunchTemplateSpecification::builder()
        .set_launch_template_id(id.as_deref().map(str::to_owned))
        .set_launch_template_name(name.as_deref().map(str::to_owned))
        .version(&**version)
        .build();
    let machine = types::LaunchTemplateOverrides::builder().instance_type(&*group.instance_type).build();
    let launch = types::LaunchTemplate::builder().launch_template_specification(template).overrides(machine);
    let distribution = types::InstancesDistribution::builder()
        .on_demand_base_capacity(0)
        .on_demand_percentage_above_base_capacity(if group.spot { 0 } else { 100 });
    types::MixedInstancesPolicy::builder()
        .launch_template(launch.build())
        .instances_distribution(distribution.build())
        .build()
}

fn tag(group: &str, key: &str, value: &str) -> types::Tag {
    types::Tag::builder()
        .resource_id(group)
        .resource_type("auto-scaling-group")
        .key(key)
        .value(value)
        // Instances carry the tags too, so that their cost can be told apart.
        .propagate_at_launch(true)
        .build()
}

/// A key with its value, or with any.
fn filter(key: &str, value: &str) -> Filter {
    if value.is_empty() {
        Filter::builder().name("tag-key").values(key).build()
    } else {
        Filter::builder().name(format!("tag:{key}")).values(value).build()
    }
}

/// A failure of the SDK in our words.
fn failure<E>(action: &'static str, error: &SdkError<E>) -> CallError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    if let (Some(service), Some(raw)) = (error.as_service_error(), error.raw_response()) {
        let (code, message) = (service.code().unwrap_or_default(), service.message().unwrap_or_default());
        return CallError::answered(action, raw.status().as_u16(), code, message);
    }
    if let SdkError::DispatchFailure(dispatch) = error
        && let Some(words) = credentials_failure(dispatch)
    {
        let message = words;
        let kind = super::calls::Trouble::Credentials;
        return CallError { action, kind, code: "NoCredentials".to_owned(), message };
    }
    CallError::silent(action, DisplayErrorContext(error).to_string())
}

/// The words of a dispatch failure that came from the search for credentials: nothing was sent then.
fn credentials_failure(dispatch: &aws_smithy_runtime_api::client::result::DispatchFailure) -> Option<String> {
    let connector = dispatch.as_connector_error()?;
    let words = DisplayErrorContext(connector).to_string();
    let sought = words.contains("CredentialsError") || words.contains("credential");
    sought.then(|| format!("no credentials were found: {}", with_causes(connector)))
}

fn group(found: &types::AutoScalingGroup) -> Group {
    let count = |number: Option<i32>| u32::try_from(number.unwrap_or(0)).unwrap_or(0);
    let mut zones: Vec<Arc<str>> =
        found.availability_zones().iter().map(|zone| zone.as_str().into()).collect();
    zones.sort();
    let tags = found
        .tags()
        .iter()
        .filter_map(|tag| Some((tag.key()?.to_owned(), tag.value().unwrap_or_default().to_owned())));
    let suspended = found.suspended_processes().iter().filter_map(|process| process.process_name());
    Group {
        name: found.auto_scaling_group_name().unwrap_or_default().into(),
        account: found
            .auto_scaling_group_arn()
            .and_then(|arn| arn.split(':').nth(4))
            .unwrap_or_default()
            .into(),
        min: count(found.min_size()),
        max: count(found.max_size()),
        desired: count(found.desired_capacity()),
        zones,
        instances: found.instances().iter().map(machine).collect(),
        tags: tags.collect(),
        suspended: suspended.map(str::to_owned).collect(),
        being_deleted: found.status().is_some_and(|status| status.starts_with("Delete")),
        launches: launches(found),
        weighted: weighted(found),
    }
}

fn machine(found: &types::Instance) -> Machine {
    Machine {
        id: found.instance_id().unwrap_or_default().into(),
        zone: found.availability_zone().unwrap_or_default().into(),
        type_: found.instance_type().unwrap_or_default().into(),
        lifecycle: found.lifecycle_state().map(|state| state.as_str().to_owned()).unwrap_or_default(),
        healthy: found.health_status().is_none_or(|health| health.eq_ignore_ascii_case("healthy")),
        protected: found.protected_from_scale_in().unwrap_or(false),
        origin: found.launch_template().map(template_ref).map(Origin::Template).or_else(|| {
            let name = found.launch_configuration_name().filter(|name| !name.is_empty())?;
            Some(Origin::Configuration(name.into()))
        }),
    }
}

fn template_ref(found: &types::LaunchTemplateSpecification) -> TemplateRef {
    TemplateRef {
        id: found.launch_template_id().map(Arc::from),
        name: found.launch_template_name().map(Arc::from),
        version: found.version().filter(|version| !version.is_empty()).unwrap_or("$Default").into(),
    }
}

/// Returns the launch settings of a group: its launch configuration, its launch template, or its mixed instances
/// policy.
///
/// Source: Cluster Autoscaler, cloudprovider/aws/auto_scaling_groups.go, buildAsgFromAWS.
fn launches(found: &types::AutoScalingGroup) -> Launches {
    if let Some(name) = found.launch_configuration_name().filter(|name| !name.is_empty()) {
        return Launches::Configuration(name.into());
    }
    if let Some(template) = found.launch_template() {
        return Launches::Template(template_ref(template));
    }
    let Some(policy) = found.mixed_instances_policy() else { return Launches::Unknown };
    let Some(launch) = policy.launch_template() else { return Launches::Unknown };
    let overrides = launch.overrides();
    let types = overrides.iter().filter_map(|one| {
        let template = one.launch_template_specification().map(template_ref);
        Some((Arc::from(one.instance_type()?), template))
    });
    let distribution = policy.instances_distribution();
    let base = distribution.and_then(|d| d.on_demand_base_capacity()).unwrap_or(0);
    // The service's default: everything on demand.
    let percent = distribution.and_then(|d| d.on_demand_percentage_above_base_capacity()).unwrap_or(100);
    Launches::Mixed(Mixed {
        template: launch.launch_template_specification().map(template_ref).unwrap_or_default(),
        types: types.collect(),
        requirements: overrides.iter().find_map(|one| one.instance_requirements()).map(requirements),
        on_demand: 0 < base || 0 < percent,
        spot: percent < 100,
    })
}

fn requirements(found: &types::InstanceRequirements) -> Requirements {
    let cpus = found.v_cpu_count().and_then(types::VCpuCountRequest::min);
    let memory_mib = found.memory_mib().and_then(types::MemoryMiBRequest::min);
    Requirements {
        cpus: cpus.and_then(|least| u32::try_from(least).ok()).unwrap_or(0),
        memory_mib: memory_mib.and_then(|least| u64::try_from(least).ok()).unwrap_or(0),
    }
}

/// Reason why desired capacity is not a count of nodes.
fn weighted(found: &types::AutoScalingGroup) -> Option<String> {
    if let Some(unit) = found.desired_capacity_type().filter(|unit| !unit.is_empty() && *unit != "units") {
        return Some(format!("its desired capacity counts {unit}"));
    }
    let overrides = found.mixed_instances_policy()?.launch_template()?.overrides();
    let weight = overrides.iter().find_map(|one| one.weighted_capacity().filter(|weight| *weight != "1"))?;
    Some(format!("its types have weights, such as {weight}"))
}

fn activity(found: &types::Activity) -> Activity {
    Activity {
        id: found.activity_id().unwrap_or_default().to_owned(),
        description: found.description().unwrap_or_default().to_owned(),
        status: found.status_code().map(|status| status.as_str().to_owned()).unwrap_or_default(),
        message: found.status_message().unwrap_or_default().to_owned(),
        details: found.details().unwrap_or_default().to_owned(),
        started_at: UnixTime(found.start_time().map_or(0, |at| at.secs())),
    }
}

fn launch_error(found: &types::LaunchInstancesError) -> LaunchError {
    LaunchError {
        code: found.error_code().unwrap_or_default().to_owned(),
        message: found.error_message().unwrap_or_default().to_owned(),
        zone: found.availability_zone().map(Arc::from),
        instance_type: found.instance_type().map(Arc::from),
        market: found.market_type().map(Arc::from),
    }
}
