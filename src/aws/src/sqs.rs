//! The three calls to SQS that read a queue of interruptions, over the small client, in its JSON protocol.

use std::sync::Arc;

use serde_json::{Value, json};

use super::calls::{CallError, Message};
use super::ec2::{DELETE_MESSAGE, Reader};

/// Messages in one answer; SQS gives no more.
pub(crate) const MESSAGES_PER_CALL: usize = 10;
/// Seconds for which a message that was read is not given to anybody.
const HIDDEN_SECONDS: u32 = 20;

impl Reader {
    /// The address of a queue of this account.
    ///
    /// # Errors
    /// [`CallError`] when SQS did not answer, or knows no such queue.
    pub async fn queue_url(&self, name: &str) -> Result<Arc<str>, CallError> {
        let action = "sqs:GetQueueUrl";
        let answer = self.sqs(action, &json!({"QueueName": name})).await?;
        let url = answer.get("QueueUrl").and_then(Value::as_str);
        url.map(Arc::from).ok_or_else(|| CallError::silent(action, "the answer has no QueueUrl"))
    }

    /// Some messages of a queue; nobody else gets them for a while.
    ///
    /// # Errors
    /// [`CallError`] when SQS did not answer, or not with that.
    pub async fn receive(&self, url: &str) -> Result<Vec<Message>, CallError> {
        let wanted = json!({
            "QueueUrl": url, "MaxNumberOfMessages": MESSAGES_PER_CALL, "VisibilityTimeout": HIDDEN_SECONDS,
            "WaitTimeSeconds": 0,
        });
        let answer = self.sqs("sqs:ReceiveMessage", &wanted).await?;
        let messages = answer.get("Messages").and_then(Value::as_array).into_iter().flatten();
        let text = |message: &Value, name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
        let read = messages.take(MESSAGES_PER_CALL).filter_map(|message| {
            Some(Message {
                id: text(message, "MessageId")?.into(),
                receipt: text(message, "ReceiptHandle")?,
                body: text(message, "Body").unwrap_or_default(),
            })
        });
        Ok(read.collect())
    }

    /// Deletes a message for good.
    ///
    /// # Errors
    /// [`CallError`] when SQS did not answer with success.
    pub async fn delete_message(&self, url: &str, receipt: &str) -> Result<(), CallError> {
        let wanted = json!({"QueueUrl": url, "ReceiptHandle": receipt});
        self.sqs(DELETE_MESSAGE, &wanted).await.map(|_| ())
    }
}
