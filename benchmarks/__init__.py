"""How good and how fast trainforensics is, beside what others use."""
