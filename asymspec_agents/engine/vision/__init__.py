"""A drafter that sees images.

Reading order: `options` (limits), `picture` (bytes to pixels), `kinds` (what each family makes of an image),
`looking` (an image as it stands in a prompt), `template` and `prompt` (messages to ids), `sight` (where in a
prompt images stand), `model` (the drafter with its tower), `load`.
"""
