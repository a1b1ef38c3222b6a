"""The list of planted defects fits the code."""

import planted_defects


def test_every_defect_fits_and_changes_the_code_in_its_own_way() -> None:
    listed = planted_defects.defects()
    assert planted_defects.misfits(listed) == []
    assert [defect.name for defect in listed if defect.old == defect.new] == []
    assert len({defect.name for defect in listed}) == len(listed)
    assert len({defect.old for defect in listed}) == len(listed)
