"""A browser's session: links that work once, cookies, CSRF tokens, rights; and what no GET may do."""

import pytest
from fastapi.routing import APIRoute

from db.session import transaction
from db.tokens import revoke_token
from services.dashboard.mount import ROUTERS
from services.dashboard.viewer import COOKIE


def test_without_a_session_every_page_leads_to_where_one_is_opened(browse):
    answer = browse(None).get("/?state=running")
    assert (answer.status_code, answer.headers["location"]) == (303, "/open?next=/%3Fstate%3Drunning")


def test_a_link_opens_a_session_once(browse):
    link = browse.link("alice")
    first, second = browse(None), browse(None)
    opened = first.client.post("/session", json={"link": link})
    assert opened.status_code == 204
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith(COOKIE)
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert first.get("/").status_code == 200
    assert second.client.post("/session", json={"link": link}).status_code == 401
    assert second.get("/").status_code == 303


def test_a_link_that_is_too_old_opens_nothing(browse):
    link = browse.link("alice", lifetime_secs=-1)
    assert browse(None).client.post("/session", json={"link": link}).status_code == 401


def test_a_token_opens_a_session_and_a_wrong_one_does_not(browse, tokens):
    browser = browse(None)
    assert browser.client.post("/session", json={"token": "tf_wrong"}).status_code == 401
    assert browser.client.post("/session", json={"token": tokens["alice"]}).status_code == 204
    assert "alice" in browser.page("/")


def test_a_session_ends_with_its_token_and_by_leaving(browse, engine):
    leaving, revoked = browse("alice"), browse("bob")
    assert leaving.post("/session/end", {}).status_code == 204
    assert leaving.get("/").status_code == 303
    with transaction(engine) as session:
        assert revoke_token(session, "bob")
    assert revoked.get("/").status_code == 303


def test_the_session_key_is_no_token_of_the_api(browse):
    browser = browse()
    key = browser.client.cookies[COOKIE]
    assert browser.client.get("/v1/jobs").status_code == 401
    assert browser.client.get("/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code == 401


def test_a_token_without_jobs_read_sees_no_jobs(browse):
    answer = browse("consumer").get("/")
    assert answer.status_code == 403
    assert "jobs:read" in answer.text


@pytest.mark.parametrize("csrf", ["", "0" * 64, "ü"])
def test_an_action_without_the_csrf_token_of_the_session_does_nothing(browse, farm, csrf):
    job_id = farm.job()
    headers = {"X-CSRF-Token": csrf.encode()}
    answer = browse().client.post(f"/jobs/{job_id}/ask", json={"desired": "cancelled"}, headers=headers)
    assert answer.status_code == 403
    assert "→ cancelled" not in browse().page(f"/jobs/{job_id}")


def test_a_form_of_another_site_is_refused_by_its_media_type(browse, farm):
    job_id = farm.job()
    answer = browse().client.post(f"/jobs/{job_id}/ask", data={"desired": "cancelled"})
    assert answer.status_code == 415


def test_a_guest_looks_and_does_nothing(browse, farm):
    job_id = farm.job()
    guest = browse("alice", read_only=True)
    page = guest.page(f"/jobs/{job_id}")
    assert "Pause" not in page
    assert guest.post(f"/jobs/{job_id}/ask", {"desired": "cancelled"}).status_code == 403
    assert guest.post("/session/guest-link", {}).status_code == 403


def test_a_guest_link_opens_a_session_that_reads(browse):
    url = browse("alice").post("/session/guest-link", {}).json()["url"]
    guest = browse(None)
    assert guest.client.post("/session", json={"link": url.partition("#link=")[2]}).status_code == 204
    assert "guest" in guest.page("/")


def test_no_route_of_the_dashboard_acts_by_get():
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    acting = {route.path for route in routes if "POST" in route.methods}
    assert acting >= {"/session", "/session/end", "/jobs/{job_id}/ask", "/jobs/{job_id}/change", "/example"}
    assert not acting & {route.path for route in routes if "GET" in route.methods}


def test_pages_load_nothing_but_their_own_files(browse):
    answer = browse().get("/")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    assert " onclick=" not in answer.text
