"""Reports: documents of text, tables and figures, and how they are written."""
