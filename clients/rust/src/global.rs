//! Taps from anywhere, without handing a recorder around.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::dtype::Element;
use crate::error::Result;
use crate::recorder::Recorder;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

/// Record values in the trace that FIRSTDIFF_TRACE names, from anywhere; while it is unset this costs a branch.
///
/// The trace begins with the first tap; call [`close`] at the end of `main`, or it is marked as not complete.
///
/// ```
/// let hidden = vec![0.0f32; 6];
/// firstdiff::tap("hidden", &hidden, &[2, 3])?; // does nothing: FIRSTDIFF_TRACE is not set here
/// firstdiff::close()?;
/// # Ok::<(), firstdiff::Error>(())
/// ```
#[inline]
pub fn tap<T: Element>(name: &str, values: &[T], shape: &[usize]) -> Result<()> {
    if STATE.load(Ordering::Relaxed) == OFF {
        return Ok(());
    }
    tap_recorded(name, values, shape)
}

fn tap_recorded<T: Element>(name: &str, values: &[T], shape: &[usize]) -> Result<()> {
    let mut recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner);
    if recorder.is_none() && STATE.load(Ordering::Relaxed) == UNKNOWN {
        // a trace that cannot begin is told once, and not tried again with every tap
        STATE.store(OFF, Ordering::Relaxed);
        let begun = Recorder::from_env()?;
        if begun.is_enabled() {
            STATE.store(ON, Ordering::Relaxed);
            *recorder = Some(begun);
        }
    }
    recorder.as_ref().map_or(Ok(()), |recorder| recorder.tap(name, values, shape))
}

/// Mark the trace of [`tap`] complete; later taps do nothing.
pub fn close() -> Result<()> {
    STATE.store(OFF, Ordering::Relaxed);
    let recorder = RECORDER.lock().unwrap_or_else(PoisonError::into_inner).take();
    recorder.map_or(Ok(()), Recorder::close)
}
