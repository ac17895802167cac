"""What the model card and `banyan info` say about the teacher of a model (Banyan.taught_by)."""

from __future__ import annotations

from typing import Any

from banyan.config import Config

_UNKNOWN = "unknown: ask whoever made it before you publish the model"


def described(told: dict[str, Any], config: Config) -> dict[str, str]:
    """The teacher, its licence, and what it taught, in words."""
    rows = {"teacher": teacher(told), **_licence(told), "texts it encoded": f"{told['texts']:,}"}
    if "translations" in told:
        rows["translations"] = f"{told['translations']}, {told['pairs']:,} pairs"
    if N := config.taught_dim:
        whose = "shared by both languages" if told.get("languages") == "both" else "taught by the translations"
        rows["shared space"] = f"the first {N} dimensions, {whose}: encode(..., truncate_dim={N}, normalize=True)"
    if "before" in told:
        earlier = {"teacher": teacher(told["before"]), **_licence(told["before"])}
        rows |= {f"earlier {name}": value for name, value in earlier.items()}
    return rows


def teacher(told: dict[str, Any]) -> str:
    """The name of the teacher, in words."""
    name = str(told["name"])
    return {"vectors": f"vectors in {name}", "folder": f"{name} (a folder)"}.get(told["kind"], name)


def _licence(told: dict[str, Any]) -> dict[str, str]:
    return {} if told["kind"] == "itself" else {"licence of the teacher": told["licence"] or _UNKNOWN}


def base_models(told: dict[str, Any]) -> list[str]:
    """The teachers that are on the Hugging Face Hub, by their names there."""
    name = str(told["name"])
    found = [name if "/" in name else f"sentence-transformers/{name}"] if told["kind"] == "hub" else []
    return found + (base_models(told["before"]) if "before" in told else [])
