//! Queues of SQS in the simulator, which are moto's own.

use anyhow::{Context as _, Result};

use super::{Aws, between};

impl Aws {
    /// Makes a queue without messages.
    pub async fn create_queue(&self, name: &str) -> Result<()> {
        self.call("sqs", "CreateQueue", &[("QueueName", name)]).await?;
        Ok(())
    }

    /// Sends a message to a queue, as EventBridge does.
    pub async fn send_message(&self, queue: &str, body: &str) -> Result<()> {
        let url = self.queue_url(queue).await?;
        self.call("sqs", "SendMessage", &[("QueueUrl", &url), ("MessageBody", body)]).await?;
        Ok(())
    }

    /// Number of messages that a queue still has, those that somebody reads just now included.
    pub async fn messages(&self, queue: &str) -> Result<u32> {
        let url = self.queue_url(queue).await?;
        let asked = [("QueueUrl", url.as_str()), ("AttributeName.1", "All")];
        let answer = self.call("sqs", "GetQueueAttributes", &asked).await?;
        let number = |name: &str| {
            let (_, rest) = answer.split_once(&format!("<Name>{name}</Name>"))?;
            between(rest, "Value").parse::<u32>().ok()
        };
        let visible = number("ApproximateNumberOfMessages");
        let hidden = number("ApproximateNumberOfMessagesNotVisible");
        visible.zip(hidden).map(|(one, other)| one + other).with_context(|| format!("no numbers in {answer}"))
    }

    async fn queue_url(&self, queue: &str) -> Result<String> {
        let answer = self.call("sqs", "GetQueueUrl", &[("QueueName", queue)]).await?;
        Ok(between(&answer, "QueueUrl").to_owned())
    }
}
