//! `fairlane load` as its users meet it: what both sides count, what is printed and written, exit codes.

mod models;
mod outputs;
mod queueing;
mod requests;
mod support;
mod usage;
