//! What must not get out, and what must not get in: passwords, and messages that anybody can send.
mod forged;
mod secrets;
