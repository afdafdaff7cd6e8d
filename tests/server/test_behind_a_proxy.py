"""The api behind a proxy that ends TLS."""

from services.server.cli import main


def test_what_a_proxy_says_of_tls_is_believed_wherever_the_proxy_is(monkeypatch, tmp_path):
    """uvicorn believes those of its own host alone unless told otherwise: cookies would be for plain HTTP."""
    given = {}
    monkeypatch.setenv("TILEFARM_DATABASE_URL", f"sqlite:///{tmp_path / 'tilefarm.db'}")
    monkeypatch.setattr("services.logs.configure", lambda: None)
    monkeypatch.setattr("uvicorn.run", lambda _app, **options: given.update(options))
    assert main(["api"]) == 0
    assert given["forwarded_allow_ips"] == "*"
