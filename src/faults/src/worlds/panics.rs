//! Panics of the operator on this thread: tasks swallow them, and nobody would hear of them.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Listens on this thread until its end. Deaths at crash points are no panics.
#[derive(Debug)]
pub(super) struct Watch;

impl Watch {
    pub(super) fn begin() -> Watch {
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                let heard = HEARD.with_borrow_mut(|heard| match heard {
                    Some(heard) => {
                        heard.push(info.to_string().replace('\n', " "));
                        true
                    }
                    None => false,
                });
                if !heard {
                    usual(info);
                }
            }));
        });
        HEARD.set(Some(Vec::new()));
        Watch
    }

    pub(super) fn end(self) -> Vec<String> {
        HEARD.take().unwrap_or_default()
    }
}
