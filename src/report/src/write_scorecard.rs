//! The only writer of Scorecards: makes the one that there is, and writes its status.

use headroom_api::{SCORECARD_NAME, Scorecard, ScorecardSpec, ScorecardStatus, StoredScorecard};
use kube::Client;
use kube::api::Api;

use super::write::{WriteError, params, read_live, replace_status};

/// Makes, reads and writes the Scorecard of a cluster.
#[derive(Clone)]
pub struct ScorecardSink {
    api: Api<StoredScorecard>,
    made: Api<Scorecard>,
}

impl std::fmt::Debug for ScorecardSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScorecardSink").finish_non_exhaustive()
    }
}

impl ScorecardSink {
    /// Writes through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { api: Api::all(client.clone()), made: Api::all(client) }
    }

    /// The version and the status of the Scorecard, which is made if it is not there. A status that cannot be read counts as none.
    ///
    /// # Errors
    /// As [`WriteError`]; `Gone` if the server does not know the kind.
    pub async fn open(&self) -> Result<(String, ScorecardStatus), WriteError> {
        if let Some(stored) = read_live(&self.api, SCORECARD_NAME).await? {
            let status = serde_json::from_value(stored.status.value()).unwrap_or_default();
            return Ok((stored.resource_version, status));
        }
        let made = self.made.create(&params(), &Scorecard::new(SCORECARD_NAME, ScorecardSpec {})).await?;
        Ok((made.metadata.resource_version.unwrap_or_default(), ScorecardStatus::default()))
    }

    /// Replaces the status, if the object still has that version; returns the new one.
    ///
    /// # Errors
    /// As [`WriteError`]. Nothing is tried again here.
    pub async fn write(
        &self,
        resource_version: &str,
        status: &ScorecardStatus,
    ) -> Result<String, WriteError> {
        replace_status(&self.api, SCORECARD_NAME, resource_version, status).await
    }
}
