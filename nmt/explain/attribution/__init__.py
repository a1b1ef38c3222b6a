"""Attribution: how much each source piece, and each piece read before, counts for a prediction."""
