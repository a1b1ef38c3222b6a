"""The attacks of scripts/attack.py: each builds a case from its number and a seed."""
