"""A source for pydantic-settings; needs the extra ``larder_client[pydantic]``.

class Settings(BaseSettings):
    limit: int = 10

    @classmethod
    def settings_customise_sources(cls, settings_cls, **sources):
        return LarderSource(settings_cls, config, "search"), *sources.values()
"""

from __future__ import annotations

from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from ._core import Path
from .config import Config


class LarderSource(PydanticBaseSettingsSource):
    """Reads the fields of settings from the members of the object at a path. Reads once, when the settings are created."""

    def __init__(self, settings_cls: type[BaseSettings], config: Config, path: Path = "") -> None:
        super().__init__(settings_cls)
        self._config, self._path = config, path

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Returns the value of a field, its name, and that it need not be decoded."""
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        value = self._config.copy(self._path, {})
        return value if isinstance(value, dict) else {}
