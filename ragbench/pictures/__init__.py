"""Pictures of results as SVG, for the page and as files for papers."""
