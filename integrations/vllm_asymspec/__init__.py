"""AsymSpec on unmodified vLLM: a drafter that reads both views inside vLLM's worker, and its server's API.

Reading order: `launch` (how a server starts), `server/` (requests in, reports out), `wire_args` (what a
request tells the engine), `scheduler` and `views` (who is read when, and the drafter's pool), `plan` (what a
step does), `worker` and `rounds` (the models' work).
"""
