//! The types of macros: what they bind, and what they come to.

use std::sync::Arc;

use super::CompileError;
use super::check::{Check, refused};
use super::syntax::{Each, EachKind, Expr};
use super::types::Type;

impl Check {
    /// `optMap` and `optFlatMap`.
    pub(super) fn if_present(
        &mut self,
        target: &mut Expr,
        name: &Arc<str>,
        body: &mut Expr,
        flat: bool,
    ) -> Result<Type, CompileError> {
        let target = self.expr(target)?;
        let inner = self.new_open();
        if !self.found.assign(&target, &Type::optional(inner.clone())) {
            return Err(refused(format!("found no optional but {target}")));
        }
        let inner = self.found.put_in(&inner);
        let body = self.scoped([(name.clone(), inner)], |check| check.expr(body))?;
        if !flat {
            return Ok(Type::optional(body));
        }
        let optional = Type::optional(self.new_open());
        if self.found.assign(&body, &optional) {
            return Ok(self.found.put_in(&optional));
        }
        Err(refused("optFlatMap wants an optional"))
    }

    /// A macro over a range.
    pub(super) fn each(&mut self, each: &mut Each) -> Result<Type, CompileError> {
        let range = self.expr(&mut each.range)?;
        let range = self.found.put_in(&range);
        let two = each.names.1.is_some();
        let (first, second) = match &range {
            Type::List(of) if two => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Dyn),
            Type::Map(pair) => (pair.0.clone(), pair.1.clone()),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            Type::Var(_) => {
                self.found.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => return Err(refused(format!("'{other}' cannot be the range of a comprehension"))),
        };
        let second_name = each.names.1.clone().unwrap_or_else(|| "".into());
        let names = [(each.names.0.clone(), first.clone()), (second_name, second.clone())];
        let kind = each.kind;
        self.scoped(names, |check| {
            if let Some(filter) = &mut each.filter {
                let filter = check.expr(filter)?;
                check.must_be_bool(&filter)?;
            }
            let body = check.expr(&mut each.body)?;
            check.result_of_each(kind, &range, first, second, two, body)
        })
    }

    fn result_of_each(
        &mut self,
        kind: EachKind,
        range: &Type,
        first: Type,
        second: Type,
        two: bool,
        body: Type,
    ) -> Result<Type, CompileError> {
        match kind {
            EachKind::All | EachKind::Exists | EachKind::ExistsOne => {
                self.must_be_bool(&body)?;
                Ok(Type::Bool)
            }
            EachKind::Filter => {
                self.must_be_bool(&body)?;
                Ok(Type::list(first))
            }
            EachKind::ToList => Ok(Type::list(body)),
            EachKind::ToMap => Ok(Type::map(first, body)),
            EachKind::ToMapEntries => match self.found.put_in(&body) {
                found @ (Type::Map(_) | Type::Dyn) => Ok(found),
                other => Err(refused(format!("transformMapEntry wants a map but found '{other}'"))),
            },
            EachKind::SortBy => match (range, self.found.put_in(&body)) {
                (
                    Type::List(_) | Type::Dyn,
                    Type::Int
                    | Type::Uint
                    | Type::Double
                    | Type::Bool
                    | Type::String
                    | Type::Bytes
                    | Type::Dyn,
                ) => Ok(Type::list(if two { second } else { first })),
                (_, other) => Err(refused(format!("cannot sort by '{other}'"))),
            },
        }
    }
}
