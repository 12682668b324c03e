"""The published study of backup deduplication, drawn again from raw samples."""
