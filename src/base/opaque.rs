//! Values whose type the compiler does not look into.
//!
//! That a future may move to another thread is proved of everything that it can reach, for each `async fn` anew. A pool of
//! database connections or a component of wasmtime is made of hundreds of types; reached from every handler, they took
//! more time than all the rest of the crate. `plugin` puts such values in here, and `operate`
//! everything that its `Operator` consists of.
//!
//! **Invariant**: what is hidden may be sent and shared; the compiler proves it once, in [`Opaque::new`].

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A shared value of a type with many parts.
pub struct Opaque<T>(Arc<dyn Deref<Target = T> + Send + Sync>);

impl<T: Send + Sync + 'static> Opaque<T> {
    /// Hides what the value is made of.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Box::new(value)))
    }
}

impl<T> Deref for Opaque<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Opaque<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Opaque<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}
