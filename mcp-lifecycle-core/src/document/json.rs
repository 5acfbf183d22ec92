//! Parses JSON with comments and trailing commas (VS Code, Zed) or JSON5 (OpenClaw).

use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use serde_json::Value as Scalar;

use super::{Member, Misfit, Node, Value};

pub(super) fn parse(text: &str) -> Result<Node, Misfit> {
    let options = ParseOptions {
        // No host accepts missing commas.
        allow_missing_commas: false,
        ..ParseOptions::default()
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    let parsed = parsed.map_err(|error| Misfit::new(error.range().start, error.kind()))?;
    let empty = Node {
        value: Value::Other(Scalar::Null),
        range: 0..0,
    };
    Ok(parsed.value.as_ref().map_or(empty, node))
}

fn node(value: &ast::Value<'_>) -> Node {
    let range = value.range();
    Node {
        range: range.start..range.end,
        value: match value {
            ast::Value::Object(object) => Value::Table {
                members: object.properties.iter().map(member).collect(),
                is_braced: true,
            },
            ast::Value::Array(list) => Value::List(list.elements.iter().map(node).collect()),
            ast::Value::StringLit(text) => Value::Text(text.value.clone().into_owned()),
            // A number that only JSON5 has is read as null.
            ast::Value::NumberLit(number) => {
                Value::Other(number.value.parse().map_or(Scalar::Null, Scalar::Number))
            }
            ast::Value::BooleanLit(value) => Value::Other(value.value.into()),
            ast::Value::NullKeyword(_) => Value::Other(Scalar::Null),
        },
    }
}

fn member(property: &ast::ObjectProp<'_>) -> Member {
    Member {
        name: property.name.as_str().to_owned(),
        start: property.range().start,
        node: node(&property.value),
    }
}
