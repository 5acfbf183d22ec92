//! GPUs and devices, in the words of the engine. Pure.

use bollard::models::{DeviceMapping, DeviceRequest};
use mcp_lifecycle_core::launch::SpecError;

use super::body::invalid;
use super::{ContainerOptions, Gpus};

/// The devices that the engine is asked for.
#[derive(Debug, Default)]
pub(super) struct Devices {
    pub(super) mappings: Vec<DeviceMapping>,
    pub(super) requests: Vec<DeviceRequest>,
}

pub(super) fn of(options: &ContainerOptions) -> Result<Devices, SpecError> {
    let mut devices = Devices::default();
    devices.requests.extend(options.gpus.as_ref().map(gpus));
    for device in &options.devices {
        if device.starts_with('/') {
            devices.mappings.push(mapping(device)?);
        } else {
            devices.requests.push(cdi(device)?);
        }
    }
    Ok(devices)
}

fn gpus(gpus: &Gpus) -> DeviceRequest {
    let (count, device_ids) = match gpus {
        Gpus::All => (Some(-1), None),
        Gpus::Count(count) => (Some(i64::from(*count)), None),
        Gpus::Devices(ids) => (None, Some(ids.clone())),
    };
    DeviceRequest {
        count,
        device_ids,
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..DeviceRequest::default()
    }
}

/// `HOST[:CONTAINER][:PERMISSIONS]`
fn mapping(device: &str) -> Result<DeviceMapping, SpecError> {
    let wrong = || {
        let problem = format!("`{device}` is not /dev/x, /dev/x:/dev/y or /dev/x:/dev/y:rwm");
        invalid("devices", problem)
    };
    let mut parts: Vec<&str> = device.split(':').collect();
    let is_mode = |part: &str| !part.is_empty() && part.chars().all(|c| "rwm".contains(c));
    let permissions = match parts.last() {
        Some(last) if parts.len() > 1 && is_mode(last) => parts.pop().unwrap_or("rwm"),
        _ => "rwm",
    };
    let (host, container) = match parts[..] {
        [host] => (host, host),
        [host, container] if container.starts_with('/') => (host, container),
        _ => return Err(wrong()),
    };
    Ok(DeviceMapping {
        path_on_host: Some(host.to_owned()),
        path_in_container: Some(container.to_owned()),
        cgroup_permissions: Some(permissions.to_owned()),
    })
}

/// `VENDOR/CLASS=NAME`
fn cdi(device: &str) -> Result<DeviceRequest, SpecError> {
    let is_name = device
        .split_once('=')
        .is_some_and(|(kind, name)| kind.contains('/') && !name.is_empty());
    if !is_name {
        let problem =
            format!("`{device}` is neither a path nor a CDI device such as vendor.com/class=name");
        return Err(invalid("devices", problem));
    }
    Ok(DeviceRequest {
        driver: Some("cdi".to_owned()),
        device_ids: Some(vec![device.to_owned()]),
        ..DeviceRequest::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(device: &str) -> Result<Devices, SpecError> {
        of(&ContainerOptions::new("i").device(device))
    }

    #[test]
    fn devices_are_written_as_for_docker_run() {
        for (device, expected) in [
            ("/dev/fuse", ["/dev/fuse", "/dev/fuse", "rwm"]),
            ("/dev/a:/dev/b", ["/dev/a", "/dev/b", "rwm"]),
            ("/dev/a:r", ["/dev/a", "/dev/a", "r"]),
            ("/dev/a:/dev/b:rw", ["/dev/a", "/dev/b", "rw"]),
        ] {
            let mapping = parsed(device).unwrap().mappings.remove(0);
            let parts = [
                mapping.path_on_host,
                mapping.path_in_container,
                mapping.cgroup_permissions,
            ];
            assert_eq!(parts.map(Option::unwrap), expected, "{device}");
        }
        let cdi = parsed("nvidia.com/gpu=0").unwrap().requests.remove(0);
        assert_eq!(cdi.driver.unwrap(), "cdi");
        for wrong in ["dev", "/dev/a:b", "/a:/b:rw:x", "x/y", "x/y="] {
            let error = parsed(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn gpus_are_asked_for_as_docker_does() {
        let request = |written| gpus(&serde_json::from_value(written).unwrap());
        let all = request(serde_json::json!("all"));
        assert_eq!(all.count, Some(-1));
        assert_eq!(all.capabilities.unwrap(), [["gpu"]]);
        assert_eq!(request(serde_json::json!(2)).count, Some(2));
        let some = request(serde_json::json!(["0", "GPU-1"]));
        assert_eq!(some.device_ids.unwrap(), ["0", "GPU-1"]);
        serde_json::from_value::<Gpus>(serde_json::json!("some")).unwrap_err();
    }
}
