"""What trainings print: the grammar of console text, wherever such text is kept."""
