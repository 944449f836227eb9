"""Alembic's configuration for a test's database."""

from alembic.config import Config

from tests.support.repository import ROOT

MIGRATIONS = ROOT / "migrations"


def config_for(url: str, **attributes: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes.update(database_url=url, **attributes)
    return config
