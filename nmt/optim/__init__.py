"""Losses, optimisers, learning-rate schedules, averages of the weights."""
