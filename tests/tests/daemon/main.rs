//! `mgcomp-daemon`, the programs that it sees and steers, and `mgcomp` beside them: everything as processes.

mod crash;
mod dashboard;
mod hostile;
mod life;
#[path = "../program/mod.rs"]
mod program;
mod reflection;
mod remote;
mod rig;
mod silent;
mod steer;
#[cfg(unix)]
mod top;
mod values;
