//! Selectors: expressions of CEL over one device, compiled once.
//!
//! Source: cel/compile.go.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use super::slice::{Attribute, Device};
use headroom_cel::{CompileError, Program, RuntimeError, Type, Value, Version};

/// Reason why a selector has no answer for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// It does not compile.
    #[error("does not compile: {0}")]
    Compile(#[from] CompileError),
    /// It fails on a device.
    #[error("fails: {0}")]
    Runtime(#[from] RuntimeError),
}

/// A selector that compiled.
#[derive(Clone, Debug)]
pub struct DeviceSelector(Program);

/// The type of `device`.
static DEVICE: LazyLock<Type> = LazyLock::new(|| {
    let by_domain = |of: Type| Type::map(Type::String, Type::map(Type::String, of));
    Type::object(
        "kubernetes.DRADevice",
        vec![
            ("driver", Type::String),
            ("allowMultipleAllocations", Type::Bool),
            ("attributes", by_domain(Type::Dyn)),
            ("capacity", by_domain(Type::quantity())),
        ],
    )
});

impl DeviceSelector {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If it does not compile, or can not come to a boolean.
    pub fn compile(expression: &str) -> Result<Self, CompileError> {
        let program = Program::compile(expression, &[("device", DEVICE.clone())])?;
        match program.output() {
            Type::Bool | Type::Dyn => Ok(Self(program)),
            other => Err(CompileError::Check(format!("must evaluate to bool, not {other}"))),
        }
    }

    /// True if it accepts a device of a driver.
    ///
    /// # Errors
    /// If the expression fails, or comes to something else than a boolean.
    pub fn accepts(&self, driver: &str, device: &Device) -> Result<bool, RuntimeError> {
        self.accepts_value(&value_of(driver, device)?)
    }

    fn accepts_value(&self, device: &Value) -> Result<bool, RuntimeError> {
        match self.0.evaluate(&[("device", device.clone())])? {
            Value::Bool(accepted) => Ok(accepted),
            _ => Err(RuntimeError("the result is not a boolean".into())),
        }
    }
}

/// A device as expressions see it. Bare ids are under the driver's domain.
fn value_of(driver: &str, device: &Device) -> Result<Value, RuntimeError> {
    let mut attributes = Domains::default();
    for (name, attribute) in &device.attributes {
        attributes.add(name, driver, value_of_attribute(name, attribute)?);
    }
    let mut capacities = Domains::default();
    for (name, capacity) in &device.capacity {
        capacities.add(name, driver, Value::quantity(capacity.value));
    }
    Ok(Value::map(vec![
        (Value::text("driver"), Value::text(driver)),
        (Value::text("allowMultipleAllocations"), Value::Bool(device.allow_multiple_allocations)),
        (Value::text("attributes"), attributes.value()),
        (Value::text("capacity"), capacities.value()),
    ]))
}

fn value_of_attribute(name: &str, attribute: &Attribute) -> Result<Value, RuntimeError> {
    Ok(match attribute {
        Attribute::Int(value) => Value::Int(*value),
        Attribute::Bool(value) => Value::Bool(*value),
        Attribute::String(value) => Value::String(value.clone()),
        Attribute::Unknown(_) => Value::Unknown(format!("attribute {name}").into()),
        Attribute::Version(value) => {
            let version = Version::parse(value);
            Value::Version(Arc::new(
                version.map_err(|error| RuntimeError(format!("attribute {name}: {error}")))?,
            ))
        }
    })
}

/// Values by domain and id.
#[derive(Default)]
struct Domains<'a>(BTreeMap<&'a str, Vec<(Value, Value)>>);

impl<'a> Domains<'a> {
    fn add(&mut self, name: &'a str, driver: &'a str, value: Value) {
        let (domain, id) = name.split_once('/').unwrap_or((driver, name));
        self.0.entry(domain).or_default().push((Value::text(id), value));
    }

    fn value(self) -> Value {
        let entries = self.0.into_iter().map(|(domain, ids)| (Value::text(domain), Value::map(ids)));
        Value::map_of_maps(entries.collect())
    }
}

/// Selectors that were compiled before, by expression, and their results.
#[derive(Debug, Default)]
pub struct Selectors {
    compiled: BTreeMap<Arc<str>, Result<DeviceSelector, CompileError>>,
    /// Result of the selector, by place in memory of expression and device.
    known: Option<FxHashMap<(usize, usize), bool>>,
}

impl Selectors {
    /// Selectors that remember their results for a device. Expressions and devices that they are asked about must stay
    /// where they are for as long.
    #[must_use]
    pub fn remembering() -> Self {
        Self { compiled: BTreeMap::new(), known: Some(FxHashMap::default()) }
    }

    /// True if an expression accepts a device. One that depends on what is not known yet accepts none.
    ///
    /// # Errors
    /// If it does not compile, or fails on the device.
    pub fn accepts(
        &mut self,
        expression: &Arc<str>,
        driver: &str,
        device: &Device,
    ) -> Result<bool, SelectorError> {
        let place = (expression.as_ptr() as usize, std::ptr::from_ref(device) as usize);
        if let Some(said) = self.known.as_ref().and_then(|known| known.get(&place)) {
            return Ok(*said);
        }
        let said = match self.answer(expression, driver, device) {
            Err(SelectorError::Runtime(error)) if error.is_unknown() => false,
            other => other?,
        };
        if let Some(known) = &mut self.known {
            known.insert(place, said);
        }
        Ok(said)
    }

    /// Evaluates an expression on a device.
    pub(super) fn answer(
        &mut self,
        expression: &Arc<str>,
        driver: &str,
        device: &Device,
    ) -> Result<bool, SelectorError> {
        if !self.compiled.contains_key(expression) {
            self.compiled.insert(expression.clone(), DeviceSelector::compile(expression));
        }
        match self.compiled.get(expression) {
            Some(Ok(selector)) => Ok(selector.accepts(driver, device)?),
            Some(Err(error)) => Err(error.clone().into()),
            None => Ok(false),
        }
    }
}
