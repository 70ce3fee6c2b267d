"""Charts as inline SVG with HTML labels: they take the colours of the page and stay readable at any width."""
