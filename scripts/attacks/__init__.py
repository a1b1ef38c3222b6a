"""The attacks of scripts/attack.py: each makes a case of its number and a seed."""
