"""Names that the command line and the packages share. This module imports nothing heavy."""

from typing import Literal

AttributionMethod = Literal[
    "attention",
    "norms",
    "input-x-gradient",
    "integrated-gradients",
    "erasure",
    "value-zeroing",
    "rollout",
    "alti",
]
"""A method that attributes a prediction to the pieces read so far (nmt/explain/attribution/)."""

DocumentFormat = Literal["text", "html", "markdown", "srt", "po"]
"""A format of texts to translate, such as `srt` for subtitles (nmt/documents/files.py)."""
