"""The Seq2Seq contract and what fulfils it: attention, recurrent models, Transformer."""
