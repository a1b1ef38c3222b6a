from nmt.attention_maps.fonts import drawable, font


def test_a_missing_glyph_becomes_a_box_and_accents_stay() -> None:
    assert drawable("Où ça, l’œuvre naïve « été » ÀÉÈÊËÎÏÔÛÜÇ…") == (
        "Où ça, l’œuvre naïve « été » ÀÉÈÊËÎÏÔÛÜÇ…"
    )
    assert drawable("a\U0010fffdb") == "a□b"


def test_what_takes_no_room_is_left_out_where_it_cannot_be_drawn() -> None:
    assert drawable("a\U000e0100") == "a"


def test_the_size_is_that_asked_for() -> None:
    assert font(7.5).get_size_in_points() == 7.5
