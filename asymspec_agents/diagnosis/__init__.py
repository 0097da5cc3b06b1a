"""What `asymspec doctor` checks, and how: an installation's parts, and a server from address to answer.

Reading order: `finding` (what a check is and how checks are run); `installation_checks`, which judge the
facts of `installation` (from `machine`, `requirements`, `probe`); `target`, the server looked at, and the
checks of the way there, of what it says of itself and of its answers (`network_checks`, `server_checks`,
`request_checks`). A further check is a function and a line in INSTALLATION_CHECKS or SERVER_CHECKS.
"""
