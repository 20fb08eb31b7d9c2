# tools/site/conf.py -- Sphinx's configuration of the documentation site, which tools/site.sh builds.
# Everything that a page needs is in the site: nothing is loaded from a network.
import os

project = "Weft"
copyright = "the authors of Weft, MIT license"
extensions = ["myst_parser"]
root_doc = "README"
language = "en"

# Headings get the anchors that GitHub gives them.
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]  # README.md has an <img> with a width

smartquotes = False  # "--option" has two hyphens

html_theme = "furo"
html_title = "Weft " + os.environ["WEFT_VERSION"]
html_copy_source = False
html_show_sphinx = False
html_use_index = False
# A summary of a found page is fetched, which browsers refuse for pages that are files.
html_show_search_summary = False
highlight_language = "none"
