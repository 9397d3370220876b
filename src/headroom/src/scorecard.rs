//! `headroom scorecard`: what was done in the cluster beside what Headroom would have done. It reads one object.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use headroom_api::{SCORECARD_NAME, ScorecardStatus, StoredScorecard};
use headroom_explain::scorecard::{Report, report};
use headroom_operator::page::{self, Document, DocumentKind, Live, Run, SCHEMA, Sample};
use kube::{Api, Client};

use crate::source::{Form, Output};
use crate::{gather, scorekeeping, terminal};

/// Examples of `headroom scorecard`.
pub const EXAMPLES: &str = "Beside Cluster Autoscaler or Karpenter, before they are switched off: `headroom run --preview --scorecard`, or
preview and scorecard of the chart, then a day or two.

Examples:
  headroom scorecard
  headroom scorecard -o html > scorecard.html
  headroom scorecard -o json | jq '.differences[]'";

/// Form of the scorecard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ScorecardForm {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// One HTML file that needs no network.
    Html,
}

/// Options of `headroom scorecard`.
#[derive(Args, Clone, Debug)]
pub struct ScorecardOptions {
    /// Context of the kubeconfig; the current one if not given
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ScorecardForm::Text, value_name = "FORM")]
    pub output: ScorecardForm,
}

/// Prints the scorecard.
///
/// # Errors
/// If there is none, with how to have one; if the cluster cannot be read.
pub async fn scorecard(options: ScorecardOptions) -> anyhow::Result<()> {
    let config = gather::config(options.context.as_deref()).await?;
    let client = Client::try_from(config).context("failed to set up the cluster's client")?;
    let status = read(client).await?;
    let report = report(&status);
    let form = match options.output {
        ScorecardForm::Text => Form::Text,
        ScorecardForm::Json => Form::Json,
        ScorecardForm::Yaml => Form::Yaml,
        ScorecardForm::Html => {
            let page = page::html(&document(&status, &report)).context("failed to write the page")?;
            return terminal::print_generated(page.as_bytes()).context("failed to print");
        }
    };
    Output { output: form }.print(&report, || report.text())
}

async fn read(client: Client) -> anyhow::Result<ScorecardStatus> {
    const HOW: &str = "run the operator with --scorecard (scorecard: true of the chart), and --preview beside another autoscaler";
    let api: Api<StoredScorecard> = Api::all(client);
    match api.get_opt(SCORECARD_NAME).await {
        Ok(Some(stored)) => serde_json::from_value(stored.status).context("failed to read its status"),
        Ok(None) => bail!("there is no Scorecard: {HOW}"),
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "the cluster does not know Scorecards: `headroom crds | kubectl apply --server-side -f -`, then {HOW}"
        ),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            bail!("not permitted to read the Scorecard: {}", status.message)
        }
        Err(error) => Err(error).context("failed to read the Scorecard"),
    }
}

/// The page: both sides by the hour, and the tables.
fn document(status: &ScorecardStatus, report: &Report) -> Document {
    let at = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.as_ref().map_or(0, |time| time.0.as_second())
    };
    let first = status.hours.first().map_or(0, |hour| at(&hour.from));
    let until = at(&status.until);
    let run = |name: &str, side: fn(&headroom_api::ScorecardHour) -> &headroom_api::ScorecardFigures| {
        let sample = |hour: &headroom_api::ScorecardHour| {
            let (figures, measured) = (side(hour), hour.measured_seconds.max(1));
            Sample {
                second: at(&hour.from) - first,
                ready_nodes: figures.node_seconds / measured,
                wanted_pods: figures.replica_seconds / measured,
                cost_per_hour: (0 < figures.price_micro)
                    .then(|| figures.price_micro as f64 / 1e6 * 3600.0 / measured as f64),
                ..Sample::default()
            }
        };
        Run { name: name.to_owned(), series: status.hours.iter().map(sample).collect(), ..Run::default() }
    };
    Document {
        schema: SCHEMA,
        kind: DocumentKind::Live,
        version: env!("CARGO_PKG_VERSION"),
        title: "Scorecard".to_owned(),
        description: "What was done, and over it what Headroom would have done from the same demand; the mean of each hour."
            .to_owned(),
        start_at: first,
        length_seconds: (until - first).max(1),
        runs: vec![run("what was done", |hour| &hour.actual), run("Headroom", |hour| &hour.forecast)],
        live: Some(Live { at: until, leading: true, tables: scorekeeping::tables(report) }),
    }
}
