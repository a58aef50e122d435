//! The language by its cases, and what holds of any text.

mod cases;
mod properties;
