"""Text as users have it: paragraphs, HTML, Markdown and files, translated sentence by sentence."""
