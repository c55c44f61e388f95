//! One line of tensors.jsonl: everything said about a tensor except its values.

use std::fmt::Write;

use crate::json::{push_float, push_text};
use crate::tensor::Tensor;

/// What a tensor is to its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Input,
    Output,
    Param,
    Buffer,
    Grad,
    /// A value somebody marked; pairs with an output.
    Tap,
}

impl Role {
    /// The name in the trace format.
    pub fn name(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Output => "output",
            Role::Param => "param",
            Role::Buffer => "buffer",
            Role::Grad => "grad",
            Role::Tap => "tap",
        }
    }

    /// The role of a name in the trace format.
    pub fn from_name(name: &str) -> Option<Role> {
        let roles = [Role::Input, Role::Output, Role::Param, Role::Buffer, Role::Grad, Role::Tap];
        roles.into_iter().find(|role| role.name() == name)
    }
}

/// A setting of an operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attr {
    Int(i64),
    Float(f64),
    Text(String),
    Bool(bool),
}

macro_rules! attrs {
    ($($from:ty, $variant:ident, $to:expr;)*) => {$(
        impl From<$from> for Attr {
            fn from(value: $from) -> Attr {
                let to = $to;
                Attr::$variant(to(value))
            }
        }
    )*};
}

attrs! {
    i64, Int, |x| x;
    i32, Int, i64::from;
    u32, Int, i64::from;
    f64, Float, |x| x;
    f32, Float, f64::from;
    bool, Bool, |x| x;
    String, Text, |x| x;
    &str, Text, str::to_string;
}

/// What a recorder knows of a tensor.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) role: Role,
    pub(crate) slot: String,
    pub(crate) call: u64,
    pub(crate) step: u64,
    pub(crate) op: Option<&'a str>,
    pub(crate) attrs: Vec<(&'a str, Attr)>,
    pub(crate) parent: Option<&'a str>,
    pub(crate) dims: Option<&'a str>,
    place: (u64, u64),
}

impl<'a> Line<'a> {
    pub(crate) fn new(name: &'a str, place: (u64, u64)) -> Line<'a> {
        Line {
            name,
            role: Role::Tap,
            slot: "0".to_string(),
            call: 0,
            step: 0,
            op: None,
            attrs: Vec::new(),
            parent: None,
            dims: None,
            place,
        }
    }

    /// What calls are counted by; a tap is an output.
    pub(crate) fn identity(&self) -> (String, String, u64) {
        let role = if self.role == Role::Tap { Role::Output } else { self.role };
        (self.name.to_string(), format!("{}.{}", role.name(), self.slot), self.step)
    }

    /// The JSON, defaults left out, with the end of the line.
    pub(crate) fn to_json(&self, seq: u64, file: &str, tensor: &Tensor<'_>) -> String {
        let mut out = String::with_capacity(160);
        let (rank, world) = self.place;
        out.push_str("{\"name\": ");
        push_text(&mut out, self.name);
        push_field(&mut out, "role", Some(self.role.name()));
        push_field(&mut out, "slot", Some(self.slot.as_str()).filter(|slot| *slot != "0"));
        push_count(&mut out, "call", Some(self.call).filter(|&call| call != 0));
        push_count(&mut out, "step", Some(self.step).filter(|&step| step != 0));
        push_count(&mut out, "seq", Some(seq));
        push_field(&mut out, "op", self.op);
        self.push_attrs(&mut out);
        push_field(&mut out, "parent", self.parent);
        push_count(&mut out, "rank", Some(rank).filter(|&rank| rank != 0));
        push_count(&mut out, "world", Some(world).filter(|&world| world != 1));
        push_field(&mut out, "dims", self.dims);
        push_field(&mut out, "file", Some(file));
        push_field(&mut out, "dtype", Some(tensor.dtype().name()));
        let _ = writeln!(out, ", \"shape\": {:?}}}", tensor.shape());
        out
    }

    fn push_attrs(&self, out: &mut String) {
        if !self.attrs.is_empty() {
            out.push_str(", \"attrs\": ");
            push_table(out, self.attrs.iter().map(|(name, value)| (*name, value)));
        }
    }
}

/// A JSON object of settings.
pub(crate) fn push_table<'a>(out: &mut String, entries: impl Iterator<Item = (&'a str, &'a Attr)>) {
    for (number, (name, value)) in entries.enumerate() {
        out.push_str(if number == 0 { "{" } else { ", " });
        push_text(out, name);
        out.push_str(": ");
        match value {
            Attr::Int(whole) => out.push_str(&whole.to_string()),
            Attr::Float(number) => push_float(out, *number),
            Attr::Text(text) => push_text(out, text),
            Attr::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        }
    }
    out.push('}');
}

fn push_field(out: &mut String, name: &str, value: Option<&str>) {
    if let Some(text) = value {
        let _ = write!(out, ", \"{name}\": ");
        push_text(out, text);
    }
}

fn push_count(out: &mut String, name: &str, value: Option<u64>) {
    if let Some(number) = value {
        let _ = write!(out, ", \"{name}\": {number}");
    }
}
