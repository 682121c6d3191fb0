//! The part of JSON Schema that ours use, checked strictly: what a schema does not name is wrong here. To others it is a field
//! that a later version added, so the schemas themselves are open.

use serde_json::Value;

/// A schema of `tests/schemas`, which is what `docs/cli.md` promises.
pub(crate) fn check(name: &str, value: &Value) {
    let schema = load(name);
    if let Err(wrong) = matches(&schema, value) {
        panic!("not as {name}.json says: {wrong}\n{value:#}");
    }
}

fn load(name: &str) -> Value {
    let path = format!("{}/tests/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn matches(schema: &Value, value: &Value) -> Result<(), String> {
    let schema = schema.as_object().ok_or("a schema is an object")?;
    for (word, rule) in schema {
        match word.as_str() {
            "$schema" | "title" | "description" => {}
            "$ref" => {
                let file = rule.as_str().and_then(|file| file.strip_suffix(".json"));
                matches(&load(file.ok_or("a reference names a file")?), value)?;
            }
            "type" => {
                let allowed: Vec<&str> = match rule {
                    Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
                    one => one.as_str().into_iter().collect(),
                };
                if !allowed.iter().any(|t| is(t, value)) {
                    return Err(format!("{value} is not {allowed:?}"));
                }
            }
            "enum" => {
                if !rule.as_array().is_some_and(|words| words.contains(value)) {
                    return Err(format!("{value} is none of {rule}"));
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|n| n < rule.as_f64().unwrap_or(f64::MAX)) {
                    return Err(format!("{value} is less than {rule}"));
                }
            }
            "required" => {
                for key in rule.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if value.is_object() && value.get(key).is_none() {
                        return Err(format!("{key} is missing"));
                    }
                }
            }
            "properties" => {
                for (key, part) in value.as_object().into_iter().flatten() {
                    let rule = rule.get(key).ok_or_else(|| format!("{key} is not in it"))?;
                    matches(rule, part).map_err(|wrong| format!("{key}: {wrong}"))?;
                }
            }
            "items" => {
                for part in value.as_array().into_iter().flatten() {
                    matches(rule, part)?;
                }
            }
            other => return Err(format!("this checker does not know {other}")),
        }
    }
    Ok(())
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
