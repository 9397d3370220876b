//! The type check. It also decides which names with points are functions, and compiles patterns that are written out.
//!
//! Source: cel-go checker/checker.go, and cel/validator.go for lists and maps of different types.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::declarations::{FUNCTIONS, UNSUPPORTED};
use super::functions;
use super::syntax::{Entry, Expr};
use super::types::{Found, Type, is_wider};
use super::value::{TYPE_NAMES, Value};
use super::{CompileError, MAX_DEPTH};

/// Result of the check.
pub(super) struct Checked {
    pub(super) output: Type,
    pub(super) patterns: BTreeMap<Arc<str>, regex::Regex>,
}

pub(super) struct Check {
    pub(super) found: Found,
    open: u32,
    depth: usize,
    scope: Vec<(Arc<str>, Type)>,
    patterns: BTreeMap<Arc<str>, regex::Regex>,
    /// Types of elements that must be the same in the end.
    same: Vec<(Type, Type)>,
    /// Calls of `format` around what is looked at: only in them elements may have different types.
    formats: usize,
}

/// Checks an expression and names its functions.
pub(super) fn check(root: &mut Expr, variables: &[(&str, Type)]) -> Result<Checked, CompileError> {
    let scope = variables.iter().map(|(name, of)| (Arc::from(*name), of.clone())).collect();
    let (found, patterns, same) = (Found::default(), BTreeMap::new(), Vec::new());
    let mut check = Check { found, open: 0, depth: 0, scope, patterns, same, formats: 0 };
    let output = check.expr(root)?;
    for (first, other) in &check.same {
        let (first, other) = (check.found.closed(first), check.found.closed(other));
        if first != other {
            return Err(refused(format!("expected type '{first}' but found '{other}'")));
        }
    }
    Ok(Checked { output: check.found.closed(&output), patterns: check.patterns })
}

pub(super) fn refused(text: impl Into<String>) -> CompileError {
    CompileError::Check(text.into())
}

/// The name that an expression spells, if it is names and points only.
fn qualified(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Name(name) => Some(name.to_string()),
        Expr::Select { operand, field, optional: false } => Some(format!("{}.{field}", qualified(operand)?)),
        _ => None,
    }
}

impl Check {
    pub(super) fn new_open(&mut self) -> Type {
        self.open += 1;
        Type::Var(self.open)
    }

    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<Type, CompileError> {
        if self.depth == MAX_DEPTH {
            return Err(refused(format!("nested deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let of = self.kind(expr);
        self.depth -= 1;
        of
    }

    fn kind(&mut self, expr: &mut Expr) -> Result<Type, CompileError> {
        match expr {
            Expr::Literal(value) => Ok(type_of_literal(value)),
            Expr::Name(name) => self.name(name),
            Expr::Select { .. } => self.select(expr),
            Expr::Has { operand, field } => {
                self.field(operand, field)?;
                Ok(Type::Bool)
            }
            Expr::Call { .. } => self.call(expr),
            Expr::List(entries) => {
                let mut of = None;
                for entry in entries {
                    let element = self.element(entry)?;
                    of = Some(self.join(of, element));
                }
                Ok(Type::list(of.map_or_else(|| self.new_open(), |(_, of)| of)))
            }
            Expr::Map(entries) => self.map(entries),
            Expr::Each(each) => self.each(each),
            Expr::Bind { name, value, body } => {
                let value = self.expr(value)?;
                self.scoped([(name.clone(), value)], |check| check.expr(body))
            }
            Expr::IfPresent { target, name, body, flat } => self.if_present(target, name, body, *flat),
        }
    }

    pub(super) fn scoped<const N: usize>(
        &mut self,
        names: [(Arc<str>, Type); N],
        inside: impl FnOnce(&mut Self) -> Result<Type, CompileError>,
    ) -> Result<Type, CompileError> {
        let length = self.scope.len();
        self.scope.extend(names);
        let result = inside(self);
        self.scope.truncate(length);
        result
    }

    fn name(&mut self, name: &str) -> Result<Type, CompileError> {
        if let Some((_, of)) = self.scope.iter().rev().find(|(known, _)| **known == *name) {
            return Ok(of.clone());
        }
        if TYPE_NAMES.contains(&name) {
            return Ok(Type::Type(Arc::new(type_named(name))));
        }
        Err(refused(format!("undeclared reference to '{name}'")))
    }

    fn select(&mut self, expr: &mut Expr) -> Result<Type, CompileError> {
        if let Some(name) = qualified(expr)
            && let Some(known) = TYPE_NAMES.iter().find(|known| **known == name)
        {
            *expr = Expr::Name((*known).into());
            return Ok(Type::Type(Arc::new(type_named(known))));
        }
        let Expr::Select { operand, field, optional } = expr else { return Ok(Type::Dyn) };
        let (of, of_optional) = self.field(operand, field)?;
        Ok(if of_optional || *optional { Type::optional(of) } else { of })
    }

    /// The type of a field, and whether its operand is optional.
    fn field(&mut self, operand: &mut Expr, field: &str) -> Result<(Type, bool), CompileError> {
        let operand = self.expr(operand)?;
        let operand = self.found.put_in(&operand);
        let (target, optional) = match &operand {
            Type::Optional(inner) => (&**inner, true),
            other => (other, false),
        };
        let of = match target {
            Type::Map(pair) => pair.1.clone(),
            Type::Object(object) => {
                let known = object.fields.iter().find(|(name, _)| *name == field);
                known
                    .map(|(_, of)| of.clone())
                    .ok_or_else(|| refused(format!("undefined field '{field}'")))?
            }
            Type::Var(_) => {
                self.found.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn => Type::Dyn,
            other => return Err(refused(format!("type '{other}' does not support field selection"))),
        };
        Ok((of, optional))
    }

    fn call(&mut self, expr: &mut Expr) -> Result<Type, CompileError> {
        let formats = matches!(expr, Expr::Call { function, .. } if **function == *"format");
        self.formats += usize::from(formats);
        let of = self.function(expr);
        self.formats -= usize::from(formats);
        of
    }

    fn function(&mut self, expr: &mut Expr) -> Result<Type, CompileError> {
        let Expr::Call { function, target, arguments } = expr else { return Ok(Type::Dyn) };
        let mut types = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments.iter_mut() {
            types.push(self.expr(argument)?);
        }
        // A function whose name has points, such as sets.contains, looks like a function of a target.
        let full = target.as_deref().and_then(qualified).map(|prefix| format!("{prefix}.{function}"));
        if let Some(full) = full {
            if UNSUPPORTED.contains(&&*full) {
                return Err(CompileError::Unsupported(full));
            }
            if FUNCTIONS.contains_key(&*full) {
                *function = full.into();
                *target = None;
            }
        }
        if let Some(target) = target {
            types.insert(0, self.expr(target)?);
        }
        let (function, member) = (function.clone(), target.is_some());
        self.literal_pattern(&function, arguments, member)?;
        literal_conversion(&function, arguments)?;
        self.overload(&function, member, &types)
    }

    /// Compiles the pattern of `matches`, `find` and `findAll` if it is written out.
    fn literal_pattern(
        &mut self,
        function: &str,
        arguments: &[Expr],
        member: bool,
    ) -> Result<(), CompileError> {
        if !matches!(function, "matches" | "find" | "findAll") {
            return Ok(());
        }
        let Some(Expr::Literal(Value::String(pattern))) = arguments.get(usize::from(!member)) else {
            return Ok(());
        };
        let compiled = regex::Regex::new(pattern);
        let compiled = compiled.map_err(|_| refused(format!("invalid regular expression {pattern:?}")))?;
        self.patterns.insert(pattern.clone(), compiled);
        Ok(())
    }

    fn overload(&mut self, function: &str, member: bool, types: &[Type]) -> Result<Type, CompileError> {
        if matches!(function, "_&&_" | "_||_") {
            for of in types {
                self.must_be_bool(of)?;
            }
            return Ok(Type::Bool);
        }
        let Some(overloads) = FUNCTIONS.get(function) else {
            if UNSUPPORTED.contains(&function) {
                return Err(CompileError::Unsupported(function.to_owned()));
            }
            return Err(refused(format!("undeclared reference to '{function}'")));
        };
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let mut params: BTreeMap<char, Type> = BTreeMap::new();
            let mut open = |name: char| params.entry(name).or_insert_with(|| self.new_open()).clone();
            let wanted: Vec<Type> = overload.arguments.iter().map(|of| of.with_params(&mut open)).collect();
            let of = overload.result.with_params(&mut open);
            if wanted.len() != types.len() || !self.found.assign_all(types.iter().zip(&wanted)) {
                continue;
            }
            let of = self.found.put_in(&of);
            result = Some(match result {
                None => of,
                Some(earlier) if earlier == Type::Dyn || earlier == of => earlier,
                Some(_) => Type::Dyn,
            });
        }
        result.ok_or_else(|| {
            let types: Vec<String> = types.iter().map(|of| self.found.closed(of).to_string()).collect();
            refused(format!(
                "found no matching overload for '{function}' applied to '({})'",
                types.join(", ")
            ))
        })
    }

    pub(super) fn must_be_bool(&mut self, of: &Type) -> Result<(), CompileError> {
        if self.found.assign(of, &Type::Bool) {
            return Ok(());
        }
        Err(refused(format!("expected type 'bool' but found '{}'", self.found.put_in(of))))
    }

    /// The type of an element.
    fn element(&mut self, entry: &mut Entry) -> Result<Type, CompileError> {
        let of = self.expr(&mut entry.value)?;
        if !entry.optional {
            return Ok(of);
        }
        match self.found.put_in(&of) {
            Type::Optional(inner) => Ok((*inner).clone()),
            Type::Dyn => Ok(Type::Dyn),
            other => Err(refused(format!("expected an optional but found '{other}'"))),
        }
    }

    /// The type of all elements so far. Different ones are dynamic, and refused in the end outside of `format`.
    fn join(&mut self, before: Option<(Type, Type)>, of: Type) -> (Type, Type) {
        let Some((first, before)) = before else { return (of.clone(), of) };
        if self.formats == 0 {
            self.same.push((first.clone(), of.clone()));
        }
        let joined = match self.found.assign(&before, &of) {
            true if is_wider(&before, &of) => before,
            true => of,
            false => Type::Dyn,
        };
        (first, joined)
    }

    fn map(&mut self, entries: &mut [(Expr, Entry)]) -> Result<Type, CompileError> {
        let (mut keys, mut values) = (None, None);
        for (key, entry) in entries {
            let key = self.expr(key)?;
            keys = Some(self.join(keys, key));
            let value = self.element(entry)?;
            values = Some(self.join(values, value));
        }
        let key = keys.map_or_else(|| self.new_open(), |(_, of)| of);
        let value = values.map_or_else(|| self.new_open(), |(_, of)| of);
        Ok(Type::map(key, value))
    }
}

/// Conversions of what is written out are made beforehand, and fail then.
fn literal_conversion(function: &str, arguments: &[Expr]) -> Result<(), CompileError> {
    let [Expr::Literal(value)] = arguments else { return Ok(()) };
    match functions::conversion(function, value) {
        Err(error) => Err(refused(error.to_string())),
        Ok(None) if function == "string" => Err(refused("no such overload: string(null_type)")),
        Ok(_) => Ok(()),
    }
}

fn type_named(name: &str) -> Type {
    match name {
        "null_type" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Duration" => Type::Opaque("google.protobuf.Duration"),
        "google.protobuf.Timestamp" => Type::Opaque("google.protobuf.Timestamp"),
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        _ => Type::Type(Arc::new(Type::Dyn)),
    }
}

fn type_of_literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}
