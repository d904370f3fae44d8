"""The datastore: what it finds stands there, what stands there it finds, and what was taken out is gone."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting import datastore as module
from ghostdraft.drafting.datastore import LONG, REACH, SHELF, SHORT, WAYS, Datastore, Place, anchors_of

CODE = b"def load(path):\n    with open(path) as file:\n        return json.load(file)\n"

words = st.sampled_from(["load", "self.", "return ", "\n    ", "x", "(é)", " = ", "größe_", "0", "json"])
texts = st.lists(words, max_size=60).map("".join).map(str.encode)
changes = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), texts)), max_size=12)


def described(place: Place) -> tuple[str | None, bytes, bytes]:
    """The key, all of the text before the place, as far as it is compared, and what follows."""
    before = place.shelf.read(place.at - REACH, place.at).rpartition(b"\0")[2]
    return place.shelf.key_of(place.at), before, place.text(40)


def found(datastore: Datastore, tail: bytes) -> set[tuple[str | None, bytes, bytes]]:
    return {described(place) for place in datastore.places(tail)}


def store(**texts: bytes) -> Datastore:
    datastore = Datastore()
    for key, text in texts.items():
        assert datastore.put(key, text)
    return datastore


def standing(text: bytes, tail: bytes) -> int:
    """How often the end of `tail`, from the context of its last anchor on, stands in `text`."""
    short = next((anchor for anchor in anchors_of(tail) if anchor.size == SHORT), None)
    wanted = tail[short.end - SHORT :] if short else b""
    return sum(text.startswith(wanted, at) for at in range(len(text))) if wanted else 0


def test_what_follows_is_read_where_the_same_was_written() -> None:
    (place,) = store(a=CODE).places(b"x = 1\n    with open(pa")
    assert place.text(100) == b"th) as file:\n        return json.load(file)\n"
    assert place.same == len(b"\n    with open(pa")


def test_a_context_that_stands_nowhere_is_not_found() -> None:
    datastore = store(a=CODE)
    assert datastore.places(b"    with Open(pa") == []
    assert datastore.places(b"") == []
    assert datastore.places(b"pa") == []
    assert Datastore().places(CODE) == []


def test_texts_do_not_run_into_one_another() -> None:
    datastore = store(a=CODE, b=b"other = 1\n")
    (place,) = datastore.places(CODE)
    assert place.text(100) == b""
    assert datastore.places(CODE + b"other") == []


def test_excluded_texts_are_found_again_later() -> None:
    datastore = store(a=CODE, b=CODE)
    assert {key for key, *_ in found(datastore, CODE[:40])} == {"a", "b"}
    datastore.exclude(["a"])
    assert {key for key, *_ in found(datastore, CODE[:40])} == {"b"}
    datastore.exclude([])
    assert len(datastore.places(CODE[:40])) == 2


def test_of_many_places_the_last_ones_are_found() -> None:
    text = b"".join(b"value = compute(%d)\n" % number for number in range(100))
    followed = {place.text(2) for place in store(a=text).places(b"value = compute(")}
    assert {b"%d" % number for number in range(100 - WAYS, 100)} <= followed


def test_a_long_context_is_found_among_many_short_ones() -> None:
    rng = random.Random(0)
    lines = [f"first_{rng.random()} = second_{rng.random()}.compute(value)\n" for _ in range(500)]
    datastore = store(a="".join(lines).encode())
    tails = ["".join(lines[at - 1 : at])[:-8].encode() for at in range(2, 200)]
    right = [any(place.same >= LONG for place in datastore.places(tail)) for tail in tails]
    assert sum(right) > 0.8 * len(right)


@given(texts, texts)
def test_every_place_follows_what_was_written(text: bytes, tail: bytes) -> None:
    for place in store(a=text).places(tail):
        key, before, follows = described(place)
        same = min(place.same, len(before))
        assert key == "a"
        assert same >= SHORT
        assert before.endswith(tail[len(tail) - same :])
        assert before + follows in text


@given(texts, texts)
def test_what_stands_there_is_found(text: bytes, tail: bytes) -> None:
    places = store(a=text).places(tail)
    times = standing(text, tail)
    assert len(places) == times if times <= WAYS else len(places) >= WAYS


@given(changes, texts)
def test_changed_step_by_step_is_made_at_once(steps: list[tuple[str, bytes | None]], tail: bytes) -> None:
    changed, now = Datastore(), dict[str, bytes]()
    for key, text in steps:
        if text is None:
            changed.remove(key)
            now.pop(key, None)
        else:
            assert changed.put(key, text)
            now[key] = text
    assert {key: changed.get(key) for key in changed.keys()} == now  # noqa: SIM118 (not a mapping)
    assert changed.held == sum(map(len, now.values()))
    if sum(standing(text, tail) for text in now.values()) <= WAYS:
        assert found(changed, tail) == found(store(**now), tail)


def test_it_holds_so_much_and_takes_more_once_something_is_taken_out() -> None:
    datastore, text = Datastore(most_shelves=2), b" " * (SHELF // 4)
    taken = [datastore.put(str(number), text) for number in range(10)]
    assert taken == [True] * 6 + [False] * 4  # a text lies on one shelf, and takes one byte more
    for number in range(6):
        datastore.remove(str(number))
    assert [datastore.put(str(number), text) for number in range(10)] == taken
    assert datastore.get("0") == text
    assert datastore.get("9") is None


def test_texts_that_are_put_in_again_and_again_take_no_more_room() -> None:
    datastore, text = Datastore(most_shelves=2), CODE * (SHELF // 10 // len(CODE))
    for number in range(40):
        assert datastore.put("kept", CODE + b"kept") if number == 0 else True
        assert datastore.put("changed", b"%d" % number + text)
    assert datastore.keys() == {"kept", "changed"}
    assert datastore.get("kept") == CODE + b"kept"


def test_a_text_longer_than_a_shelf_is_refused() -> None:
    datastore = store(a=CODE)
    assert not datastore.put("a", b"x" * module.SHELF)
    assert datastore.get("a") is None
