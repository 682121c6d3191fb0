//! A majority of independent servers keeps its promises, also when a minority fails.

mod leaving;
mod processes;
mod servers;
