//! Tasks of a virtual host that can be stopped as by SIGSTOP: while it is paused, none of them is polled.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The pause of a host, and whom to wake at its end.
#[derive(Debug, Default)]
pub(super) struct Pause(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    paused: bool,
    waiting: Vec<Waker>,
}

impl Pause {
    pub(super) fn set(&self, paused: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.paused = paused;
        if !paused {
            state.waiting.drain(..).for_each(Waker::wake);
        }
    }

    /// True if the task has to wait; it is then woken at the end.
    fn holds(&self, waker: &Waker) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.paused {
            state.waiting.push(waker.clone());
        }
        state.paused
    }
}

/// A task that makes no step while its host is paused.
pub(super) struct Pausable {
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    pause: Arc<Pause>,
}

impl Pausable {
    pub(super) fn new(task: impl Future<Output = ()> + Send + 'static, pause: Arc<Pause>) -> Pausable {
        Pausable { task: Box::pin(task), pause }
    }
}

impl Future for Pausable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.pause.holds(cx.waker()) {
            return Poll::Pending;
        }
        self.task.as_mut().poll(cx)
    }
}
