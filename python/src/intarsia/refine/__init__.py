"""Predicted against actual: what a run took, stage by stage, and what that says of a profile.

compare (pure)  → corrections (bounded factors, pure) → profile (a corrected one, with provenance)
engine (pure)   → what the engine of a run took for each task, in a profile
"""
