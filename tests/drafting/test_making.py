"""Every drafter by its name, beside its target; what is missing says how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ghostdraft.drafting import DrafterName
from ghostdraft.drafting.draft_model import DraftModel
from ghostdraft.drafting.eagle import Eagle
from ghostdraft.drafting.growing import GrowingDrafter
from ghostdraft.drafting.making import make
from ghostdraft.drafting.medusa import Medusa
from ghostdraft.drafting.self_speculation import SelfSpeculation
from ghostdraft.models.draft_file import ENDING, DraftKind, read_draft
from ghostdraft.models.store import HOME_VARIABLE, Store
from ghostdraft.models.types import EngineUnavailable, LanguageModel, ModelError, WeightsCorrupt
from tests.drafting.lossless.cast import Cast, Lettered, guesser_of
from tests.fakes import FakeLoaded, FakeModel, hashed_logits

KINDS: dict[DrafterName, type] = {
    DrafterName.DRAFT_MODEL: DraftModel,
    DrafterName.EAGLE: Eagle,
    DrafterName.MEDUSA: Medusa,
    DrafterName.SELF: SelfSpeculation,
}
TRAINED = tuple(DrafterName(kind) for kind in DraftKind)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without drafts."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    return tmp_path


def loaded(cast: Cast, model: LanguageModel | None = None) -> FakeLoaded:
    return FakeLoaded(cast.checkpoint.spec, Lettered(), model or cast.target())


def give(cast: Cast, home: Path, *kinds: DraftKind) -> None:
    """These drafts of the cast's to the store."""
    folder = Store(home).folder(cast.checkpoint.name) / "drafts"
    folder.mkdir(parents=True)
    for kind in kinds:
        (folder / f"{kind}{ENDING}").write_bytes(draft_of(cast, kind).read_bytes())


def draft_of(cast: Cast, kind: DraftKind) -> Path:
    return Store(cast.home).folder(cast.checkpoint.name) / "drafts" / f"{kind}{ENDING}"


@pytest.mark.parametrize("name", DrafterName)
def test_a_drafter_calls_itself_by_its_name(name: DrafterName, cast: Cast) -> None:
    assert cast.drafter(name, cast.target()).name == name


@pytest.mark.parametrize("name", KINDS)
def test_each_model_drafts_in_its_own_way_and_under_its_own_name(name: DrafterName, cast: Cast) -> None:
    guesser = guesser_of(cast.drafter(name, cast.target()))
    assert type(guesser) is KINDS[name]
    assert guesser.name == name
    assert (guesser.vocabulary == read_draft(draft_of(cast, DraftKind.EAGLE)).vocabulary).all()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", TRAINED)
def test_a_draft_that_is_missing_is_named_with_the_mend(name: DrafterName, cast: Cast) -> None:
    """Not as a model that is missing, which could be pulled."""
    with pytest.raises(ModelError, match=f"ghostdraft train-draft --kind {name}") as raised:
        make(name, loaded(cast))
    assert raised.type is ModelError


@pytest.mark.parametrize("name", KINDS)
def test_another_engine_says_what_to_take_instead(name: DrafterName, cast: Cast) -> None:
    elsewhere = loaded(cast, FakeModel(hashed_logits(cast.vocab), cast.vocab))
    with pytest.raises(EngineUnavailable, match="Use ngram, or --device cpu"):
        make(name, elsewhere)
    assert isinstance(make(DrafterName.HYBRID, elsewhere), GrowingDrafter)  # which copies there


@pytest.mark.parametrize("name", TRAINED)
def test_a_draft_that_cannot_be_read_says_so(name: DrafterName, cast: Cast, home: Path) -> None:
    give(cast, home, *DraftKind)
    path = Store(home).folder(cast.checkpoint.name) / "drafts" / f"{name}{ENDING}"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WeightsCorrupt, match=str(path)):
        make(name, loaded(cast))


@pytest.mark.parametrize(
    ("kinds", "best"),
    [
        (tuple(DraftKind), Eagle),
        ((DraftKind.DRAFT_MODEL, DraftKind.MEDUSA), DraftModel),
        ((DraftKind.MEDUSA,), None),
        ((), None),
    ],
)
def test_hybrid_takes_the_draft_that_pays_most(
    kinds: tuple[DraftKind, ...], best: type | None, cast: Cast, home: Path
) -> None:
    give(cast, home, *kinds)
    drafter = make(DrafterName.HYBRID, loaded(cast))
    assert isinstance(drafter, GrowingDrafter)
    assert drafter._guesser is None if best is None else type(drafter._guesser) is best


@pytest.mark.usefixtures("home")
def test_without_drafts_the_first_layers_know_all_tokens(cast: Cast) -> None:
    guesser = guesser_of(make(DrafterName.SELF, loaded(cast)))
    assert (guesser.vocabulary == range(cast.vocab)).all()


def test_corpus_wants_something_to_copy_from(cast: Cast) -> None:
    with pytest.raises(ModelError, match="Use ngram"):
        make(DrafterName.CORPUS, loaded(cast))


def test_a_name_that_nobody_has_is_refused(cast: Cast) -> None:
    with pytest.raises(ValueError, match="corpse"):
        make("corpse", loaded(cast))
