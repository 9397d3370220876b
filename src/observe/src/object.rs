//! One type for the objects of every kind, so that kube's watcher is compiled once and not once a kind. It watches nothing.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::feed::Port;
use super::partial_object::PartialObject;
use super::watched::{OfKind, Watch, Watched};

tokio::task_local! {
    /// Decoding options of this task. `Deserialize` has no argument for it, and objects in lists do not name their
    /// kind.
    pub(super) static DECODING: Decoding;
}

/// Options for decoding objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoding {
    /// The kind.
    pub(super) watch: Watch,
    /// True if each object is decoded on its own, at several times the cost: one that cannot be decoded becomes what
    /// remains of it, and does not fail the answer that it came in.
    pub(super) guarded: bool,
}

/// An object of the kind that the task decodes.
#[derive(Debug)]
pub(super) struct AnyObject(Box<dyn Object>);

/// Operations on an object of any kind.
trait Object: Debug + Send {
    fn meta(&self) -> &ObjectMeta;
    fn meta_mut(&mut self) -> &mut ObjectMeta;
    fn copied(&self) -> Box<dyn Object>;
    fn applied(self: Box<Self>, port: &Port);
    fn gone(&self, port: &Port);
}

impl AnyObject {
    /// Hands it over as new or changed.
    pub(super) fn applied(self, port: &Port) {
        self.0.applied(port);
    }

    /// Hands it over as deleted.
    pub(super) fn gone(&self, port: &Port) {
        self.0.gone(port);
    }
}

impl Clone for AnyObject {
    fn clone(&self) -> Self {
        Self(self.0.copied())
    }
}

impl<K: Watched> Object for K {
    fn meta(&self) -> &ObjectMeta {
        Resource::meta(self)
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        Resource::meta_mut(self)
    }
    fn copied(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }
    fn applied(self: Box<Self>, port: &Port) {
        port.applied(*self);
    }
    fn gone(&self, port: &Port) {
        port.gone::<K>(Resource::meta(self));
    }
}

/// Readable part of an object of kind `K`. In kube's own guard nothing but the metadata remains.
#[derive(Debug)]
struct Broken<K>(PartialObject, PhantomData<fn() -> K>);

impl<K: Watched> Object for Broken<K> {
    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
    fn copied(&self) -> Box<dyn Object> {
        Box::new(Self(self.0.clone(), PhantomData))
    }
    fn applied(self: Box<Self>, port: &Port) {
        port.broken::<K>(&self.0);
    }
    fn gone(&self, port: &Port) {
        port.gone::<K>(&self.0.metadata);
    }
}

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Ok(Decoding { watch, guarded }) = DECODING.try_with(|decoding| *decoding) else {
            return Err(D::Error::custom("the task follows no kind"));
        };
        if guarded {
            watch.of_kind(Guarded(deserializer, PhantomData))
        } else {
            watch.of_kind(Whole(deserializer, PhantomData))
        }
    }
}

/// Decodes an object as it comes.
struct Whole<'de, D>(D, PhantomData<&'de ()>);

impl<'de, D: Deserializer<'de>> OfKind for Whole<'de, D> {
    type Output = Result<AnyObject, D::Error>;

    fn run<K: Watched>(self) -> Self::Output {
        Ok(AnyObject(Box::new(K::deserialize(self.0)?)))
    }
}

/// Decodes an object from a copy.
struct Guarded<'de, D>(D, PhantomData<&'de ()>);

impl<'de, D: Deserializer<'de>> OfKind for Guarded<'de, D> {
    type Output = Result<AnyObject, D::Error>;

    fn run<K: Watched>(self) -> Self::Output {
        let object = Value::deserialize(self.0)?;
        if !object.is_object() {
            return Err(D::Error::custom("an object is wanted"));
        }
        Ok(AnyObject(match K::deserialize(&object) {
            Ok(whole) => Box::new(whole),
            Err(error) => Box::new(Broken::<K>(PartialObject::of(&object, &error), PhantomData)),
        }))
    }
}

impl Resource for AnyObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}
