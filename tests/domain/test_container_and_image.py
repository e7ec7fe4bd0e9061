"""Containers are created once; images are registered in revisions."""

from __future__ import annotations

from functools import reduce
from typing import cast

import pytest

from reenact.domain import container as containers
from reenact.domain import image as images
from reenact.domain.container import Container, ContainerCreated, CreateContainer
from reenact.domain.errors import AlreadyExistsError, ConfigurationError, InvalidInputError
from reenact.domain.image import Definition, Image, ImageRegistered, Images, RegisterImage, define


def test_a_container_is_created() -> None:
    events = containers.decide(Container(), CreateContainer("c", "workspace"))

    assert events == (ContainerCreated("c", "workspace"),)
    assert reduce(containers.evolve, events, Container()) == Container("c", "workspace")


def test_a_containers_id_is_used_once() -> None:
    with pytest.raises(AlreadyExistsError) as refusal:
        containers.decide(Container("c"), CreateContainer("c", "another"))

    assert (refusal.value.kind, refusal.value.id) == ("container", "c")


def test_the_same_content_again_is_no_new_revision() -> None:
    first, second = Definition("chat"), Definition("chat", model="m")
    registered = Images("i", (first, second))

    assert images.decide(registered, RegisterImage("i", second)) == ()
    assert images.decide(registered, RegisterImage("i", first)) == (ImageRegistered("i", 3, first),)


def test_an_image_keeps_all_its_revisions() -> None:
    first, second = Definition("chat"), Definition("chat", model="m")

    history = (ImageRegistered("i", 1, first), ImageRegistered("i", 2, second))

    assert reduce(images.evolve, history, Images()) == Images("i", (first, second))


def test_an_image_without_a_name_is_called_by_its_id() -> None:
    assert define(Image(id="i"), "i") == Definition("i")
    assert define(Image(id="i", name="Chat", model="m", system_prompt="Be brief.", max_tokens=1), "i") == Definition(
        "Chat", "m", "Be brief.", 1
    )


def test_an_empty_system_prompt_is_none_of_our_business() -> None:
    assert define(Image(system_prompt=""), "i").system_prompt == ""


@pytest.mark.parametrize("image", [Image(tools=("bash",)), Image(max_tokens=0)])
def test_an_image_that_cannot_work_is_refused(image: Image) -> None:
    with pytest.raises(ConfigurationError):
        define(image, "i")


@pytest.mark.parametrize(
    "image",
    [Image(name=" "), Image(model=""), Image(system_prompt="\ud800"), Image(name="\udfff"), Image(name="x" * 1025)],
)
def test_an_image_with_an_unusable_text_is_refused(image: Image) -> None:
    with pytest.raises(InvalidInputError):
        define(image, "i")


@pytest.mark.parametrize(
    "image",
    [
        Image(system_prompt=cast("str", [])),
        Image(system_prompt=cast("str", 0)),
        Image(system_prompt=" "),
        Image(name=cast("str", 7)),
        Image(model=cast("str", [])),
        Image(max_tokens=cast("int", "many")),
        Image(max_tokens=True),
        Image(max_tokens=2**64),
    ],
)
def test_a_definition_that_no_log_could_hold_is_refused(image: Image) -> None:
    with pytest.raises(InvalidInputError):
        define(image, "chat")
