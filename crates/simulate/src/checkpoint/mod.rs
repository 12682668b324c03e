//! Checkpointing and reliability: jobs, failures, checkpoints, and where the time goes.
