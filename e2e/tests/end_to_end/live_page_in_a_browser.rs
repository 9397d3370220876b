//! The live page in a real browser: it shows what the operator decided and why, and goes on without being loaded anew.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);
/// The first run on a machine may install the browser.
const BROWSER: Duration = Duration::from_secs(300);

/// The browser's test; dropping it ends it.
struct Reader(Child);

impl Drop for Reader {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and nothing is left to do then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn live_page_shows_decisions_with_their_reasons_and_follows_the_cluster() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // The pods are there before the pool: with both at once, the first node may be bought for replicas that are not.
        cluster.apply(deployment("web").replicas(3)).await?;
        wait::until("the pods wait", MINUTE, async || {
            let n_pending = cluster.pods_in_phase("default", "app=web", "Pending").await?;
            ensure!(n_pending == 3, "{n_pending} pods wait");
            Ok(())
        })
        .await?;
        cluster.apply(pool("general").nodes(0, 5)).await?;
        wait::until("the pods run", MINUTE, async || cluster.running_pods_are("default", "app=web", 3).await)
            .await?;

        let read = cluster.folder().join("page-was-read");
        let words = cluster.folder().join("reader.log");
        let said = File::create(&words)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages/test.sh");
        let reader = Command::new(script)
            .arg("test_live")
            .env("HEADROOM_PAGE", operator.page())
            .env("HEADROOM_PAGE_WAS_READ", &read)
            .stdout(said.try_clone()?)
            .stderr(said)
            .spawn()
            .context("failed to start pages/test.sh")?;
        let mut reader = Reader(reader);
        // The reader reports when it has seen the first decision; later ones it must see without loading the page anew.
        wait::until("the page is read", BROWSER, async || {
            let ended = reader.0.try_wait()?.is_some();
            ensure!(ended || read.exists(), "the page has not been read yet");
            Ok(())
        })
        .await?;
        cluster.apply(deployment("web").replicas(40)).await?;
        wait::until("the reader is content", BROWSER, async || {
            let status = reader.0.try_wait()?.context("the reader still reads")?;
            Ok(content(status.success(), &words))
        })
        .await?
    })
    .await;
}

fn content(success: bool, words: &Path) -> Result<()> {
    let said = std::fs::read_to_string(words)?;
    ensure!(success, "the test in the browser failed: {said}");
    // Without a browser the test counts as skipped, with a message.
    eprint!("{said}");
    Ok(())
}
