"""`manage.py demo`: plays the demonstration against a running `make up`; the exit code says how it went."""

import os
import sys
import urllib.error
import urllib.request
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from config.demo_seed import actors
from config.demo_story import Stage, StoryFailed, play


class Command(BaseCommand):
    help = "Play the seven scenes of the demonstration against what `make up` runs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="exit 1 at the first thing that is not as it must be")

    def handle(self, *args: Any, **options: Any) -> None:
        numbers = settings.TOOLSYS
        base_url = f"http://127.0.0.1:{os.environ.get('PORT', '8000')}"
        if not numbers.demo or not _answers(base_url):
            raise CommandError(f"Nothing answers at {base_url}: run `make up` in another terminal first.")
        acme, globex = actors()
        stage = Stage(
            base_url=base_url, effects_url=numbers.demo_effects_url, probe_folder=Path(numbers.probe_dir), acme=acme,
            globex=globex, say=lambda line: print(line, flush=True), lease_seconds=numbers.lease_seconds,
            sweep_seconds=numbers.sweep_seconds,
        )  # fmt: skip
        try:
            play(stage)
        except StoryFailed as failure:
            print(f"    NOT  {failure}", flush=True)
            print(f"\n{stage.number - 1} passed, 1 failed", flush=True)
            sys.exit(1)


def _answers(base_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base_url}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
