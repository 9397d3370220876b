//! AWS for tests: the simulator as a child process, its control API and its groups; it decides nothing about nodes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::binaries;
use crate::operator::OperatorBuilder;
use crate::process::{Process, Recipe};

mod bed;
mod bridge;
mod groups;
mod queues;

pub use bed::{Bed, aws_pool, aws_test};
pub use bridge::{Bridge, Join, allocatable, seen_mib};
pub use groups::GroupBuilder;

/// The region that everything is in.
pub const REGION: &str = "us-east-1";
/// The access key of the operator under test, by which the simulator counts its calls.
pub const OPERATOR_KEY: &str = "operator";
/// The access key of the test itself: what a person or another tool does to the groups.
const TEST_KEY: &str = "test";
const START_DEADLINE: Duration = Duration::from_secs(60);

/// A running simulator. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Aws {
    process: Process,
    port: u16,
}

/// A group as the simulator has it now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Group {
    pub name: String,
    pub min: u32,
    pub max: u32,
    pub desired: u32,
    /// Instances that count toward `desired`.
    pub live: u32,
    /// Those and the ones that are terminating.
    pub instances: u32,
}

/// An instance, and the description of its machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Instance {
    pub id: String,
    pub group: String,
    pub zone: String,
    #[serde(rename = "type")]
    pub instance_type: String,
    /// Of Auto Scaling, such as `Pending:Wait`.
    pub lifecycle: String,
    /// Of EC2, such as `running`.
    pub state: String,
    /// `OnDemand` or `Spot`.
    pub market: String,
    /// Private DNS name, which becomes the node's name.
    pub host: String,
    pub arch: String,
    pub cpu: u32,
    pub memory_mib: u64,
    pub gpus: u32,
    pub pods: u32,
}

/// An instance that was ended, and why: `request`, `scale-in`, `outside`, `unhealthy`, `rebalance`, `hook`, `deleted`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Termination {
    pub id: String,
    pub group: String,
    pub why: String,
}

/// One call of the AWS API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ApiCall {
    /// Such as `autoscaling:SetDesiredCapacity`.
    pub call: String,
    pub params: BTreeMap<String, String>,
    /// HTTP status of the answer, or `dropped`.
    pub status: String,
}

impl Aws {
    /// Starts it on a free port and waits until it has answered a first call: its first answers take seconds, which no
    /// test's clock should see. Its log goes to `folder`.
    pub async fn start(folder: &Path) -> Result<Self> {
        let environment = tokio::task::spawn_blocking(binaries::aws_simulator).await??;
        let recipe = Recipe {
            name: "asgsim".to_owned(),
            program: environment.join("bin/python"),
            args: ["-m", "asgsim", "--port", "0"].map(str::to_owned).to_vec(),
            env: vec![
                ("PYTHONPATH".to_owned(), binaries::repository().join("e2e/aws").display().to_string()),
                ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
            ],
            log: folder.join("asgsim.log"),
        };
        let process = Process::start(recipe)?;
        let port = process
            .until("the simulator listens", START_DEADLINE, async || {
                let log = process.log();
                let line = log.lines().find_map(|line| line.strip_prefix("listening on "));
                Ok(line.context("it says no port")?.parse()?)
            })
            .await?;
        let aws = Self { process, port };
        aws.warm_up().await?;
        Ok(aws)
    }

    /// The endpoint of all AWS services.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Makes a launch template of this name without a type.
    pub async fn launch_template(&self, name: &str) -> Result<()> {
        let template = [("LaunchTemplateName", name), ("LaunchTemplateData.ImageId", "ami-03cf127a")];
        self.call("ec2", "CreateLaunchTemplate", &template).await?;
        Ok(())
    }

    /// The id of a subnet in the zone.
    pub async fn subnet(&self, zone: &str) -> Result<String> {
        let filter = [("Filter.1.Name", "availability-zone"), ("Filter.1.Value.1", zone)];
        let answer = self.call("ec2", "DescribeSubnets", &filter).await?;
        let id = answer.split_once("<subnetId>").and_then(|(_, rest)| rest.split_once('<'));
        id.map(|(id, _)| id.to_owned()).context("the zone has no subnet")
    }

    async fn warm_up(&self) -> Result<()> {
        self.call("autoscaling", "DescribeAutoScalingGroups", &[]).await?;
        self.call("ec2", "DescribeSubnets", &[]).await?;
        self.call("ec2", "DescribeInstanceTypes", &[("InstanceType.1", "m5.large")]).await?;
        self.forget_calls().await
    }

    /// Forgets everything: groups, instances, plans, faults and counters.
    pub async fn reset(&self) -> Result<()> {
        self.enforce_permissions(false).await?;
        self.send("POST", "/moto-api/reset", &[], "").await?;
        self.send("POST", "/_sim/reset", &[], "").await?;
        Ok(())
    }

    /// One call of the AWS API with the test's own key, as a person with a command line makes it: parameters are those
    /// of the service's query protocol, such as `Tags.member.1.Key`. Errors with AWS's code and message.
    pub async fn call(&self, service: &str, action: &str, params: &[(&str, &str)]) -> Result<String> {
        self.call_with(TEST_KEY, service, action, params).await
    }

    /// The access key of a session of a role; its calls are about the role's account.
    pub async fn assume(&self, role: &str) -> Result<String> {
        let params = [("RoleArn", role), ("RoleSessionName", TEST_KEY)];
        let answer = self.call("sts", "AssumeRole", &params).await?;
        Ok(between(&answer, "AccessKeyId").to_owned())
    }

    /// [`Aws::call`] with another access key.
    pub async fn call_with(
        &self,
        key: &str,
        service: &str,
        action: &str,
        params: &[(&str, &str)],
    ) -> Result<String> {
        let version = match service {
            "autoscaling" => "2011-01-01",
            "ec2" => "2016-11-15",
            "iam" => "2010-05-08",
            "sqs" => "2012-11-05",
            "sts" => "2011-06-15",
            other => bail!("the test does not know service {other}"),
        };
        let all = [("Action", action), ("Version", version)];
        let pairs =
            all.iter().chain(params).map(|(key, value)| format!("{}={}", encoded(key), encoded(value)));
        let body = pairs.collect::<Vec<_>>().join("&");
        let auth = format!(
            "AWS4-HMAC-SHA256 Credential={key}/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let headers =
            [("Content-Type", "application/x-www-form-urlencoded"), ("Authorization", auth.as_str())];
        let (status, answer) = self.exchange("POST", "/", &headers, &body).await?;
        if status != 200 {
            let (code, message) = (between(&answer, "Code"), between(&answer, "Message"));
            bail!("{service}:{action} is refused with {status} {code}: {message}");
        }
        Ok(answer)
    }

    /// Sets the behavior of a group (`*`: all), in place of an earlier plan: the keys of `DEFAULTS` in
    /// `e2e/aws/asgsim/state.py`. Errors for a key that is none.
    pub async fn plan(&self, group: &str, plan: Value) -> Result<()> {
        self.send("PUT", &format!("/_sim/groups/{}", encoded(group)), &[], &plan.to_string()).await?;
        Ok(())
    }

    /// Every launch of the group fails like this, in the zones named or in all.
    pub async fn fail_launches(&self, group: &str, code: &str, message: &str, zones: &[&str]) -> Result<()> {
        let mut fail = json!({"code": code, "message": message});
        if !zones.is_empty() {
            fail["azs"] = json!(zones);
        }
        self.plan(group, json!({"fail": fail, "retry_ms": 500})).await
    }

    /// Sets spot prices that hold from now on, as `{type: {zone: "0.031"}}`.
    pub async fn spot_prices(&self, prices: Value) -> Result<()> {
        self.send("PUT", "/_sim/spot-prices", &[], &prices.to_string()).await?;
        Ok(())
    }

    /// The faults that strike calls of the AWS API from now on, in place of those before; see `e2e/aws/asgsim/wire.py`.
    pub async fn faults(&self, faults: Value) -> Result<()> {
        self.send("POST", "/_sim/faults", &[], &faults.to_string()).await?;
        Ok(())
    }

    /// Returns how many times the operator made each call, such as `autoscaling:DescribeAutoScalingGroups`.
    pub async fn calls(&self) -> Result<BTreeMap<String, u64>> {
        self.read(&format!("/_sim/calls/{OPERATOR_KEY}")).await
    }

    /// Sets the counters to zero.
    pub async fn forget_calls(&self) -> Result<()> {
        self.send("DELETE", "/_sim/calls", &[], "").await?;
        Ok(())
    }

    /// The operator's calls in order.
    pub async fn log(&self) -> Result<Vec<ApiCall>> {
        self.read(&format!("/_sim/log/{OPERATOR_KEY}")).await
    }

    /// The operator's calls of one action that name this group or an instance, in order.
    pub async fn log_of(&self, action: &str) -> Result<Vec<ApiCall>> {
        let wanted = format!(":{action}");
        Ok(self.log().await?.into_iter().filter(|call| call.call.ends_with(&wanted)).collect())
    }

    /// All groups, by name.
    pub async fn groups(&self) -> Result<Vec<Group>> {
        let mut all: Vec<Group> = self.read("/_sim/groups").await?;
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// A group by name; errors when there is none.
    pub async fn group_now(&self, name: &str) -> Result<Group> {
        let all = self.groups().await?;
        all.into_iter().find(|group| group.name == name).with_context(|| format!("there is no group {name}"))
    }

    /// The instances of all groups, those that terminate and those in warm pools too.
    pub async fn instances(&self) -> Result<Vec<Instance>> {
        self.read("/_sim/instances").await
    }

    /// The instances of a group that count toward its size.
    pub async fn live(&self, group: &str) -> Result<Vec<Instance>> {
        let mut own = self.instances().await?;
        own.retain(|i| {
            i.group == group && (i.lifecycle == "InService" || i.lifecycle.starts_with("Pending"))
        });
        Ok(own)
    }

    /// Every instance that was ended so far.
    pub async fn terminations(&self) -> Result<Vec<Termination>> {
        self.read("/_sim/terminations").await
    }

    /// True if each call from now on is checked against the policies of its key's user. The test's own key has none.
    pub async fn enforce_permissions(&self, enforce: bool) -> Result<()> {
        let after_calls = if enforce { "0" } else { "inf" };
        let plain = [("Content-Type", "text/plain")];
        self.send("POST", "/moto-api/reset-auth", &plain, after_calls).await?;
        Ok(())
    }

    async fn read<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T> {
        let text = self.send("GET", path, &[], "").await?;
        serde_json::from_str(&text).with_context(|| format!("failed to read {path}"))
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Result<String> {
        let (status, answer) = self.exchange(method, path, headers, body).await?;
        ensure!(status == 200, "the simulator answers {method} {path} with {status}: {answer}");
        Ok(answer)
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<(u16, String)> {
        let mut stream =
            TcpStream::connect(("127.0.0.1", self.port)).await.context("the simulator is not there")?;
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.split(' ').nth(1).context("no HTTP status")?.parse()?;
        Ok((status, body.to_owned()))
    }
}

impl OperatorBuilder {
    /// Its AWS is this simulator: endpoint, region and credentials by the environment, and no instance metadata.
    pub fn aws(self, aws: &Aws) -> Self {
        self.aws_with_key(aws, OPERATOR_KEY, "secret")
    }

    /// [`OperatorBuilder::aws`] with another access key.
    pub fn aws_with_key(self, aws: &Aws, key: &str, secret: &str) -> Self {
        self.env("AWS_ENDPOINT_URL", &aws.url())
            .env("AWS_REGION", REGION)
            .env("AWS_ACCESS_KEY_ID", key)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_EC2_METADATA_DISABLED", "true")
    }
}

/// The text of the first XML element of this name; empty when there is none.
fn between<'a>(text: &'a str, element: &str) -> &'a str {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let inner = text.split_once(&open).and_then(|(_, rest)| rest.split_once(&close));
    inner.map_or("", |(inner, _)| inner)
}

/// Percent-encoded for a form and for a path.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'*' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_answers_are_read_as_written() {
        assert_eq!(encoded("tag:k8s.io/a b"), "tag%3Ak8s.io%2Fa%20b");
        let answer = "<Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error>";
        assert_eq!((between(answer, "Code"), between(answer, "Type")), ("Throttling", ""));
    }
}
