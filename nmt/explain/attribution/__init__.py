"""Attribution of each predicted piece to the source pieces and to the prefix."""
