//! origin
