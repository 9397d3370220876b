//! Tasks of a virtual host that can be stopped as by SIGSTOP: while it dozes, none of them is polled.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether a host dozes, and whom to wake when it no longer does.
#[derive(Debug, Default)]
pub(super) struct Doze(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    asleep: bool,
    waiting: Vec<Waker>,
}

impl Doze {
    pub(super) fn set(&self, asleep: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.asleep = asleep;
        if !asleep {
            state.waiting.drain(..).for_each(Waker::wake);
        }
    }

    /// Whether the task has to wait; it is then woken at the end.
    fn holds(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.asleep {
            state.waiting.push(waker.clone());
        }
        state.asleep
    }
}

/// A task that makes no step while its host dozes.
pub(super) struct Dozing {
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    doze: Arc<Doze>,
}

impl Dozing {
    pub(super) fn new(task: impl Future<Output = ()> + Send + 'static, doze: Arc<Doze>) -> Dozing {
        Dozing { task: Box::pin(task), doze }
    }
}

impl Future for Dozing {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.doze.holds(cx.waker()) {
            return Poll::Pending;
        }
        self.task.as_mut().poll(cx)
    }
}
