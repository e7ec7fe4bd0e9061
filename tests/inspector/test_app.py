"""Who may see the pages, and what a page may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import ConfigurationError, Runtime
from reenact._location import location_of
from reenact.inspector import Inspector, Source
from tests.inspector.browsing import Browser, attribute, texts


def test_the_address_with_the_token_opens_the_pages_and_takes_the_token_out_of_the_address(browser: Browser) -> None:
    response = browser.client.get(f"/?text=hello&token={browser.inspector.token}")

    assert str(response.url) == f"{browser.inspector.url}/?text=hello"
    assert response.status_code == 200


def test_the_token_leads_to_no_other_host(browser: Browser) -> None:
    response = browser.client.get(
        f"{browser.inspector.url}//evil.example/?token={browser.inspector.token}", follow_redirects=False
    )

    assert response.headers["location"] == "/evil.example/"


@pytest.mark.parametrize("path", ["/", "/?token=guessed", "/head", "/static/style.css", "/nothing"])
def test_nothing_is_served_without_the_token(browser: Browser, path: str) -> None:
    browser.client.cookies.clear()

    response = browser.client.get(path)

    assert response.status_code == 401
    assert "log.db" not in response.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
def test_pages_of_other_sites_get_nothing(browser: Browser, headers: dict[str, str]) -> None:
    response = browser.client.get("/", headers=headers)

    assert response.status_code == 403
    assert "log.db" not in response.text


def test_a_link_from_another_site_opens_the_page(browser: Browser) -> None:
    response = browser.client.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})

    assert response.status_code == 200


def test_no_page_may_run_what_is_not_of_the_inspector_or_ask_another_host(browser: Browser) -> None:
    response = browser.client.get("/")

    assert response.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "unsafe" not in response.headers["content-security-policy"]
    assert not browser.page("/").select("[style], [onclick], style, script:not([src])")


def test_an_inspector_listens_on_loopback_alone(runtime: Runtime, log: str) -> None:
    with Source.open(log) as source, pytest.raises(ConfigurationError, match="this machine"):
        Inspector(source, host="0.0.0.0")  # noqa: S104 - it is refused


def test_the_log_is_called_by_the_name_of_its_file_and_its_path_is_told_to_who_points_there(
    night: Browser, night_log: Path
) -> None:
    page = night.page("/")

    assert texts(page, ".brand .file") == ["night.db"]
    assert attribute(page.select_one(".brand .file"), "title") == str(night_log)
    assert texts(page, "title") == ["Sessions · night.db · reenact inspect"]


def test_a_log_in_a_database_is_called_by_its_host_and_its_name_alone() -> None:
    pytest.importorskip("psycopg")
    location = location_of("postgresql://ada:secret@db.example:5433/agents?schema=night")

    assert (location.title, location.path) == ("db.example:5433/agents?schema=night", "")
