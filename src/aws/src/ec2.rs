//! The few calls to EC2, EKS and SQS, by a small client: the official one of EC2 takes 7.4 GB to compile.
//!
//! Requests are signed by the official crate and carried by the SDK's own connector; credentials and region are the
//! SDK's too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_runtime_api::http::Request;
use aws_smithy_types::body::SdkBody;
use headroom_core::text::with_causes;
use headroom_core::time::UnixTime;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::budget::Budget;
use super::calls::{
    CallError, InstanceType, NodeGroup, Offer, SpotPrice, Subnet, TemplateData, Trouble, outcome,
};
use super::group::{Requirements, TemplateRef};
use super::xml::{self, Element};
use headroom_observe::host::Host;
use headroom_provider::aws::Subnets;
use headroom_provider::gate::Gate;

/// Longest one attempt may take, its body included.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);
/// The same for a call to SQS.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);
/// Attempts of one read.
const ATTEMPTS_MAX: u32 = 3;
/// Largest answer that is read, in bytes: a hundred types of machine are less than 1 MiB.
const ANSWER_MAX_BYTES: usize = 8 << 20;
/// Pause before the second attempt; doubled for the third, with jitter.
const PAUSE: Duration = Duration::from_millis(300);
/// The one action that writes.
pub(super) const DELETE_MESSAGE: &str = "sqs:DeleteMessage";
/// The version of EC2's interface.
const EC2_VERSION: &str = "2016-11-15";
/// Most pages of one answer: all types of a region are some ten.
const PAGES_MAX: usize = 40;
/// Time before their end from which credentials are renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(300);
/// Names in one call for instance types.
const TYPES_PER_CALL: usize = 100;

/// Reads EC2, EKS and SQS of one region.
pub struct Reader {
    config: SdkConfig,
    connector: SharedHttpConnector,
    region: String,
    ec2: Service,
    eks: Service,
    sqs: Service,
    host: Arc<Host>,
    gate: Arc<dyn Gate>,
    /// Credentials of the last call, for as long as they are good.
    kept: tokio::sync::Mutex<Option<Credentials>>,
}

/// The budget of calls to EC2 in a region; that of EKS is as large.
pub(crate) fn budget(host: &Arc<Host>) -> Budget {
    Budget::new(host.clone(), 20, 2.0)
}

/// Method, path and headers of a request.
type Head<'h> = (&'h str, &'h str, &'h [(&'h str, &'h str)]);

struct Service {
    name: &'static str,
    endpoint: String,
    budget: Budget,
    /// Attempts of one call, and the longest that each may take, its body included.
    attempts: u32,
    timeout: Duration,
}

impl Reader {
    /// A reader by this configuration.
    #[must_use]
    pub fn new(config: &SdkConfig, host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build();
        Self::over(SharedHttpConnector::new(connector), config, host, gate)
    }

    /// A reader over this connector.
    #[must_use]
    pub fn over(
        connector: SharedHttpConnector,
        config: &SdkConfig,
        host: Arc<Host>,
        gate: Arc<dyn Gate>,
    ) -> Self {
        let region = config.region().map(ToString::to_string).unwrap_or_default();
        let service = |name: &'static str, variable: &str, host: &Arc<Host>| Service {
            name,
            endpoint: endpoint(name, variable, config, &region),
            budget: budget(host),
            attempts: ATTEMPTS_MAX,
            timeout: ATTEMPT_TIMEOUT,
        };
        let ec2 = service("ec2", "AWS_ENDPOINT_URL_EC2", &host);
        let eks = service("eks", "AWS_ENDPOINT_URL_EKS", &host);
        let sqs = Service {
            budget: Budget::new(host.clone(), 50, 10.0),
            // It is asked again in a moment, and what waits for its answer is every decision on nodes.
            attempts: 1,
            timeout: QUEUE_TIMEOUT,
            ..service("sqs", "AWS_ENDPOINT_URL_SQS", &host)
        };
        let kept = tokio::sync::Mutex::default();
        Self { config: config.clone(), connector, region, ec2, eks, sqs, host, gate, kept }
    }

    /// Credentials for a call. Those that end are found once and kept until they soon do: to find them takes a call to STS, or to
    /// the metadata service. Those that never end are read anew, since nothing shows when they are changed.
    async fn credentials(&self) -> Result<Credentials, String> {
        let mut kept = self.kept.lock().await;
        let now = self.host.wall().into();
        let left = |kept: &Credentials| kept.expiry().and_then(|end| end.duration_since(now).ok());
        if let Some(kept) = kept.as_ref().filter(|kept| left(kept).is_some_and(|left| RENEWED_BEFORE < left))
        {
            return Ok(kept.clone());
        }
        let found = match self.config.credentials_provider() {
            Some(provider) => provider.provide_credentials().await.map_err(|error| with_causes(&error)),
            None => Err("no credentials are configured".to_owned()),
        };
        match (found, kept.as_ref()) {
            (Ok(found), _) => Ok(kept.insert(found).clone()),
            // They are good until their end.
            (Err(_), Some(kept)) if left(kept).is_some() => Ok(kept.clone()),
            (Err(words), _) => Err(words),
        }
    }

    /// Reads a version of a launch template; `None` when there is no such template or version.
    ///
    /// # Errors
    /// [`CallError`] when EC2 did not answer, or not with that.
    pub async fn launch_template(&self, template: &TemplateRef) -> Result<Option<TemplateData>, CallError> {
        let action = "ec2:DescribeLaunchTemplateVersions";
        let mut form = vec![("LaunchTemplateVersion.1".to_owned(), template.version.to_string())];
        match (&template.id, &template.name) {
            (Some(id), _) => form.push(("LaunchTemplateId".to_owned(), id.to_string())),
            (None, Some(name)) => form.push(("LaunchTemplateName".to_owned(), name.to_string())),
            (None, None) => return Ok(None),
        }
        let answer = match self.ec2(action, form).await {
            Ok(answer) => answer,
            Err(error) if error.code.starts_with("InvalidLaunchTemplate") => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = answer.child("launchTemplateVersionSet").and_then(|set| set.child("item"));
        Ok(found.map(|found| {
            let data = found.child("launchTemplateData");
            let text = |name: &str| data.and_then(|data| data.text(name)).map(Arc::from);
            let market = data.and_then(|data| data.child("instanceMarketOptions"));
            TemplateData {
                instance_type: text("instanceType"),
                spot: market.and_then(|market| market.text("marketType")) == Some("spot"),
                requirements: data.and_then(|data| data.child("instanceRequirements")).map(requirements),
                version: found.text("versionNumber").unwrap_or(&template.version).into(),
            }
        }))
    }

    /// Reads these instance types; types that do not exist are left out.
    ///
    /// # Errors
    /// [`CallError`] when EC2 did not answer, or not with that.
    pub async fn instance_types(&self, names: &[Arc<str>]) -> Result<Vec<InstanceType>, CallError> {
        let action = "ec2:DescribeInstanceTypes";
        let mut types = Vec::new();
        for names in names.chunks(TYPES_PER_CALL) {
            // A filter, not names: EC2 refuses the whole call for one name that it does not know.
            let mut form = vec![("Filter.1.Name".to_owned(), "instance-type".to_owned())];
            for (index, name) in names.iter().enumerate() {
                form.push((format!("Filter.1.Value.{}", index + 1), name.to_string()));
            }
            let answer = self.ec2(action, form).await?;
            let items = answer.child("instanceTypeSet").map(|set| set.children("item")).into_iter().flatten();
            types.extend(items.map(instance_type));
        }
        // Whatever the filter let through, only what was asked for is taken.
        types.retain(|found| names.contains(&found.name));
        Ok(types)
    }

    /// The instance types whose names match one of these patterns; all types for none.
    ///
    /// # Errors
    /// [`CallError`] when EC2 did not answer, or not with that.
    pub async fn matching_types(&self, patterns: &[Arc<str>]) -> Result<Vec<InstanceType>, CallError> {
        let mut form = vec![("MaxResults".to_owned(), "100".to_owned())];
        if !patterns.is_empty() {
            form.extend(filter(1, "instance-type", patterns));
        }
        let items = self.pages("ec2:DescribeInstanceTypes", form, "instanceTypeSet").await?;
        Ok(items.iter().map(instance_type).collect())
    }

    /// The zones in which these types are offered: type and zone.
    ///
    /// # Errors
    /// [`CallError`] when EC2 did not answer, or not with that.
    pub async fn offers(&self, types: &[Arc<str>]) -> Result<Vec<Offer>, CallError> {
        let mut offers = Vec::new();
        for types in types.chunks(TYPES_PER_CALL) {
            let mut form = vec![
                ("LocationType".to_owned(), "availability-zone".to_owned()),
                ("MaxResults".to_owned(), "1000".to_owned()),
            ];
            form.extend(filter(1, "instance-type", types));
            let items =
                self.pages("ec2:DescribeInstanceTypeOfferings", form, "instanceTypeOfferingSet").await?;
            let offer = |item: &Element| {
                Some((Arc::from(item.text("instanceType")?), Arc::from(item.text("location")?)))
            };
            offers.extend(items.iter().filter_map(offer));
        }
        Ok(offers)
    }

    /// Present prices of these types on the spot market for Linux, by zone. One price of a type and zone for each product that
    /// AWS tells apart, and those that have changed meanwhile, may be among them.
    ///
    /// # Errors
    /// [`CallError`] when EC2 did not answer, or not with that.
    pub async fn spot_prices(&self, types: &[Arc<str>]) -> Result<Vec<SpotPrice>, CallError> {
        let now = self.host.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut prices = Vec::new();
        for types in types.chunks(TYPES_PER_CALL) {
            // From now to now: the prices that hold, and not their history.
            let mut form = vec![
                ("StartTime".to_owned(), now.clone()),
                ("EndTime".to_owned(), now.clone()),
                ("ProductDescription.1".to_owned(), "Linux/UNIX".to_owned()),
                ("ProductDescription.2".to_owned(), "Linux/UNIX (Amazon VPC)".to_owned()),
                ("MaxResults".to_owned(), "1000".to_owned()),
            ];
            let name =
                |(index, name): (usize, &Arc<str>)| (format!("InstanceType.{}", index + 1), name.to_string());
            form.extend(types.iter().enumerate().map(name));
            let items = self.pages("ec2:DescribeSpotPriceHistory", form, "spotPriceHistorySet").await?;
            prices.extend(items.iter().filter_map(spot_price));
        }
        Ok(prices)
    }

    /// Subnets by id or by tags; those that do not exist are left out.
    ///
    /// # Errors
    /// [`CallError`] when EC2 did not answer, or not with that.
    pub async fn subnets(&self, which: &Subnets) -> Result<Vec<Subnet>, CallError> {
        // Filters, not ids: EC2 refuses the whole call for one id that it does not know.
        let form: Vec<(String, String)> = match which {
            Subnets::Id(id) => filter(1, "subnet-id", &[id.as_str().into()]).collect(),
            Subnets::Tags(tags) => {
                let one = |(index, (key, value)): (usize, (&String, &String))| match value.is_empty() {
                    true => filter(index + 1, "tag-key", &[key.as_str().into()]).collect::<Vec<_>>(),
                    false => {
                        filter(index + 1, &format!("tag:{key}"), &[value.as_str().into()]).collect::<Vec<_>>()
                    }
                };
                tags.iter().enumerate().flat_map(one).collect()
            }
        };
        let items = self.pages("ec2:DescribeSubnets", form, "subnetSet").await?;
        let subnet = |item: &Element| {
            let (id, zone) = (item.text("subnetId")?, item.text("availabilityZone")?);
            Some(Subnet { id: id.into(), zone: zone.into() })
        };
        Ok(items.iter().filter_map(subnet).collect())
    }

    /// The items of all pages of an answer.
    async fn pages(
        &self,
        action: &'static str,
        form: Vec<(String, String)>,
        set: &str,
    ) -> Result<Vec<Element>, CallError> {
        let (mut items, mut token) = (Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let mut form = form.clone();
            form.extend(token.take().map(|token| ("NextToken".to_owned(), token)));
            let answer = self.ec2(action, form).await?;
            items.extend(answer.child(set).into_iter().flat_map(|set| set.children("item")).cloned());
            token = answer.text("nextToken").filter(|token| !token.is_empty()).map(str::to_owned);
            if token.is_none() {
                return Ok(items);
            }
        }
        Err(CallError::silent(action, "the answer has more pages than can be read"))
    }

    /// An EKS managed node group; `None` when it does not exist.
    ///
    /// # Errors
    /// [`CallError`] when EKS did not answer, or not with that.
    pub async fn node_group(&self, cluster: &str, name: &str) -> Result<Option<NodeGroup>, CallError> {
        let action = "eks:DescribeNodegroup";
        let path = format!("/clusters/{}/node-groups/{}", escaped(cluster), escaped(name));
        let answer = match self.send(action, &self.eks, ("GET", &path, &[]), String::new()).await {
            Ok(answer) => answer,
            Err(error) if error.code == "ResourceNotFoundException" => return Ok(None),
            Err(error) => return Err(error),
        };
        described_node_group(&answer).map_err(|error| CallError::silent(action, error))
    }

    async fn ec2(&self, action: &'static str, form: Vec<(String, String)>) -> Result<Element, CallError> {
        let operation = action.trim_start_matches("ec2:");
        let mut body = format!("Action={operation}&Version={EC2_VERSION}");
        for (key, value) in form {
            body.push_str(&format!("&{}={}", escaped(&key), escaped(&value)));
        }
        let form = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
        let answer = self.send(action, &self.ec2, ("POST", "/", &form), body).await?;
        xml::parse(&answer).map_err(|error| CallError::silent(action, error))
    }

    /// One call to SQS.
    pub(super) async fn sqs(&self, action: &'static str, body: &Value) -> Result<Value, CallError> {
        let target = format!("AmazonSQS.{}", action.trim_start_matches("sqs:"));
        let headers = [("content-type", "application/x-amz-json-1.0"), ("x-amz-target", target.as_str())];
        let answer = self.send(action, &self.sqs, ("POST", "/", &headers), body.to_string()).await?;
        if answer.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer)
            .map_err(|error| CallError::silent(action, format!("the answer is not JSON: {error}")))
    }

    /// One call with its retries: all of them may be repeated. Methods, paths and headers come together.
    async fn send(
        &self,
        action: &'static str,
        service: &Service,
        head: Head<'_>,
        body: String,
    ) -> Result<String, CallError> {
        let mut attempt = 1;
        loop {
            service.budget.take(action).await?;
            let started = self.host.monotonic();
            let call = self.attempt(action, service, head, &body);
            let result = tokio::time::timeout(service.timeout, call)
                .await
                .unwrap_or_else(|_| Err(CallError::silent(action, "no answer in time")));
            let word = result.as_ref().map_or_else(|error| error.code.clone(), |_| "200".to_owned());
            let took = self.host.monotonic() - started;
            if action != DELETE_MESSAGE {
                // A write is noted by the gate that lets it through.
                self.gate.read(action, &word);
                self.gate.ended(action, outcome(&result), took);
            }
            match result {
                Err(error)
                    if attempt < service.attempts
                        && matches!(error.kind, Trouble::Throttled | Trouble::Unknown) =>
                {
                    let jitter = u32::try_from(self.host.random() % 100).unwrap_or(0);
                    self.host.sleep(PAUSE * (1 << (attempt - 1)) * (100 + jitter) / 100).await;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn attempt(
        &self,
        action: &'static str,
        service: &Service,
        head: Head<'_>,
        body: &str,
    ) -> Result<String, CallError> {
        let request = self.signed(action, service, head, body).await?;
        let response = self
            .connector
            .call(request)
            .await
            .map_err(|error| CallError::silent(action, format!("no connection: {error}")))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_MAX_BYTES).collect().await;
        let bytes = body.map_err(|error| CallError::silent(action, broken_off(&*error)))?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if (200..300).contains(&status) { Ok(text) } else { Err(refusal(action, status, &text)) }
    }

    async fn signed(
        &self,
        action: &'static str,
        service: &Service,
        (method, path, headers): Head<'_>,
        body: &str,
    ) -> Result<Request<SdkBody>, CallError> {
        let no_credentials = |message: String| CallError {
            action,
            kind: Trouble::Credentials,
            code: "NoCredentials".to_owned(),
            message,
        };
        let identity = self.credentials().await.map_err(no_credentials)?.into();
        let broken =
            |error: &dyn std::fmt::Display| CallError::not_sent(action, format!("cannot sign: {error}"));
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(service.name)
            .time(self.host.wall().into())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| broken(&error))?
            .into();
        let uri = format!("{}{path}", service.endpoint.trim_end_matches('/'));
        let mut request = http::Request::builder().method(method).uri(&uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let signable =
            SignableRequest::new(method, &uri, headers.iter().copied(), SignableBody::Bytes(body.as_bytes()))
                .map_err(|error| broken(&error))?;
        let (instructions, _) = sign(signable, &params).map_err(|error| broken(&error))?.into_parts();
        let mut request = request.body(SdkBody::from(body)).map_err(|error| broken(&error))?;
        instructions.apply_to_request_http1x(&mut request);
        Request::try_from(request).map_err(|error| broken(&error))
    }
}

/// The node group in EKS's answer to DescribeNodegroup; `None` when there is none in it.
///
/// # Errors
/// If the answer is not JSON.
pub fn described_node_group(answer: &str) -> Result<Option<NodeGroup>, String> {
    let value: Value =
        serde_json::from_str(answer).map_err(|error| format!("the answer is not JSON: {error}"))?;
    Ok(value.get("nodegroup").map(node_group))
}

/// Reason why an answer was not read to its end.
fn broken_off(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    if error.is::<LengthLimitError>() {
        return format!("the answer has more than {} MiB", ANSWER_MAX_BYTES >> 20);
    }
    format!("the answer broke off: {error}")
}

/// Returns the address of a service: its own variable, the common one, or the region's usual address.
fn endpoint(service: &str, variable: &str, config: &SdkConfig, region: &str) -> String {
    let set = |name: &str| std::env::var(name).ok().filter(|url| !url.is_empty());
    let configured = || config.endpoint_url().map(str::to_owned);
    set(variable).or_else(|| set("AWS_ENDPOINT_URL")).or_else(configured).unwrap_or_else(|| {
        let (fips, dual) = (config.use_fips().unwrap_or(false), config.use_dual_stack().unwrap_or(false));
        let fips = if fips { "-fips" } else { "" };
        let suffix = match (dual, region.starts_with("cn-")) {
            (false, false) => "amazonaws.com",
            (false, true) => "amazonaws.com.cn",
            (true, false) => "api.aws",
            (true, true) => "api.amazonwebservices.com.cn",
        };
        format!("https://{service}{fips}.{region}.{suffix}")
    })
}

fn requirements(found: &Element) -> Requirements {
    let least = |name: &str| found.child(name).and_then(|bounds| bounds.text("min"));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Requirements {
        cpus: u32::try_from(number(least("vCpuCount"))).unwrap_or(u32::MAX),
        memory_mib: number(least("memoryMiB")),
    }
}

/// A price of the spot market; `None` if it cannot be read.
fn spot_price(item: &Element) -> Option<SpotPrice> {
    let at: jiff::Timestamp = item.text("timestamp")?.parse().ok()?;
    Some(SpotPrice {
        instance_type: item.text("instanceType")?.into(),
        zone: item.text("availabilityZone")?.into(),
        per_hour_micro: micros(item.text("spotPrice")?)?,
        at: UnixTime(at.as_second()),
    })
}

/// Millionths of a decimal number that is greater than 0, rounded up.
fn micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || 9 < whole.len() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let (kept, rest) = fraction.split_at(fraction.len().min(6));
    let kept: i64 = format!("{kept:0<6}").parse().ok()?;
    let up = i64::from(rest.bytes().any(|b| b != b'0'));
    Some(whole.parse::<i64>().ok()? * 1_000_000 + kept + up).filter(|micros| 0 < *micros)
}

/// A filter of EC2 as parts of a form.
fn filter(number: usize, name: &str, values: &[Arc<str>]) -> impl Iterator<Item = (String, String)> + use<> {
    let value = |(index, value): (usize, &Arc<str>)| {
        (format!("Filter.{number}.Value.{}", index + 1), value.to_string())
    };
    let mut form = vec![(format!("Filter.{number}.Name"), name.to_owned())];
    form.extend(values.iter().enumerate().map(value));
    form.into_iter()
}

/// A text as part of a form or a path.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Reads the error of a service: EC2 answers in XML, the others in JSON.
fn refusal(action: &'static str, status: u16, text: &str) -> CallError {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let word =
            |names: &[&str]| names.iter().find_map(|name| value.get(name)?.as_str()).unwrap_or_default();
        let code = word(&["__type", "code", "Code"]);
        let code = code.rsplit('#').next().unwrap_or_default();
        return CallError::answered(action, status, code, word(&["message", "Message"]));
    }
    let parsed = xml::parse(text).ok();
    let error = parsed.as_ref().and_then(|root| root.find("Error"));
    let word = |name: &str| error.and_then(|error| error.text(name)).unwrap_or_default();
    CallError::answered(action, status, word("Code"), word("Message"))
}

/// Parts of a type's description that only those with accelerators have.
const ACCELERATORS: [&str; 5] =
    ["gpuInfo", "fpgaInfo", "inferenceAcceleratorInfo", "neuronInfo", "mediaAcceleratorInfo"];

fn instance_type(item: &Element) -> InstanceType {
    let number = |path: &[&str]| -> u64 {
        let mut at = item;
        for name in path {
            let Some(child) = at.child(name) else { return 0 };
            at = child;
        }
        at.value.parse().unwrap_or(0)
    };
    let small = |path: &[&str]| u32::try_from(number(path)).unwrap_or(0);
    let gpus = item.child("gpuInfo").and_then(|info| info.child("gpus"));
    let nvidia = gpus
        .into_iter()
        .flat_map(|gpus| gpus.children("item"))
        .filter(|gpu| gpu.text("manufacturer").is_some_and(|maker| maker.eq_ignore_ascii_case("nvidia")));
    let gpu_count =
        nvidia.filter_map(|gpu| gpu.text("count")?.parse::<u32>().ok()).fold(0, u32::saturating_add);
    let processor = item.child("processorInfo").and_then(|info| info.child("supportedArchitectures"));
    let arm64 = processor.is_some_and(|set| set.children("item").any(|item| item.value == "arm64"));
    InstanceType {
        name: item.text("instanceType").unwrap_or_default().into(),
        cpus: small(&["vCpuInfo", "defaultVCpus"]),
        memory_mib: number(&["memoryInfo", "sizeInMiB"]),
        gpus: gpu_count,
        arm64,
        interfaces: small(&["networkInfo", "maximumNetworkInterfaces"]),
        addresses: small(&["networkInfo", "ipv4AddressesPerInterface"]),
        bare_metal: item.text("bareMetal") == Some("true"),
        accelerated: ACCELERATORS.iter().any(|name| item.child(name).is_some()),
        previous_generation: item.text("currentGeneration") == Some("false"),
        spot: item
            .child("supportedUsageClasses")
            .is_some_and(|set| set.children("item").any(|item| item.value == "spot")),
    }
}

fn node_group(value: &Value) -> NodeGroup {
    let map = |name: &str| -> BTreeMap<String, String> {
        let pairs = value.get(name).and_then(Value::as_object).into_iter().flatten();
        pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let taints = value.get("taints").and_then(Value::as_array).into_iter().flatten();
    NodeGroup {
        labels: map("labels"),
        taints: taints
            .map(|taint| (text(taint, "key"), text(taint, "value"), text(taint, "effect")))
            .collect(),
        tags: map("tags"),
        capacity_type: text(value, "capacityType"),
        status: text(value, "status"),
    }
}
