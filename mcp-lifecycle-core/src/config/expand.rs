//! Expands `${VAR}` and `${VAR:-default}`.

pub(super) type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unresolved {
    pub(super) reference: String,
    pub(super) problem: String,
}

/// Replaces references. `$${` is a literal `${`; a value is not expanded again.
pub(super) fn expand(text: &str, lookup: &Lookup<'_>) -> Result<String, Unresolved> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if rest[..start].ends_with('$') {
            out.push_str(&rest[..start]);
            out.push('{');
            rest = &rest[start + 2..];
            continue;
        }
        out.push_str(&rest[..start]);
        let inner = &rest[start + 2..];
        let Some(end) = inner.find('}') else {
            return Err(Unresolved {
                reference: rest[start..].to_owned(),
                problem: "`${` without a closing `}`".to_owned(),
            });
        };
        out.push_str(&resolve(&inner[..end], lookup)?);
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn resolve(inner: &str, lookup: &Lookup<'_>) -> Result<String, Unresolved> {
    let unresolved = |problem: String| Unresolved {
        reference: format!("${{{inner}}}"),
        problem,
    };
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    if let Some(input) = name.strip_prefix("input:") {
        return Err(unresolved(format!(
            "`${{input:{input}}}` asks the user of an editor; set an environment variable instead"
        )));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        return Err(unresolved(format!(
            "`{name}` is not the name of a variable"
        )));
    }
    // As in a shell, `:-` also replaces an empty value.
    match (lookup(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(unresolved(format!(
            "variable `{name}` is not set, and has no default"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let lookup = |name: &str| match name {
            "HOME" => Some("/home/me".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${HOME}".to_owned()),
            _ => None,
        };
        expand(text, &lookup).map_err(|unresolved| unresolved.problem)
    }

    #[test]
    fn references_are_replaced_once() {
        assert_eq!(
            expanded("${HOME}/x:${env:HOME}").unwrap(),
            "/home/me/x:/home/me"
        );
        assert_eq!(expanded("${NESTED}").unwrap(), "${HOME}");
        assert_eq!(expanded("$HOME $5 {}").unwrap(), "$HOME $5 {}");
        assert_eq!(expanded("$${HOME}").unwrap(), "${HOME}");
    }

    #[test]
    fn a_default_replaces_what_is_not_set_or_empty() {
        assert_eq!(expanded("${NOPE:-a b}").unwrap(), "a b");
        assert_eq!(expanded("${EMPTY:-x}${NOPE:-}").unwrap(), "x");
        assert_eq!(expanded("${EMPTY}").unwrap(), "");
    }

    #[test]
    fn what_cannot_be_resolved_says_what_and_why() {
        assert!(
            expanded("${NOPE}")
                .unwrap_err()
                .contains("`NOPE` is not set")
        );
        assert!(expanded("${HOME").unwrap_err().contains("closing"));
        assert!(
            expanded("${input:key}")
                .unwrap_err()
                .contains("asks the user")
        );
        assert!(expanded("${}").unwrap_err().contains("not the name"));
    }
}
