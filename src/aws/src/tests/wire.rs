//! The calls over the SDK and the small client, against scripted answers on the wire.

use std::sync::{Arc, Mutex};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use futures::future::BoxFuture;

use super::super::calls::{Calls, Trouble};
use super::super::ec2::Reader;
use super::super::group::{Launches, Requirements, TemplateRef};
use super::super::sdk::Sdk;
use headroom_observe::host::Host;
use headroom_provider::gate::{Closed, End, Gate};

/// Answers in their order, and the bodies that were sent.
#[derive(Clone, Debug, Default)]
struct Script {
    answers: Arc<Mutex<Vec<(u16, String)>>>,
    sent: Arc<Mutex<Vec<String>>>,
}

impl HttpConnector for Script {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let signed = request.headers().get("authorization").unwrap_or_default().to_owned();
        let line = format!("{} {} {}", request.uri(), body.unwrap_or_default(), signed);
        self.sent.lock().expect("no panic inside").push(line);
        let (status, text) = self.answers.lock().expect("no panic inside").remove(0);
        let status = http::StatusCode::from_u16(status).expect("a status");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status.into(), SdkBody::from(text))))
    }
}

/// Name and outcome of each call.
#[derive(Default)]
struct Open(std::sync::Mutex<Vec<(&'static str, &'static str)>>);

impl Gate for Open {
    fn pass<'a>(&'a self, _: String, call: BoxFuture<'a, End>) -> BoxFuture<'a, Result<(), Closed>> {
        Box::pin(async move {
            call.await;
            Ok(())
        })
    }
    fn read(&self, _: &str, _: &str) {}
    fn ended(&self, action: &'static str, outcome: &'static str, _: std::time::Duration) {
        self.0.lock().expect("no panic inside").push((action, outcome));
    }
}

fn calls(answers: &[(u16, &str)]) -> (Sdk, Script) {
    let (sdk, script, _) = watched(answers);
    (sdk, script)
}

fn watched(answers: &[(u16, &str)]) -> (Sdk, Script, Arc<Open>) {
    let script = Script::default();
    *script.answers.lock().expect("no panic inside") =
        answers.iter().map(|(status, text)| (*status, (*text).to_owned())).collect();
    let connector = SharedHttpConnector::new(script.clone());
    let for_sdk = connector.clone();
    let credentials = Credentials::new("AKID", "secret", None, None, "test");
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(http_client_fn(move |_, _| for_sdk.clone()))
        .build();
    let host = Host::machine();
    let seen = Arc::new(Open::default());
    let gate: Arc<dyn Gate> = seen.clone();
    let reader = Reader::over(connector, &config, host.clone(), gate.clone());
    (Sdk::new(&config, reader, host, gate), script, seen)
}

const GROUPS: &str = r#"<DescribeAutoScalingGroupsResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">
<DescribeAutoScalingGroupsResult><AutoScalingGroups><member>
<AutoScalingGroupName>web-a</AutoScalingGroupName><MinSize>1</MinSize><MaxSize>9</MaxSize>
<DesiredCapacity>2</DesiredCapacity>
<AvailabilityZones><member>eu-west-1b</member><member>eu-west-1a</member></AvailabilityZones>
<MixedInstancesPolicy><LaunchTemplate><LaunchTemplateSpecification><LaunchTemplateId>lt-1</LaunchTemplateId>
<Version>$Latest</Version></LaunchTemplateSpecification><Overrides><member><InstanceType>m5.large</InstanceType></member>
<member><InstanceType>m5a.large</InstanceType></member></Overrides></LaunchTemplate>
<InstancesDistribution><OnDemandPercentageAboveBaseCapacity>0</OnDemandPercentageAboveBaseCapacity>
</InstancesDistribution></MixedInstancesPolicy>
<Instances><member><InstanceId>i-0a</InstanceId><AvailabilityZone>eu-west-1a</AvailabilityZone>
<LifecycleState>SomethingNew</LifecycleState><HealthStatus>Healthy</HealthStatus>
<ProtectedFromScaleIn>true</ProtectedFromScaleIn></member></Instances>
<SuspendedProcesses><member><ProcessName>AZRebalance</ProcessName></member></SuspendedProcesses>
<Tags><member><Key>k</Key><Value>v</Value></member></Tags>
</member></AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>"#;

#[tokio::test]
async fn a_group_is_read_word_for_word() {
    let (calls, script) = calls(&[(200, GROUPS)]);
    let groups = calls.groups_named(&["web-a".into()]).await.expect("an answer");
    let group = &groups[0];
    assert_eq!((group.min, group.desired, group.max, group.zones.len()), (1, 2, 9, 2));
    assert_eq!(&*group.zones[0], "eu-west-1a");
    assert_eq!(group.instances[0].lifecycle, "SomethingNew");
    let Launches::Mixed(mixed) = &group.launches else { panic!("a mixed policy: {group:?}") };
    assert_eq!((mixed.types.len(), mixed.on_demand, mixed.spot), (2, false, true));
    assert_eq!(mixed.template.version, "$Latest".into());
    assert!(group.suspended.contains("AZRebalance") && group.weighted.is_none());
    assert!(script.sent.lock().expect("no panic inside")[0].contains("AutoScalingGroupNames.member.1=web-a"));
}

#[tokio::test]
async fn requirements_in_place_of_types_are_read_from_groups_and_from_templates() {
    let described = "<InstanceRequirements><VCpuCount><Min>4</Min></VCpuCount><MemoryMiB><Min>16384</Min></MemoryMiB>\
        </InstanceRequirements>";
    let groups = GROUPS
        .replace("<member><InstanceType>m5a.large</InstanceType></member>", "")
        .replace("<InstanceType>m5.large</InstanceType>", described);
    let template = "<DescribeLaunchTemplateVersionsResponse><launchTemplateVersionSet><item><versionNumber>7</versionNumber>\
        <launchTemplateData><instanceRequirements><vCpuCount><min>2</min><max>8</max></vCpuCount>\
        <memoryMiB><min>4096</min></memoryMiB></instanceRequirements></launchTemplateData></item>\
        </launchTemplateVersionSet></DescribeLaunchTemplateVersionsResponse>";
    let (calls, _) = calls(&[(200, &groups), (200, template)]);
    let found = calls.groups_named(&["web-a".into()]).await.expect("an answer");
    let Launches::Mixed(mixed) = &found[0].launches else { panic!("a mixed policy: {found:?}") };
    let least = Requirements { cpus: 4, memory_mib: 16_384 };
    assert_eq!((mixed.types.len(), mixed.requirements), (0, Some(least)));
    let data = calls.launch_template(&mixed.template).await.expect("an answer").expect("a version");
    assert_eq!(data.requirements, Some(Requirements { cpus: 2, memory_mib: 4_096 }));
}

fn error(code: &str) -> String {
    format!(
        "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>words</Message></Error></ErrorResponse>"
    )
}

#[tokio::test]
async fn a_write_that_failed_is_sent_once_and_its_code_is_reported() {
    let text = error("ResourceContention");
    let (calls, script) = calls(&[(500, &text), (500, &text)]);
    let failed = calls.set_desired("web-a", 3).await.expect_err("refused");
    assert_eq!((failed.kind, failed.code.as_str()), (Trouble::Contention, "ResourceContention"));
    let sent = script.sent.lock().expect("no panic inside").clone();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].contains("DesiredCapacity=3") && sent[0].contains("HonorCooldown=false"), "{sent:?}");
}

#[tokio::test]
async fn a_throttled_read_is_tried_again() {
    let text = error("Throttling");
    let (calls, script) = calls(&[(400, &text), (200, GROUPS)]);
    assert_eq!(calls.groups_named(&["web-a".into()]).await.expect("the second time").len(), 1);
    assert_eq!(script.sent.lock().expect("no panic inside").len(), 2);
}

#[tokio::test]
async fn the_outcome_of_each_call_is_reported_by_its_action_in_words_of_a_closed_set() {
    let (throttled, denied) = (error("Throttling"), error("AccessDenied"));
    let answers =
        [(200, GROUPS), (403, denied.as_str()), (400, throttled.as_str()), (400, throttled.as_str())];
    let (calls, _, seen) = watched(&[&answers[..], &answers[2..]].concat());
    for _ in 0..3 {
        // The reported outcomes are checked below.
        let _ = calls.groups_named(&["web-a".into()]).await;
    }
    let action = "autoscaling:DescribeAutoScalingGroups";
    let outcomes = seen.0.lock().expect("no panic inside").clone();
    assert_eq!(outcomes, [(action, "ok"), (action, "denied"), (action, "throttled")]);
}

#[tokio::test]
async fn ec2_is_read_by_signed_requests() {
    let types = "<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>g5.xlarge</instanceType>\
        <vCpuInfo><defaultVCpus>4</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo>\
        <processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo>\
        <networkInfo><maximumNetworkInterfaces>4</maximumNetworkInterfaces>\
        <ipv4AddressesPerInterface>15</ipv4AddressesPerInterface></networkInfo>\
        <gpuInfo><gpus><item><manufacturer>NVIDIA</manufacturer><count>1</count></item></gpus></gpuInfo></item>\
        <item><instanceType>unasked</instanceType></item></instanceTypeSet></DescribeInstanceTypesResponse>";
    let (calls, script) = calls(&[(200, types)]);
    let found = calls.instance_types(&["g5.xlarge".into()]).await.expect("an answer");
    let types: Vec<_> =
        found.iter().map(|one| (&*one.name, one.cpus, one.memory_mib, one.gpus, one.interfaces)).collect();
    assert_eq!(types, [("g5.xlarge", 4, 16384, 1, 4)]);
    let sent = script.sent.lock().expect("no panic inside")[0].clone();
    assert!(sent.contains("AWS4-HMAC-SHA256 Credential=AKID/") && sent.contains("/eu-west-1/ec2/"), "{sent}");
}

#[tokio::test]
async fn a_template_that_does_not_exist_is_no_error_and_a_missing_permission_is() {
    let refusal = |code: &str| {
        format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>no</Message></Error></Errors></Response>"
        )
    };
    let (missing, denied) = (refusal("InvalidLaunchTemplateId.NotFound"), refusal("UnauthorizedOperation"));
    let (calls, _) = calls(&[(400, &missing), (403, &denied)]);
    let template = TemplateRef { id: Some("lt-1".into()), name: None, version: "$Latest".into() };
    assert_eq!(calls.launch_template(&template).await, Ok(None));
    let error = calls.launch_template(&template).await.expect_err("denied");
    assert_eq!(error.kind, Trouble::Denied);
    assert!(error.in_words().contains("ec2:DescribeLaunchTemplateVersions is not permitted"), "{error:?}");
}

#[tokio::test]
async fn an_eks_node_group_is_read_with_taints_that_have_no_value() {
    let text = r#"{"nodegroup": {"labels": {"a": "b"}, "taints": [{"key": "k", "effect": "NO_EXECUTE"}],
        "capacityType": "SPOT", "status": "UPDATING"}}"#;
    let (calls, script) = calls(&[(200, text)]);
    let found = calls.node_group("prod", "web/a").await.expect("an answer").expect("a node group");
    assert_eq!(found.taints, [("k".to_owned(), String::new(), "NO_EXECUTE".to_owned())]);
    assert_eq!((found.capacity_type.as_str(), found.status.as_str()), ("SPOT", "UPDATING"));
    assert!(script.sent.lock().expect("no panic inside")[0].contains("/clusters/prod/node-groups/web%2Fa"));
}

#[tokio::test]
async fn an_answer_of_more_than_8_mib_is_left() {
    let large = " ".repeat((8 << 20) + 1);
    for status in [200, 500] {
        // Three tries of each: a read may be repeated.
        let (calls, _) = calls(&[(status, &large), (status, &large), (status, &large)]);
        let template = TemplateRef { id: Some("lt-1".into()), name: None, version: "7".into() };
        let error = calls.launch_template(&template).await.expect_err("too large");
        assert_eq!(error.message, "the answer has more than 8 MiB");
    }
}

#[tokio::test]
async fn a_queue_is_read_and_its_messages_deleted_in_json() {
    let url = r#"{"QueueUrl":"https://sqs.eu-west-1.amazonaws.com/1/events"}"#;
    let messages = r#"{"Messages":[{"MessageId":"m1","ReceiptHandle":"r1","MD5OfBody":"x","Body":"{}"},{"Body":"no id"}]}"#;
    let (calls, script) = calls(&[(200, url), (200, messages), (200, "{}"), (200, "")]);
    let found = calls.queue_url("events").await.expect("an address");
    assert!(found.ends_with("/1/events"));
    let read = calls.receive(&found).await.expect("messages");
    assert_eq!(read.len(), 1, "a message without an id cannot be identified: it comes again");
    assert_eq!((&*read[0].id, read[0].receipt.as_str(), read[0].body.as_str()), ("m1", "r1", "{}"));
    assert!(calls.receive(&found).await.expect("no messages").is_empty());
    calls.delete_message(&found, "r1").await.expect("deleted");
    let sent = script.sent.lock().expect("no panic inside");
    assert!(sent[0].starts_with("https://sqs.eu-west-1.amazonaws.com/ "), "{}", sent[0]);
    assert!(
        sent[1].contains(r#""MaxNumberOfMessages":10"#) && sent[1].contains("/sqs/aws4_request"),
        "{}",
        sent[1]
    );
    assert!(sent[3].contains(r#""ReceiptHandle":"r1""#), "{}", sent[3]);
}

#[tokio::test]
async fn a_refusal_of_the_queue_is_read_and_the_call_is_not_repeated() {
    let refused = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no such queue"}"#;
    let (calls, _) = calls(&[(400, refused), (500, "")]);
    let error = calls.queue_url("events").await.expect_err("refused");
    assert_eq!((error.code.as_str(), error.kind), ("QueueDoesNotExist", Trouble::Invalid));
    assert_eq!(calls.receive("u").await.expect_err("a fault").kind, Trouble::Unknown);
}

#[tokio::test]
async fn spot_prices_are_read_page_by_page_for_the_present_moment() {
    let item = |zone: &str, price: &str, at: &str| {
        format!(
            "<item><instanceType>m7i.large</instanceType><productDescription>Linux/UNIX</productDescription>\
             <spotPrice>{price}</spotPrice><timestamp>{at}</timestamp><availabilityZone>{zone}</availabilityZone></item>"
        )
    };
    let page = |items: &str, token: &str| {
        format!(
            "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>{items}</spotPriceHistorySet>\
             <nextToken>{token}</nextToken></DescribeSpotPriceHistoryResponse>"
        )
    };
    let first = page(&item("eu-west-1a", "0.0384001", "2026-11-27T07:00:00.000Z"), "more");
    let bad =
        item("eu-west-1a", "free", "2026-11-27T07:00:00.000Z") + &item("eu-west-1a", "0.1", "yesterday");
    let second = page(&(item("eu-west-1b", "1.5", "2026-11-27T07:30:00Z") + &bad), "");
    let (calls, script) = calls(&[(200, &first), (200, &second)]);
    let prices = calls.spot_prices(&["m7i.large".into()]).await.expect("an answer");
    let read: Vec<_> = prices.iter().map(|price| (&*price.zone, price.per_hour_micro)).collect();
    assert_eq!(read, [("eu-west-1a", 38_401), ("eu-west-1b", 1_500_000)]);
    assert_eq!(prices[1].at.0 - prices[0].at.0, 1_800);
    let sent = script.sent.lock().expect("no panic inside").clone();
    assert!(
        sent[0].contains("Action=DescribeSpotPriceHistory") && sent[0].contains("InstanceType.1=m7i.large")
    );
    assert!(sent[0].contains("StartTime=20") && sent[0].contains("EndTime=20"), "{}", sent[0]);
    assert!(sent[1].contains("NextToken=more"), "{}", sent[1]);
}

/// Finds credentials that end, counts how often, and fails on demand.
#[derive(Clone, Debug)]
struct Ending {
    until: std::time::SystemTime,
    found: Arc<Mutex<u32>>,
    fails: Arc<Mutex<bool>>,
}

impl ProvideCredentials for Ending {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        if *self.fails.lock().expect("no panic inside") {
            return future::ProvideCredentials::ready(Err(CredentialsError::provider_error("STS is away")));
        }
        *self.found.lock().expect("no panic inside") += 1;
        future::ProvideCredentials::ready(Ok(Credentials::new(
            "AKID",
            "secret",
            None,
            Some(self.until),
            "test",
        )))
    }
}

/// A reader whose credentials end after so long, with so many answers ready.
fn reading_until(left: std::time::Duration, answers: usize) -> (Reader, Ending) {
    let script = Script::default();
    script.answers.lock().expect("no panic inside").extend(vec![(200, "<a/>".to_owned()); answers]);
    let host = Host::machine();
    let until = std::time::SystemTime::from(host.wall()) + left;
    let ending = Ending { until, found: Arc::default(), fails: Arc::default() };
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(ending.clone()))
        .build();
    let reader = Reader::over(SharedHttpConnector::new(script), &config, host, Arc::new(Open::default()));
    (reader, ending)
}

#[tokio::test]
async fn credentials_that_end_are_found_once_and_anew_before_their_end() {
    let types: [Arc<str>; 1] = ["m5.large".into()];
    for (left, times) in [(3_600, 1), (200, 3)] {
        let (reader, ending) = reading_until(std::time::Duration::from_secs(left), 3);
        for _ in 0..3 {
            reader.instance_types(&types).await.expect("an answer");
        }
        assert_eq!(*ending.found.lock().expect("no panic inside"), times, "{left} s");
    }
}

#[tokio::test]
async fn credentials_are_used_to_their_end_where_no_others_are_found() {
    let types: [Arc<str>; 1] = ["m5.large".into()];
    let (reader, ending) = reading_until(std::time::Duration::from_secs(200), 2);
    reader.instance_types(&types).await.expect("an answer");
    *ending.fails.lock().expect("no panic inside") = true;
    reader.instance_types(&types).await.expect("an answer");
    let (reader, ending) = reading_until(std::time::Duration::from_secs(200), 1);
    *ending.fails.lock().expect("no panic inside") = true;
    let error = reader.instance_types(&types).await.expect_err("no credentials");
    assert!(error.kind == Trouble::Credentials && error.message.contains("STS is away"), "{error:?}");
}
