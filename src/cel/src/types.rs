//! Types of CEL, and when a value of one may stand for another.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Known only when the expression runs.
    Dyn,
    /// The type of `null`.
    Null,
    /// A boolean.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// An unsigned integer of 64 bits.
    Uint,
    /// A float of 64 bits.
    Double,
    /// A text.
    String,
    /// A sequence of bytes.
    Bytes,
    /// A list of one type.
    List(Arc<Type>),
    /// A map from one type to another.
    Map(Arc<(Type, Type)>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// The type of types.
    Type(Arc<Type>),
    /// A type of a library, by its name.
    Opaque(&'static str),
    /// An object with fields.
    Object(Arc<Object>),
    /// Open until the check has found out.
    Var(u32),
    /// A parameter of a declared function.
    Param(char),
}

/// An object with fields.
#[derive(Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name, as messages have it.
    pub name: &'static str,
    /// Its fields by name.
    pub fields: Vec<(&'static str, Type)>,
}

/// `kubernetes.Quantity`.
pub(super) const QUANTITY: Type = Type::Opaque("kubernetes.Quantity");

impl Type {
    /// A list of this type.
    #[must_use]
    pub fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    /// A map of these types.
    #[must_use]
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// An object with these fields.
    #[must_use]
    pub fn object(name: &'static str, fields: Vec<(&'static str, Self)>) -> Self {
        Self::Object(Arc::new(Object { name, fields }))
    }

    /// Quantities of Kubernetes.
    #[must_use]
    pub fn quantity() -> Self {
        QUANTITY
    }

    pub(super) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    fn parts(&self) -> Vec<&Self> {
        match self {
            Self::List(of) | Self::Optional(of) | Self::Type(of) => vec![of],
            Self::Map(pair) => vec![&pair.0, &pair.1],
            _ => Vec::new(),
        }
    }

    /// The type with each part replaced.
    fn rebuilt(&self, part: &mut impl FnMut(&Self) -> Self) -> Self {
        match self {
            Self::List(of) => Self::list(part(of)),
            Self::Optional(of) => Self::optional(part(of)),
            Self::Type(of) => Self::Type(Arc::new(part(of))),
            Self::Map(pair) => Self::map(part(&pair.0), part(&pair.1)),
            other => other.clone(),
        }
    }

    /// The type with parameters replaced.
    pub(super) fn with_params(&self, params: &mut impl FnMut(char) -> Self) -> Self {
        match self {
            Self::Param(name) => params(*name),
            other => other.rebuilt(&mut |part| part.with_params(params)),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Var(_) | Self::Param(_) => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(pair) => write!(f, "map({}, {})", pair.0, pair.1),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Object(object) => f.write_str(object.name),
        }
    }
}

/// Types found for open types. A copy is tried first and kept if it fits.
#[derive(Clone, Debug, Default)]
pub(super) struct Found(BTreeMap<u32, Type>);

impl Found {
    /// The type with what was found out put in; open parts stay open.
    pub(super) fn put_in(&self, of: &Type) -> Type {
        match of {
            Type::Var(number) => self.0.get(number).map_or_else(|| of.clone(), |found| self.put_in(found)),
            other => other.rebuilt(&mut |part| self.put_in(part)),
        }
    }

    /// The type as it is in the end: what is still open is dynamic.
    pub(super) fn closed(&self, of: &Type) -> Type {
        match self.put_in(of) {
            Type::Var(_) => Type::Dyn,
            found => found.rebuilt(&mut |part| self.closed(part)),
        }
    }

    /// True if each of `from` may stand for the one of `to` at its place. What is found out is kept if so.
    pub(super) fn assign_all<'a>(&mut self, pairs: impl Iterator<Item = (&'a Type, &'a Type)>) -> bool {
        let mut tried = self.clone();
        for (from, to) in pairs {
            if !tried.assign_inner(from, to) {
                return false;
            }
        }
        *self = tried;
        true
    }

    /// True if one may stand for the other.
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.assign_all(std::iter::once((from, to)))
    }

    /// Source: cel-go checker/types.go, internalIsAssignable.
    fn assign_inner(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Var(open) = to {
            let had = self.0.contains_key(open);
            if self.substitute(from, *open) {
                return true;
            }
            if had {
                return false;
            }
        }
        if let Type::Var(open) = from {
            return self.substitute(to, *open);
        }
        match (from, to) {
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::Null, other) | (other, Type::Null) => {
                matches!(other, Type::Null | Type::Opaque(_) | Type::Object(_) | Type::Optional(_))
            }
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.assign_inner(a, b)
            }
            (Type::Map(a), Type::Map(b)) => self.assign_inner(&a.0, &b.0) && self.assign_inner(&a.1, &b.1),
            (a, b) => a == b,
        }
    }

    /// Source: cel-go checker/types.go, isValidTypeSubstitution.
    fn substitute(&mut self, with: &Type, open: u32) -> bool {
        if *with == Type::Var(open) {
            return true;
        }
        if let Some(found) = self.0.get(&open).cloned() {
            if *with == found {
                return true;
            }
            if !self.assign_inner(with, &found) {
                return false;
            }
            let wider = if is_wider(with, &found) { with.clone() } else { found };
            if self.is_free_of(open, &wider) {
                self.0.insert(open, wider);
            }
            return true;
        }
        if self.is_free_of(open, with) {
            self.0.insert(open, with.clone());
            return true;
        }
        false
    }

    fn is_free_of(&self, open: u32, within: &Type) -> bool {
        match within {
            Type::Var(other) if *other == open => false,
            Type::Var(other) => self.0.get(other).is_none_or(|found| self.is_free_of(open, found)),
            other => other.parts().into_iter().all(|part| self.is_free_of(open, part)),
        }
    }
}

/// True if the first is as wide as the second, or wider.
pub(super) fn is_wider(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_wider(a, b),
        (Type::Map(a), Type::Map(b)) => is_wider(&a.0, &b.0) && is_wider(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
