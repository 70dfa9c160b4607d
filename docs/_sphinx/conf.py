"""Sphinx's configuration. The theme draws its icons in the page and takes the reader's fonts; nothing is loaded."""

import torchgraft

project = "torchgraft"
author = "the torchgraft authors"
release = version = torchgraft.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docs._sphinx.command_line",
    "docs._sphinx.languages",
    "docs._sphinx.signatures",
]

# Markdown: anchors as GitHub makes them.
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
highlight_language = "none"  # for fences that name no language

# Docstrings: a name in single backticks is a link where there is such a name; where it says torchgraft, there must be.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!torchgraft\.[^_]).*")]
add_module_names = False
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 120
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes as a list
napoleon_use_rtype = False  # "Returns:" is prose, and annotations say the types

smartquotes_action = "D"  # only dashes: quotes stay as they are written

html_theme = "furo"
html_title = f"torchgraft {release}"
html_static_path = ["static"]
templates_path = ["templates"]
html_logo = html_favicon = "static/logo.svg"
html_css_files = ["style.css"]
html_copy_source = False
html_show_copyright = False
pygments_dark_style = "github-dark"
html_theme_options = {"top_of_page_buttons": []}
