"""A docstring says what a function does and what its parameters are, in any of three styles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.tools.arguments import read_docstring

GOOGLE = """What the weather is like.

    Asks a service, which may take long.

    Args:
        city: Where: a city,
            in English.
        unit (str, optional): The scale.

            Celsius by default.
        **kwargs: Ignored.

    Returns:
        The temperature.
    """
NUMPY = """What the weather is like.

    Parameters
    ----------
    city, town : str
        Where: a city,
        in English.
    unit : {'c', 'f'}, optional
        The scale.

        Celsius by default.

    Returns
    -------
    float
        The temperature.
    """
SPHINX = """What the weather is like.

    :param city: Where: a city,
        in English.
    :type city: str
    :param str unit: The scale.
    :returns: The temperature.
    """


def test_google_s_style_is_read() -> None:
    text, parameters = read_docstring(GOOGLE)

    assert parameters == {
        "city": "Where: a city, in English.",
        "unit": "The scale. Celsius by default.",
        "kwargs": "Ignored.",
    }
    assert text == (
        "What the weather is like.\n\nAsks a service, which may take long.\n\nReturns:\n    The temperature."
    )


def test_numpy_s_style_is_read() -> None:
    text, parameters = read_docstring(NUMPY)

    assert parameters == {
        "city": "Where: a city, in English.",
        "town": "Where: a city, in English.",
        "unit": "The scale. Celsius by default.",
    }
    assert text == "What the weather is like.\n\nReturns\n-------\nfloat\n    The temperature."


def test_sphinx_s_style_is_read() -> None:
    text, parameters = read_docstring(SPHINX)

    assert parameters == {"city": "Where: a city, in English.", "unit": "The scale."}
    assert text == "What the weather is like.\n\n:returns: The temperature."


@pytest.mark.parametrize(
    "header", ["Args:", "Arguments:", "Parameters:", "Params:", "Keyword Args:", "Other Parameters:"]
)
def test_a_section_of_parameters_has_many_names(header: str) -> None:
    assert read_docstring(f"Do it.\n\n{header}\n    what: It.") == ("Do it.", {"what": "It."})


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        (None, ""),
        ("", ""),
        ("Do it.", "Do it."),
        ("Args", "Args"),
        ("Parameters\nof all kinds", "Parameters\nof all kinds"),
        ("Do it.\n\nArgs:", "Do it."),
        ("Do it.\n\nArgs:\n    - what: It.", "Do it.\n\nArgs:\n    - what: It."),
        ("Do it.\n\nParameters\n----------", "Do it."),
        ("Do it.\n\nNote: it is done:\n    now.", "Do it.\n\nNote: it is done:\n    now."),
    ],
)
def test_what_describes_no_parameter_is_no_mistake(docstring: str | None, text: str) -> None:
    assert read_docstring(docstring) == (text, {})


@given(st.text(st.sampled_from("Args: Parameters\n-x(),*")))
def test_any_text_can_be_read(docstring: str) -> None:
    text, parameters = read_docstring(docstring)

    assert set(text.split()) <= set(docstring.split())
    assert all(
        set(described.split()) <= set(docstring.replace(":", " : ").split()) | set(docstring.split())
        for described in parameters.values()
    )
