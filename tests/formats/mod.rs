//! Reading and writing of weights: quantised numbers, archives, float checkpoints, pickles, adapters, damaged files.

mod archives;
mod quant;
