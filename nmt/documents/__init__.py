"""Text as users have it: paragraphs, markup and files, translated sentence by sentence."""
