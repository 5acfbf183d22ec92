use mcp_lifecycle_core::backend::fields::invalid;
use mcp_lifecycle_core::launch::SpecError;

use super::ContainerOptions;

/// Rejects an invalid ID, and an image that is named by a tag only if a pin is `required`.
pub(super) fn check(
    options: &ContainerOptions,
    image: Option<&str>,
    required: bool,
) -> Result<(), SpecError> {
    if let Some(id) = &options.image_id {
        let problem = || format!("`{id}` is no id of an image: sha256: and 64 digits");
        return match is_sha256(id) {
            true => Ok(()),
            false => Err(invalid("image_id", problem())),
        };
    }
    match image {
        Some(image) if required && !has_digest(image) => {
            let problem = format!(
                "`{image}` may change behind its name, and only pinned images are to run; \
                 give {image}@sha256:… or `image_id`"
            );
            Err(invalid("image", problem))
        }
        _ => Ok(()),
    }
}

fn has_digest(image: &str) -> bool {
    image
        .rsplit_once('@')
        .is_some_and(|(name, digest)| !name.is_empty() && is_sha256(digest))
}

fn is_sha256(text: &str) -> bool {
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
        let options = |image: &str| ContainerOptions::new(image);
        let refused = |options: &ContainerOptions| {
            let image = options.image.as_deref();
            check(options, image, true).err().map(|e| e.to_string())
        };
        assert_eq!(refused(&options(&format!("r:5000/a@{digest}"))), None);
        assert_eq!(refused(&options(&format!("a:1@{digest}"))), None);
        assert_eq!(refused(&options("a:1").image_id(&digest)), None);
        for image in [
            "a",
            "a:1",
            "a@sha256:00",
            "@",
            &format!("@{digest}"),
            &digest,
        ] {
            let text = refused(&options(image)).unwrap();
            assert!(text.contains("image_id"), "{text}");
        }
        assert!(refused(&options("a").image_id("sha256:0")).is_some());
        let tag = options("a:1");
        check(&tag, tag.image.as_deref(), false).unwrap();
    }
}
