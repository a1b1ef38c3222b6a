"""Translations that differ from their references in known lines."""

REFS = [f"le chat numéro {i} dort sur le tapis {i} de la maison ." for i in range(60)]
WORSE = [ref.replace("dort", "court") if i % 2 else ref for i, ref in enumerate(REFS)]
OTHER = [ref.replace("maison", "gare") if i % 2 == 0 else ref for i, ref in enumerate(REFS)]
EQUAL = [ref.replace("dort", "saute") if i % 2 == 0 else ref for i, ref in enumerate(REFS)]
"""Wrong in as many lines as WORSE, though in others."""
ONE_EACH = [(ref,) for ref in REFS]
