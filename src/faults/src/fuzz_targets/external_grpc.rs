//! Answers of a server of the externalgrpc protocol: the messages of one round of reads, one after the other.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use headroom_core::time::UnixTime;
use prost::Message;

use super::Understood;
use headroom_externalgrpc::calls::{Answer, CallError, Calls};
use headroom_externalgrpc::wire::{
    CoreMetadata, CoreNode, CoreNodeSpec, CoreNodeStatus, CoreQuantity, CoreTaint, Instance, InstanceError,
    InstanceStatus, Instances, Length, Node, NodeGroup, NodeGroupForNode, NodeGroups, Options, OptionsAnswer,
    State, TargetSize, Template,
};
use headroom_externalgrpc::{Connect, ExternalGrpc};
use headroom_observe::host::Host;
use headroom_provider::external_grpc::Settings;
use headroom_provider::gate::{Closed, End, Gate};
use headroom_provider::{Asked, CloudProvider as _, NodeShape, PoolAtProvider, ProviderSettings};

/// Answers of the server, whatever it is asked.
#[derive(Clone, Debug, Default)]
struct Server {
    groups: NodeGroups,
    size: TargetSize,
    instances: Instances,
    template: Template,
    options: OptionsAnswer,
    owner: NodeGroupForNode,
}

impl Server {
    fn read(mut bytes: &[u8]) -> Result<Self, prost::DecodeError> {
        let rest = &mut bytes;
        Ok(Self {
            groups: NodeGroups::decode_length_delimited(&mut *rest)?,
            size: TargetSize::decode_length_delimited(&mut *rest)?,
            instances: Instances::decode_length_delimited(&mut *rest)?,
            template: Template::decode_length_delimited(&mut *rest)?,
            options: OptionsAnswer::decode_length_delimited(&mut *rest)?,
            owner: NodeGroupForNode::decode_length_delimited(&mut *rest)?,
        })
    }

    fn written(&self) -> Vec<u8> {
        let Self { groups, size, instances, template, options, owner } = self;
        [
            groups.encode_length_delimited_to_vec(),
            size.encode_length_delimited_to_vec(),
            instances.encode_length_delimited_to_vec(),
            template.encode_length_delimited_to_vec(),
            options.encode_length_delimited_to_vec(),
            owner.encode_length_delimited_to_vec(),
        ]
        .concat()
    }
}

fn group() -> NodeGroup {
    NodeGroup { id: "web".into(), min_size: 0, max_size: 9 }
}

/// As text: no length is over 127, so that each byte is ASCII.
pub(super) fn sane() -> String {
    let status = |state: State, error| Some(InstanceStatus { state: state.into(), error });
    let stockout = InstanceError { code: "stockout".into(), message: "none left".into(), class: 1 };
    let instances = vec![
        Instance { id: "x://1".into(), status: status(State::Running, None) },
        Instance { id: "x://2".into(), status: status(State::Creating, Some(stockout)) },
    ];
    let amount = |text: &str| CoreQuantity { string: text.into() };
    let taint = CoreTaint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into() };
    let node = CoreNode {
        metadata: Some(CoreMetadata { labels: [("zone".into(), "a".into())].into() }),
        spec: Some(CoreNodeSpec { taints: vec![taint] }),
        status: Some(CoreNodeStatus {
            capacity: [("cpu".into(), amount("4")), ("memory".into(), amount("8Gi"))].into(),
            allocatable: [("pods".into(), amount("58"))].into(),
        }),
    };
    let options = Options {
        // Of all its bytes none is over 127.
        utilization_threshold: 1.0 / 256.0,
        zero_or_max: true,
        unneeded: Some(Length { seconds: 60, nanos: 5 }),
        ..Options::default()
    };
    let server = Server {
        groups: NodeGroups { node_groups: vec![group()] },
        size: TargetSize { target_size: 2 },
        instances: Instances { instances },
        template: Template { node_bytes: node.encode_to_vec(), ..Template::default() },
        options: OptionsAnswer { options: Some(options) },
        owner: NodeGroupForNode { node_group: Some(group()) },
    };
    String::from_utf8(server.written()).unwrap_or_default()
}

/// One observation of a pool whose server answers so. An answer that cannot be read is a failure of the pool, with a
/// message.
pub(super) fn answers(bytes: &[u8]) -> Understood {
    let server = Arc::new(Server::read(bytes).map_err(|error| error.to_string())?);
    let host = Host::simulated(UnixTime(1_800_000_000).to_jiff(), 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let connect: Connect = Box::new(move |_| server.clone() as Arc<dyn Calls>);
        let provider = ExternalGrpc::through(connect, host, Arc::new(ReadsOnly));
        let second = Duration::from_secs(1);
        let settings = Settings {
            id_regex: Some(".*".into()),
            read_timeout: second,
            write_timeout: second,
            defaults: Some(headroom_core::world::provider::GroupOptions::default()),
            ..Settings::default()
        };
        let pool = PoolAtProvider {
            name: "web".into(),
            created_at: UnixTime(0),
            max_nodes: 9,
            settings: ProviderSettings::ExternalGrpc(settings),
            node: NodeShape::default(),
        };
        let (nodes, registered) = (Vec::new(), std::collections::BTreeSet::from([Arc::from("x://1")]));
        let asked = [Asked { pool: &pool, nodes: &nodes, registered: &registered }];
        let answer = provider.observe(&asked).await.into_iter().next();
        let observed = answer.ok_or("no answer")?.map_err(|error| error.to_string())?;
        match observed.state.conflict {
            Some(words) => Err(words.to_string()),
            None => Ok(()),
        }
    })
}

/// A gate that lets no write through.
struct ReadsOnly;

impl Gate for ReadsOnly {
    fn pass<'a>(&'a self, operation: String, _call: BoxFuture<'a, End>) -> BoxFuture<'a, Result<(), Closed>> {
        std::future::ready(Err(Closed::NotSent(operation))).boxed()
    }

    fn read(&self, _operation: &str, _result: &str) {}
}

/// An answer that is there at once.
fn at_once<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, Answer<T>> {
    std::future::ready(Ok(answer)).boxed()
}

fn refused<'a>() -> BoxFuture<'a, Answer<()>> {
    std::future::ready(Err(CallError::not_sent("it is only read"))).boxed()
}

impl Calls for Server {
    fn refresh(&self, _: Duration) -> BoxFuture<'_, Answer<()>> {
        at_once(())
    }

    fn node_groups(&self, _: Duration) -> BoxFuture<'_, Answer<Vec<NodeGroup>>> {
        at_once(self.groups.node_groups.clone())
    }

    fn group_of<'a>(&'a self, _: &'a Node, _: Duration) -> BoxFuture<'a, Answer<Option<String>>> {
        at_once(self.owner.node_group.as_ref().map(|group| group.id.clone()))
    }

    fn target_size<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Answer<i32>> {
        at_once(self.size.target_size)
    }

    fn instances<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Answer<Vec<Instance>>> {
        at_once(self.instances.instances.clone())
    }

    fn template<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Answer<Template>> {
        at_once(self.template.clone())
    }

    fn options<'a>(
        &'a self,
        _: &'a str,
        _: &'a Options,
        _: Duration,
    ) -> BoxFuture<'a, Answer<Option<Options>>> {
        at_once(self.options.options.clone())
    }

    fn increase<'a>(&'a self, _: &'a str, _: i32, _: Duration) -> BoxFuture<'a, Answer<()>> {
        refused()
    }

    fn decrease<'a>(&'a self, _: &'a str, _: i32, _: Duration) -> BoxFuture<'a, Answer<()>> {
        refused()
    }

    fn delete<'a>(&'a self, _: &'a str, _: &'a Node, _: Duration) -> BoxFuture<'a, Answer<()>> {
        refused()
    }
}
