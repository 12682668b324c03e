"""The published study of stores and balancing, drawn again from raw samples."""
