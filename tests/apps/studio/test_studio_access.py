"""Who may use the studio: a browser with its token, and for anything that writes only its own pages."""

from __future__ import annotations

import re

import pytest
from yarl import URL

from goldless.apps.studio.access import HEADERS
from goldless.apps.studio.site import Studio
from goldless.errors import UserError
from tests.apps.studio.studio_server import asking

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
async def browser(tmp_path):
    async with asking(Studio(tmp_path / "runs", journal=tmp_path / "j.sqlite")) as client:
        yield client


async def enter(browser, path="", token=None):
    return await browser.ask(f"{path}?token={token or browser.site.access.token}")


async def test_nothing_is_shown_without_the_token(browser):
    for path in ("", "compare", "static/viewer.css", "studio/studio.js", "nothing", "?token=wrong", "?token="):
        page, headers = await browser.ask(path, status=403)
        assert "Set-Cookie" not in headers
        assert "Runs" not in page
        assert {name: headers[name] for name in HEADERS} == HEADERS


async def test_the_token_is_needed_once_and_leaves_a_cookie_only_for_this_site(browser):
    page, headers = await enter(browser, "compare")
    assert re.search('http-equiv="refresh" content="0; url=/compare"', page)
    port = URL(browser.url).port
    cookie = headers["Set-Cookie"]
    assert cookie.startswith(f"goldless-studio-{port}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert browser.site.access.token not in cookie
    page, headers = await browser.ask("compare")
    assert 'href="/compare" aria-current="page"' in page
    assert {name: headers[name] for name in HEADERS} == HEADERS


async def test_the_ticket_on_a_command_line_works_only_once(browser):
    ticket = browser.site.access.ticket()
    await enter(browser, token=ticket)
    browser.session.cookie_jar.clear()
    await browser.ask(f"?token={ticket}", status=403)


async def test_the_way_in_never_leads_to_another_server(browser):
    for path in ("/elsewhere.example/", "%5Celsewhere.example", "/%09/elsewhere.example"):
        page, _ = await enter(browser, path)
        assert re.search(r"url=/(?![/\\])", page)
        browser.session.cookie_jar.clear()
        page, _ = await browser.ask(path, status=403)
        assert re.search(r'href="/(?![/\\])', page)


async def test_another_host_name_or_a_page_of_another_site_is_refused(browser):
    await enter(browser)
    for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example"):
        await browser.ask(status=403, Host=host)
    await browser.ask(status=403, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")


async def test_only_the_studios_own_pages_may_post(browser):
    await enter(browser)
    own = browser.url.rstrip("/")
    refused = (
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": own, "Sec_Fetch_Site": "cross-site"},
        {"Origin": own, "Sec_Fetch_Site": "same-site"},
        {"Origin": own, "Sec_Fetch_Site": "none"},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "same-origin"},
    )
    for headers in refused:
        page, _ = await browser.ask("nothing", method="POST", status=403, **headers)
        assert "own pages" in page or "other sites" in page
    for headers in ({"Origin": own}, {"Origin": "null", "Sec_Fetch_Site": "same-origin"}):
        await browser.ask("nothing", method="POST", status=404, **headers)
    browser.session.cookie_jar.clear()
    await browser.ask("nothing", method="POST", status=403, Origin=own)


async def test_other_methods_are_refused(browser):
    await enter(browser)
    _, headers = await browser.ask(method="DELETE", status=405, Origin=browser.url.rstrip("/"))
    assert headers["Allow"] == "GET, HEAD, POST"


def test_a_single_run_or_a_file_is_not_a_folder_for_runs(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "progress.json").write_text("{}")
    with pytest.raises(UserError, match=r"is one run\. Give the folder of your runs"):
        Studio(tmp_path / "run", journal=tmp_path / "j.sqlite")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="must be a folder for runs"):
        Studio(tmp_path / "file", journal=tmp_path / "j.sqlite")
