//! One subcommand a file.

pub(crate) mod build;
pub(crate) mod chat;
pub(crate) mod data;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod download;
pub(crate) mod embed;
pub(crate) mod eval;
pub(crate) mod extract;
pub(crate) mod finetune;
pub(crate) mod generate_data;
pub(crate) mod inspect;
pub(crate) mod models;
pub(crate) mod retrieve;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod tokenize;
pub(crate) mod train;
