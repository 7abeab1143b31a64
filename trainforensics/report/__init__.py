"""One pure renderer a format over the same result model."""
