//! A role that is assumed for the calls of a pool. It finds credentials and calls nothing but STS.

use aws_config::SdkConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};

use headroom_core::text::with_causes;
use headroom_provider::aws::Role;

/// Name of the sessions, by which CloudTrail shows them.
const SESSION: &str = "headroom";

/// Credentials of a role, whose errors name it.
#[derive(Debug)]
pub(crate) struct AssumedRole {
    arn: String,
    provider: AssumeRoleProvider,
}

impl AssumedRole {
    /// The role, assumed by what `config` finds.
    pub(crate) async fn new(role: &Role, config: &SdkConfig) -> Self {
        let mut provider = AssumeRoleProvider::builder(&role.arn).session_name(SESSION).configure(config);
        if let Some(id) = &role.external_id {
            provider = provider.external_id(id);
        }
        Self { arn: role.arn.clone(), provider: provider.build().await }
    }
}

impl ProvideCredentials for AssumedRole {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async move {
            let assumed = self.provider.provide_credentials().await;
            assumed.map_err(|error| {
                let words = format!("role {} cannot be assumed: {}", self.arn, with_causes(&error));
                CredentialsError::provider_error(words)
            })
        })
    }
}
