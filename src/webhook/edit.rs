//! Fields that are put into a body, where a tool signs there.
//!
//! `sign` makes deliveries with it.
//!
//! **Invariant**: the rest of the body stays as it was, but for white space.

use serde_json::Value;

use super::path::Step;

/// A body that fields can be put into.
pub(super) enum Body {
    Json(Value),
    /// The fields of a form.
    Form(Vec<(String, String)>),
}

impl Body {
    pub(super) fn read(body: &[u8], is_form: bool) -> Option<Body> {
        if is_form {
            let fields = form_urlencoded::parse(body).into_owned().collect();
            return Some(Body::Form(fields));
        }
        let parsed = super::field::parse(body);
        parsed
            .filter(|value| matches!(value, Value::Object(_) | Value::Array(_)))
            .map(Body::Json)
    }

    pub(super) fn written(&self) -> Vec<u8> {
        match self {
            Body::Json(value) => value.to_string().into_bytes(),
            Body::Form(fields) => {
                let mut form = form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(fields);
                form.finish().into_bytes()
            }
        }
    }

    /// Hands over each value at the end of the steps, and makes those that are not there, if it is told so.
    pub(super) fn each(&mut self, steps: &[Step], makes: bool, then: &mut dyn FnMut(&mut Value)) {
        match self {
            Body::Json(value) => each(value, steps, makes, then),
            Body::Form(fields) => {
                let Some((Step::Name(name), rest)) = steps.split_first() else {
                    return;
                };
                for (_, text) in fields.iter_mut().filter(|(own, _)| own == name) {
                    let mut value = Value::String(std::mem::take(text));
                    each(&mut value, rest, makes, then);
                    *text = match value {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                }
            }
        }
    }
}

pub(super) fn each(
    value: &mut Value,
    steps: &[Step],
    makes: bool,
    then: &mut dyn FnMut(&mut Value),
) {
    let Some((step, rest)) = steps.split_first() else {
        return then(value);
    };
    if let Value::String(text) = value
        && let Ok(mut inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
    {
        each(&mut inner, steps, makes, then);
        *text = inner.to_string();
        return;
    }
    if makes
        && matches!(step, Step::Name(_))
        && !matches!(value, Value::Object(_) | Value::Array(_))
    {
        *value = Value::Object(serde_json::Map::new());
    }
    match (value, step) {
        (Value::Object(fields), Step::Name(name)) if !makes => {
            if let Some(value) = fields.get_mut(name) {
                each(value, rest, makes, then);
            }
        }
        (Value::Object(fields), Step::Name(name)) => {
            let empty = || match rest.is_empty() {
                true => Value::Null,
                false => Value::Object(serde_json::Map::new()),
            };
            each(fields.entry(name).or_insert_with(empty), rest, makes, then);
        }
        (Value::Array(values), Step::Each) => {
            values
                .iter_mut()
                .for_each(|value| each(value, rest, makes, then));
        }
        _ => {}
    }
}
