"""`intarsia run`: runs a workflow's tasks over the hosts of a store, beside their data."""
