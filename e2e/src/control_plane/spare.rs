//! Operations of a test on the control plane as a whole: ports to put links before, a second API server, a backup
//! restored.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams};

use super::{Component, ControlPlane, User, connect, free_ports, is_ready, write};
use crate::process::{Process, Recipe};
use crate::wait;

/// From the start of a program to its first answer.
const DEADLINE: Duration = Duration::from_secs(60);

impl ControlPlane {
    /// The port of the API server.
    pub fn api_server_port(&self) -> Result<u16> {
        port_in(self.component(Component::ApiServer)?.recipe(), "--secure-port=")
    }

    /// The port on which etcd serves its clients.
    pub fn etcd_port(&self) -> Result<u16> {
        port_in(self.component(Component::ApiServer)?.recipe(), "--etcd-servers=http://127.0.0.1:")
    }

    /// A second API server over the etcd behind `etcd_port`, and its port, once it is ready. It has the keys, users and
    /// audit log of the first.
    pub async fn second_api_server(&self, etcd_port: u16) -> Result<(Process, u16)> {
        let [port] = free_ports()?;
        let mut recipe = self.component(Component::ApiServer)?.recipe().clone();
        recipe.name = "kube-apiserver-2".to_owned();
        recipe.log = recipe.log.with_file_name("kube-apiserver-2.log");
        replace(&mut recipe, "--secure-port=", &port.to_string());
        replace(&mut recipe, "--etcd-servers=", &format!("http://127.0.0.1:{etcd_port}"));
        let process = Process::start(recipe)?;
        let kubeconfig = self.folder().join("second.kubeconfig");
        let first = format!("https://127.0.0.1:{}\"", self.api_server_port()?);
        let text = fs::read_to_string(self.kubeconfig_of(User::Admin))?;
        write(&kubeconfig, &text.replace(&first, &format!("https://127.0.0.1:{port}\"")))?;
        let client = connect(&kubeconfig).await?;
        wait::until("the second API server is ready", DEADLINE, async || is_ready(&client).await).await?;
        Ok((process, port))
    }

    /// A copy of everything that etcd holds; the API server is without it for a moment.
    pub async fn back_up_etcd(&self) -> Result<PathBuf> {
        let etcd = self.component(Component::Etcd)?;
        let copy = self.folder().join("etcd-backup");
        etcd.kill();
        let copied = copy_folder(&self.folder().join("etcd"), &copy);
        etcd.restart()?;
        copied?;
        self.ready(DEADLINE).await?;
        Ok(copy)
    }

    /// Makes etcd hold what it held when `backup` was taken, its versions included, as its own restoration does by
    /// default. Every program of the control plane starts anew, as the instructions for that demand.
    pub async fn restore_etcd(&self, backup: &Path) -> Result<()> {
        let running = [Component::Kwok, Component::Scheduler, Component::ControllerManager];
        for component in running.into_iter().chain([Component::ApiServer, Component::Etcd]) {
            self.component(component)?.kill();
        }
        let data = self.folder().join("etcd");
        fs::remove_dir_all(&data).context("failed to remove what etcd holds")?;
        copy_folder(backup, &data)?;
        for component in [Component::Etcd, Component::ApiServer] {
            self.component(component)?.restart()?;
        }
        self.ready(DEADLINE).await?;
        // The killed KWOK held them, and another one leaves its nodes alone for 40 s: of a pod that is bound meanwhile it may
        // never hear.
        let leases: Api<Lease> = Api::namespaced(self.client(), "kube-node-lease");
        leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        running.into_iter().rev().try_for_each(|component| self.component(component)?.restart())
    }
}

fn port_in(recipe: &Recipe, flag: &str) -> Result<u16> {
    let value = recipe.args.iter().find_map(|arg| arg.strip_prefix(flag));
    value.with_context(|| format!("{} has no {flag}", recipe.name))?.parse().context("no port")
}

fn replace(recipe: &mut Recipe, flag: &str, value: &str) {
    for arg in recipe.args.iter_mut().filter(|arg| arg.starts_with(flag)) {
        *arg = format!("{flag}{value}");
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            let copied = fs::copy(entry.path(), &target)?;
            ensure!(copied == fs::metadata(&target)?.len(), "{} was copied in part", target.display());
        }
    }
    Ok(())
}
