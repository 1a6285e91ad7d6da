"""What is said in several files about the package is the same in all."""

import re
import tomllib
from pathlib import Path

import constrained_maxent

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = ("dev", "docs", "third-party")


def test_one_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert constrained_maxent.__version__ == PROJECT["version"] == cited[1]


def test_the_license_of_whatever_reaches_users_is_told():
    extras = PROJECT["optional-dependencies"].items()
    reaching = [*PROJECT["dependencies"], *(r for name, rs in extras if name not in FOR_DEVELOPERS for r in rs)]
    names = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in reaching}
    page = (ROOT / "docs/licenses.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| ([\w-]+) \|", page, re.MULTILINE)) - {"package", "---"} == names
