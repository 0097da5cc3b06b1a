"""vLLM's schedulers with AsymSpec: requests whose drafter is still reading wait outside vLLM's queue.

A new or preempted AsymSpec request is first *warming*: step by step the drafter reads its views, a budget of
tokens at a time, while everybody else decodes. Then it joins vLLM's queue. Its blocks in the drafter's pool
are the scheduler's to give and take, so the worker never runs out of them: where none is left, the youngest
AsymSpec request goes back to warming, and the oldest always has room.

Plain requests are scheduled as by vLLM without speculation: they get no drafts, and wait for no warming one.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from asymspec_agents.decoding.vocab import check_rule
from asymspec_agents.errors import AsymSpecError, ConfigurationError, UnsupportedRequestError

from .admission import check_engine_request, check_own_ids, check_request
from .compat import (
    AsyncScheduler,
    EngineCoreOutput,
    EngineCoreOutputs,
    PauseState,
    Request,
    RequestStatus,
    Scheduler,
    SchedulingPolicy,
    end_at,
    family_of,
    limits,
    take_images,
    unread_images,
)
from .config import PluginConfig
from .images import check_places, spans_of
from .tally import Tally
from .views import Views
from .vision import sees_images
from .warming import WarmingQueue, shares
from .wire_args import EXTRA_ARG, AsymSpecArgs, pack_ids

__all__ = ["AsymSpecAsyncScheduler", "AsymSpecScheduler"]

_Base: Any = object  # the mixin stands before a scheduler of vLLM, which has no types


class SchedulingWithViews(_Base):  # type: ignore[misc]
    """What both schedulers do differently from vLLM's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.scheduler_config.async_scheduling != isinstance(self, AsyncScheduler):
            raise ConfigurationError(
                f"scheduler_cls is {type(self).__name__}, but async_scheduling is "
                f"{self.scheduler_config.async_scheduling}; name scheduler_choice.AnyAsymSpecScheduler"
            )
        config = PluginConfig.of(self.vllm_config.additional_config)
        self._plugin_config = config
        self._family = family_of(self.vllm_config)
        self._views = Views(
            limits(self.vllm_config, self.kv_cache_config),
            config.num_slots(self.scheduler_config.max_num_seqs),
            unread_images(self.vllm_config),
            self._family,
        )
        self._warming = WarmingQueue(by_priority=self.policy == SchedulingPolicy.PRIORITY)
        self._refused: dict[str, tuple[Request, str]] = {}
        # A table of draft lengths, K for any batch where none was configured. With one, vLLM adds no empty
        # places to a request that comes with one token to read; its CPU build draws the tokens of such a
        # request at random beside a sampled one, greedy or not.
        always = [self.num_spec_tokens] * (self.max_num_running_reqs + 1)
        self.dynamic_sd_lookup: list[int] = vars(self)["dynamic_sd_lookup"] or always
        self.can_skip_drafts = False  # of vLLM 0.33: a request's drafter must keep up with it

    # Requests coming and going

    def add_request(self, request: Request) -> None:
        if request.request_id not in self.requests:
            try:
                self._admit(request)
            except AsymSpecError as error:
                self._refused[request.request_id] = request, str(error)
        super().add_request(request)

    def _admit(self, request: Request) -> None:
        params = request.sampling_params
        args = AsymSpecArgs.of(None if params is None else params.extra_args)
        if args is None:
            return
        images = take_images(request) if args.num_images else ()
        if images and not sees_images(self.vllm_config):
            raise UnsupportedRequestError("images in the full view: this server's drafter reads text only")
        if len(images) != args.num_images:
            raise ConfigurationError(
                f"asymspec.num_images={args.num_images}, but {len(images)} came with the request"
            )
        check_places(spans_of(images), args.num_full_tokens)
        has_processed_logits = bool(self.vllm_config.use_v2_model_runner)
        check_engine_request(request, has_processed_logits=has_processed_logits)
        compressed_ids = pack_ids(request.prompt_token_ids)
        sees = sees_images(self.vllm_config)
        check_own_ids(args, has_own=self._family is not None, sees=sees)
        if self._family is not None:
            check_rule(args.options.rule())
        most = self.max_model_len - request.num_prompt_tokens  # where vLLM ends any answer
        num_answer = max(min(request.max_tokens, most), 1)
        check_request(self._views.limits, args, compressed_ids, num_answer)
        salts = [salt for salt in (args.salt, request.cache_salt) if salt is not None]
        self._views.add(request.request_id, args, compressed_ids, repr(salts) if salts else None, images)
        self._warming.register(request)
        if self._family is not None:
            end_at(request, self._family.end_ids)

    def _enqueue_waiting_request(self, request: Request) -> None:
        if request.request_id in self._views:
            self._warm_later(request)
        elif request.request_id not in self._refused:
            super()._enqueue_waiting_request(request)

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super()._preempt_request(request, *args, **kwargs)
        if request.request_id in self._views:
            self.waiting.remove_request(request)
            self._warm_later(request)

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        req_id = request.request_id
        self._refused.pop(req_id, None)
        if req_id in self._views:
            self._warming.forget(req_id)
            self.deferred_waiting.discard(request)
            self._views.remove(req_id)
        return super()._free_request(request, *args, **kwargs)

    def get_request_counts(self) -> tuple[int, int]:
        num_running, num_waiting = super().get_request_counts()
        return num_running, num_waiting + len(self._warming) + len(self._refused)

    def reset_prefix_cache(self, *args: Any, **kwargs: Any) -> bool:
        is_reset: bool = super().reset_prefix_cache(*args, **kwargs)
        for req_id in self._views.holders():
            if self.requests[req_id].status != RequestStatus.RUNNING:
                self._take_blocks(self.requests[req_id])
        self._views.forget_names()
        return is_reset

    # A step

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        if self._pause_state != PauseState.PAUSED_ALL:
            self._make_room()
        if self._pause_state == PauseState.UNPAUSED:
            self._warm()
        output = super().schedule(*args, **kwargs)
        output.asymspec = self._views.take_plan()
        return output

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        super()._update_after_schedule(scheduler_output)
        for req_id in scheduler_output.num_scheduled_tokens:
            self._limit_drafts(req_id)  # those that an asynchronous scheduler counts on

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        super().update_draft_token_ids(draft_token_ids)
        for req_id in draft_token_ids.req_ids:
            self._limit_drafts(req_id)

    def _limit_drafts(self, req_id: str) -> None:
        request = self.requests.get(req_id)
        if request is not None and request.spec_token_ids:
            num_drafts = self._views.num_drafts(req_id) if req_id in self._views else 0
            request.spec_token_ids = request.spec_token_ids[:num_drafts]

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        tallies = self._count(scheduler_output, model_runner_output)
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        for of_client in outputs.values():
            for output in of_client.outputs:
                tally = tallies.get(output.request_id)
                if tally is not None:
                    if output.prefill_stats is not None:
                        tally.cached.verifier = output.prefill_stats.num_cached_tokens
                    output.kv_transfer_params = {EXTRA_ARG: self._report(tally)}
        self._refuse(outputs)
        return outputs

    def _update_request_with_output(
        self, request: Request, new_token_ids: list[int], *further: Any, **named: Any
    ) -> Any:
        if request.request_id in self._views:
            num_fitting = self._views.write(request.request_id, new_token_ids)
            if (
                num_fitting is not None
            ):  # the drafter spelled the answer with more tokens than it has room for
                request.max_tokens = min(request.max_tokens, request.num_output_tokens + num_fitting)
        return super()._update_request_with_output(request, new_token_ids, *further, **named)

    def _count(self, scheduler_output: Any, model_runner_output: Any) -> dict[str, Tally]:
        """The tallies of the step's requests, with what the worker counted at this step."""
        tallies = {
            req_id: self._views.tally(req_id)
            for req_id in scheduler_output.num_scheduled_tokens
            if req_id in self._views
        }
        step = getattr(model_runner_output, "asymspec", None)
        if step is not None:
            for req_id, counts in zip(step.req_ids, step.counts.tolist(), strict=True):
                if req_id in tallies and not _is_dropped(self.requests[req_id]):
                    tallies[req_id].add(counts)
        return tallies

    def _report(self, tally: Tally) -> dict[str, Any]:
        """The request's report, and what the server's metrics are to know."""
        pool = self._views.pool
        return {
            **tally.report(),
            "drafter_prefill_s": tally.warming_s,
            "pool_usage": pool.num_used / self._views.limits.pool.num_usable_blocks,
        }

    def _refuse(self, outputs: Any) -> None:
        """Ends with an error what came though it can never be served."""
        for request, message in list(self._refused.values()):
            self.finish_requests(request.request_id, RequestStatus.FINISHED_ERROR)
            output = EngineCoreOutput(
                request_id=request.request_id,
                new_token_ids=[],
                finish_reason=request.get_finished_reason(),
                stop_reason=message,
                kv_transfer_params={EXTRA_ARG: {"error": message}},
                events=request.take_events(),
                trace_headers=request.trace_headers,
            )
            outputs.setdefault(request.client_index, EngineCoreOutputs()).outputs.append(output)

    # Blocks

    def _make_room(self) -> None:
        """Room for this step in the running requests' tables, the youngest's where no other is left."""
        running = [request for request in self.running if request.request_id in self._views]
        for request in sorted(running, key=self._warming.age):
            while request.status == RequestStatus.RUNNING and not self._views.cover(
                request.request_id, request.num_tokens
            ):
                holders = [self.requests[req_id] for req_id in self._views.holders()]
                self._take_blocks(max(holders, key=self._warming.age))

    def _take_blocks(self, request: Request) -> None:
        """Sends a request that has blocks back to warming."""
        if request.status == RequestStatus.RUNNING:
            self.running.remove(request)
            self._preempt_request(request, time.monotonic())
            # It may resume at this very step, as after `reset_prefix_cache`.
            self.prev_step_scheduled_req_ids.discard(request.request_id)
        else:
            if request not in self._warming:
                self.waiting.remove_requests({request})
            self._warm_later(request)

    def _warm_later(self, request: Request) -> None:
        self._views.release(request.request_id)
        self._warming.add(request)
        self.deferred_waiting.add(request)

    def _warm(self) -> None:
        """Lets the drafter read on, oldest requests first, and queues those that it has read."""
        is_busy = bool(self.running or self.waiting)
        config = self._plugin_config
        budget = config.prefill_tokens if is_busy else config.idle_prefill_tokens
        reading = self._readers(budget)
        wanted = [self._views.num_to_read(request.request_id) for request in reading]
        for request, share in zip(reading, shares(wanted, budget), strict=True):
            req_id = request.request_id
            self._views.read(req_id, share)
            if self._views.num_to_read(req_id) == 0:
                self._views.tally(req_id).warming_s += self._warming.remove(request)
                self._queue(request)

    def _readers(self, budget: int) -> list[Request]:
        """Those whose views can be read now, the oldest first; begins as many as have room, in that order."""
        readers: list[Request] = []
        has_room = True
        for request in self._warming.requests():
            req_id = request.request_id
            if not self._views.has_slot(req_id):
                # A preempted request's last step may still bring it tokens, and those are to be read too.
                if request.num_stale_output_tokens and not request.drop_stale_output:
                    continue
                has_room = has_room and len(readers) < budget
                has_room = has_room and self._views.begin(req_id, request.output_token_ids)
                if not has_room:
                    continue
            readers.append(request)
        return readers

    def _queue(self, request: Request) -> None:
        """Puts a warmed request where it would wait had it been in vLLM's queue all the time."""
        self.deferred_waiting.discard(request)
        if not isinstance(self.waiting, deque):
            super()._enqueue_waiting_request(request)
            return
        later = (
            index
            for index, other in enumerate(self.waiting)
            if other.status != RequestStatus.PREEMPTED and other.arrival_time > request.arrival_time
        )
        self.waiting.insert(next(later, len(self.waiting)), request)


def _is_dropped(request: Request) -> bool:
    """Whether the output of a request's step is thrown away, as the request was started over since."""
    return bool(request.num_stale_output_tokens and request.drop_stale_output)


class AsymSpecAsyncScheduler(SchedulingWithViews, AsyncScheduler):  # type: ignore[misc]
    """For asynchronous scheduling."""


class AsymSpecScheduler(SchedulingWithViews, Scheduler):  # type: ignore[misc]
    """For synchronous scheduling."""
