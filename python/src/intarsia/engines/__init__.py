"""Adapters that have workflow engines run tasks beside their data.

Each module needs the engine it is named after, from the extra `engines`.
"""
