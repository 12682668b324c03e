"""Hints that earlier runs teach: who read what where, how large it was, and how often."""
