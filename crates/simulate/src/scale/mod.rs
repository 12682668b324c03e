//! File systems at up to millions of nodes: metadata, data path and network.
