use mcp_lifecycle_core::backend::fields::invalid;
use mcp_lifecycle_core::launch::SpecError;

/// Rejects an image that is named by a tag only, if a pin is `required`.
pub(super) fn check(image: &str, required: bool) -> Result<(), SpecError> {
    if !required || has_digest(image) || is_id(image) {
        return Ok(());
    }
    let problem = format!(
        "`{image}` may change behind its name, and only pinned images are to run; \
         give {image}@sha256:…, or the ID of one that is present"
    );
    Err(invalid("image", problem))
}

fn has_digest(image: &str) -> bool {
    image
        .rsplit_once('@')
        .is_some_and(|(name, digest)| !name.is_empty() && is_id(digest))
}

/// Returns whether it is the ID of an image, which has the form of a digest.
pub(super) fn is_id(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|digits| {
        digits.len() == 64
            && digits
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_digest_or_an_id_is_a_pin() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for image in [
            &*format!("r:5000/a@{digest}"),
            &format!("a:1@{digest}"),
            &digest,
        ] {
            check(image, true).unwrap();
        }
        for image in [
            "a",
            "a:1",
            "a@sha256:00",
            "sha256:0",
            "@",
            &format!("@{digest}"),
        ] {
            let text = check(image, true).unwrap_err().to_string();
            assert!(text.contains("pinned"), "{text}");
            check(image, false).unwrap();
        }
    }
}
