"""The live configuration of a program, as a read-only mapping."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import threading
import types
import typing
import weakref
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from ._agent_errors import Unavailable
from ._client import Client, Watch
from ._core import Path, long_int
from ._values import log
from .errors import Closed, Error, InvalidValue
from .snapshot import MappedSnapshot, split_path

T = TypeVar("T")
_ABSENT: Final[Any] = object()
_MEMO_LIMIT = 10_000
_frozen = json.JSONDecoder(object_hook=types.MappingProxyType, parse_int=long_int).decode
_plain = json.JSONDecoder(parse_int=long_int).decode


class ExportedSnapshot:
    """The plain copy of a document that the agent keeps in a file, for a program that starts while the agent is away."""

    revision, epoch, state = 0, "", "stale"

    def __init__(self, socket: str, namespace: str) -> None:
        """Reads ``current/NAMESPACE.json`` next to the socket. Raises OSError, or ValueError if it is not an object."""
        if socket.startswith("@") or "/" in namespace:
            raise ValueError("the agent keeps no file")
        path = os.path.join(os.path.dirname(socket), "current", namespace + ".json")
        # O_NONBLOCK: a FIFO at this path must not block the call.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8") as file:
            self._document = json.load(file, parse_int=long_int)
        if not isinstance(self._document, dict):
            raise ValueError(f"{path} does not contain an object")

    def find(self, path: Path) -> bytes | None:
        """Returns the JSON text of the value at a path, or None."""
        value: Any = self._document
        for name in split_path(path):
            if not isinstance(value, dict) or name not in value:
                return None
            value = value[name]
        return json.dumps(value).encode()


class _Current:
    """A snapshot, and the values that were read from it."""

    __slots__ = ("memo", "snapshot")

    def __init__(self, snapshot: MappedSnapshot | ExportedSnapshot) -> None:
        self.snapshot = snapshot
        self.memo: dict[Any, Any] = {}


class Config(Mapping[str, Any]):
    """The configuration of a namespace. It is always current, and a read makes no request.

    A thread follows the agent. If the agent is away at the start, the copy that it keeps in a file is used, until the agent is
    back. The values are read-only: objects are ``types.MappingProxyType``; do not change lists. Any thread may use it, and it
    continues in a process that is forked.

    client: the client to use; None for one of its own.
    namespace: None for that of the client.
    timeout: the seconds to wait for the first snapshot.
    optional: start without values if there is neither an agent nor its file, instead of raising the error.
    acknowledge: report to the agent which revision this program runs, after each change and each restart of the agent. A revision
        is rejected while a function of ``on_change`` raises an exception, or a value does not fit the class of ``load``.

    >>> with larder_client.Config() as config:
    ...     config["search"]["limit"], config.get("search.limit", 10), config.get("no.such", 10)
    (50, 50, 10)
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        namespace: str | None = None,
        timeout: float = 10.0,
        optional: bool = False,
        acknowledge: bool = False,
    ) -> None:
        self._owns_client = client is None
        self._client = client or Client()
        self.namespace = namespace or self._client.namespace
        self._handlers: list[tuple[Path, Callable[[Any], object]]] = []
        self._acknowledges = acknowledge
        # Why the last calls of handlers failed, by the IDs of the handlers.
        self._rejections: dict[int, str] = {}
        self._problem: Error | None = None
        # Whether the configuration is that of the agent now, not an older one because the agent is away.
        self.is_live = False
        self._current: _Current | None = None
        self._begin()
        self._first.wait(timeout)
        if self._current is None:
            try:
                exported = _Current(ExportedSnapshot(self._client.socket, self.namespace))
                with self._adopting:
                    self._current = self._current or exported  # the agent may have returned in the meantime
            except (OSError, ValueError):
                if not optional and self._current is None:
                    self.close()
                    raise self._problem or Unavailable(
                        f"the agent has no snapshot of {self.namespace} after {timeout:g} s, and there is no copy in a file"
                    ) from None
        _configs[id(self)] = self

    def _begin(self) -> None:
        # In a forked process, a thread of its parent may hold the locks for ever.
        self._adopting = threading.Lock()
        # Held while handlers run, so that none gets an older value after a newer one.
        self._calling = threading.RLock()
        self._first = threading.Event()
        self._watch = self._client.watch(
            "",
            namespace=self.namespace,
            mode="revision",
            on_interruption=self._interrupted,
            on_resumption=self._resumed,
        )
        self._thread = threading.Thread(target=self._follow, args=(self._watch,), name="larder-config", daemon=True)
        self._thread.start()

    def _follow(self, watch: Watch) -> None:
        try:
            self._follow_while_possible(watch)
        except Exception as error:
            self.is_live = False
            self._problem = error if isinstance(error, Error) else None
            log.error("the configuration of %s no longer follows the agent: %s", self.namespace, error, exc_info=error)
            self._first.set()

    def _follow_while_possible(self, watch: Watch) -> None:
        attempt = 0
        while (announced := watch.next()) is not None:
            while not watch.is_closed:
                try:
                    self._adopt(announced.revision, announced.epoch)
                    attempt = 0
                    break
                except Closed:
                    return
                except Error as error:
                    self._interrupted(error, delay := watch.backoff.delay(attempt))
                attempt += 1
                watch.pause(delay)

    def _interrupted(self, error: Error, delay: float) -> None:
        self.is_live, self._problem = False, error
        if not error.retryable:
            log.warning("%s; the configuration stays as it was", error)
        if not isinstance(error, Unavailable):  # the source may reply before the constructor gives up
            self._first.set()

    def _resumed(self) -> None:
        self.is_live = self._current is not None and isinstance(self._current.snapshot, MappedSnapshot)
        if self.is_live:
            self._acknowledge()  # the agent drops acknowledgements with their connections

    def _adopt(self, revision: int, epoch: str) -> None:
        """Opens the current snapshot, unless an earlier call has, and calls the handlers of what has changed."""
        before = self._current
        if before is not None and before.snapshot.epoch == epoch and before.snapshot.revision >= revision:
            self.is_live = True
            return
        now = _Current(self._client.mapped(namespace=self.namespace))
        with self._adopting:
            before, self._current = self._current, now
        self.is_live = True
        self._first.set()
        with self._calling:
            for handler in tuple(self._handlers):
                new = now.snapshot.find(handler[0])
                if before is not None and before.snapshot.find(handler[0]) == new:
                    continue
                self._call(handler, None if new is None else _frozen(new.decode()))
        self._acknowledge()

    def _call(self, handler: tuple[Path, Callable[[Any], object]], value: Any) -> None:
        rejection = self._run(handler[1], value)
        if rejection is None:
            self._rejections.pop(id(handler), None)
        else:
            self._rejections[id(handler)] = rejection

    def _acknowledge(self) -> None:
        if not self._acknowledges or self._current is None:
            return
        reason = next(iter(self._rejections.values()), None)
        snapshot = self._current.snapshot
        try:
            self._client.acknowledge(
                snapshot.revision, reason is None, reason=reason, epoch=snapshot.epoch, namespace=self.namespace, timeout=5
            )
        except Error as error:  # the next revision, or the next connection, is acknowledged again
            log.info("revision %d was not acknowledged: %s", snapshot.revision, error)

    @staticmethod
    def _run(function: Callable[[Any], object], value: Any) -> str | None:
        """Calls a function. Returns why it failed, without values."""
        try:
            function(value)
            return None
        except InvalidValue as problem:
            log.error("%s; the last good value stays in use", problem)
            return problem.detail[:250]  # characters; the agent permits 1,024 bytes
        except BaseException as problem:  # also SystemExit, which would end only the thread of the configuration
            log.exception("a function that follows the configuration failed")
            return f"a function that follows the configuration raised {type(problem).__name__}"

    def __enter__(self) -> Config:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops following the agent. The values stay. Has no effect the second time."""
        _configs.pop(id(self), None)
        self._watch.close()
        if self._owns_client:
            self._client.close()
        if self._thread is not threading.current_thread():
            self._thread.join(5)

    # --- Values ---

    @property
    def revision(self) -> int:
        """The revision of the configuration; 0 if it comes from the file."""
        return self._current.snapshot.revision if self._current else 0

    @property
    def epoch(self) -> str:
        """The epoch of the revision; "" if the configuration comes from the file."""
        return self._current.snapshot.epoch if self._current else ""

    def get(self, path: Path = "", default: Any = None) -> Any:
        """Returns the value at a path such as ``search.limit``, or the default."""
        current = self._current
        if current is None:
            return default
        try:
            value = current.memo[path]
        except (KeyError, TypeError):  # a list is no key
            value = self._read(current, path)
        return default if value is _ABSENT else value

    @staticmethod
    def _read(current: _Current, path: Path) -> Any:
        text = current.snapshot.find(path)
        value = _ABSENT if text is None else _frozen(text.decode())
        if len(current.memo) >= _MEMO_LIMIT:
            current.memo.clear()
        current.memo[path if isinstance(path, str) else tuple(path)] = value
        return value

    def copy(self, path: Path = "", default: Any = None) -> Any:
        """Returns a copy of the value at a path, in ``dict`` and ``list``, which the caller may change."""
        text = self._current.snapshot.find(path) if self._current else None
        return default if text is None else _plain(text.decode())

    def __getitem__(self, name: str) -> Any:
        value = self.get((name,), _ABSENT)
        if value is _ABSENT:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.get("", {}))

    def __len__(self) -> int:
        return len(self.get("", {}))

    def items(self) -> ItemsView[str, Any]:
        """The names and values of one snapshot. ``dict(config)`` may mix two of them; use ``copy()``."""
        members: Mapping[str, Any] = self.get("", {})
        return members.items()

    def values(self) -> ValuesView[Any]:
        """The values of one snapshot."""
        members: Mapping[str, Any] = self.get("", {})
        return members.values()

    def __repr__(self) -> str:
        return f"<Config of {self.namespace}, revision {self.revision}>"

    # --- Changes ---

    def on_change(self, path: Path, function: Callable[[Any], object], *, now: bool = False) -> Callable[[], None]:
        """Calls a function with each new value at a path; with None if the value was removed.

        The function runs in the thread of the configuration, so it should return soon; an error of it is logged. In asyncio, pass
        ``lambda value: loop.call_soon_threadsafe(function, value)``.

        now: also call it with the present value, in this thread.
        Returns a function that ends the calls.

        >>> end = config.on_change("search", lambda search: print(search["limit"]), now=True)
        50
        >>> end()
        """
        handler = (path, function)
        with self._calling:
            self._handlers.append(handler)
            if now:
                function(self.get(path))

        def end() -> None:
            if handler in self._handlers:
                self._handlers.remove(handler)
            self._rejections.pop(id(handler), None)

        return end

    def load(self, cls: type[T], path: Path = "") -> Loaded[T]:
        """Fills a dataclass or a pydantic model with the value at a path, now and after each change.

        A value that does not fit is logged, and the last good object stays. Raises InvalidValue if the present value does not fit.

        >>> @dataclasses.dataclass(frozen=True)
        ... class Search:
        ...     limit: int = 10
        ...     hosts: list[str] = dataclasses.field(default_factory=list)
        >>> search = config.load(Search, "search")
        >>> search.value
        Search(limit=50, hosts=[])
        """
        return Loaded(self, cls, path)


class Loaded(Generic[T]):
    """An object that is filled from the configuration; see :meth:`Config.load`.

    value: the object of the last good value. It is replaced, never changed.
    problem: why the present value does not fit; None if it fits.
    """

    def __init__(self, config: Config, cls: type[T], path: Path) -> None:
        self._cls, self._path, self._handlers = cls, path, list[Callable[[T], object]]()
        self.problem: InvalidValue | None = None
        with config._calling:  # so that an older value never replaces a newer one
            self.end = config.on_change(path, lambda _: self._change(config))
            try:
                self.value: T = fill(cls, config.copy(path, {}), path)
            except InvalidValue:
                self.end()
                raise

    def _change(self, config: Config) -> None:
        try:
            self.value = fill(self._cls, config.copy(self._path, {}), self._path)
            self.problem = None
        except InvalidValue as problem:
            self.problem = problem
            raise
        for function in tuple(self._handlers):
            Config._run(function, self.value)

    def on_change(self, function: Callable[[T], object]) -> None:
        """Calls a function with each new object, in the thread of the configuration."""
        self._handlers.append(function)


def fill(cls: type[T], value: Any, path: Path = "") -> T:
    """Creates an object of a dataclass or a pydantic model from a JSON value. Raises InvalidValue.

    Members that the class does not have are ignored. Durations are numbers of seconds.
    """
    where = path if isinstance(path, str) else ".".join(path)
    validate = getattr(cls, "model_validate", None)
    try:
        return typing.cast(T, _filled(cls, value, where) if validate is None else validate(value))
    except InvalidValue:
        raise
    except Exception as problem:  # of a model, of a conversion or of __post_init__
        text = str(problem)
        if validate is not None and hasattr(problem, "errors"):
            # Without the values, which may be secret.
            found = problem.errors(include_input=False, include_url=False, include_context=False)
            text = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
        raise InvalidValue(f"the value at {where!r} does not fit {cls.__name__}: {text}") from None


def _filled(cls: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if cls is Any or cls is object:
        return value
    if origin in (typing.Union, types.UnionType):
        for choice in arguments:
            try:
                return _filled(choice, value, where)
            except InvalidValue:
                pass
    elif origin is typing.Literal:
        if any(type(value) is type(one) and value == one for one in arguments):
            return value
    elif dataclasses.is_dataclass(cls) and isinstance(value, dict):
        return _object(cls, value, where)
    elif isinstance(cls, type) and issubclass(cls, enum.Enum) and any(value == one.value for one in cls):
        return cls(value)
    elif origin is tuple and arguments[-1] is not Ellipsis and isinstance(value, list):
        if len(value) == len(arguments):
            return tuple(_filled(kind, value[index], f"{where}[{index}]") for index, kind in enumerate(arguments))
    elif (kind := origin or cls) in (list, tuple, set, frozenset, Sequence) and isinstance(value, list):
        element = arguments[0] if arguments else Any
        elements = [_filled(element, one, f"{where}[{index}]") for index, one in enumerate(value)]
        return elements if kind is Sequence else kind(elements)
    elif origin in (dict, Mapping) and isinstance(value, dict):
        return {name: _filled(arguments[1], one, f"{where}.{name}") for name, one in value.items()}
    elif cls is float and type(value) in (int, float):
        return float(value)
    elif cls is timedelta and type(value) in (int, float):
        return timedelta(seconds=value)
    elif cls in (int, str, bool, dict, list) and type(value) is cls:
        return value
    elif cls in (None, type(None)) and value is None:
        return None
    name = getattr(cls, "__name__", str(cls)) if origin is None else str(cls)
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a Boolean", type(None): "null"}
    raise InvalidValue(f"the value at {where!r} must be {name}, but is {kinds.get(type(value), 'a number')}")


def _object(cls: Any, value: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(cls)
    given = {}
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        inner = f"{where}.{field.name}" if where else field.name
        if field.name in value:
            given[field.name] = _filled(hints[field.name], value[field.name], inner)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InvalidValue(f"there is no value at {inner!r}, and {cls.__name__} has no default for it")
    try:
        return cls(**given)
    except (TypeError, ValueError) as problem:  # raised by __post_init__
        raise InvalidValue(f"the value at {where!r} does not fit {cls.__name__}: {problem}") from None


_configs: weakref.WeakValueDictionary[int, Config] = weakref.WeakValueDictionary()


def _after_fork() -> None:
    for config in list(_configs.values()):
        config._begin()


os.register_at_fork(after_in_child=_after_fork)
