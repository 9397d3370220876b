//! The images go to a registry and come back byte for byte, and krew installs the plugin that is packed of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use e2e::binaries;
use e2e::registry::Registry;
use serde_json::Value;

/// In place of the operator, whose images take many minutes to build.
const PROGRAM: &str = "#!/bin/sh\necho \"$(basename \"$0\") is asked for $*\"\n";
const PLATFORMS: [&str; 2] = ["amd64", "arm64"];

#[tokio::test]
async fn a_pushed_image_comes_back_byte_for_byte() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let registry = Registry::start(&folder.path().join("registry")).await?;
    let layout = images(folder.path(), "one", PROGRAM)?;
    let login = folder.path().join("login");
    fs::create_dir(&login)?;
    let refused = push(&registry, &layout, &login)?;
    ensure!(!refused.status.success() && text(&refused.stderr).contains("401 Unauthorized"), "{refused:?}");

    fs::write(login.join("config.json"), registry.credentials())?;
    let digests = digests(&layout)?;
    let image = format!("{}/team/headroom:7.7.7", registry.address());
    let pushed = succeeded(push(&registry, &layout, &login)?)?;
    ensure!(pushed.trim() == format!("{image}@{}", digests["index"]), "{pushed}");

    // The reference that a chart installs, and what a node of each platform makes of it.
    let by_digest = pushed.trim().replace(":7.7.7@", "@");
    for platform in PLATFORMS.map(|architecture| format!("linux/{architecture}")) {
        let digest = crane(&login, &["digest", "--platform", &platform, &by_digest])?;
        ensure!(digest.trim() == digests[&platform], "{platform}: {digest}");
    }
    let back = folder.path().join("back");
    crane(&login, &["pull", "--format=oci", &by_digest, &back.display().to_string()])?;
    let (sent, received) = (blobs(&layout)?, blobs(&back)?);
    // The index, and for each platform manifest, configuration and layer.
    ensure!(sent.len() == 1 + 3 * PLATFORMS.len(), "{:?}", sent.keys());
    ensure!(sent == received, "{:?} were sent, {:?} came back", sent.keys(), received.keys());
    let index: Value = serde_json::from_str(&fs::read_to_string(back.join("index.json"))?)?;
    ensure!(index["manifests"][0]["digest"] == digests["index"], "{index}");
    Ok(())
}

#[tokio::test]
async fn only_what_was_built_gets_the_tag() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let registry = Registry::start(&folder.path().join("registry")).await?;
    fs::write(folder.path().join("config.json"), registry.credentials())?;
    let (layout, other) =
        (images(folder.path(), "one", PROGRAM)?, images(folder.path(), "other", "#!/bin/sh\n")?);
    fs::copy(other.join("digests"), layout.join("digests"))?;
    let refused = push(&registry, &layout, folder.path())?;
    ensure!(!refused.status.success() && text(&refused.stderr).contains("another image"), "{refused:?}");
    let missing = crane(folder.path(), &["digest", &format!("{}/team/headroom:7.7.7", registry.address())]);
    ensure!(missing.is_err(), "the tag is there");
    Ok(())
}

#[tokio::test]
async fn krew_installs_the_plugin_that_is_packed_of_the_images() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let layout = images(folder.path(), "image", PROGRAM)?;
    let url = "https://forge.example/headroom/releases/v1";
    let packed = pack(&layout, url, &folder.path().join("packed"))?;
    let again = pack(&layout, url, &folder.path().join("again"))?;
    let manifest = fs::read_to_string(packed.join("headroom.yaml"))?;
    ensure!(manifest == fs::read_to_string(again.join("headroom.yaml"))?, "packed twice, and not the same");
    let summed = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&packed)
        .output()?;
    ensure!(succeeded(summed)?.lines().count() == PLATFORMS.len(), "not each archive has a checksum");
    for architecture in PLATFORMS {
        let uri = format!("uri: {url}/kubectl-headroom_linux_{architecture}.tar.gz\n");
        ensure!(manifest.contains(&uri), "{uri} is not in {manifest}");
    }

    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let archive = packed.join(format!("kubectl-headroom_linux_{architecture}.tar.gz"));
    let root = folder.path().join("krew");
    let krew = tokio::task::spawn_blocking(binaries::krew).await??.join("bin/krew");
    let install = |archive: &Path| {
        Command::new(&krew)
            .args(["install", "--manifest"])
            .arg(packed.join("headroom.yaml"))
            .arg(format!("--archive={}", archive.display()))
            .env("KREW_ROOT", &root)
            .env("KREW_NO_UPGRADE_CHECK", "1")
            .output()
    };
    let other = folder.path().join("other.tar.gz");
    let mut bytes = fs::read(&archive)?;
    *bytes.last_mut().context("an empty archive")? ^= 1;
    fs::write(&other, bytes)?;
    let refused = install(&other)?;
    ensure!(!refused.status.success() && text(&refused.stderr).contains("checksum"), "{refused:?}");

    succeeded(install(&archive)?)?;
    let kubectl = tokio::task::spawn_blocking(binaries::control_plane).await??.join("bin/kubectl");
    let path = format!("{}:{}", root.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let answer = Command::new(kubectl).args(["headroom", "explain", "pod"]).env("PATH", path).output()?;
    ensure!(succeeded(answer)?.trim() == "kubectl-headroom is asked for explain pod");
    Ok(())
}

/// Writes images of `program` for all platforms as hack/image/build.sh does, and returns their folder.
fn images(folder: &Path, name: &str, program: &str) -> Result<PathBuf> {
    let (roots, layout) = (folder.join("roots.pem"), folder.join(name));
    fs::write(&roots, "no authorities\n")?;
    let mut command = go();
    command.args(["run", ".", "-version=7.7.7", "-revision=none"]).env("SOURCE_DATE_EPOCH", "1700000000");
    command.arg(format!("-roots={}", roots.display())).arg(format!("-out={}", layout.display()));
    for architecture in PLATFORMS {
        let binary = folder.join(format!("{name}-{architecture}.sh"));
        fs::write(&binary, format!("{program}# for {architecture}\n"))?;
        command.arg(format!("-binary={architecture}={}", binary.display()));
    }
    let digests = succeeded(command.output()?)?;
    fs::write(layout.join("digests"), digests)?;
    Ok(layout)
}

fn push(registry: &Registry, layout: &Path, login: &Path) -> Result<Output> {
    let script = binaries::repository().join("hack/image/push.sh");
    let mut command = Command::new(script);
    command.arg(format!("{}/team", registry.address())).arg(layout);
    command.env("TAG", "7.7.7").env("DOCKER_CONFIG", login).output().context("failed to push")
}

fn pack(layout: &Path, url: &str, out: &Path) -> Result<PathBuf> {
    let script = binaries::repository().join("hack/plugin.sh");
    succeeded(Command::new(script).arg(layout).arg(url).arg(out).output()?)?;
    Ok(out.to_path_buf())
}

fn crane(login: &Path, args: &[&str]) -> Result<String> {
    succeeded(go().args(["tool", "crane"]).args(args).env("DOCKER_CONFIG", login).output()?)
}

/// Go in the folder of the images' module.
fn go() -> Command {
    let mut command = Command::new("go");
    command.current_dir(binaries::repository().join("hack/image"));
    command.env("CGO_ENABLED", "0").env("GOFLAGS", "-trimpath -buildvcs=false");
    command
}

/// Digests by what they are of: `index`, `linux/amd64`, ….
fn digests(layout: &Path) -> Result<BTreeMap<String, String>> {
    let lines = fs::read_to_string(layout.join("digests"))?;
    let words = lines.lines().filter_map(|line| line.split_once(' '));
    Ok(words
        .map(|(of, rest)| (of.to_owned(), rest.split(' ').next().unwrap_or_default().to_owned()))
        .collect())
}

/// Everything in the layout, by digest.
fn blobs(layout: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut blobs = BTreeMap::new();
    for entry in fs::read_dir(layout.join("blobs/sha256"))? {
        let entry = entry?;
        blobs.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
    }
    Ok(blobs)
}

fn succeeded(output: Output) -> Result<String> {
    ensure!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
