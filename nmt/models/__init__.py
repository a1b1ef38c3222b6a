"""The Seq2Seq interface and its models: attention, recurrent models, Transformer."""
