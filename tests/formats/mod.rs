//! Reading and writing of weights: quantised numbers, archives, float checkpoints, pickles, adapters, damaged files.

mod adapters;
mod archives;
mod checkpoints;
mod damage;
mod files;
mod lies;
mod malice;
mod quant;
mod saving;
mod writing;
