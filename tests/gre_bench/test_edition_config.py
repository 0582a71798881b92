"""The config of an edition."""

from __future__ import annotations

import pytest

from goldless.errors import UserError
from goldless.gre_bench.config import METRICS, checked, read_config, write_settings


def test_an_empty_config_has_the_paper_s_metrics_and_level(tmp_path):
    path = tmp_path / "edition.toml"
    path.write_text("")
    config = read_config(path)
    # GEM paper, section 5 and figure 5: three metrics, 90 % intervals; C.2: the wording for reviews
    assert config.score.metrics == METRICS == ("gem", "gem-s[abstract]", "gem-s[assw]")
    assert config.score.level == 0.9
    assert config.score.template == ("peer-review",)
    assert config.review.truncate is False
    assert config.review.cut == "missing"


def test_settings_are_put_beside_comments_and_other_settings(tmp_path):
    path = tmp_path / "edition.toml"
    path.write_text('# ours\n[collect]\nvenue = "V"  # the venue\npapers = 5\n')
    config = write_settings(path, {"collect": {"papers": 7}, "models": {"llama-3.1-8b": {"model": "hf:X"}}})
    assert (config.collect.venue, config.collect.papers) == ("V", 7)
    assert config.models["llama-3.1-8b"].model == "hf:X"
    assert "# ours" in path.read_text()
    assert "# the venue" in path.read_text()
    assert read_config(path) == config


def test_what_cannot_be_used_is_not_written(tmp_path):
    path = tmp_path / "edition.toml"
    path.write_text('[collect]\nvenue = "V"\n')
    with pytest.raises(UserError, match="papers"):
        write_settings(path, {"collect": {"papers": 0}})
    assert path.read_text() == '[collect]\nvenue = "V"\n'


def test_a_value_of_none_takes_a_setting_out(tmp_path):
    path = tmp_path / "edition.toml"
    path.write_text('[collect]\nvenue = "V"\npapers = 5\n')
    assert write_settings(path, {"collect": {"papers": None}}).collect.papers is None


def test_everything_that_is_wrong_is_said_at_once():
    given = {
        "collect": {"venue": "V", "from_folder": "f", "colour": "red"},
        "models": {"m": {"model": "embedded", "cutoff_date": "2023-13", "parameters": -1}},
        "score": {"level": 2, "metrics": "gem"},
        "scor": {},
    }
    with pytest.raises(UserError) as raised:
        checked(given, "e.toml")
    told = str(raised.value)
    for part in (
        "e.toml",
        "collect.colour: there is no such setting",
        "models.m.cutoff_date: a date is YYYY, YYYY-MM or YYYY-MM-DD, not '2023-13'",
        "models.m.parameters",
        "score.level",
        "scor: there is no such setting",
    ):
        assert part in told


def test_an_edition_has_one_source_of_papers():
    for collect in ({"papers": 3}, {"venue": "V", "from_folder": "f"}):
        with pytest.raises(UserError, match="one of the two"):
            checked({"collect": collect}, "e.toml")


@pytest.mark.parametrize("name", ["human", "reference1", "Reference2"])
def test_a_model_is_not_called_like_the_people(name):
    with pytest.raises(UserError, match="human reviews are called so"):
        checked({"models": {name: {"model": "embedded"}}}, "e.toml")


def test_a_file_that_is_no_toml_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "edition.toml"
    path.write_text("[collect\n")
    with pytest.raises(UserError, match=r"edition\.toml: is no TOML file"):
        read_config(path)
