"""What trainings print: the grammar of console text, wherever such text is kept.

`text/` parts it into words and numbers; `records/` understands a line of them, `layouts/` what is printed otherwise,
`remarks/` what is said between them; `steps/` says where the training stands, `kinds/` remembers the kinds of record
and learns new ones; `rows` puts them in order, `points` makes series of them. `reader` takes a log through all that.
"""
