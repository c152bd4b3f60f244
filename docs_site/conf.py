"""Configuration of Sphinx. `docs_site/build.py` sets `release`."""

from pathlib import Path

project = "Switchroom"
html_title = "Switchroom help"
extensions = ["myst_parser"]
# Anchors like those of a repository's pages, so that one link works in both.
myst_heading_anchors = 4
# Code is not coloured: the colours of Pygments are for one background, the site has two.
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "switchroom"
html_theme_path = [str(Path(__file__).parent)]
html_copy_source = False
html_use_index = False
html_show_sourcelink = False
html_permalinks_icon = "#"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
