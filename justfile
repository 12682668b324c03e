# A front end for those who like `just`; the Makefile and scripts/ do the work.

# List the recipes.
default:
    @just --list

# Format, lints, licences, layers, types.
check:
    make check

# All tests.
test:
    make test

# The Montage workflow in a store, compared with native.
demo:
    make demo

# The BLAST workflow, the same way.
demo-blast:
    make demo-blast

# Correct what can be corrected by a program.
fix:
    cargo fmt --all
    .venv/bin/ruff check --fix .
    .venv/bin/ruff format .
